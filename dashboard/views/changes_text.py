"""What changed between two fleets, and the events in between, as sentences. Each format escapes their foreign text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dashboard.analysis.changes.events import Event, EventKind
from dashboard.analysis.changes.models import Changes, PoolCapacityChange, SettingGroup
from dashboard.capacity.sums import PoolCapacity
from dashboard.compare.prefix import PREFIX_PATHS, short_name
from dashboard.fleet import Basis, SettingChange
from dashboard.fleet.formatting import SOME, count, exact, iso, joined, one_line, setting_text, shortlist
from dashboard.fleet.pieces import Piece, Style, Text, join_texts, page, plain, to_plain
from dashboard.fleet.times import write_time
from dashboard.views.blocks import Cell, Column, Paragraph, Section, Table, Tone
from dashboard.views.finding_text import rule_title
from dashboard.views.names import brief, replica_text
from dashboard.views.pages import AT, OVERVIEW

NO_POOL = "no pool"
NO_CHANGE = "0%"
HEADLINE_CLAUSES = 3
WITH_TENTHS = 0.0995  # shares below are written with a tenth of a percent
RANGE = "range"
MOST_ROWS = 100  # of the list; exports have all
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
    """What happened between the two sides of a comparison: its number in words, and the list, or that there is none."""

    words: str
    section: Section | None
    lead: str = ""


def what_happened(events: Sequence[Event], since: datetime, until: datetime, skipped: int = 0) -> EventSummary:
    """Return what happened between two times; a gap is an entry of its own, and never means that nothing changed.

    `skipped` counts findings that a filter may have wanted, and that were too many to look up.
    """
    gaps = sum(each.kind is EventKind.GAP for each in events)
    changes = len(events) - gaps
    numbers = [count(changes, "change")] if changes else []
    numbers += [count(gaps, "gap")] if gaps else []
    words = f"{joined(numbers)} in between" if numbers else ""
    if not events and not skipped:
        return EventSummary("", None, "No change in between; the polls had no gap.")
    listed = _listed(events, since, until)
    if skipped:
        text = (
            f"Not listed: {count(skipped, 'earlier finding')} that began and ended in between. Choose a shorter range."
        )
        listed = replace(listed, content=(Paragraph(plain(text), Tone.UNKNOWN), *listed.blocks))
    return EventSummary(words, listed)


def _listed(events: Sequence[Event], since: datetime, until: datetime) -> Section:
    ends = f"between {iso(since)} and {iso(until)}"
    newest = list(reversed(events))
    whole = Table("events", "What happened in between", COLUMNS, tuple(map(_row, newest)))
    more = len(newest) - MOST_ROWS
    note = (
        f"{count(more, 'earlier entry', 'earlier entries')} not listed: choose a shorter range, or export."
        if more > 0
        else ""
    )
    shown = Table(
        whole.name, whole.caption, COLUMNS, whole.rows[:MOST_ROWS], note, (lambda: whole) if more > 0 else None
    )
    lead = f"Each change {ends}, also what changed back since."
    return Section(RANGE, f"Events ({len(events):,})", (Paragraph(plain(lead)), shown))


def _row(event: Event) -> tuple[Cell, ...]:
    moment = page(OVERVIEW, **{AT: write_time(event.at.replace(microsecond=0))})
    names = [name for _, name in event.replicas]
    which = to_plain(_which(event))
    return (
        Cell(when_text(event), link=moment),
        _change(event),
        Cell(shortlist(map(brief, event.pools), SOME)),
        Cell(which, value=tuple(names), pieces=_which(event)) if names else Cell(which),
        Cell(to_plain(_detail(event)), pieces=_detail(event)),
    )


def when_text(event: Event) -> str:
    """Return when an event was: `2026-11-22 between 14:02 and 14:07`, with seconds where these are one minute."""
    at, after = event.at, event.after
    if after is None:
        return f"{at:%Y-%m-%d %H:%M}"
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
        return Cell(words, Tone.PLAIN if event.is_suppressed or _is_suppression(event) else tone)
    return Cell(f"{count(len(event.replicas), 'replica')} {OF_REPLICAS[event.kind]}")


def _is_suppression(event: Event) -> bool:
    return event.kind is EventKind.SEVERITY and _severity(event.before) == _severity(event.now)


def _severity(standing: str) -> str:
    return standing.partition(",")[0]


def _which(event: Event) -> Text:
    if event.rule:
        return plain(f"{rule_title(event.rule)}: {one_line(event.sentence)}")
    choices = ((AT, write_time((event.after or event.at).replace(microsecond=0))),)
    if event.kind is not EventKind.REMOVED:
        choices = ((AT, write_time(event.at.replace(microsecond=0))),)
    return replica_text((key for key, _ in event.replicas), dict(event.replicas), SOME, lambda _: choices)


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


def headline(changes: Changes) -> str:
    """Return what changed in one line: `2 new findings, 1 fixed; 37 replicas changed: block_size 16 -> 32`."""
    clauses = [_finding_clause(changes), _setting_clause(changes), _replica_clause(changes), _rank_clause(changes)]
    if found := list(filter(None, clauses)):
        return "; ".join(found[:HEADLINE_CLAUSES])
    if not changes.is_empty:
        return "No value changed; some settings are reported on one side only"
    compared, both = changes.settings.compared, len(changes.replicas.both)
    number = f"{compared:,} of {count(both, 'replica')}" if compared < both else count(both, "replica")
    return f"No changes{_since(changes)} ({number} compared)"


def _since(changes: Changes) -> str:
    """Return the time of the earlier side, with its day where that is not the day of the other one."""
    times = sorted(each.polled_at for each in (changes.before, changes.after) if each.polled_at)
    if not times:
        return ""
    is_one_day = times[0].date() == times[-1].date()
    return f" since {times[0]:%H:%M}" if is_one_day else f" since {times[0]:%Y-%m-%d %H:%M}"


def summary(changes: Changes, between: str = "") -> str:
    """Return the headline with its limits: the last line of `diff`; `between` is what happened in between."""
    unread = unread_replicas(changes)
    parts = [headline(changes), *([between] if between else [])]
    parts += [f"{count(len(unread), 'replica')} not compared"] if unread else []
    parts += ["the second side is older than the first"] if changes.after_is_older else []
    return f"{'; '.join(parts)}."


def unread_replicas(changes: Changes) -> set[str]:
    """Return the replicas whose settings were not compared."""
    return {*changes.settings.unread_before, *changes.settings.unread_after}


def lead(changes: Changes) -> str:
    """Return how much was compared, and what else became of findings."""
    settings, both = changes.settings, len(changes.replicas.both)
    compared = f"Settings compared on {settings.compared:,} of {count(both, 'common replica')}" if both else ""
    parts = [compared or "No settings compared: the sides have no replica in common"]
    parts = [] if both and changes.is_empty else parts  # the headline has it
    parts += [f"{len(unread):,} unreachable"] if (unread := unread_replicas(changes)) else []
    return "; ".join([*parts, *_other_findings(changes), unchanged_findings(changes)]) + "."


def unchanged_findings(changes: Changes) -> str:
    """Return how many findings did not change: `22 findings unchanged (2 suppressed)`."""
    same = [each.is_suppressed_after for each in changes.findings.persisting if not each.is_changed]
    return f"{count(len(same), 'finding')} unchanged{f' ({sum(same):,} suppressed)' if any(same) else ''}"


def warnings(changes: Changes) -> list[str]:
    """Return what misleads in this comparison, a sentence each."""
    before, after = changes.before.name, changes.after.name
    found = ["The second side is older than the first: new and fixed are reversed."] if changes.after_is_older else []
    found += [f"Different fleets: {brief(before)} and {brief(after)}."] if before != after else []
    if changes.options_differ:
        found.append(f"{_changed_files(changes)} differs between the sides: findings may change with it.")
    return found


def _changed_files(changes: Changes) -> str:
    """Return the name of the file whose options differ: that of suppressions where nothing else does."""
    before, after = changes.before.policy, changes.after.policy
    others = [replace(each, suppressions=(), file="") for each in (before, after)]
    if others[0] != others[1] or changes.before.ignored != changes.after.ignored:
        return "fleet.yaml"
    then, now = before.suppressions, after.suppressions
    differing = [each for each in (*then, *now) if each not in then or each not in now]
    return shortlist(sorted({each.file or "fleet.yaml" for each in differing}) or ["fleet.yaml"], SOME)


def sentences(changes: Changes) -> dict[str, Any]:
    """Return what the JSON document says in words."""
    return {"headline": headline(changes), "lead": lead(changes), "warnings": warnings(changes)}


def change_text(change: SettingChange) -> str:
    """Return one change: `block_size 16 -> 32`."""
    name = brief(short_name(change.path))
    return f"{name} {setting_text(*change.before)} -> {setting_text(*change.after)}"


def group_text(group: SettingGroup) -> str:
    """Return the share of replicas whose settings changed: `37 of 40 replicas of chat`."""
    before, after = group.pools
    number = len(group.replicas)
    if before != after:
        return f"{count(number, 'replica')} moved from {pool_name(before)} to {pool_name(after)}"
    if after is None:
        return f"{count(number, 'replica')} without a pool"
    of = "All " if number == group.pool_sizes[1] > 1 else f"{number:,} of "
    return f"{of}{count(group.pool_sizes[1], 'replica')} of {pool_name(after)}"


def cohorts_text(group: SettingGroup) -> str:
    """Return the cohorts before and after: `A ×37 -> B ×37`, of one replica `A -> B`; empty outside of pools."""
    is_one = len(group.replicas) == 1
    before, after = (_cohorts(cohorts, is_one=is_one) for cohorts in (group.cohorts_before, group.cohorts_after))
    if before == after:
        return after if any(group.cohorts_after) else ""
    return f"{before} -> {after}"


def restarts_text(group: SettingGroup) -> str:
    number = len(group.replicas)
    if group.restarted == number:
        return "Restarted." if number == 1 else "All restarted."
    silent = f"; no start time from {group.start_unknown:,}" if group.start_unknown else ""
    return f"{group.restarted:,} of {number:,} restarted{silent}."


def missing_text(pool: PoolCapacityChange) -> str:
    """Return what the sums of a pool leave out: replicas without engine data, ranks without an amount."""
    before, after = _missing(pool.before), _missing(pool.after)
    return before if before == after else f"before: {before or 'nothing'}; after: {after or 'nothing'}"


def share_text(pool: PoolCapacityChange) -> str:
    """Return by how much the tokens changed: `−18%`; `unknown` where the sums are not comparable."""
    if pool.share is None:
        return "-" if pool.before.tokens.value is None and pool.after.tokens.value is None else "unknown"
    return percent(pool.share)


def percent(share: float) -> str:
    """Return a share with its sign: `−18%`, `+0.4%`, `0%`."""
    if share == float("inf"):
        return "from 0"
    if round(share * 100, 1) == 0:
        return NO_CHANGE
    places = 0 if abs(share) >= WITH_TENTHS else 1
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:,.{places}f}%"


def rank_text(before: int, after: int, *, is_at_most: bool) -> str:
    """Return the tokens of a rank before and after: `488,000 -> 400,000 tokens`."""
    basis = Basis.ASSUMED if is_at_most else Basis.REPORTED
    return f"{exact(before, basis)} -> {exact(after, basis)} tokens"


def pool_name(pool: str | None) -> str:
    return NO_POOL if pool is None else brief(pool)


def _finding_clause(changes: Changes) -> str:
    found = changes.findings
    new, fixed, spread = len(found.unsuppressed), len(found.fixed), len(found.spread)
    parts = [count(new, "new finding")] if new else []
    parts += [f"{fixed:,} fixed" if parts else f"{count(fixed, 'finding')} fixed"] if fixed else []
    if spread:
        replicas = {replica for each in changes.findings.spread for replica in each.spread}
        number = f"{spread:,}" if parts else count(spread, "finding")
        parts.append(f"{number} spread to {count(len(replicas), 'more replica')}")
    return ", ".join(parts or _other_findings(changes))


def _other_findings(changes: Changes) -> list[str]:
    found = changes.findings
    lost, changed, hidden = len(found.not_evaluated), len(found.changed), len(found.new) - len(found.unsuppressed)
    parts = [f"{count(lost, 'finding')} no longer evaluated"] if lost else []
    parts += [f"{count(changed, 'finding')} changed"] if changed else []
    return parts + ([f"{count(hidden, 'new finding')} suppressed"] if hidden else [])


def _setting_clause(changes: Changes) -> str:
    """Return how many replicas have changed settings, and the change that most of them have."""
    numbers: Counter[SettingChange] = Counter()
    for group in changes.settings.groups:
        for change in group.changes:
            numbers[change] += len(group.replicas)
    if not numbers:
        return ""
    first = min(numbers, key=lambda change: (_preference(change.path), -numbers[change], change))
    others = len({change.path for change in numbers} - {first.path})
    more = f" and {count(others, 'other setting')}" if others else ""
    total = len(changes.settings.replicas)
    on = f" on {numbers[first]:,}" if numbers[first] < total else ""
    return f"{count(total, 'replica')} changed: {change_text(first)}{on}{more}"


def _replica_clause(changes: Changes) -> str:
    replicas = changes.replicas
    numbers = {
        "added": len(replicas.added),
        "removed": len(replicas.removed),
        "restarted": len(replicas.restarted),
        "changed state": sum(each.differs_in("state") for each in replicas.changed),
        "changed pool or name": sum(each.differs_in("pool") or each.differs_in("name") for each in replicas.changed),
    }
    parts = [f"{number:,} {verb}" for verb, number in numbers.items() if number]
    if parts and not changes.settings.groups:  # else the clause before names them
        number, _, verb = parts[0].partition(" ")
        parts[0] = f"{number} {'replica' if number == '1' else 'replicas'} {verb}"
    return joined(parts) if parts else ""


def _rank_clause(changes: Changes) -> str:
    ranks = changes.capacity.ranks
    less = sum(each.after < each.before for each in ranks)
    parts = [f"{number:,} with {kind}" for kind, number in (("less", less), ("more", len(ranks) - less)) if number]
    return f"KV cache of {count(len(ranks), 'rank')} changed: {', '.join(parts)}" if parts else ""


def _missing(amount: PoolCapacity) -> str:
    parts = [count(amount.silent, "replica")] if amount.silent else []
    parts += [f"tokens of {count(amount.unknown, 'rank')}"] if amount.unknown else []
    return ", ".join(parts + ([f"bytes of {count(amount.unsized, 'rank')}"] if amount.unsized else []))


def _cohorts(cohorts: Mapping[str, int], *, is_one: bool) -> str:
    return ", ".join(
        (letter or "no cohort") + ("" if is_one else f" ×{number:,}") for letter, number in cohorts.items()
    )


def _preference(path: str) -> int:
    """Order settings: those that decide prefix sharing first, except for the version, which is last of them."""
    return PREFIX_PATHS.index(path) if path in PREFIX_PATHS[1:] else len(PREFIX_PATHS) + (path != PREFIX_PATHS[0])
