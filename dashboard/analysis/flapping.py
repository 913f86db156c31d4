"""Watches polls for what flaps: restarts, values that return, findings that came again; and for rollouts."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.assembly import NO_LIVES, Fleet, by_pool
from dashboard.analysis.lifecycle import later, recurrences, window
from dashboard.analysis.value_history import ValueHistory
from dashboard.fleet import Replica
from dashboard.fleet.history import RecentEvents, SeenRollout
from dashboard.rules.findings import FindingLives
from dashboard.rules.identity.flapping import ALTERNATES, RECURS, RESTARTS
from dashboard.vllm.versions import build

VERSIONS = 2  # of a pool in a rollout
# A start counts as a restart if it is later than the last poll that saw the former one, up to this: clocks differ.
CLOCK_DIFFERENCE = timedelta(minutes=1)


class _PodStart(NamedTuple):
    """A replica at its last poll with a start time: the pod, the start, and that poll."""

    pod: str
    start: datetime
    at: datetime


class Watch:
    """What the polls of this process saw."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self._since: datetime | None = None
        self._seen: dict[str, _PodStart] = {}
        self._starts: dict[str, tuple[datetime, ...]] = {}
        self._values = ValueHistory()
        self._versions: dict[str, dict[str, str]] = {}
        self._rollouts: dict[str, SeenRollout] = {}

    def resume(self, fleet: Fleet) -> None:
        """Go on after the last fleet of a former process."""
        if fleet.polled_at is not None:
            self.add_poll(fleet, fleet.polled_at)
            self._since = fleet.recent.since or self._since
            self._starts |= fleet.recent.starts
            self._rollouts |= fleet.recent.rollouts

    def add_poll(self, read: Fleet, at: datetime, lives: FindingLives = NO_LIVES) -> RecentEvents:
        """Take in a fleet of which nothing needs to be derived; return what happened lately, as its rules use it.

        `lives` are those of the findings of the last poll.
        """
        self._since = self._since or at
        starts, values = (at - window(read.policy, rule) for rule in (RESTARTS, ALTERNATES))
        for replica in read.replicas:
            self._add_start(replica, at)
        known = read.by_id.keys()
        self._starts = later({key: times for key, times in self._starts.items() if key in known}, starts)
        self._seen = {key: seen for key, seen in self._seen.items() if key in known or seen.at > starts}
        self._values.add_poll(read.replicas, read.documents, at)
        self._update_rollouts(read, at)
        return RecentEvents(
            self._since,
            {key: its for key, its in self._starts.items() if len(its) > 1},
            self._values.alternations(values),
            dict(self._rollouts),
            recurrences(lives, at - window(read.policy, RECURS)),
        )

    def _add_start(self, replica: Replica, at: datetime) -> None:
        key, pod, start = replica.id, replica.labels.get("pod", ""), replica.started_at
        seen = self._seen.get(key)
        if seen is not None and seen.pod != pod:  # another replica behind the same address
            seen = None
            self._starts.pop(key, None)
            self._values.forget(key)
        if start is not None:
            if seen is None:
                self._starts[key] = ()
            elif start > seen.start and start > seen.at - CLOCK_DIFFERENCE:
                self._starts[key] = (*self._starts.get(key, ()), start)
            self._seen[key] = _PodStart(pod, start, at)

    def _update_rollouts(self, read: Fleet, at: datetime) -> None:
        versions, rollouts = {}, {}
        for pool, replicas in sorted(by_pool(read.replicas).items()):
            before = self._versions.get(pool, {})
            now = versions[pool] = _versions(replicas, before)
            if seen := _rollout(now, before, self._rollouts.get(pool), at):
                rollouts[pool] = seen
        self._versions, self._rollouts = versions, rollouts


def _versions(replicas: Iterable[Replica], before: dict[str, str]) -> dict[str, str]:
    """Return the version of each replica; one that does not answer has that of before."""
    known = {}
    for replica in replicas:
        version = before.get(replica.id) if replica.version is None else replica.version
        if version is not None and build(version) is not None:
            known[replica.id] = version
    return known


def _rollout(now: dict[str, str], before: dict[str, str], seen: SeenRollout | None, at: datetime) -> SeenRollout | None:
    """Return the rollout of a pool: one version joined another. A restart with the same version does not move it."""
    versions, earlier = set(now.values()), set(before.values())
    if len(versions) != VERSIONS:
        return None
    if seen is None or versions != {seen.old, seen.new}:
        if len(earlier) != 1 or not earlier < versions:
            return None
        (old,), (new,) = earlier, versions - earlier
        return SeenRollout(old, new, at, at)
    moved = any(version == seen.new != before.get(key) for key, version in now.items())
    return seen._replace(last=at) if moved else seen
