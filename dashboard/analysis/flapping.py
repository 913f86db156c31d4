"""Watches polls for what flaps: restarts, values that return, findings that came again; and for rollouts."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.assembly import NO_LIVES, Fleet, by_pool
from dashboard.analysis.lifecycle import later, recurrences, window
from dashboard.analysis.symptoms import SymptomWatch, is_restart
from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Document, JsonText, Replica, Setting
from dashboard.fleet.history import Alternation, RecentEvents, SeenRollout
from dashboard.rules.findings import FindingLives
from dashboard.rules.identity.flapping import ALTERNATES, RECURS, RESTARTS
from dashboard.vllm.versions import build

VERSIONS = 2  # of a pool in a rollout

# Of the values that settings had lately
LONGEST_VALUE = 200  # characters of a value that is kept whole; the captures have at most 266
BEGINNING = 60  # characters of a longer one, with its digest
STEP_BYTES = 150  # of a step without its text: a tuple, its place in another one, and the head of a string
MOST_BYTES = 32 * 2**20  # of all replicas, which have equal parts of it
MOST_REPLICA_BYTES = 2**19  # 1,000 settings that changed three times within the window
MOST_OTHERS = 16  # values in a row that never returned; a setting with one of each poll keeps no more
LEAST_STEPS = 8  # of a setting, before other settings are left out: ID-13 needs five for three returns

ValueStep = tuple[datetime, JsonText]  # the poll at which a setting had another value first, and that value
ValueSteps = Mapping[str, tuple[ValueStep, ...]]  # by path


class _PodStart(NamedTuple):
    """A replica at its last poll with a start time: the pod, the start, and that poll."""

    pod: str
    start: datetime
    at: datetime


class Watch:
    """What the polls of this process saw."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._seen: dict[str, _PodStart] = {}
        self._starts: dict[str, tuple[datetime, ...]] = {}
        self._values = ValueHistory()
        self._versions: dict[str, dict[str, str]] = {}
        self._rollouts: dict[str, SeenRollout] = {}
        self._symptoms = SymptomWatch()

    def resume(self, fleet: Fleet) -> None:
        """Go on after the last fleet of a former process."""
        if fleet.polled_at is not None:
            self.add_poll(fleet, fleet.polled_at)
            self._since = fleet.recent.since or self._since
            self._starts |= fleet.recent.starts
            self._rollouts |= fleet.recent.rollouts
            self._symptoms.resume(fleet, fleet.polled_at)

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
            self._symptoms.add_poll(read, at),
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
            elif is_restart(start, seen.start, seen.at):
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


class ValueHistory:
    """The changed values of each replica. A setting that did not change within the window has none.

    A replica that changes more than its part of the memory allows loses the earliest values of each setting, then
    settings without a return.
    """

    def __init__(self) -> None:
        self._last: dict[str, Document] = {}
        self._steps: dict[str, ValueSteps] = {}

    def forget(self, replica: str) -> None:
        """Drop the values of a replica: another pod has its address."""
        self._last.pop(replica, None)
        self._steps.pop(replica, None)

    def add_poll(self, replicas: Iterable[Replica], documents: Mapping[str, Document], at: datetime) -> None:
        """Add the values that changed since the last poll; others than these replicas are forgotten."""
        known = {each.id: each.document for each in replicas}
        most = min(MOST_REPLICA_BYTES, MOST_BYTES // max(len(known), 1))
        changed: dict[tuple[str, str], frozenset[str]] = {}  # mostly many replicas change in the same way
        last = {key: now for key, name in known.items() if (now := documents.get(name or "", self._last.get(key)))}
        self._steps = {key: its for key, its in self._steps.items() if key in known}
        for key, now in last.items():
            before = self._last.get(key, now)
            if before.id != now.id:
                pair = before.id, now.id
                if pair not in changed:
                    changed[pair] = _changed(before.settings, now.settings)
                its = _with_changes(self._steps.get(key, {}), changed[pair], before, now, at)
                self._steps[key] = _bounded(its, most)
        self._last = last

    def alternations(self, since: datetime) -> Mapping[str, tuple[Alternation, ...]]:
        """Return the settings of each replica that returned to an earlier value after `since`; forget others."""
        self._steps = {key: kept for key, its in self._steps.items() if (kept := _within(its, since))}
        found = {key: tuple(_alternations(its)) for key, its in self._steps.items()}
        return {key: each for key, each in found.items() if each}


def _changed(before: Mapping[str, Setting], now: Mapping[str, Setting]) -> frozenset[str]:
    return frozenset(
        path
        for path in before.keys() & now.keys()
        if before[path] is not now[path]
        and before[path].value != now[path].value
        and is_comparable(before[path].state)
        and is_comparable(now[path].state)
    )


def _with_changes(
    steps: ValueSteps, changed: frozenset[str], before: Document, now: Document, at: datetime
) -> ValueSteps:
    """Return the steps with those of another document. A setting that was not reported in between goes on."""
    found = dict(steps)
    for path in sorted(changed | steps.keys()):
        setting = now.settings.get(path)
        if setting is None or not is_comparable(setting.state):
            continue
        own, value = found.get(path), _kept(setting.value)
        if own is None:  # the time of the first one does not count: the window begins with it
            own = ((at, _kept(before.settings[path].value)),)
        its = own if own[-1][1] == value else (*own, (at, value))
        found[path] = its if _returns(its) else its[-MOST_OTHERS:]
    return found


def _kept(text: JsonText) -> JsonText:
    """Return a value, a long one as its beginning with its digest."""
    if len(text) <= LONGEST_VALUE:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return json.dumps(f"{text[:BEGINNING]}… (SHA-256 {digest})", ensure_ascii=False)


def _bounded(steps: ValueSteps, most: int) -> ValueSteps:
    if sum(map(_bytes, steps.values())) <= most:
        return steps
    length = max(map(len, steps.values()))
    while length > LEAST_STEPS and sum(map(_bytes, steps.values())) > most:
        length = max(length // 2, LEAST_STEPS)
        steps = {path: its[-length:] for path, its in steps.items()}
    found: dict[str, tuple[ValueStep, ...]] = {}
    left = most
    # Those that returned first, then those that change least: values of each poll never return.
    for path, its in sorted(steps.items(), key=lambda each: (not _returns(each[1]), len(each[1]))):
        if (left := left - _bytes(its)) < 0:
            break
        found[path] = its
    return found


def _bytes(steps: Iterable[ValueStep]) -> int:
    return sum(STEP_BYTES + len(value) for _, value in steps)


def _within(steps: ValueSteps, since: datetime) -> ValueSteps:
    """Return the steps of a window with the one that it begins with, of settings that changed in it."""
    if all(its[0][0] > since for its in steps.values()):
        return steps
    late = {path: sum(at > since for at, _ in its) for path, its in steps.items()}
    return {path: its[-late[path] - 1 :] for path, its in steps.items() if late[path]}


def _alternations(steps: ValueSteps) -> Iterator[Alternation]:
    for path, its in sorted(steps.items()):
        if returns := _returns(its):
            yield Alternation(path, returns, tuple(dict.fromkeys(value for _, value in its)))


def _returns(steps: Sequence[ValueStep]) -> int:
    return len(steps) - len({value for _, value in steps})
