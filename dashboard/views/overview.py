"""The page Overview: the share of replicas that share prefixes, the fix plan, the map, pools, incomplete data."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import Basis, Coverage, Pool, Replica, Role, formatting
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.blocks import (
    Cell,
    Figure,
    Figures,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
    number_cell,
)
from dashboard.views.capacity_text import device_words
from dashboard.views.context import context_of
from dashboard.views.excluded import unread_entries
from dashboard.views.filters import write_filter
from dashboard.views.fleet_map import fleet_map, row_text
from dashboard.views.help import BASIS, COHORT, POOL, SHARE, glossary
from dashboard.views.names import brief
from dashboard.views.plan import plan_section
from dashboard.views.pool_comparison import worst_by_path
from dashboard.views.pool_text import (
    is_doubtful,
    pools_by_urgency,
    sharing_severity,
    suppressed_pools,
    verdict_text,
    versions_text,
)
from dashboard.views.replicas import INCOMPLETE
from dashboard.views.summary import (
    count_read,
    fleet_lead,
    incomplete_replicas,
    incomplete_text,
    is_consistent,
    is_split,
    no_findings_sentences,
    sharing_lead,
    sharing_title,
    tally_text,
)
from dashboard.views.table import Field, sort_table, to_table

MOST_COHORTS = 6  # named in a cell; more are counted
NUMBERS, MAP, POOLS, UNREAD = "numbers", "map", "pools", "not-read"  # anchors
MOST_UNREAD = 8  # groups of replicas with incomplete data


def overview_report(fleet: Fleet, name: str = "", sort: str = "") -> View:
    """Return the view of a fleet. `name` is the snapshot's; `sort` is one of the table of pools, empty: by urgency."""
    unread = incomplete_replicas(fleet)
    pools = pools_by_urgency(fleet)
    parts = [Section(NUMBERS, "Summary", (Figures(summary_figures(fleet)),)), _plan(fleet)]
    if fleet.pools:
        note = (Piece("one cell per replica, by its worst finding "), Piece("As a table", link=page(pages.REPLICAS)))
        parts.append(Section(MAP, "Fleet", (fleet_map(fleet, pools),), note=note))
        parts.append(Section(POOLS, "Pools", (sort_table(pools_table(fleet, pools), sort, pages.OVERVIEW),)))
    if unread:
        parts.append(Section(UNREAD, "Incomplete data", unread_entries(unread, MOST_UNREAD)))
    return View(
        title="Overview",
        headline=sharing_title(fleet),
        lead=more_words(fleet, pools) if _is_unknown(fleet) else sharing_lead(fleet),
        context=context_of(fleet, name=name),
        parts=(*parts, glossary((SHARE, POOL, COHORT, BASIS))),
    )


def _is_unknown(fleet: Fleet) -> bool:
    """Return whether there is no number to show."""
    counts = fleet.prefix_sharing
    return not is_consistent(fleet) and counts.unknown == counts.counted


def more_words(fleet: Fleet, pools: Iterable[Pool]) -> str:
    """Return the counts of findings and their consequences, pools in the given order."""
    needed = {pool.name: fleet.sharing[pool.name] for pool in pools if fleet.uses_prefixes(pool.name)}
    unshared = [name for name, verdict in needed.items() if verdict.is_certain]
    doubtful = [name for name, verdict in needed.items() if is_doubtful(verdict)]
    suppressed = suppressed_pools(fleet.inspection)
    return fleet_lead(fleet, unshared, doubtful=doubtful, suppressed=suppressed)


def calm_paragraph(fleet: Fleet) -> Paragraph:
    """Return what "no findings" is based on; unknown where no settings were read."""
    if not count_read(fleet):
        return Paragraph(plain("No pool reports its settings, so no rule was evaluated."), Tone.UNKNOWN)
    first, *rest = no_findings_sentences(fleet)
    return Paragraph((Piece(first, Style.STRONG), Piece("".join(f" {each}" for each in rest))), Tone.GOOD)


def summary_figures(fleet: Fleet) -> tuple[Figure, ...]:
    """Return the figures next to the headline: what its lead does not count."""
    rollouts = len(fleet.inspection.rollouts)
    progress = Figure("Rollouts", f"{rollouts:,}", "in progress", link=page(pages.CHANGES))
    return (*([progress] if rollouts else []), _capacity(fleet))


def overview_figures(fleet: Fleet) -> tuple[Figure, ...]:
    """Return the six numbers of a fleet in reading order, with links to the pages that list what they count."""
    return (
        _replicas(fleet.coverage),
        _pools(fleet),
        _findings(fleet, Severity.CRITICAL, "Critical"),
        _findings(fleet, Severity.WARNING, "Warnings"),
        _unknown(fleet),
        _capacity(fleet),
    )


def _plan(fleet: Fleet) -> Section:
    """Return the fix plan; without a finding what that is based on."""
    found = plan_section(fleet)
    return found if fleet.inspection.findings else replace(found, content=(calm_paragraph(fleet),), note=())


def _replicas(counts: Coverage) -> Figure:
    parts = [f"{counts.down:,} down" if counts.down else "", f"{counts.partial:,} partial" if counts.partial else ""]
    states = " · ".join(filter(None, parts)) or "all up"
    number = f"{counts.answered:,} / {counts.targets:,}"
    return Figure("Replicas", number, states, link=page(pages.REPLICAS))


def _pools(fleet: Fleet) -> Figure:
    split, read, total = sum(map(is_split, fleet.pools)), count_read(fleet), len(fleet.pools)
    counts = ((split, "split"), (read - split, "uniform"), (total - read, "not reported"))
    note = ", ".join(f"{number:,} {what}" for number, what in counts if number) or "no model reported"
    return Figure("Pools", f"{total:,}", note)


def _findings(fleet: Fleet, severity: Severity, label: str) -> Figure:
    number = getattr(fleet.inspection.tally, severity)
    found = fleet.frames.findings
    own = found[found["severity"] == severity]
    pools = own["pools"][~own["is_suppressed"]].explode().nunique()
    suppressed = int(own["is_suppressed"].sum())
    notes = [f"in {count(pools, 'pool')}"] if pools else []
    notes += [f"{suppressed:,} suppressed"] if suppressed else []
    note = " · ".join(notes) or ("no findings" if count_read(fleet) else "not evaluated")
    link = page(pages.FINDINGS, search=write_filter("severity", severity))
    return Figure(label, f"{number:,}", note, Tone(severity) if number else Tone.PLAIN, link)


def _unknown(fleet: Fleet) -> Figure:
    number = fleet.coverage.partial + fleet.coverage.down
    if number:
        note = "replicas with incomplete data" if number > 1 else "replica with incomplete data"
        return Figure(
            "Unknown", f"{number:,}", note, Tone.UNKNOWN, page(pages.REPLICAS, search=write_filter("state", INCOMPLETE))
        )
    lacking = incomplete_text(fleet.inspection)
    return Figure(
        "Unknown", "–" if lacking else "0", lacking or "data complete", Tone.UNKNOWN if lacking else Tone.PLAIN
    )


def _capacity(fleet: Fleet) -> Figure:
    held, tokens = fleet.total, fleet.total.tokens.value
    parts = ["tokens"] if tokens is not None else []
    least = "" if held.whole else "≥ "
    parts += [f"{least}{formatting.size(held.bytes.value)}"] if held.bytes.value is not None else []
    parts += [f"{least}{count(held.devices, held.noun)}"] if held.devices else []
    parts += [f"{count(held.unknown, 'rank')} unknown"] if held.unknown else []
    basis = "upper bound" if held.basis is Basis.ASSUMED else held.basis
    label = f"KV cache, {basis}" if tokens is not None else "KV cache"
    return Figure(label, formatting.short(tokens, held.basis), " · ".join(parts), link=page(pages.CAPACITY))


def pools_table(fleet: Fleet, pools: Iterable[Pool]) -> Table:
    members: dict[str | None, list[Replica]] = defaultdict(list)
    for replica in fleet.replicas:
        members[replica.pool].append(replica)
    fields = (
        Field("name", "Pool", lambda pool: f"{brief(pool.name)}{_role(pool)}", link=_link, term="pool"),
        Field("", "Devices", lambda pool: device_words(members[pool.name]) or formatting.NOT_KNOWN),
        Field("", "Cohorts", lambda pool: Cell(cohorts_text(pool), shares=_shares(pool)), link=_link, term="cohort"),
        Field("", "vLLM", lambda pool: versions_text(members[pool.name]) or formatting.NOT_KNOWN),
        Field("", "Findings", lambda pool: _findings_cell(fleet, pool)),
        Field("", "Prefix sharing", lambda pool: _sharing(fleet, pool), term="prefix sharing"),
        Field("", "KV tokens", lambda pool: _capacity_cell(fleet.capacity[pool.name]), is_number=True, term="capacity"),
    )
    return replace(to_table(pools, fields, "pools", "Pools and their cohorts"), test_id="pool")


def _link(pool: Pool) -> Link:
    return Link(Kind.POOL, pool.name)


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


def _findings_cell(fleet: Fleet, pool: Pool) -> Cell:
    tally = fleet.inspection.tallies[pool.name]
    rollout = ", rollout" if pool.name in fleet.inspection.rollouts else ""
    if tally.worst:
        link = page(pages.FINDINGS, pool=pool.name)
        return Cell(f"{tally_text(tally)}{rollout}", Tone(tally.worst), link=link)
    is_read = bool(pool.cohorts)
    return Cell(f"{'none' if is_read else formatting.NOT_KNOWN}{rollout}", Tone.GOOD if is_read else Tone.PLAIN)


def _sharing(fleet: Fleet, pool: Pool) -> Cell:
    """Return how many replicas share prefixes, and why not all do; a tick where all do."""
    verdict, counts = fleet.sharing[pool.name], fleet.sharing_counts[pool.name]
    if not fleet.uses_prefixes(pool.name):
        return Cell("not needed", note=verdict_text(verdict) if verdict.is_certain else "")
    if not counts.counted:
        return Cell(row_text(fleet, pool, counts))
    if counts.sharing == counts.counted:
        return Cell(row_text(fleet, pool, counts), Tone.GOOD)
    tone = Tone(sharing_severity(verdict, worst_by_path(fleet.inspection, pool.name)))
    return Cell(row_text(fleet, pool, counts), tone, note=verdict_text(verdict) if counts.not_sharing else "")


def _capacity_cell(held: PoolCapacity) -> Cell:
    missing = f" + {held.unknown:,} unknown" if held.tokens.known and held.unknown else ""
    return number_cell(f"{formatting.short(held.tokens.value, held.basis)}{missing}", held.tokens.value)
