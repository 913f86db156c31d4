"""What `poll` prints: the replicas, then each pool with its cohorts and what differs between them."""

from collections.abc import Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.sharing_text import sharing_text
from dashboard.capacity.sums import capacity_of
from dashboard.fleet import Pool, Replica, ReplicaState, State, cohort_letters
from dashboard.fleet.formatting import NOT_KNOWN, at_most, count, end_cut, setting_text
from dashboard.fleet.pieces import plain
from dashboard.views.blocks import Cell, Column, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of

MOST_DIFFERENCES = 12  # of a pool; the rest is counted
TONES = {ReplicaState.UP: Tone.GOOD, ReplicaState.PARTIAL: Tone.WARNING, ReplicaState.DOWN: Tone.CRITICAL}
VALUES = frozenset({State.REPORTED, State.NULL, State.REDACTED})
COLUMNS = (
    *map(Column, ("replica", "pool", "state", "cohort", "vLLM")),
    Column("KV tokens", is_number=True),
    Column("reason"),
)


def poll_view(fleet: Fleet) -> View:
    """Return the state of a fleet: its replicas and its pools."""
    counts, replicas = fleet.coverage, {each.id: each for each in fleet.replicas}
    return View(
        title="vLLM fleet",
        headline=f"{fleet.name}: {counts.answered:,} of {counts.targets:,} answered",
        lead=f"{counts.up:,} up, {counts.partial:,} partial, {counts.down:,} down.",
        context=context_of(fleet),
        parts=(
            Section("replicas", "Replicas", (_replicas(fleet),)),
            *(_pool(fleet, pool, place, replicas) for place, pool in enumerate(fleet.pools)),
        ),
    )


def _replicas(fleet: Fleet) -> Table:
    cohorts = cohort_letters(fleet.pools)
    rows = tuple(
        (
            Cell(each.name),
            Cell(end_cut(each.pool or "-", 40)),
            Cell(str(each.state), TONES[each.state]),
            Cell(cohorts.get(each.id, "-")),
            Cell(end_cut(each.version or "-", 20)),
            Cell(_tokens(each)),
            Cell(_reason(each)),
        )
        for each in fleet.replicas
    )
    return Table("replicas", "Replicas", COLUMNS, rows)


def _reason(replica: Replica) -> str:
    """Return the failure's sentence, without the address where that is the replica's name."""
    detail = replica.failure.detail if replica.failure else ""
    text = detail.removeprefix(f"{replica.name} ")
    return f"{text[:1].upper()}{text[1:]}"


def _tokens(replica: Replica) -> str:
    """Return the sum of a replica's ranks, and of how many where not of all."""
    found = capacity_of([replica])
    if not found.ranks:
        return "-"
    of_some = f" ({found.tokens.known:,} of {found.ranks:,} ranks)" if found.tokens.known and found.unknown else ""
    return f"{NOT_KNOWN if found.tokens.value is None else at_most(f'{found.tokens.value:,}', found.basis)}{of_some}"


def _pool(fleet: Fleet, pool: Pool, place: int, replicas: Mapping[str, Replica]) -> Section:
    cohorts = ", ".join(f"{each.letter} x{len(each.replicas)}" for each in pool.cohorts) or "not read"
    sharing = sharing_text(fleet.sharing[pool.name], replicas)
    differences = _differences(pool, place, replicas) if pool.differences else Paragraph(plain(_no_difference(pool)))
    return Section(f"pool-{place}", f"{end_cut(pool.name, 80)}  {cohorts}", (Paragraph(sharing), differences))


def _no_difference(pool: Pool) -> str:
    read = sum(len(cohort.replicas) for cohort in pool.cohorts)
    if read < 2:  # noqa: PLR2004  # it takes two to differ
        return f"Not compared: {count(read, 'replica')} read."
    return f"No differences in {count(pool.equal, 'setting')} that at least two replicas report."


def _differences(pool: Pool, place: int, replicas: Mapping[str, Replica]) -> Table:
    heads = [
        f"{each.letter} x{len(each.replicas)}"
        + (f" {end_cut(replicas[each.replicas[0]].name, 30)}" if len(each.replicas) == 1 else "")
        for each in pool.cohorts
    ]
    rows = []
    for difference in pool.differences[:MOST_DIFFERENCES]:
        values = {letter: each for each in difference.values if each.state in VALUES for letter in each.cohorts}
        cells = [values.get(cohort.letter) for cohort in pool.cohorts]
        texts = (setting_text(each.value, each.state) if each else "not reported" for each in cells)
        rows.append((Cell(difference.path), *map(Cell, texts)))
    hidden = len(pool.differences) - MOST_DIFFERENCES
    note = f"and {count(hidden, 'more difference')}" if hidden > 0 else ""
    return Table(f"differences-{place}", "Differences", tuple(map(Column, ("setting", *heads))), tuple(rows), note)
