"""The page Changes: what changed from one fleet to another, each name linked into the fleet that has it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import pandas as pd

from dashboard.analysis.changes.models import (
    Changes,
    PoolCapacityChange,
    RankChange,
    SettingChanges,
    SettingGroup,
)
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet import State
from dashboard.fleet.formatting import MANY, NOT_KNOWN, count, iso, setting_text, short, short_id, shortlist, size
from dashboard.fleet.pieces import Kind, Link, Piece, plain
from dashboard.views import changes_entries as entries
from dashboard.views import changes_text as text
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Entries,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
)
from dashboard.views.capacity_text import in_percent
from dashboard.views.changes_entries import SideLinks, sides_of
from dashboard.views.changes_text import EventSummary
from dashboard.views.context import Context, source_text
from dashboard.views.names import brief, names_of
from dashboard.views.table import Field, plain_value, to_data, to_table

MOST_ROWS = 1_000  # of an appendix; the JSON document has all
MOST_POOLS = 40  # of the capacity table


EMPTY = "-"
MOST_ENTRIES = 40  # of one list; the appendix and the JSON document have all


def changes_report(changes: Changes, before: Context, after: Context, between: EventSummary | None = None) -> View:
    """Return what changed; `before` and `after` are the contexts of both sides, `between` is what happened since."""
    sides = sides_of(changes)
    settings = settings_table(changes.settings.groups, sides)
    replicas, ranks = replicas_table(changes, sides), ranks_table(changes.capacity.ranks, sides)
    findings = tuple(_findings(changes, sides))
    warnings = tuple(Paragraph(plain(each), Tone.WARNING) for each in text.warnings(changes))
    titles = {"Changed settings": settings, "Changed replicas": replicas, "Changed ranks": ranks}
    parts = (
        *([Section("warnings", "Warnings", warnings)] if warnings else []),
        *([Section("findings", "Findings", (), findings)] if findings else []),
        *_settings(changes, sides, settings),
        *_replicas(changes, sides, replicas),
        *_capacity(changes, sides, ranks),
        *([between.section] if between and between.section else []),
        *_not_compared(changes, sides),
        Section(
            "compared",
            "What is compared",
            (Paragraph(plain(_unchanged_text(changes))), sides_table(before, after)),
            is_aside=True,
        ),
        *(Section(each.name, title, (each,), is_appendix=True) for title, each in titles.items() if each.rows),
    )
    headline = "; ".join(filter(None, (text.headline(changes), between.words if between else "")))
    lead = " ".join(filter(None, (text.lead(changes), between.lead if between else "")))
    return View("What changed", headline, lead, replace(after, before=before), parts)


def _unchanged_text(changes: Changes) -> str:
    """Return what did not change: it has no section."""
    found = [f"{text.unchanged_findings(changes)}."]
    if not changes.settings.groups:
        found.append(f"No settings changed on {count(changes.settings.compared, 'replica')}.")
    if not (changes.replicas.added or changes.replicas.removed or changes.replicas.changed):
        found.append("No replica was added, removed or known to have restarted.")
    if not changes.capacity.ranks:
        ranks = count(changes.capacity.compared, "compared rank")
        found.append(f"No KV cache changed by more than {TOLERANCE * 100:.0f}% on {ranks}.")
    return " ".join(found)


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
    shown = replace(listed, items=listed.items[:MOST_ENTRIES])
    more = len(listed.items) - MOST_ENTRIES
    return (shown, Paragraph(plain(f"{more:,} more {where}."))) if more > 0 else (shown,)


def _settings(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Section]:
    settings = changes.settings
    blocks: list[Block] = []
    if settings.groups:
        listed = replace(entries.setting_entries(settings.groups, sides), for_programs=lambda: table.data)
        blocks += _cut(listed, "in the appendix")
    if settings.ignored:
        blocks.append(Paragraph(plain(f"Changed but ignored by fleet.yaml: {shortlist(settings.ignored, MANY)}.")))
    parts = tuple(_one_sided(changes, sides))
    if blocks or parts:
        yield Section("settings", "Settings", tuple(blocks), parts)


def _not_compared(changes: Changes, sides: SideLinks) -> Iterator[Section]:
    """Yield which replicas were not compared, and of which others it is unknown whether they restarted."""
    before, after = set(changes.settings.unread_before), set(changes.settings.unread_after)
    found = {
        "Unreachable on both sides": before & after,
        "Unreachable before": before - after,
        "Unreachable after": after - before,
        "Restart unknown (no start time reported)": set(changes.replicas.start_unknown) - before - after,
    }
    blocks = tuple(
        Paragraph((Piece(f"{why}: {count(len(keys), 'replica')} ("), *sides.replicas(keys, MANY), Piece(").")))
        for why, keys in found.items()
        if keys
    )
    if blocks:
        yield Section("not-compared", "Not compared", blocks)


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
        block = Entries(tuple(listed), partial(one_sided_table, settings, sides))
        yield Section("one-sided", "Reported on one side only", (block,), is_aside=True)


def _replicas(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Section]:
    listed = entries.replica_entries(changes, sides)
    if listed.items:
        yield Section("replicas", "Replicas", (replace(listed, for_programs=lambda: table.data),))


def _capacity(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Section]:
    capacity = changes.capacity
    if not (capacity.ranks or capacity.incomparable or any(map(_is_changed, capacity.pools))):
        return
    blocks: list[Block] = [capacity_table(changes, sides)]
    if capacity.ranks:
        blocks.append(replace(entries.rank_entries(capacity.ranks, sides), for_programs=lambda: table.data))
    yield Section("capacity", "Capacity", tuple(blocks))


def sides_table(before: Context, after: Context) -> Table:
    rows = (
        ("Fleet", before.fleet, after.fleet),
        ("Snapshot", _snapshot(before), _snapshot(after)),
        ("Data as of", *(iso(each.data_as_of) if each.data_as_of else "no data yet" for each in (before, after))),
        ("Reachable", *(f"{each.answered:,} of {each.targets:,}" for each in (before, after))),
    )
    columns = (Column(""), Column("Before"), Column("After"))
    return Table("sides", "What is compared", columns, tuple(tuple(map(Cell, row)) for row in rows))


def capacity_table(changes: Changes, sides: SideLinks) -> Table:
    """Return the KV cache of the pools that changed, and of all together."""
    capacity = changes.capacity
    changed = [each for each in capacity.pools if _is_changed(each)]
    shown = changed[:MOST_POOLS]
    notes = ["≤ is an upper bound."]
    if same := len(capacity.pools) - len(changed):
        notes.append(f"Unchanged: {count(same, 'pool')}.")
    if (more := len(changed) - MOST_POOLS) > 0:
        notes.append(f"{count(more, 'more pool')} in the JSON document.")
    if capacity.incomparable:
        notes.append(f"Not compared (upper bound on one side only): {count(capacity.incomparable, 'rank')}.")
    if len(shown) != 1 or len(capacity.pools) > 1:
        shown.append(capacity.total)

    def pool_link(pool: PoolCapacityChange) -> Link | None:
        return sides.link(Kind.POOL, pool.pool) if pool.pool is not None and pool.after.ranks else None

    fields = (
        Field(
            "",
            "Pool",
            lambda pool: "All pools" if pool is capacity.total else text.pool_name(pool.pool),
            link=pool_link,
        ),
        Field("after.ranks", "Ranks", lambda pool: _way(pool, lambda side: f"{side.ranks:,}"), is_number=True),
        _amount(
            "before.tokens.value", "KV tokens before", lambda pool: short(pool.before.tokens.value, pool.before.basis)
        ),
        _amount("after.tokens.value", "KV tokens after", lambda pool: short(pool.after.tokens.value, pool.after.basis)),
        Field(
            "", "Change", text.share_text, lambda pool: plain_value(in_percent(pool.share)), unit="%", is_number=True
        ),
        _amount("before.bytes.value", "KV bytes before", lambda pool: size(pool.before.bytes.value)),
        _amount("after.bytes.value", "KV bytes after", lambda pool: size(pool.after.bytes.value)),
        Field("", "Basis", lambda pool: _way(pool, lambda side: side.basis)),
        Field("", "Not in the sums", text.missing_text),
    )
    return to_table(shown, fields, "capacity-change", "KV cache before and after", " ".join(notes))


def _amount(name: str, title: str, write: Callable[[PoolCapacityChange], str]) -> Field:
    return Field(name, title, write, missing=NOT_KNOWN, is_number=True)


def replicas_table(changes: Changes, sides: SideLinks) -> Table:
    settings = changes.settings.by_replica
    rows: list[dict[str, Any]] = []
    for verb, found in (("added", changes.replicas.added), ("removed", changes.replicas.removed)):
        letters = changes.replicas.letters_before if verb == "removed" else changes.replicas.letters_after
        for each in found:
            letter = letters.get(each.id, "")
            row = {"pool": text.pool_name(each.pool), "replica": brief(each.name), "state": verb, "cohort": letter}
            link = sides.link(Kind.REPLICA, each.id, is_before=verb == "removed")
            rows.append({**row, "version": each.version or EMPTY, "restarted": "", "settings": None, "link": link})
    both_letters = changes.replicas.letters_before, changes.replicas.letters_after
    for pair in changes.replicas.both:
        key = pair.after.id
        number = len(settings.get(key, ()))
        if pair.is_changed or number:
            restarted = "unknown" if pair.restarted is None else "yes" if pair.restarted else "no"
            row = {
                "pool": _way(pair, lambda replica: text.pool_name(replica.pool)),
                "replica": _way(pair, lambda replica: brief(replica.name)),
                "state": _way(pair, lambda replica: replica.state),
                "version": _way(pair, lambda replica: replica.version or EMPTY),
                "cohort": _arrow(*(letters.get(key, EMPTY) for letters in both_letters)),
            }
            link = sides.link(Kind.REPLICA, key)
            rows.append({**row, "restarted": restarted, "settings": number or None, "link": link})
    fields = (
        Field("pool", "Pool"),
        Field("replica", "Replica", link=attrgetter("link")),
        Field("state", "State"),
        Field("version", "Version"),
        Field("cohort", "Cohort"),
        Field("restarted", "Restarted"),
        Field("settings", "Settings changed", value=attrgetter("settings")),
    )
    table = pd.DataFrame(rows, columns=[*(each.name for each in fields), "link"], dtype=object)
    return to_table(
        table, fields, "replica-changes", "Every replica that changed", most=MOST_ROWS, rest=partial(_rest, "replica")
    )


def settings_table(groups: Sequence[SettingGroup], sides: SideLinks) -> Table:
    rows = [
        (each.pools[1], change.path, change.before, change.after, names_of(each.replicas, sides.names))
        for each in groups
        for change in each.changes
    ]

    def setting_link(row: Any) -> Link | None:
        return sides.link(Kind.SETTING, row.path, row.pool) if row.pool else None

    def which(row: Any) -> Cell:
        return Cell(shortlist(map(brief, row.replicas), MANY), value=tuple(row.replicas))

    fields = (
        Field("pool", "Pool", missing=text.NO_POOL),
        Field("path", "Setting", attrgetter("path"), link=setting_link, is_code=True),
        Field("before", "Before", lambda row: _setting_cell(*row.before), is_code=True),
        Field("after", "After", lambda row: _setting_cell(*row.after), is_code=True),
        Field(
            "replicas", "Replicas", lambda row: f"{len(row.replicas):,}", lambda row: len(row.replicas), is_number=True
        ),
        Field("replicas", "Which", which),
    )
    table = pd.DataFrame(rows, columns=["pool", "path", "before", "after", "replicas"], dtype=object)
    return to_table(
        table, fields, "setting-changes", "Every setting that changed", most=MOST_ROWS, rest=partial(_rest, "change")
    )


def _setting_cell(value: str, state: State) -> Cell:
    return Cell(setting_text(value, state), value=value or None)


def ranks_table(ranks: Iterable[RankChange], sides: SideLinks) -> Table:

    def name_cell(rank: RankChange) -> Cell:
        name = sides.names.get(rank.replica, rank.replica)
        return Cell(brief(name), value=name)

    def share_cell(rank: RankChange) -> Cell:
        return Cell(text.percent(rank.share), Tone.WARNING if rank.after < rank.before else Tone.PLAIN)

    fields = (
        Field("pool", "Pool", lambda rank: text.pool_name(rank.pool), missing=text.NO_POOL),
        Field("replica", "Replica", name_cell, link=lambda rank: sides.link(Kind.REPLICA, rank.replica)),
        Field("dp_rank", "Rank", is_number=True),
        Field("before", "Before", is_number=True),
        Field("after", "After", is_number=True),
        Field(
            "share",
            "Change",
            share_cell,
            lambda rank: plain_value(in_percent(rank.share)),
            unit="%",
            is_number=True,
        ),
    )
    return to_table(
        ranks,
        fields,
        "rank-changes",
        "KV cache of every rank that changed, in tokens",
        most=MOST_ROWS,
        rest=partial(_rest, "rank"),
    )


def one_sided_table(settings: SettingChanges, sides: SideLinks) -> Table:
    fields = (
        Field("", value=lambda row: row[0], key="change"),
        Field("", value=lambda row: text.pool_name(row[1].pools[1]), key="pool"),
        Field("", value=lambda row: row[1].why.value, key="why"),
        Field("", value=lambda row: row[1].paths, key="paths"),
        Field("", value=lambda row: tuple(names_of(row[1].replicas, sides.names)), key="replicas"),
    )
    rows = [("no longer reported", each) for each in settings.no_longer_reported]
    rows += [("newly reported", each) for each in settings.newly_reported]
    return to_data(rows, fields, "one-sided", "Settings reported on one side only")


def _rest(noun: str, hidden: int) -> str:
    return f"{count(hidden, f'more {noun}')} in the JSON document."


def _is_changed(pool: PoolCapacityChange) -> bool:
    """Return whether a pool has a different amount than before, as far as the table shows it."""
    before, after = map(attrgetter("ranks", "unknown", "unsized", "silent", "basis"), (pool.before, pool.after))
    return before != after or text.share_text(pool) not in {text.NO_CHANGE, "-"}


def _way(sides: Any, write: Callable[[Any], str]) -> str:
    """Write what both sides have: `A`, or `A -> B` where it differs."""
    return _arrow(write(sides.before), write(sides.after))


def _arrow(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def _snapshot(context: Context) -> str:
    if context.snapshot is None:
        return source_text(context)
    return f"{short_id(context.snapshot)} “{context.name}”" if context.name else short_id(context.snapshot)
