"""The map of a fleet: a cell for each replica by its worst finding or its hit rate, in rows of pools or of clusters."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingCounts, sum_counts
from dashboard.fleet import Cohort, Pool, Replica
from dashboard.fleet.formatting import SOME, natural, setting_text, shortlist
from dashboard.fleet.pieces import Kind, Link
from dashboard.rules.findings import Severity
from dashboard.rules.sentences import capital
from dashboard.views.blocks import Cell, Column, FleetMap, MapCell, MapRow, Table, Tone, number_cell
from dashboard.views.capacity_text import device_words
from dashboard.views.names import brief
from dashboard.views.summary import counts_text
from dashboard.views.traffic import rate_text

NO_POOL = "no pool"
MOST_LARGE = 200  # replicas of a map with large cells
BY_RATE = "hit-rate"  # the colouring in the URL; by default cells are coloured by their worst finding
FINDINGS_LEGEND = {
    Tone.CRITICAL: "critical",
    Tone.WARNING: "warning",
    Tone.INFO: "info",
    Tone.PLAIN: "no findings",
    Tone.UNKNOWN: "no data",
}
NO_RATE = "unrated"
STEP = 20  # percentage points of a colour
RATES_LEGEND = {
    "rate-0": "0 to 19%",
    "rate-1": "20 to 39%",
    "rate-2": "40 to 59%",
    "rate-3": "60 to 79%",
    "rate-4": "80 to 100%",
    NO_RATE: "no hit rate",
}


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
            own = {_name_within(pool): pool for pool in pools if pool.cluster == cluster}
            groups = (_in_order(cells[each] for each in own[name].replicas) if name in own else () for name in columns)
            title = brief(cluster) or "no cluster"
            rows.append(MapRow(title, None, "", tuple(groups), number(fleet, list(own.values()))))
    else:
        for pool in pools:
            devices = device_words(fleet.by_id[each] for each in pool.replicas)
            group = _in_order(cells[each] for each in pool.replicas)
            link = Link(Kind.POOL, pool.name)
            rows.append(MapRow(brief(pool.name), link, devices, (group,), number(fleet, [pool])))
    rows += [MapRow(NO_POOL, None, "", (_in_order(lost),), "")] if lost else []
    table = _table("Cluster" if columns else "Pool", rows, by_rate=by_rate)
    legend = RATES_LEGEND if by_rate else FINDINGS_LEGEND
    return FleetMap(tuple(map(brief, columns)), tuple(rows), tuple(legend.items()), table, len(cells) > MOST_LARGE)


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
    return rate_text(fleet.traffic_of(each for pool in pools for each in pool.replicas))


def _sharing_of(fleet: Fleet, pools: Sequence[Pool]) -> str:
    counts = sum_counts(fleet.sharing_counts[pool.name] for pool in pools)
    return row_text(fleet, pools[0], counts) if len(pools) == 1 else counts_text(counts)


def row_text(fleet: Fleet, pool: Pool, counts: SharingCounts) -> str:
    """Return how many replicas of a pool share prefixes with it, or why they are not counted."""
    if counts.counted:
        return counts_text(counts)
    if counts.excluded:
        return "one replica" if fleet.uses_prefixes(pool.name) else "not needed"
    return "no data"


def _columns(pools: Iterable[Pool]) -> list[str]:
    """Return the names of pools within their clusters, those of most replicas first."""
    sizes: dict[str, int] = defaultdict(int)
    for pool in pools:
        sizes[_name_within(pool)] += len(pool.replicas)
    return sorted(sizes, key=lambda name: (-sizes[name], name))


def _name_within(pool: Pool) -> str:
    return pool.name.removeprefix(f"{pool.cluster}/") if pool.cluster else pool.name


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
    return {each.id: _cell(each, worst.get(each.id), known.get(each.id)) for each in fleet.replicas}


def _cell(replica: Replica, worst: Severity | None, differing: str | None) -> MapCell:
    """Return the cell, which leads to the replica: its page begins with its findings."""
    tone = Tone.UNKNOWN if differing is None else Tone(worst) if worst else Tone.PLAIN
    words = (brief(replica.name), "no data" if differing is None else f"{worst or 'no findings'}", differing)
    return MapCell(replica.name, tone, " · ".join(filter(None, words)), Link(Kind.REPLICA, replica.id))


def _rated_cells(fleet: Fleet) -> dict[str, MapCell]:
    """Return the cell of each replica by its hit rate; neutral, never 0, without one."""
    cells: dict[str, MapCell] = {}
    for each in fleet.replicas:
        traffic = fleet.traffic_of([each.id])
        rate = traffic.hit_rate
        kind = NO_RATE if rate is None else f"rate-{min(int(rate * 100 / STEP), 4)}"
        hint = f"{brief(each.name)} · prefix hit rate {rate_text(traffic)}"
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
