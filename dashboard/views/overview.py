"""The page Overview: the share of replicas that share prefixes, the fix plan, the map, pools, incomplete data."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.clusters import clusters_of
from dashboard.analysis.effect import avoidable_of, by_effect, without_fed
from dashboard.analysis.plan import plan_of
from dashboard.capacity.sums import PoolCapacity
from dashboard.compare import SharingCounts, sum_counts
from dashboard.compare.clusters import cluster_name
from dashboard.fleet import Basis, Cohort, Pool, Replica, ReplicaState, Role, formatting
from dashboard.fleet.formatting import SOME, count, natural, setting_text, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Text, page
from dashboard.rules.findings import Severity
from dashboard.rules.sentences import capital
from dashboard.views import pages, summary
from dashboard.views.across import MOST_LISTED, cluster_link, clusters_section, clusters_table
from dashboard.views.blocks import (
    Cell,
    Column,
    Figure,
    Figures,
    FleetMap,
    MapCell,
    MapLook,
    MapRow,
    Section,
    Table,
    Tone,
    View,
    number_cell,
)
from dashboard.views.context import context_of
from dashboard.views.excluded import unread_entries
from dashboard.views.help import glossary
from dashboard.views.names import brief, device_words
from dashboard.views.plan import ORDER, changes_section, plan_section
from dashboard.views.pool_comparison import worst_by_path
from dashboard.views.pool_text import (
    pools_by_urgency,
    sharing_severity,
    verdict_text,
    versions_text,
)
from dashboard.views.table import Field, sort_table, to_table
from dashboard.views.traffic import HIT_RATE, NOT_BY_REPLICA, TrafficRow, rate_text, traffic_figures, why_no_traffic

MOST_COHORTS = 6  # named in a cell; more are counted
NUMBERS, MAP, POOLS, UNREAD = "numbers", "map", "pools", "not-read"  # anchors
MOST_UNREAD = 8  # groups of replicas with incomplete data
BY_EFFECT = "effect"  # the order of the plan in the URL: the most recomputed tokens first
NO_POOL = "no pool"
TERMS = ("share of replicas", "pool", "cohort", "basis")
MOST_LARGE = 200  # replicas of a map with large cells
MOST_CELLS = 3_000  # replicas with a cell each, where pools have clusters: a page of 10,000 links takes seconds
BY_RATE = "hit-rate"  # the colouring in the URL; by default cells are coloured by their worst finding
FINDINGS_LEGEND = {
    Tone.CRITICAL: "critical",
    Tone.WARNING: "warning",
    Tone.INFO: "info",
    Tone.PLAIN: "no findings",
    Tone.UNKNOWN: "no data",
}
NO_RATE, IDLE = "unrated", "idle"
STEP = 20  # percentage points of a colour
RATES_LEGEND = {
    "rate-0": "0 to 19%",
    "rate-1": "20 to 39%",
    "rate-2": "40 to 59%",
    "rate-3": "60 to 79%",
    "rate-4": "80 to 100%",
    NO_RATE: "not enough traffic",
    IDLE: "no requests",
    Tone.UNKNOWN: "no data",
}


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
    unread = summary.incomplete_replicas(fleet)
    pools = pools_by_urgency(fleet)
    numbers = summary_figures(fleet, page(pages.REVIEW), _with(chosen, pages.MAP, BY_RATE))
    parts = [
        Section(NUMBERS, "Summary", (Figures(numbers),)),
        plan_section(fleet, order=_order_text(fleet, chosen)),
    ]
    if fleet.pools:
        parts += clusters_section(fleet)
        missing = why_no_traffic(fleet) or (NOT_BY_REPLICA if fleet.past is not None else "")
        shown = "" if missing else colouring
        drawn = fleet_map(fleet, pools, shown)
        note = (*_map_text(chosen, missing, drawn.look), Piece("As a table", link=page(pages.REPLICAS)))
        parts.append(Section(MAP, "Fleet", (drawn,), note=note))
        kept = {name: value for name, value in chosen.items() if value and name != pages.SORT}
        if len(fleet.pools) > MOST_LISTED and clusters_of(fleet):
            parts.append(Section(POOLS, "Clusters", (clusters_table(fleet),)))
        else:
            parts.append(Section(POOLS, "Pools", (sort_table(pools_table(fleet, pools), sort, pages.OVERVIEW, kept),)))
    if unread:
        parts.append(Section(UNREAD, "Incomplete data", unread_entries(unread, MOST_UNREAD)))
    return View(
        title="Overview",
        headline=summary.sharing_title(fleet),
        lead=summary.fleet_lead(fleet),
        context=context_of(fleet),
        parts=(*parts, glossary(TERMS), *changes_section(whole or fleet, plan_of(fleet))),
    )


def _with(chosen: Mapping[str, str], name: str, value: str) -> Link:
    """Return this page with one other choice."""
    return page(pages.OVERVIEW, **{key: own for key, own in {**chosen, name: value}.items() if own})


def _order_text(fleet: Fleet, chosen: Mapping[str, str]) -> Text:
    """Return the order of the fix plan, and the link to the other one where some cause has an estimate."""
    if chosen[pages.ORDER]:
        link = _with(chosen, pages.ORDER, "")
        return (Piece("by recomputed, avoidable (estimate)"), Piece("by severity", link=link))
    if any(avoidable_of(fleet, each) for each in plan_of(fleet).causes):
        return (*ORDER, Piece("by measured effect", link=_with(chosen, pages.ORDER, BY_EFFECT)))
    return ORDER


def _map_text(chosen: Mapping[str, str], missing: str, look: MapLook) -> Text:
    """Return how the map is coloured, and the link to the other way; `missing` is why hit rates are not known."""
    cell = "number of replicas by" if look == "summed" else "one cell per replica, by its"
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
        *([] if why_no_traffic(fleet) else [_hit_rate_field(fleet)]),
        Field("", "KV tokens", lambda pool: _capacity_cell(fleet.capacity[pool.name]), is_number=True, term="capacity"),
    )
    return replace(to_table(pools, fields, "pools", "Pools and their cohorts"), test_id="pool")


def _hit_rate_field(fleet: Fleet) -> Field:
    def cell(pool: Pool) -> Cell:
        is_off = fleet.without_cache.issuperset(pool.replicas)
        is_down = all(fleet.by_id[each].state is ReplicaState.DOWN for each in pool.replicas)
        return HIT_RATE.cell(TrafficRow("", fleet.traffic_of(pool.replicas), is_off=is_off, is_down=is_down))

    return replace(HIT_RATE, text=cell, value=lambda pool: cell(pool).value)


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
        return Cell(f"{summary.tally_text(tally)}{rollout}", Tone(tally.worst), link=link)
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


def fleet_map(fleet: Fleet, pools: Sequence[Pool], colouring: str = "") -> FleetMap:
    """Return the map, its rows in the order of the pools; where pools have clusters, a row for each cluster."""
    by_rate = colouring == BY_RATE
    cells, number = (_rated_cells(fleet), _rate_of) if by_rate else (_cells(fleet), _sharing_of)
    clusters = sorted({pool.cluster for pool in pools}, key=natural)
    lost = [cells[each.id] for each in fleet.replicas if each.pool is None]
    columns, rows = list[str](), list[MapRow]()
    if any(clusters):
        columns = _columns(pools)
        for cluster in clusters:
            own = {pool.name_within: pool for pool in pools if pool.cluster == cluster}
            groups = (_in_order(cells[each] for each in own[name].replicas) if name in own else () for name in columns)
            title = cluster_name(cluster)
            rows.append(MapRow(title, cluster_link(cluster), "", tuple(groups), number(fleet, list(own.values()))))
    else:
        for pool in pools:
            devices = device_words(fleet.by_id[each] for each in pool.replicas)
            group = _in_order(cells[each] for each in pool.replicas)
            link = Link(Kind.POOL, pool.name)
            rows.append(MapRow(brief(pool.name), link, devices, (group,), number(fleet, [pool])))
    rows += [MapRow(NO_POOL, None, "", (_in_order(lost),), "")] if lost else []
    table = _table("Cluster" if columns else "Pool", rows, by_rate=by_rate)
    legend = tuple((RATES_LEGEND if by_rate else FINDINGS_LEGEND).items())
    look: MapLook = "dense" if len(cells) > MOST_LARGE else ""
    if columns and len(cells) > MOST_CELLS:
        look, rows = "summed", [_summed(fleet, row, legend) for row in rows]
    return FleetMap(tuple(map(brief, columns)), tuple(rows), legend, table, look)


def _summed(fleet: Fleet, row: MapRow, legend: Sequence[tuple[str, str]]) -> MapRow:
    """Return a row with a cell for each kind of the replicas of a pool, and their number."""
    groups = []
    for group in row.groups:
        numbers, pool = Counter(cell.kind for cell in group), group and fleet.by_id[group[0].link.key].pool
        name, link = pool or NO_POOL, Link(Kind.POOL, pool) if pool else page(pages.REPLICAS)
        groups.append(
            tuple(
                MapCell(name, kind, f"{name} · {count(numbers[kind], 'replica')}: {word}", link, f"{numbers[kind]:,}")
                for kind, word in legend
                if numbers[kind]
            )
        )
    return row._replace(groups=tuple(groups))


def _table(head: str, rows: Iterable[MapRow], *, by_rate: bool) -> Table:
    """Return how many replicas of each row are of each kind; `head` is what a row is."""
    legend = RATES_LEGEND if by_rate else FINDINGS_LEGEND
    cells = []
    for row in rows:
        numbers = Counter(cell.kind for group in row.groups for cell in group)
        counted = (number_cell(f"{numbers[kind]:,}", numbers[kind]) for kind in legend)
        cells.append((Cell(row.title, link=row.link), *counted, Cell(row.number)))
    number = Column("Prefix hit rate" if by_rate else "Prefix sharing")
    heads = (Column(head), *(Column(capital(name), is_number=True) for name in legend.values()), number)
    caption = f"Replicas by {'prefix hit rate' if by_rate else 'their worst finding'}"
    return Table("fleet-map", caption, heads, tuple(cells))


def _rate_of(fleet: Fleet, pools: Iterable[Pool]) -> str:
    return rate_text(fleet.traffic_of(without_fed(fleet, [each for pool in pools for each in pool.replicas])))


def _sharing_of(fleet: Fleet, pools: Sequence[Pool]) -> str:
    counts = sum_counts(fleet.sharing_counts[pool.name] for pool in pools)
    return row_text(fleet, pools[0], counts) if len(pools) == 1 else summary.counts_text(counts)


def row_text(fleet: Fleet, pool: Pool, counts: SharingCounts) -> str:
    """Return how many replicas of a pool share prefixes with it, or why they are not counted."""
    if counts.counted:
        return summary.counts_text(counts)
    if counts.excluded:
        return "one replica" if fleet.uses_prefixes(pool.name) else "not needed"
    return "no data"


def _columns(pools: Iterable[Pool]) -> list[str]:
    """Return the names of pools within their clusters, those of most replicas first."""
    sizes: dict[str, int] = defaultdict(int)
    for pool in pools:
        sizes[pool.name_within] += len(pool.replicas)
    return sorted(sizes, key=lambda name: (-sizes[name], name))


def _in_order(cells: Iterable[MapCell]) -> tuple[MapCell, ...]:
    return tuple(sorted(cells, key=lambda cell: natural(cell.name)))


def _cells(fleet: Fleet) -> dict[str, MapCell]:
    """Return the cell of each replica: no data, else its worst finding; and what tells its cohort apart."""
    worst: dict[str, Severity] = {}
    for finding in fleet.inspection.findings:
        for key in finding.replicas:
            worst[key] = min(worst.get(key, finding.severity), finding.severity, key=lambda each: each.rank)
    known: dict[str, str] = {}
    for pool in fleet.pools:
        for place, cohort in enumerate(pool.cohorts):
            known.update(dict.fromkeys(cohort.replicas, _cohort_text(cohort, is_largest=not place)))
    cells: dict[str, MapCell] = {}
    for each in fleet.replicas:
        kind = Tone(worst.get(each.id, Tone.PLAIN)) if each.id in known else Tone.UNKNOWN
        words = FINDINGS_LEGEND[kind], known.get(each.id)
        hint = " · ".join(filter(None, (brief(each.name), *words)))
        cells[each.id] = MapCell(each.name, kind, hint, Link(Kind.REPLICA, each.id))
    return cells


def _rated_cells(fleet: Fleet) -> dict[str, MapCell]:
    """Return the cell of each replica by its hit rate; without one by the reason, never as 0."""
    cells: dict[str, MapCell] = {}
    for each in fleet.replicas:
        traffic = fleet.traffic_of([each.id])
        rate = traffic.hit_rate
        word = rate_text(traffic, is_down=each.state is ReplicaState.DOWN)
        if rate is not None:
            kind = f"rate-{min(int(rate * 100 / STEP), 4)}"
        elif traffic.requests == 0:
            kind, word = IDLE, "unknown, no requests"
        else:
            kind = NO_RATE if word == RATES_LEGEND[NO_RATE] else Tone.UNKNOWN
        hint = f"{brief(each.name)} · prefix hit rate {word}"
        mark = "" if rate is None or len(fleet.replicas) > MOST_LARGE else f"{rate * 100:.0f}"
        cells[each.id] = MapCell(each.name, kind, hint, Link(Kind.REPLICA, each.id), mark)
    return cells


def _cohort_text(cohort: Cohort, *, is_largest: bool) -> str:
    """Name a cohort and, of those that are not the largest, the settings that tell it apart."""
    settings = (
        f"{path.rpartition('.')[2]} {setting_text(value.value, value.state)}"
        for path, value in cohort.distinguishing.items()
    )
    apart = "" if is_largest else shortlist(settings, SOME)
    return f"cohort {cohort.letter}: {apart}" if apart else f"cohort {cohort.letter}"
