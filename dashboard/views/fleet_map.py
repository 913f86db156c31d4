"""The map of a fleet: a cell for each replica by its worst finding, in rows of pools, or of clusters."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingCounts, sum_counts
from dashboard.fleet import Cohort, Pool, Replica
from dashboard.fleet.formatting import SOME, natural, setting_text, shortlist
from dashboard.fleet.pieces import Kind, Link
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Cell, Column, FleetMap, MapCell, MapRow, Table, Tone, number_cell
from dashboard.views.capacity_text import device_words
from dashboard.views.names import brief
from dashboard.views.summary import counts_text

NO_POOL = "no pool"
MOST_LARGE = 200  # replicas of a map with large cells
COUNTED = {
    Tone.CRITICAL: "Critical",
    Tone.WARNING: "Warning",
    Tone.INFO: "Info",
    Tone.PLAIN: "No findings",
    Tone.UNKNOWN: "No data",
}


def fleet_map(fleet: Fleet, pools: Sequence[Pool]) -> FleetMap:
    """Return the map, its rows in the order of the pools; where pools have clusters, a row for each cluster."""
    cells = _cells(fleet)
    clusters = sorted({pool.cluster for pool in pools}, key=natural)
    lost = [cells[each.id] for each in fleet.replicas if each.pool is None]
    more = [MapRow(NO_POOL, None, "", (_in_order(lost),), "")] if lost else []
    if any(clusters):
        columns = _columns(pools)
        rows = [_cluster_row(fleet, cluster, columns, pools, cells) for cluster in clusters]
        return _map("Cluster", tuple(map(brief, columns)), (*rows, *more))
    return _map("Pool", (), (*(_pool_row(fleet, pool, cells) for pool in pools), *more))


def _map(head: str, columns: tuple[str, ...], rows: tuple[MapRow, ...]) -> FleetMap:
    """Return a map with its table; `head` is what a row is."""
    cells, total = [], 0
    for row in rows:
        total += sum(map(len, row.groups))
        numbers = Counter(cell.tone for group in row.groups for cell in group)
        counted = (number_cell(f"{numbers[tone]:,}", numbers[tone]) for tone in COUNTED)
        cells.append((Cell(row.title, link=row.link), *counted, Cell(row.sharing)))
    heads = (Column(head), *(Column(name, is_number=True) for name in COUNTED.values()), Column("Prefix sharing"))
    table = Table("fleet-map", "Replicas by their worst finding", heads, tuple(cells))
    return FleetMap(columns, rows, table, is_dense=total > MOST_LARGE)


def _pool_row(fleet: Fleet, pool: Pool, cells: Mapping[str, MapCell]) -> MapRow:
    devices = device_words(fleet.by_id[each] for each in pool.replicas)
    own = _in_order(cells[each] for each in pool.replicas)
    counts = fleet.sharing_counts[pool.name]
    return MapRow(brief(pool.name), Link(Kind.POOL, pool.name), devices, (own,), row_text(fleet, pool, counts))


def row_text(fleet: Fleet, pool: Pool, counts: SharingCounts) -> str:
    """Return how many replicas of a pool share prefixes with it, or why they are not counted."""
    if counts.counted:
        return counts_text(counts)
    if counts.excluded:
        return "one replica" if fleet.uses_prefixes(pool.name) else "not needed"
    return "no data"


def _cluster_row(
    fleet: Fleet, cluster: str, columns: Sequence[str], pools: Iterable[Pool], cells: Mapping[str, MapCell]
) -> MapRow:
    own = {_name_within(pool): pool for pool in pools if pool.cluster == cluster}
    groups = (_in_order(cells[each] for each in own[name].replicas) if name in own else () for name in columns)
    counts = sum_counts(fleet.sharing_counts[pool.name] for pool in own.values())
    return MapRow(brief(cluster) or "no cluster", None, "", tuple(groups), counts_text(counts))


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


def _cohort_text(cohort: Cohort, *, is_largest: bool) -> str:
    """Name a cohort and, of those that are not the largest, the settings that tell it apart."""
    settings = (
        f"{path.rpartition('.')[2]} {setting_text(value.value, value.state)}"
        for path, value in cohort.distinguishing.items()
    )
    apart = "" if is_largest else shortlist(settings, SOME)
    return f"cohort {cohort.letter}: {apart}" if apart else f"cohort {cohort.letter}"
