"""What happened in a range of time, also what changed and changed back; and the part of it that a reader wants."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.parts import only_pool
from dashboard.fleet import Document, Gap, SettingChange
from dashboard.fleet.grouping import grouped
from dashboard.fleet.times import end_of_second
from dashboard.rules.findings import Finding

BETWEEN_POOLS = " + "  # in the subject of a finding on two pools


class EventKind(StrEnum):
    """What happened."""

    ADDED = "added"
    REMOVED = "removed"
    RESTARTED = "restarted"
    SETTINGS = "settings"
    STATE = "state"
    CAPACITY = "capacity"
    FINDING_BEGAN = "finding began"
    FINDING_ENDED = "finding ended"
    SEVERITY = "severity"
    SPREAD = "finding spread"
    RULES = "rules"
    GAP = "gap"


class Event(NamedTuple):
    """One change of some replicas of a pool, or of a finding, first seen at a poll.

    `after` is the last poll before, None where it is no longer recorded: the change came between the two. Of a gap it
    is the last poll before, and `at` the first one later. `replicas` are names by id. `before` and `now` are states,
    severities or rule sets, `tokens` those of the KV cache of the replicas. `fingerprint` is that of the finding,
    `spread` the numbers of its replicas before and now.
    """

    kind: EventKind
    at: datetime
    after: datetime | None
    pools: tuple[str, ...] = ()
    replicas: tuple[tuple[str, str], ...] = ()
    changes: tuple[SettingChange, ...] = ()
    before: str = ""
    now: str = ""
    tokens: tuple[int, int] | None = None
    spread: tuple[int, int] | None = None
    rule: str = ""
    sentence: str = ""
    fingerprint: str = ""
    is_suppressed: bool = False
    is_new_rule_set: bool = False


class EventPeriod(NamedTuple):
    """What happened between two times, gaps between polls among it; the first event first."""

    events: tuple[Event, ...]
    since: datetime
    until: datetime


class ChangeFilter(NamedTuple):
    """What is wanted: a pool, settings whose path has a text, a replica by its id or name; empty for all."""

    pool: str = ""
    path: str = ""
    replica: str = ""


ALL_CHANGES = ChangeFilter()


def range_between(before: Fleet, after: Fleet) -> tuple[datetime, datetime] | None:
    """Return the times of two states of one fleet, the earlier one first; None for two fleets, or without a poll.

    In a gap the time is later than the last poll.
    """
    times = [
        end_of_second(each.past.at) if each.past is not None and each.past.gap else each.polled_at
        for each in (before, after)
    ]
    first, last = sorted(each for each in times if each) if all(times) else (None, None)
    return None if first is None or last is None or before.name != after.name else (first, last)


def gap_event(gap: Gap, until: datetime) -> Event:
    """Return a gap as an event: it lasts at the end of the range, or until a poll."""
    return Event(EventKind.GAP, gap.until or until, gap.since)


def filter_fleet(fleet: Fleet, wanted: ChangeFilter) -> Fleet:
    """Return the wanted part of a fleet, to be compared; a path leaves every replica."""
    if wanted.pool:
        fleet = only_pool(fleet, wanted.pool)
    if wanted.path:
        documents = {key: _only_paths(each, wanted.path) for key, each in fleet.documents.items()}
        fleet = replace(fleet, documents=documents)
    ids = {each.id for each in fleet.replicas if wanted.replica in {each.id, each.name, ""}}
    found, suppressed = (
        tuple(part for each in listed if (part := _part_of(each, wanted, ids)))
        for listed in (fleet.inspection.findings, fleet.inspection.suppressed)
    )
    inspection = replace(fleet.inspection, findings=found, suppressed=suppressed)
    replicas = tuple(each for each in fleet.replicas if each.id in ids)
    return replace(fleet, replicas=replicas, inspection=inspection)


def filter_events(events: Iterable[Event], wanted: ChangeFilter, fleets: Sequence[Fleet]) -> tuple[Event, ...]:
    """Return the wanted events; a gap and another rule set concern every pool, setting and replica.

    A history records neither paths nor replicas of a finding: those are what the finding has in `fleets`. A filter by
    path or replica leaves out what none of them has.
    """
    known = grouped((each.fingerprint, each) for each in _findings_of(fleets))
    ids = {each.id for fleet in fleets for each in fleet.replicas if wanted.replica in {each.id, each.name}}
    return tuple(each for each in events if _is_wanted(each, wanted, known.get(each.fingerprint, []), ids))


def events_of_cluster(events: Iterable[Event], cluster: str) -> tuple[Event, ...]:
    """Return the events of pools of a cluster, by their keys, also of pools that are gone; others concern all."""
    begin = f"{cluster}/"
    return tuple(each for each in events if not each.pools or any(pool.startswith(begin) for pool in each.pools))


def begun_between(events: Iterable[Event], wanted: ChangeFilter, ends: Sequence[Fleet]) -> dict[datetime, set[str]]:
    """Return the findings that a filter has to look up, by fingerprint at the polls at which they began, newest first.

    They began and ended in between: none of the `ends` has them.
    """
    known = {each.fingerprint for each in _findings_of(ends)}
    begun: dict[datetime, set[str]] = defaultdict(set)
    for each in events if wanted.path or wanted.replica else ():
        is_of_pool = not wanted.pool or wanted.pool in each.pools
        if each.kind is EventKind.FINDING_BEGAN and each.fingerprint not in known and is_of_pool:
            begun[each.at].add(each.fingerprint)
    return {at: begun[at] for at in sorted(begun, reverse=True)}


def _findings_of(fleets: Iterable[Fleet]) -> Iterator[Finding]:
    for each in fleets:
        yield from (*each.inspection.findings, *each.inspection.suppressed)


def _only_paths(document: Document, path: str) -> Document:
    return replace(document, settings={name: each for name, each in document.settings.items() if path in name})


def _part_of(finding: Finding, wanted: ChangeFilter, ids: set[str]) -> Finding | None:
    """Return a finding on the wanted replicas only; None where it is on another setting or on none of them."""
    if wanted.path and not any(wanted.path in each for each in finding.paths):
        return None
    if not wanted.replica:
        return finding
    own = tuple(each for each in finding.replicas if each in ids)
    return replace(finding, replicas=own) if own else None


def _is_wanted(event: Event, wanted: ChangeFilter, findings: Iterable[Finding], ids: Collection[str]) -> bool:
    if event.kind in {EventKind.GAP, EventKind.RULES}:
        return True
    paths = [each.path for each in event.changes] + [path for each in findings for path in each.paths]
    names = [text for pair in event.replicas for text in pair]
    is_on_it = wanted.replica in names or any(key in ids for each in findings for key in each.replicas)
    return (
        (not wanted.pool or wanted.pool in event.pools)
        and (not wanted.path or any(wanted.path in path for path in paths))
        and (not wanted.replica or is_on_it)
    )
