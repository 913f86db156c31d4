"""What happened in a range of time, also what changed and changed back, which its ends do not show."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Gap, SettingChange
from dashboard.fleet.times import end_of_second

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
