"""The pools of a fleet as a table, those with problems first."""

from collections.abc import Iterable, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import Pool, Replica, Role, formatting
from dashboard.fleet.pieces import Kind, Link, page
from dashboard.views import pages
from dashboard.views.blocks import Cell, Column, Table, Tone, number_cell
from dashboard.views.capacity_data import device_words
from dashboard.views.capacity_text import name_of
from dashboard.views.findings_summary import tally_text
from dashboard.views.pool_comparison import worst_by_path
from dashboard.views.sharing import is_needed, severity, short_text, versions_text

MOST_COHORTS = 6  # named in a cell; more are counted
POOL_COLUMNS = (
    Column("Pool", term="pool"),
    Column("Devices"),
    Column("Cohorts", term="cohort"),
    Column("vLLM"),
    Column("Findings"),
    Column("Prefix sharing", term="prefix sharing"),
    Column("KV tokens", is_number=True, term="capacity"),
)


def pools_table(fleet: Fleet, pools: Iterable[Pool]) -> Table:
    """Return a row per pool, in the given order."""
    members: dict[str, list[Replica]] = {pool.name: [] for pool in fleet.pools}
    for replica in fleet.replicas:
        if replica.pool is not None:
            members[replica.pool].append(replica)
    rows = [_row(fleet, pool, members[pool.name]) for pool in pools]
    return Table("pools", "Pools and their cohorts", POOL_COLUMNS, tuple(rows))


def cohorts_text(pool: Pool) -> str:
    """Return the cohorts of a pool and its unread replicas: `A ×14, B, 1 not reported`."""
    words = [f"{letter} ×{number:,}" if number > 1 else letter for letter, number in _shares(pool) if letter.isupper()]
    rest = [f"{number:,} {text}" for text, number in _shares(pool) if not text.isupper()]
    return ", ".join([*words, *rest])


def _shares(pool: Pool) -> tuple[tuple[str, int], ...]:
    """Return the replicas of each cohort, of the cohorts that are too many, and those that report no settings."""
    shown, more = pool.cohorts[:MOST_COHORTS], pool.cohorts[MOST_COHORTS:]
    rest = len(pool.replicas) - sum(len(each.replicas) for each in pool.cohorts)
    return (
        *((each.letter, len(each.replicas)) for each in shown),
        *([(f"in {len(more):,} more cohorts", sum(len(each.replicas) for each in more))] if more else []),
        *([("not reported", rest)] if rest else []),
    )


def _role(pool: Pool) -> str:
    """Return the role of a prefill or decode pool whose name does not end in it."""
    return "" if pool.role is Role.BOTH or pool.name.endswith(f"/{pool.role}") else f" ({pool.role})"


def _row(fleet: Fleet, pool: Pool, members: Sequence[Replica]) -> tuple[Cell, ...]:
    link = Link(Kind.POOL, pool.name)
    return (
        Cell(f"{name_of(pool.name)}{_role(pool)}", link=link),
        Cell(device_words(members) or formatting.NOT_KNOWN),
        Cell(cohorts_text(pool), link=link, shares=_shares(pool)),
        Cell(versions_text(members) or formatting.NOT_KNOWN),
        _findings(fleet, pool),
        _sharing(fleet, pool),
        _capacity(fleet.capacity[pool.name]),
    )


def _findings(fleet: Fleet, pool: Pool) -> Cell:
    tally = fleet.inspection.tallies[pool.name]
    rollout = ", rollout" if pool.name in fleet.inspection.rollouts else ""
    if tally.worst:
        link = page(pages.FINDINGS, pool=pool.name)
        return Cell(f"{tally_text(tally)}{rollout}", Tone(tally.worst), link=link)
    is_read = bool(pool.cohorts)
    return Cell(f"{'none' if is_read else formatting.NOT_KNOWN}{rollout}", Tone.GOOD if is_read else Tone.PLAIN)


def _sharing(fleet: Fleet, pool: Pool) -> Cell:
    verdict = fleet.sharing[pool.name]
    if not is_needed(fleet.inspection.domains.get(pool.name)):
        return Cell(f"not needed ({short_text(verdict)})")
    return Cell(short_text(verdict), Tone(severity(verdict, worst_by_path(fleet.inspection, pool.name))))


def _capacity(held: PoolCapacity) -> Cell:
    missing = f" + {held.unknown:,} unknown" if held.tokens.known and held.unknown else ""
    return number_cell(f"{formatting.short(held.tokens.value, held.basis)}{missing}", held.tokens.value)
