"""What changed between two fleets as tables: both sides, capacity, and every replica, setting and rank."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dashboard.analysis.changes.models import (
    Changes,
    PoolCapacityChange,
    RankChange,
    ReplicaPair,
    SettingChanges,
    SettingGroup,
)
from dashboard.fleet.formatting import count, first_of, iso, setting_text, short, short_id, size
from dashboard.fleet.pieces import Kind
from dashboard.views import changes_text as text
from dashboard.views.blocks import Cell, Column, Table, Tone, data_table, list_cell, number_cell
from dashboard.views.capacity_text import in_percent
from dashboard.views.changes_entries import SideLinks
from dashboard.views.context import Context, frozen_text
from dashboard.views.names import brief, names_of

MOST_ROWS = 1_000  # of an appendix; the JSON document has all
MOST_POOLS = 40  # of the capacity table
MOST_NAMES = 8  # replicas that a cell names
EMPTY = "-"


def sides_table(before: Context, after: Context) -> Table:
    """Return both sides: fleet, snapshot, time, coverage."""
    rows = (
        ("Fleet", before.fleet, after.fleet),
        ("Snapshot", _snapshot(before), _snapshot(after)),
        ("Data as of", *(iso(each.data_as_of) if each.data_as_of else "no data yet" for each in (before, after))),
        ("Answered", *(f"{each.answered:,} of {each.targets:,}" for each in (before, after))),
    )
    columns = (Column(""), Column("Before"), Column("After"))
    return Table("sides", "What is compared", columns, tuple(tuple(map(Cell, row)) for row in rows))


def capacity_table(changes: Changes, sides: SideLinks) -> Table:
    """Return the KV cache of the pools that changed, and of all together."""
    columns = (
        Column("Pool"),
        Column("Ranks", is_number=True),
        Column("KV tokens before", is_number=True),
        Column("KV tokens after", is_number=True),
        Column("Change", is_number=True, unit="%"),
        Column("KV bytes before", is_number=True),
        Column("KV bytes after", is_number=True),
        Column("Basis"),
        Column("Not in the sums"),
    )
    capacity = changes.capacity
    changed = [each for each in capacity.pools if _is_changed(each)]
    rows = [_capacity(each, sides) for each in changed[:MOST_POOLS]]
    notes = ["≤ is an upper bound."]
    if same := len(capacity.pools) - len(changed):
        notes.append(f"Unchanged: {count(same, 'pool')}.")
    if (more := len(changed) - MOST_POOLS) > 0:
        notes.append(f"{count(more, 'more pool')} in the JSON document.")
    if capacity.incomparable:
        notes.append(f"Not compared (upper bound on one side only): {count(capacity.incomparable, 'rank')}.")
    has_total = len(rows) != 1 or len(capacity.pools) > 1
    total = [(Cell("All pools"), *_capacity(capacity.total, sides)[1:])] if has_total else []
    return Table("capacity-change", "KV cache before and after", columns, (*rows, *total), " ".join(notes))


def replicas_table(changes: Changes, sides: SideLinks) -> Table:
    """Return every replica that changed."""
    columns = tuple(map(Column, ("Pool", "Replica", "State", "Version", "Cohort", "Restarted", "Settings changed")))
    return _cut(
        "replica-changes", "Every replica that changed", columns, list(_replica_rows(changes, sides)), "replica"
    )


def settings_table(groups: Sequence[SettingGroup], sides: SideLinks) -> Table:
    """Return every setting that changed, group by group."""
    columns = (
        Column("Pool"),
        Column("Setting", is_code=True),
        Column("Before", is_code=True),
        Column("After", is_code=True),
        Column("Replicas", is_number=True),
        Column("Which"),
    )
    rows = [
        (
            Cell(text.pool_name(pool)),
            Cell(change.path, link=sides.link(Kind.SETTING, change.path, pool) if pool else None),
            *(Cell(setting_text(*each), value=each.value or None) for each in (change.before, change.after)),
            number_cell(f"{len(group.replicas):,}", len(group.replicas)),
            list_cell(first_of(map(brief, names), MOST_NAMES), names),
        )
        for group in groups
        for names in [names_of(group.replicas, sides.names)]
        for pool in [group.pools[1]]
        for change in group.changes
    ]
    return _cut("setting-changes", "Every setting that changed", columns, rows, "change")


def ranks_table(ranks: Iterable[RankChange], sides: SideLinks) -> Table:
    """Return every rank that has clearly less or more KV cache."""
    columns = (
        Column("Pool"),
        Column("Replica"),
        Column("Rank", is_number=True),
        Column("Before", is_number=True),
        Column("After", is_number=True),
        Column("Change", is_number=True, unit="%"),
    )
    rows = [
        (
            Cell(text.pool_name(each.pool)),
            Cell(brief(name), value=name, link=sides.link(Kind.REPLICA, each.replica)),
            number_cell(f"{each.dp_rank:,}", each.dp_rank),
            number_cell(f"{each.before:,}", each.before),
            number_cell(f"{each.after:,}", each.after),
            number_cell(text.percent(each.share), in_percent(each.share))._replace(
                tone=Tone.WARNING if each.after < each.before else Tone.PLAIN
            ),
        )
        for each in ranks
        for name in [sides.names.get(each.replica, each.replica)]
    ]
    return _cut("rank-changes", "KV cache of every rank that changed, in tokens", columns, rows, "rank")


def one_sided_table(settings: SettingChanges, sides: SideLinks) -> Table:
    """Return the settings that only one side reports, for programs."""
    columns = tuple(map(Column, ("change", "pool", "why", "paths", "replicas")))
    rows = (
        (change, text.pool_name(each.pools[1]), each.why.value, each.paths, tuple(names_of(each.replicas, sides.names)))
        for change, found in (
            ("no longer reported", settings.no_longer_reported),
            ("newly reported", settings.newly_reported),
        )
        for each in found
    )
    return data_table("one-sided", "Settings reported on one side only", columns, rows)


def _cut(name: str, caption: str, columns: tuple[Column, ...], rows: Sequence[tuple[Cell, ...]], noun: str) -> Table:
    whole = Table(name, caption, columns, tuple(rows))
    if (more := len(rows) - MOST_ROWS) <= 0:
        return whole
    note = f"{count(more, f'more {noun}')} in the JSON document."
    return replace(whole, rows=whole.rows[:MOST_ROWS], note=note, data=whole)


def _is_changed(pool: PoolCapacityChange) -> bool:
    """Return whether a pool has a different amount than before, as far as the table shows it."""
    before, after = (each._replace(tokens=0, bytes=0) for each in (pool.before, pool.after))
    return before != after or text.share_text(pool) not in {text.NO_CHANGE, "-"}


def _capacity(pool: PoolCapacityChange, sides: SideLinks) -> tuple[Cell, ...]:
    before, after = pool.before, pool.after
    link = sides.link(Kind.POOL, pool.pool) if pool.pool is not None and after.ranks else None
    return (
        Cell(text.pool_name(pool.pool), link=link),
        number_cell(_way(f"{before.ranks:,}", f"{after.ranks:,}"), after.ranks),
        number_cell(short(before.tokens, before.basis), before.tokens),
        number_cell(short(after.tokens, after.basis), after.tokens),
        number_cell(text.share_text(pool), None if pool.share is None else in_percent(pool.share)),
        number_cell(size(before.bytes), before.bytes),
        number_cell(size(after.bytes), after.bytes),
        Cell(_way(before.basis, after.basis)),
        Cell(text.missing_text(pool)),
    )


def _replica_rows(changes: Changes, sides: SideLinks) -> Iterator[tuple[Cell, ...]]:
    settings = changes.settings.by_replica
    for verb, found in (("added", changes.replicas.added), ("removed", changes.replicas.removed)):
        for each, letter in found:
            link = sides.link(Kind.REPLICA, each.id, is_before=verb == "removed")
            rest = (verb, each.version or EMPTY, letter, "", "")
            yield (Cell(text.pool_name(each.pool)), Cell(brief(each.name), link=link), *map(Cell, rest))
    for pair in changes.replicas.both:
        number = len(settings.get(pair.after.replica.id, ()))
        if pair.is_changed or number:
            yield _replica(pair, number, sides)


def _replica(pair: ReplicaPair, settings: int, sides: SideLinks) -> tuple[Cell, ...]:
    (before, old), (after, new) = pair
    restarted = "unknown" if pair.restarted is None else "yes" if pair.restarted else "no"
    return (
        Cell(_way(text.pool_name(before.pool), text.pool_name(after.pool))),
        Cell(_way(brief(before.name), brief(after.name)), link=sides.link(Kind.REPLICA, after.id)),
        Cell(_way(before.state, after.state)),
        Cell(_way(before.version or EMPTY, after.version or EMPTY)),
        Cell(_way(old or EMPTY, new or EMPTY)),
        Cell(restarted),
        Cell(f"{settings:,}" if settings else "", value=settings or None),
    )


def _way(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def _snapshot(context: Context) -> str:
    if context.snapshot is None:
        return frozen_text(context)
    return f"{short_id(context.snapshot)} “{context.name}”" if context.name else short_id(context.snapshot)
