"""What happened in a range of time as a table, the last event first."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.changes.events import Event, EventKind
from dashboard.fleet.formatting import count, exact, first_of, iso, one_line
from dashboard.fleet.pieces import Piece, Style, Text, join_texts, page, plain, section, to_plain
from dashboard.fleet.times import write_time
from dashboard.views.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, Tone, list_cell
from dashboard.views.changes_text import change_text
from dashboard.views.finding_text import rule_title
from dashboard.views.names import brief, replica_text
from dashboard.views.pages import AT, OVERVIEW

RANGE = "range"
MOST_ROWS = 100  # of the list; exports have all
MOST_NAMES = 4  # replicas that a row names
MOST_CHANGES = 2  # settings that a row names
OF_FINDINGS = {
    EventKind.FINDING_BEGAN: "Finding began",
    EventKind.FINDING_ENDED: "Finding ended",
    EventKind.SEVERITY: "Severity changed",
    EventKind.SPREAD: "Finding spread",
}
OF_REPLICAS = {
    EventKind.ADDED: "added",
    EventKind.REMOVED: "removed",
    EventKind.RESTARTED: "restarted",
    EventKind.SETTINGS: "changed settings",
    EventKind.STATE: "changed state",
    EventKind.CAPACITY: "changed KV cache",
}
COLUMNS = (Column("First seen"), Column("Change"), Column("Pool"), Column("Which"), Column("Detail"))


class EventSummary(NamedTuple):
    """What happened between the two sides of a comparison: its number as a figure and as words, and the list."""

    figure: Figure
    words: str
    section: Section


def what_happened(events: Sequence[Event], since: datetime, until: datetime, skipped: int = 0) -> EventSummary:
    """Return what happened between two times; a gap is an entry of its own, and never means that nothing changed.

    `skipped` counts findings that a filter may have wanted, and that were too many to look up.
    """
    gaps = sum(each.kind is EventKind.GAP for each in events)
    changes = len(events) - gaps
    note = f"changes, {count(gaps, 'gap')}" if gaps else "changes"
    tone = Tone.UNKNOWN if gaps else Tone.PLAIN
    figure = Figure("In between", f"{changes:,}", note, tone, section(RANGE))
    words = f"{count(changes, 'change')} in between" if changes else ""
    listed = _listed(events, since, until)
    if skipped:
        text = (
            f"Not listed: {count(skipped, 'earlier finding')} that began and ended in between. Choose a shorter range."
        )
        listed = replace(listed, blocks=(Paragraph(plain(text), Tone.UNKNOWN), *listed.blocks))
    return EventSummary(figure, words, listed)


def _listed(events: Sequence[Event], since: datetime, until: datetime) -> Section:
    ends = f"between {iso(since)} and {iso(until)}"
    if not events:
        blocks: tuple[Block, ...] = (Paragraph(plain(f"No change was recorded {ends}; the polls had no gap.")),)
        return Section(RANGE, "In between", blocks)
    newest = list(reversed(events))
    whole = Table("events", "What happened in between", COLUMNS, tuple(map(_row, newest)))
    more = len(newest) - MOST_ROWS
    note = (
        f"{count(more, 'earlier entry', 'earlier entries')} not listed: choose a shorter range, or export."
        if more > 0
        else ""
    )
    shown = Table(whole.name, whole.caption, COLUMNS, whole.rows[:MOST_ROWS], note, whole if more > 0 else None)
    lead = f"Each change {ends}, also what changed back since."
    return Section(RANGE, f"In between ({len(events):,})", (Paragraph(plain(lead)), shown))


def _row(event: Event) -> tuple[Cell, ...]:
    moment = page(OVERVIEW, **{AT: write_time(event.at.replace(microsecond=0))})
    names = [name for _, name in event.replicas]
    which = to_plain(_which(event))
    return (
        Cell(when_text(event), link=moment),
        _change(event),
        Cell(first_of(map(brief, event.pools), MOST_NAMES)),
        list_cell(which, names)._replace(pieces=_which(event)) if names else Cell(which),
        Cell(to_plain(_detail(event)), pieces=_detail(event)),
    )


def when_text(event: Event) -> str:
    """Return when an event was: `2026-11-22 between 14:02 and 14:07`, with seconds where these are one minute."""
    at, after = event.at, event.after
    if after is None:
        return f"{_minute(at)}"
    clock = "%H:%M:%S" if at - after < timedelta(minutes=2) else "%H:%M"
    day = "" if at.date() == after.date() else f"{at:%Y-%m-%d} "
    return f"{after:%Y-%m-%d} between {after.strftime(clock)} and {day}{at.strftime(clock)}"


def _change(event: Event) -> Cell:
    if event.kind is EventKind.GAP:
        return Cell("No poll was recorded", Tone.UNKNOWN)
    if event.kind is EventKind.RULES:
        return Cell(f"Rule set {event.before} -> {event.now}", Tone.INFO)
    if event.kind in OF_FINDINGS:
        is_bad = event.kind is not EventKind.FINDING_ENDED and not event.is_suppressed
        tone = Tone(_severity(event.now)) if is_bad else Tone.GOOD
        words = OF_FINDINGS[event.kind]
        if _is_suppression(event):
            words = "Finding suppressed" if event.is_suppressed else "Suppression ended"
        return Cell(words, Tone.PLAIN if event.is_suppressed else tone)
    return Cell(f"{count(len(event.replicas), 'replica')} {OF_REPLICAS[event.kind]}")


def _is_suppression(event: Event) -> bool:
    """Return whether the suppression of a finding changed, and its severity did not."""
    return event.kind is EventKind.SEVERITY and _severity(event.before) == _severity(event.now)


def _severity(standing: str) -> str:
    """Return the severity of `critical, suppressed`."""
    return standing.partition(",")[0]


def _which(event: Event) -> Text:
    if event.rule:
        return plain(f"{rule_title(event.rule)}: {one_line(event.sentence)}")
    choices = ((AT, write_time((event.after or event.at).replace(microsecond=0))),)
    if event.kind is not EventKind.REMOVED:
        choices = ((AT, write_time(event.at.replace(microsecond=0))),)
    return replica_text((key for key, _ in event.replicas), dict(event.replicas), MOST_NAMES, lambda _: choices)


def _detail(event: Event) -> Text:
    parts: list[Text] = [(Piece(change_text(each), Style.CODE),) for each in event.changes[:MOST_CHANGES]]
    if (more := len(event.changes) - MOST_CHANGES) > 0:
        parts.append(plain(count(more, "more setting")))
    if event.tokens is not None:
        parts.append(plain(f"KV cache {exact(event.tokens[0])} -> {exact(event.tokens[1])} tokens"))
    if _is_suppression(event):
        parts.append(plain(_severity(event.now)))
    elif event.kind in {EventKind.STATE, EventKind.SEVERITY}:
        parts.append(plain(f"{event.before} -> {event.now}"))
    elif event.kind in OF_FINDINGS:
        parts.append(plain(f"{event.now}{', suppressed' if event.is_suppressed else ''}"))
    if event.spread is not None:
        parts.append(plain(f"{event.spread[0]:,} -> {count(event.spread[1], 'replica')}"))
    if event.is_new_rule_set:
        parts.append(plain("evaluated by another rule set than before"))
    return join_texts(parts, last=", ")


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
