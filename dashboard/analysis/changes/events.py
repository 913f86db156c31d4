"""What happened in a range of time, also what changed and changed back, which its ends do not show."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dashboard.fleet import Gap, SettingChange

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
    RULES = "rules"
    GAP = "gap"


class Event(NamedTuple):
    """One change of some replicas of a pool, or of a finding, first seen at a poll.

    `after` is the last poll before, None where it is no longer recorded: the change came between the two. Of a gap it
    is the last poll before, and `at` the first one later. `replicas` are names by id. `before` and `now` are states,
    severities or rule sets, `tokens` those of the KV cache of the replicas. `fingerprint` is that of the finding.
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
    rule: str = ""
    sentence: str = ""
    fingerprint: str = ""
    is_suppressed: bool = False
    is_new_rule_set: bool = False


def gap_event(gap: Gap, until: datetime) -> Event:
    """Return a gap as an event: it lasts at the end of the range, or until a poll."""
    return Event(EventKind.GAP, gap.until or until, gap.since)
