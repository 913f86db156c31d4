"""The page Overview: the share of replicas that share prefixes, the fix plan, the map, pools, incomplete data."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import avoidable_of, by_effect
from dashboard.analysis.plan import plan_of
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import Basis, Pool, Replica, Role, formatting
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Kind, Link, Piece, Text, page
from dashboard.views import pages
from dashboard.views.blocks import (
    Cell,
    Figure,
    Figures,
    Section,
    Table,
    Tone,
    View,
    number_cell,
)
from dashboard.views.capacity_text import device_words
from dashboard.views.context import context_of
from dashboard.views.effect import traffic_figures, why_no_traffic
from dashboard.views.excluded import unread_entries
from dashboard.views.fleet_map import BY_RATE, fleet_map, row_text
from dashboard.views.help import BASIS, COHORT, POOL, SHARE, glossary
from dashboard.views.names import brief
from dashboard.views.plan import ORDER, changes_section, plan_section
from dashboard.views.pool_comparison import worst_by_path
from dashboard.views.pool_text import (
    pools_by_urgency,
    sharing_severity,
    verdict_text,
    versions_text,
)
from dashboard.views.summary import (
    fleet_lead,
    incomplete_replicas,
    sharing_title,
    tally_text,
)
from dashboard.views.table import Field, sort_table, to_table

MOST_COHORTS = 6  # named in a cell; more are counted
NUMBERS, MAP, POOLS, UNREAD = "numbers", "map", "pools", "not-read"  # anchors
MOST_UNREAD = 8  # groups of replicas with incomplete data
BY_EFFECT = "effect"  # the order of the plan in the URL: the most recomputed tokens first


def overview_report(
    fleet: Fleet, sort: str = "", whole: Fleet | None = None, *, order: str = "", colouring: str = ""
) -> View:
    """Return the view of a fleet; `sort` is one of the table of pools, empty: by urgency.

    `order` is that of the plan, empty: by severity; `colouring` that of the map, empty: by the worst finding. Of a
    fleet that is one pool, `whole` is all of it: a cause of its plan may change replicas of other pools, too.
    """
    if order == BY_EFFECT:
        fleet = replace(fleet, plan=by_effect(fleet, plan_of(fleet)))
    chosen = {pages.SORT: sort, pages.ORDER: order, pages.MAP: colouring}
    unread = incomplete_replicas(fleet)
    pools = pools_by_urgency(fleet)
    numbers = summary_figures(fleet, page(pages.REVIEW), _with(chosen, pages.MAP, BY_RATE))
    parts = [
        Section(NUMBERS, "Summary", (Figures(numbers),)),
        plan_section(fleet, order=_order_text(fleet, chosen)),
    ]
    if fleet.pools:
        missing = why_no_traffic(fleet) or ("not recorded by replica" if fleet.past is not None else "")
        shown = "" if missing else colouring
        note = (*_map_text(chosen, missing), Piece("As a table", link=page(pages.REPLICAS)))
        parts.append(Section(MAP, "Fleet", (fleet_map(fleet, pools, shown),), note=note))
        kept = {name: value for name, value in chosen.items() if value and name != pages.SORT}
        parts.append(Section(POOLS, "Pools", (sort_table(pools_table(fleet, pools), sort, pages.OVERVIEW, kept),)))
    if unread:
        parts.append(Section(UNREAD, "Incomplete data", unread_entries(unread, MOST_UNREAD)))
    return View(
        title="Overview",
        headline=sharing_title(fleet),
        lead=fleet_lead(fleet),
        context=context_of(fleet),
        parts=(*parts, glossary((SHARE, POOL, COHORT, BASIS)), *changes_section(whole or fleet, plan_of(fleet))),
    )


def _with(chosen: Mapping[str, str], name: str, value: str) -> Link:
    """Return this page with one other choice."""
    return page(pages.OVERVIEW, **{key: own for key, own in {**chosen, name: value}.items() if own})


def _order_text(fleet: Fleet, chosen: Mapping[str, str]) -> Text:
    """Return the order of the fix plan, and the link to the other one where some cause has an estimate."""
    if chosen[pages.ORDER]:
        link = _with(chosen, pages.ORDER, "")
        return (Piece("by tokens recomputed (estimate)"), Piece("by severity", link=link))
    if any(avoidable_of(fleet, each) for each in plan_of(fleet).causes):
        return (*ORDER, Piece("by measured effect", link=_with(chosen, pages.ORDER, BY_EFFECT)))
    return ORDER


def _map_text(chosen: Mapping[str, str], missing: str) -> Text:
    """Return how the map is coloured, and the link to the other way; `missing` is why hit rates are not known."""
    cell = "one cell per replica, by its"
    if missing:
        return (Piece(f"{cell} worst finding{f'; hit rates: {missing}' if chosen[pages.MAP] else ''} "),)
    if chosen[pages.MAP]:
        return (Piece(f"{cell} prefix hit rate "), Piece("by worst finding", link=_with(chosen, pages.MAP, "")))
    return (Piece(f"{cell} worst finding "), Piece("by prefix hit rate", link=_with(chosen, pages.MAP, BY_RATE)))


def summary_figures(
    fleet: Fleet, rollouts_link: Link | None = None, rates_link: Link | None = None
) -> tuple[Figure, ...]:
    """Return the figures next to the headline: what its lead does not count.

    The review lists the rollouts, `rates_link` is the page that shows the hit rates of replicas.
    """
    rollouts = len(fleet.inspection.rollouts)
    progress = Figure("Rollouts", f"{rollouts:,}", "in progress", link=rollouts_link)
    traffic = traffic_figures(fleet, rates_link) if fleet.coverage.answered else ()
    return (*([progress] if rollouts else []), *traffic, _capacity(fleet))


def _capacity(fleet: Fleet) -> Figure:
    held, tokens = fleet.total, fleet.total.tokens.value
    size = formatting.size(held.bytes.value) if held.bytes.value is not None else ""
    known = " on ".join(filter(None, (size, count(held.devices, held.noun) if held.devices else "")))
    parts = [known if held.whole else f"{known} reported"] if known else []
    parts += [f"{count(held.unknown, 'rank')} unknown"] if held.unknown else []
    basis = "upper bound" if held.basis is Basis.ASSUMED else held.basis
    label = f"KV tokens, {basis}" if tokens is not None else "KV cache"
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
