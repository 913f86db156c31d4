"""The page Changes: what changed from one fleet to another, each name linked into the fleet that has it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dashboard.analysis.changes.models import (
    Changes,
    FindingChanges,
    OtherSideStatus,
    PoolCapacityChange,
    RankChange,
    ReplicaPair,
    SettingChanges,
    SettingGroup,
)
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet.formatting import count, first_of, iso, setting_text, short, short_id, size
from dashboard.fleet.pieces import Kind, Piece, plain, section
from dashboard.rules.findings import Finding
from dashboard.views import changes_entries as entries
from dashboard.views import changes_text as text
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Entries,
    Figure,
    Figures,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
    data_table,
    list_cell,
    number_cell,
)
from dashboard.views.capacity_text import in_percent
from dashboard.views.changes_entries import SideLinks, sides_of
from dashboard.views.changes_text import EventSummary
from dashboard.views.context import Context, compared, frozen_text
from dashboard.views.finding_text import severity_counts
from dashboard.views.names import brief, names_of

MOST_ROWS = 1_000  # of an appendix; the JSON document has all
MOST_POOLS = 40  # of the capacity table


EMPTY = "-"
MOST_ENTRIES = 40  # of one list; the appendix and the JSON document have all
MOST_PATHS = 6  # settings that a sentence names
MOST_NAMES = 8  # replicas that a sentence or a cell names


def changes_report(changes: Changes, before: Context, after: Context, between: EventSummary | None = None) -> View:
    """Return what changed; `before` and `after` are the contexts of both sides, `between` is what happened since."""
    sides = sides_of(changes)
    settings = settings_table(changes.settings.groups, sides)
    replicas, ranks = replicas_table(changes, sides), ranks_table(changes.capacity.ranks, sides)
    findings = tuple(_findings(changes, sides))
    unchanged = () if findings else (Paragraph(plain(f"{text.unchanged_findings(changes)}.")),)
    titles = {"Changed settings": settings, "Changed replicas": replicas, "Changed ranks": ranks}
    parts = (
        Section("at-a-glance", "At a glance", tuple(_glance(changes, before, after, between))),
        Section("findings", "Findings", unchanged, findings),
        Section("settings", "Settings", tuple(_settings(changes, sides, settings)), tuple(_one_sided(changes, sides))),
        Section("replicas", "Replicas", tuple(_replicas(changes, sides, replicas))),
        Section("capacity", "Capacity", tuple(_capacity(changes, sides, ranks))),
        *([between.section] if between else []),
        *(Section(each.name, title, (each,), is_appendix=True) for title, each in titles.items() if each.rows),
    )
    headline = "; ".join(filter(None, (text.headline(changes), between.words if between else "")))
    return View("What changed", headline, text.lead(changes), compared(before, after), parts)


def _glance(changes: Changes, before: Context, after: Context, between: EventSummary | None) -> Iterator[Block]:
    yield from (Paragraph(plain(each), Tone.WARNING) for each in text.warnings(changes))
    yield Figures((*_figures(changes), *([between.figure] if between else [])))
    yield sides_table(before, after)


def _figures(changes: Changes) -> Iterator[Figure]:
    found, replicas, settings = changes.findings, changes.replicas, changes.settings
    new, hidden = [each.finding for each in found.unsuppressed], len(found.new) - len(found.unsuppressed)
    note = "; ".join([*([severity_counts(new)] if new else []), *([f"{hidden:,} suppressed"] if hidden else [])])
    yield Figure("New findings", f"{len(new):,}", note, _worst(new), section("findings"))
    if found.spread:
        worst = _worst(each.after for each in found.spread)
        yield Figure("Spread", f"{len(found.spread):,}", text.spread_text(changes), worst, section("findings"))
    lost = f"{len(found.not_evaluated):,} no longer evaluated" if found.not_evaluated else ""
    yield Figure("Fixed findings", f"{len(found.fixed):,}", lost, _fixed_tone(found), section("findings"))
    compared = f"of {settings.compared:,} compared"
    yield Figure("Changed replicas", f"{len(settings.replicas):,}", compared, link=section("settings"))
    yield Figure("Added", f"{len(replicas.added):,}", "replicas", link=section("replicas"))
    yield Figure("Removed", f"{len(replicas.removed):,}", "replicas", link=section("replicas"))
    unknown = len(replicas.start_unknown)
    started = f"{unknown:,} unknown" if unknown else f"of {len(replicas.both):,}"
    yield Figure("Restarted", f"{len(replicas.restarted):,}", started, link=section("replicas"))
    pools = [each.pool for each in changes.capacity.pools]
    whose = text.pool_name(pools[0]) if len(pools) == 1 else "all pools"
    yield Figure("KV tokens", text.share_text(changes.capacity.total), whose, link=section("capacity"))


def _worst(found: Iterable[Finding]) -> Tone:
    return Tone(min((each.severity for each in found), key=lambda each: each.rank, default=Tone.PLAIN))


def _fixed_tone(found: FindingChanges) -> Tone:
    statuses = {each.other_side for each in found.no_longer_found}
    return Tone.UNKNOWN if OtherSideStatus.NOT_EVALUATED in statuses else Tone.GOOD if statuses else Tone.PLAIN


def _findings(changes: Changes, sides: SideLinks) -> Iterator[Section]:
    found = changes.findings
    for anchor, title, change, listed in (
        ("new-findings", "New", entries.NEW, found.new),
        ("fixed-findings", "Fixed", entries.FIXED, found.fixed),
        ("not-evaluated-findings", "No longer evaluated", entries.NOT_EVALUATED, found.not_evaluated),
        ("ended-suppressions", "Suppression expired", entries.CHANGED, [each for each in found.changed if each.ended]),
        ("changed-findings", "Changed", entries.CHANGED, [each for each in found.changed if not each.ended]),
    ):
        if listed:
            blocks = _cut(entries.finding_entries(change, listed, sides), "in the JSON document")
            yield Section(anchor, f"{title} ({len(listed):,})", blocks)


def _cut(listed: Entries, where: str) -> tuple[Block, ...]:
    """Return the first entries of a list, and how many more there are."""
    shown = replace(listed, items=listed.items[:MOST_ENTRIES])
    more = len(listed.items) - MOST_ENTRIES
    return (shown, Paragraph(plain(f"{more:,} more {where}."))) if more > 0 else (shown,)


def _settings(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Block]:
    settings = changes.settings
    if settings.groups:
        listed = replace(entries.setting_entries(settings.groups, sides), data=table.data)
        yield from _cut(listed, "in the appendix")
    else:
        yield Paragraph(plain(f"No settings changed on {count(settings.compared, 'replica')}."))
    if settings.ignored:
        yield Paragraph(plain(f"Changed but ignored by fleet.yaml: {first_of(settings.ignored, MOST_PATHS)}."))
    before, after = set(settings.unread_before), set(settings.unread_after)
    for when, unread in (("on both sides", before & after), ("before", before - after), ("after", after - before)):
        if unread:
            start = f"Not compared (unreachable {when}): {count(len(unread), 'replica')} ("
            yield Paragraph((Piece(start), *sides.replicas(unread, MOST_NAMES), Piece(").")))


def _one_sided(changes: Changes, sides: SideLinks) -> Iterator[Section]:
    """Yield the settings that only one side reports: whether they changed is unknown."""
    settings = changes.settings
    listed = [
        entries.one_sided_entry(title, when, found)
        for title, when, found in (
            ("No longer reported", "now", settings.no_longer_reported),
            ("Newly reported", "before", settings.newly_reported),
        )
        if found
    ]
    if listed:
        block = Entries(tuple(listed), one_sided_table(settings, sides))
        yield Section("one-sided", "Reported on one side only", (block,), is_aside=True)


def _replicas(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Block]:
    listed = entries.replica_entries(changes, sides)
    if listed.items:
        yield replace(listed, data=table.data)
    else:
        yield Paragraph(plain("No replica was added, removed or known to have restarted."))
    if unknown := changes.replicas.start_unknown:
        start = f"Restart unknown: no start time reported by {count(len(unknown), 'replica')} ("
        yield Paragraph((Piece(start), *sides.replicas(unknown, MOST_NAMES), Piece(").")))


def _capacity(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Block]:
    capacity = changes.capacity
    yield capacity_table(changes, sides)
    if capacity.ranks:
        yield replace(entries.rank_entries(capacity.ranks, sides), data=table.data)
    else:
        ranks = count(capacity.compared, "compared rank")
        yield Paragraph(plain(f"No change above {TOLERANCE * 100:.0f} % on {ranks}."))


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
    rows = [_capacity_row(each, sides) for each in changed[:MOST_POOLS]]
    notes = ["≤ is an upper bound."]
    if same := len(capacity.pools) - len(changed):
        notes.append(f"Unchanged: {count(same, 'pool')}.")
    if (more := len(changed) - MOST_POOLS) > 0:
        notes.append(f"{count(more, 'more pool')} in the JSON document.")
    if capacity.incomparable:
        notes.append(f"Not compared (upper bound on one side only): {count(capacity.incomparable, 'rank')}.")
    has_total = len(rows) != 1 or len(capacity.pools) > 1
    total = [(Cell("All pools"), *_capacity_row(capacity.total, sides)[1:])] if has_total else []
    return Table("capacity-change", "KV cache before and after", columns, (*rows, *total), " ".join(notes))


def replicas_table(changes: Changes, sides: SideLinks) -> Table:
    """Return every replica that changed."""
    columns = tuple(map(Column, ("Pool", "Replica", "State", "Version", "Cohort", "Restarted", "Settings changed")))
    return _cut_table(
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
    return _cut_table("setting-changes", "Every setting that changed", columns, rows, "change")


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
    return _cut_table("rank-changes", "KV cache of every rank that changed, in tokens", columns, rows, "rank")


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


def _cut_table(
    name: str, caption: str, columns: tuple[Column, ...], rows: Sequence[tuple[Cell, ...]], noun: str
) -> Table:
    whole = Table(name, caption, columns, tuple(rows))
    if (more := len(rows) - MOST_ROWS) <= 0:
        return whole
    note = f"{count(more, f'more {noun}')} in the JSON document."
    return replace(whole, rows=whole.rows[:MOST_ROWS], note=note, for_programs=lambda: whole)


def _is_changed(pool: PoolCapacityChange) -> bool:
    """Return whether a pool has a different amount than before, as far as the table shows it."""
    before, after = (each._replace(tokens=0, bytes=0) for each in (pool.before, pool.after))
    return before != after or text.share_text(pool) not in {text.NO_CHANGE, "-"}


def _capacity_row(pool: PoolCapacityChange, sides: SideLinks) -> tuple[Cell, ...]:
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
