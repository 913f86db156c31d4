"""The pools of a fleet as a table: those that need a look first."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingVerdict
from dashboard.fleet import Pool, Replica, Role, formatting
from dashboard.report.findings.head import tally_words
from dashboard.report.findings.headline import FleetSummary
from dashboard.report.pools.order import ordered, versions_text
from dashboard.report.pools.sharing import is_needed, severity, short_text
from dashboard.rules.findings import Tally
from dashboard.views.blocks import Cell, Column, Table, Tone, number_cell
from dashboard.views.capacity_data import device_words, total
from dashboard.views.capacity_text import name_of
from dashboard.views.pool_comparison import worst_by_path

MOST_COHORTS = 6  # named in a cell; more are counted
_COLUMNS = (
    Column("Pool"),
    Column("Devices"),
    Column("Cohorts"),
    Column("vLLM"),
    Column("Findings"),
    Column("Prefix sharing"),
    Column("KV tokens", is_number=True),
)


def pools_table(fleet: Fleet, now: FleetSummary, sentences: Mapping[str, SharingVerdict]) -> Table:
    """Return a row per pool, in the order in which they need a look. `sentences` are of `sharing_verdicts`."""
    members: dict[str, list[Replica]] = {pool.name: [] for pool in fleet.pools}
    for replica in fleet.replicas:
        if replica.pool is not None:
            members[replica.pool].append(replica)
    rows = [
        _row(fleet, pool, members[pool.name], sentences[pool.name], now.by_pool[pool.name])
        for pool in ordered(fleet, sentences, now.by_pool)
    ]
    return Table("pools", "Pools and their cohorts", _COLUMNS, tuple(rows))


def cohorts_text(pool: Pool) -> str:
    """Write the cohorts of a pool and what of it was never read: `A ×14, B, 1 not read`."""
    shown = pool.cohorts[:MOST_COHORTS]
    words = [f"{each.letter} ×{len(each.replicas):,}" if len(each.replicas) > 1 else each.letter for each in shown]
    more = len(pool.cohorts) - len(shown)
    words += [f"{more:,} more"] if more else []
    rest = len(pool.replicas) - sum(len(each.replicas) for each in pool.cohorts)
    return ", ".join([*words, *([f"{rest:,} not read"] if rest else [])])


def _role(pool: Pool) -> str:
    """Write the role of a pool that prefills or decodes only, where its name does not say it already."""
    return "" if pool.role is Role.BOTH or pool.name.endswith(f"/{pool.role}") else f" ({pool.role})"


def _row(
    fleet: Fleet, pool: Pool, members: Sequence[Replica], sentence: SharingVerdict, tally: Tally
) -> tuple[Cell, ...]:
    held = total(members)
    missing = f" + {held.unknown:,} not known" if held.tokens is not None and held.unknown else ""
    rollout = ", rollout" if pool.name in fleet.inspection.rollouts else ""
    found = tally_words(tally) or ("none" if pool.cohorts else formatting.NOT_KNOWN)
    named = worst_by_path(fleet.inspection, pool.name)
    is_quiet = not is_needed(fleet.inspection.domains.get(pool.name))
    return (
        Cell(f"{name_of(pool.name)}{_role(pool)}"),
        Cell(device_words(members) or formatting.NOT_KNOWN),
        Cell(cohorts_text(pool)),
        Cell(versions_text(members) or formatting.NOT_KNOWN),
        Cell(f"{found}{rollout}", Tone(tally.worst) if tally.worst else Tone.PLAIN),
        Cell(short_text(sentence), Tone.PLAIN if is_quiet else Tone(severity(sentence, named))),
        number_cell(f"{formatting.short(held.tokens, held.basis)}{missing}", held.tokens),
    )
