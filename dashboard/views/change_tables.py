"""What changed as tables: both sides, capacity, and the appendices with every replica, setting and rank."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.analysis.changes import Changes, PoolCapacity, RankChange, SettingChanges, SettingGroup, Stayed
from dashboard.fleet import SettingValue
from dashboard.fleet.formatting import count, first_of, iso, short, short_id, size, told_text
from dashboard.report.capacity.words import in_percent
from dashboard.report.changes import words
from dashboard.views.blocks import Cell, Column, Table, Tone, data_table, list_cell, number_cell
from dashboard.views.context import Context
from dashboard.views.names import brief, names_of

MOST_ROWS = 1_000  # of an appendix; the rest is counted, and stands in the JSON document
MOST_POOLS = 40  # of the table on capacity
MOST_NAMES = 8  # replicas that a cell names
EMPTY = "-"


def sides_table(before: Context, after: Context) -> Table:
    """Put both sides beside each other: whose data, of when, how much of it."""
    rows = (
        ("Fleet", before.fleet, after.fleet),
        ("Snapshot", _snapshot(before), _snapshot(after)),
        ("Data as of", _time(before), _time(after)),
        ("Answered", _answered(before), _answered(after)),
    )
    columns = (Column(""), Column("Before"), Column("After"))
    return Table("sides", "What is compared", columns, tuple(tuple(map(Cell, row)) for row in rows))


def capacity_table(changes: Changes) -> Table:
    """Say what each pool, and all together, held and holds."""
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
    told = [each for each in capacity.pools if _is_other(each)]
    rows = [_capacity(words.pool_name(each.pool), each) for each in told[:MOST_POOLS]]
    note = "≤ is an upper bound."
    if same := len(capacity.pools) - len(told):
        note += f" As before: {count(same, 'pool')}."
    if (more := len(told) - MOST_POOLS) > 0:
        note += f" {count(more, 'more pool')} in the JSON document."
    if capacity.incomparable:
        note += f" Not compared, for only one side is an upper bound: {count(capacity.incomparable, 'rank')}."
    total = [_capacity("All pools", capacity.total)] if len(rows) != 1 or len(capacity.pools) > 1 else []
    return Table("capacity-change", "KV cache before and after", columns, (*rows, *total), note)


def replicas_table(changes: Changes) -> Table:
    """List every replica of which anything changed."""
    columns = tuple(map(Column, ("Pool", "Replica", "State", "Version", "Cohort", "Restarted", "Settings changed")))
    rows = list(_replica_rows(changes))
    return _cut("replica-changes", "Every replica that changed", columns, rows, "replica")


def settings_table(groups: Sequence[SettingGroup], names: Mapping[str, str]) -> Table:
    """List every setting that changed, group by group."""
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
            Cell(words.pool_name(group.pools[1])),
            Cell(change.path),
            _told(change.before),
            _told(change.after),
            number_cell(f"{len(group.replicas):,}", len(group.replicas)),
            list_cell(first_of(map(brief, who), MOST_NAMES), who),
        )
        for group in groups
        for who in [names_of(group.replicas, names)]
        for change in group.changes
    ]
    return _cut("setting-changes", "Every setting that changed", columns, rows, "change")


def ranks_table(ranks: Iterable[RankChange], names: Mapping[str, str]) -> Table:
    """List every rank that holds clearly less or more."""
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
            Cell(words.pool_name(each.pool)),
            Cell(brief(name), value=name),
            number_cell(f"{each.dp_rank:,}", each.dp_rank),
            number_cell(f"{each.before:,}", each.before),
            number_cell(f"{each.after:,}", each.after),
            _change(each),
        )
        for each in ranks
        for name in [names.get(each.replica, each.replica)]
    ]
    return _cut("rank-changes", "Every rank that holds clearly less or more, in tokens", columns, rows, "rank")


def _cut(name: str, caption: str, columns: tuple[Column, ...], rows: Sequence[tuple[Cell, ...]], noun: str) -> Table:
    more = len(rows) - MOST_ROWS
    note = f"{count(more, f'more {noun}')} in the JSON document." if more > 0 else ""
    whole = Table(name, caption, columns, tuple(rows))
    return replace(whole, rows=whole.rows[:MOST_ROWS], note=note, data=whole) if more > 0 else whole


def _is_other(pool: PoolCapacity) -> bool:
    """Tell whether a pool holds another amount than before, as far as it is written."""
    before, after = pool.before, pool.after
    told = words.share_words(pool)
    return before._replace(tokens=0, bytes=0) != after._replace(tokens=0, bytes=0) or told not in {words.NO_CHANGE, "-"}


def _capacity(name: str, pool: PoolCapacity) -> tuple[Cell, ...]:
    before, after = pool.before, pool.after
    ranks = f"{after.ranks:,}" if before.ranks == after.ranks else f"{before.ranks:,} to {after.ranks:,}"
    basis = after.basis if before.basis is after.basis else f"{before.basis} to {after.basis}"
    return (
        Cell(brief(name)),
        number_cell(ranks, after.ranks),
        number_cell(short(before.tokens, before.basis), before.tokens),
        number_cell(short(after.tokens, after.basis), after.tokens),
        number_cell(words.share_words(pool), None if pool.share is None else in_percent(pool.share)),
        number_cell(size(before.bytes), before.bytes),
        number_cell(size(after.bytes), after.bytes),
        Cell(basis),
        Cell(words.missing_words(pool)),
    )


def silences_table(settings: SettingChanges, names: Mapping[str, str]) -> Table:
    """List the settings that only one side tells, for programs: why the other side does not, of whom."""
    columns = tuple(map(Column, ("change", "pool", "why", "paths", "replicas")))
    rows = (
        (change, words.pool_name(each.pools[1]), each.why.value, each.paths, tuple(names_of(each.replicas, names)))
        for change, held in (("no longer told", settings.no_longer_told), ("now told", settings.now_told))
        for each in held
    )
    return data_table("one-sided", "Settings that only one side tells", columns, rows)


def _told(told: SettingValue) -> Cell:
    """Write a value of a setting; for programs whole, as canonical JSON."""
    return Cell(told_text(*told), value=told.value or None)


def _change(rank: RankChange) -> Cell:
    cell = number_cell(words.percent(rank.share), in_percent(rank.share))
    return cell._replace(tone=Tone.WARNING) if rank.after < rank.before else cell


def _replica_rows(changes: Changes) -> Iterator[tuple[Cell, ...]]:
    settings = changes.settings.by_replica
    for verb, lone in (("came", changes.replicas.came), ("went", changes.replicas.went)):
        for each in lone:
            told = (
                words.pool_name(each.pool),
                brief(each.name),
                verb,
                each.version or EMPTY,
                each.letter,
                "",
                "",
            )
            yield tuple(map(Cell, told))
    for both in changes.replicas.both:
        number = len(settings.get(both.after.id, ()))
        if both.is_changed or number:
            yield _replica(both, number)


def _replica(both: Stayed, settings: int) -> tuple[Cell, ...]:
    before, after = both
    restarted = "not known" if both.restarted is None else "yes" if both.restarted else "no"
    texts = (
        _way(words.pool_name(before.pool), words.pool_name(after.pool)),
        _way(brief(before.name), brief(after.name)),
        _way(before.state, after.state),
        _way(before.version or EMPTY, after.version or EMPTY),
        _way(before.letter or EMPTY, after.letter or EMPTY),
        restarted,
    )
    return (*map(Cell, texts), Cell(f"{settings:,}" if settings else "", value=settings or None))


def _way(before: str, after: str) -> str:
    return after if before == after else f"{before} to {after}"


def _snapshot(context: Context) -> str:
    if context.snapshot is None:
        return "not frozen"
    key = short_id(context.snapshot)
    return f"{key} “{context.name}”" if context.name else key


def _time(context: Context) -> str:
    return iso(context.data_as_of) if context.data_as_of else "no data yet"


def _answered(context: Context) -> str:
    return f"{context.answered:,} of {context.targets:,}"
