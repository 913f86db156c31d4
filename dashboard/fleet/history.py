"""What the history knows of a fleet: since when something is there, and what happened lately, as far as rules use it.

Both are part of a fleet: a saved one is evaluated as it was polled.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeVar

from dashboard.fleet.pools import Document
from dashboard.fleet.replies import JsonText
from dashboard.fleet.traffic import Traffic

T = TypeVar("T")


class Sighting(NamedTuple):
    """The polls at which something was recorded first, and since which it is there without a pause.

    `absent_at` is the last poll before `since`: it came in between. None: nobody looked before, or not with this rule.
    """

    first_seen: datetime
    since: datetime
    absent_at: datetime | None = None

    def is_new_since(self, time: datetime) -> bool:
        """Return whether it came at a time or later: it was looked for before, and was not there."""
        return self.absent_at is not None and self.since >= time


@dataclass(frozen=True, slots=True)
class Sightings:
    """The sightings of what a fleet has; empty without a history."""

    findings: Mapping[str, Sighting] = field(default_factory=dict)  # by fingerprint
    replicas: Mapping[str, Sighting] = field(default_factory=dict)  # by id
    cohorts: Mapping[tuple[str, str], Sighting] = field(default_factory=dict)  # by pool and document
    differences: Mapping[tuple[str, str], Sighting] = field(default_factory=dict)  # by pool and path

    def only(self, known: Collection[str]) -> "Sightings":
        """Return the sightings of these fingerprints, ids and pools."""
        return Sightings(
            _only(known, self.findings),
            _only(known, self.replicas),
            {key: each for key, each in self.cohorts.items() if key[0] in known},
            {key: each for key, each in self.differences.items() if key[0] in known},
        )


def _only(known: Collection[str], by_key: Mapping[str, T]) -> Mapping[str, T]:
    return {key: each for key, each in by_key.items() if key in known}


NO_SIGHTINGS = Sightings()


class Alternation(NamedTuple):
    """A setting of one replica that returned to earlier values: how often, and its distinct values in their order."""

    path: str
    returns: int
    values: tuple[JsonText, ...]


class SeenRollout(NamedTuple):
    """A pool in which one version replaces another, as polls saw it: when it began, and when a replica moved last."""

    old: str
    new: str
    began: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Rollout:
    """One version of a pool replacing another."""

    pool: str
    old: str
    new: str
    replicas: tuple[str, ...]  # those on the new version
    total: int
    began: datetime
    last: datetime


class Recurrence(NamedTuple):
    """A finding that came to one replica several times: its rule, its pools, and when it came, by replica.

    The times of a finding without replicas are under "".
    """

    rule: str
    pools: tuple[str, ...]
    times: Mapping[str, tuple[datetime, ...]]


class Extent(NamedTuple):
    """On how many of the replicas of its pools a finding is."""

    replicas: int
    total: int

    def exceeds(self, other: "Extent") -> bool:
        """Return whether these are more replicas and a larger share than another time: a larger pool is no spread."""
        return self.replicas > other.replicas and self.replicas * other.total > other.replicas * self.total


class UsualTraffic(NamedTuple):
    """The traffic of a pool in its last day, and the settings of the replicas that got most of it; None: not recorded.

    Its seconds are those in which any of its replicas was counted.
    """

    traffic: Traffic
    document: Document | None = None


class Symptom(NamedTuple):
    """What traffic showed of a replica when it began: its `own` rate or number, and that of the `others` of its pool.

    Both are of `seconds`, of one engine where `rank` is its DP rank. `is_past`: the replica restarted since.
    """

    own: float
    others: float
    seconds: float
    began: datetime
    rank: int | None = None
    is_past: bool = False


class TrafficCoverage(NamedTuple):
    """For how many replicas of a pool the counters of the last `window`, in seconds, are enough to compare them.

    They were `counted` for all of it, except the ids in `silent`: `rated` with enough for a hit rate, `busy` with
    enough requests, `external` with enough for a hit rate of a connector. `was_read`: any counter of the fleet was read
    twice. `has_usual`: the hit rate of the pool's last day is known. `is_past`: the fleet is one of the history.
    """

    window: float = 0.0
    was_read: bool = False
    silent: tuple[str, ...] = ()
    counted: int = 0
    rated: int = 0
    busy: int = 0
    external: int = 0
    has_usual: bool = False
    is_past: bool = False


NOTHING_COUNTED = TrafficCoverage()


@dataclass(frozen=True, slots=True)
class RecentEvents:
    """What happened within the windows of the rules that use it.

    `starts` are those of replicas that started more than once while they were polled, `alternations` those of their
    settings, both by id. `rollouts` are by pool, `recurrences` by the finding's fingerprint, `symptoms` by what was
    measured and by replica, or pool. `since` is the first poll that was watched; None: nothing was.
    """

    since: datetime | None = None
    starts: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    alternations: Mapping[str, tuple[Alternation, ...]] = field(default_factory=dict)
    rollouts: Mapping[str, SeenRollout] = field(default_factory=dict)
    recurrences: Mapping[str, Recurrence] = field(default_factory=dict)
    symptoms: Mapping[str, Mapping[str, Symptom]] = field(default_factory=dict)

    def of_pool(self, pool: str, replicas: Collection[str]) -> "RecentEvents":
        """Return what concerns one pool with these replicas, without symptoms.

        A recurrence belongs to the first of its pools.
        """
        if not (self.starts or self.alternations or self.rollouts or self.recurrences or self.symptoms):
            return self
        return RecentEvents(
            self.since,
            _only(replicas, self.starts),
            _only(replicas, self.alternations),
            _only((pool,), self.rollouts),
            {key: each for key, each in self.recurrences.items() if each.pools[:1] == (pool,)},
        )

    def only(self, known: Collection[str]) -> "RecentEvents":
        """Return what concerns these ids, pools and fingerprints."""
        return RecentEvents(
            self.since,
            _only(known, self.starts),
            _only(known, self.alternations),
            _only(known, self.rollouts),
            _only(known, self.recurrences),
            {measure: _only(known, found) for measure, found in self.symptoms.items()},
        )


NOTHING_RECENT = RecentEvents()
