"""Watches polls for what flaps: restarts, values that return, findings that come and go; and for rollouts."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.end_proof import EndProof
from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Document, JsonText, Pool, Replica
from dashboard.fleet.recent import Alternation, Recent, Recurrence, SeenRollout
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding
from dashboard.rules.identity.flapping import ALTERNATES, RECURS, RESTARTS
from dashboard.rules.policy import Policy, RuleChange
from dashboard.vllm.versions import build

VERSIONS = 2  # of a pool in a rollout
ONE_CHANGE = 2  # documents in a row: nothing returned
# A start counts as a restart if it is later than the last poll that saw the former one, up to this: clocks differ.
CLOCK_DIFFERENCE = timedelta(minutes=1)
Step = tuple[datetime, str]  # the poll at which a replica had another document first, and its id


class _Seen(NamedTuple):
    """A replica at its last poll with a start time: the pod, the start, and that poll."""

    pod: str
    start: datetime
    at: datetime


class Watch:
    """What the polls of this process saw. Feed it each fleet; it returns what rules of the next inspection use."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self._since: datetime | None = None
        self._seen: dict[str, _Seen] = {}
        self._starts: dict[str, tuple[datetime, ...]] = {}
        self._steps: dict[str, tuple[Step, ...]] = {}
        self._documents: dict[str, Document] = {}
        self._versions: dict[str, dict[str, str]] = {}
        self._rollouts: dict[str, SeenRollout] = {}
        self._present: Mapping[str, Finding] | None = None  # by fingerprint
        self._recurrences: dict[str, Recurrence] = {}

    def resume(self, fleet: Fleet) -> None:
        """Go on after the last fleet of a former process."""
        if fleet.polled_at is not None:
            self.observe(fleet, fleet.polled_at)
            self.observe_findings(fleet)
            self._since = fleet.recent.since or self._since
            self._starts |= fleet.recent.starts
            self._rollouts |= fleet.recent.rollouts
            self._recurrences |= fleet.recent.recurrences

    def observe(self, fleet: Fleet, at: datetime) -> Recent:
        """Return what happened lately, with a fleet of which nothing is inspected yet."""
        self._since = self._since or at
        starts, steps = (at - window(fleet.policy, rule) for rule in (RESTARTS, ALTERNATES))
        for each in fleet.replicas:
            self._observe_replica(each, at)
        known = {each.id for each in fleet.replicas}
        self._starts = {
            key: kept for key, its in self._starts.items() if key in known and (kept := _after(its, starts))
        }
        self._steps = {  # nearly all replicas have one
            key: its if len(its) == 1 else _steps_after(its, steps) for key, its in self._steps.items() if key in known
        }
        self._documents |= fleet.documents
        used = {document for its in self._steps.values() for _, document in its}
        self._documents = {key: each for key, each in self._documents.items() if key in used}
        self._observe_rollouts(fleet, at)
        since = at - window(fleet.policy, RECURS)
        self._recurrences = {
            key: each._replace(came=kept)
            for key, each in self._recurrences.items()
            if (kept := _after(each.came, since))
        }
        return Recent(
            self._since,
            {key: its for key, its in self._starts.items() if len(its) > 1},
            {key: found for key, its in self._steps.items() if (found := self._alternations(its))},
            dict(self._rollouts),
            {key: each for key, each in self._recurrences.items() if len(each.came) > 1},
        )

    def observe_findings(self, fleet: Fleet) -> None:
        """Take note of findings that were not there at the last poll; one that a poll cannot see is still there."""
        findings = {each.fingerprint: each for each in fleet.inspection.findings if each.rule != RECURS}
        present, before = dict(findings), self._present
        if before is not None and fleet.polled_at is not None:
            for key in findings.keys() - before.keys():
                found, known = findings[key], self._recurrences.get(key)
                came = (*(known.came if known else ()), fleet.polled_at)
                self._recurrences[key] = Recurrence(found.rule, found.pools, found.replicas, came)
            proof = EndProof(fleet)
            for key in before.keys() - findings.keys():
                if not proof.covers(before[key].rule, before[key].pools, before[key].replicas):
                    present[key] = before[key]
        self._present = present

    def _observe_replica(self, replica: Replica, at: datetime) -> None:
        key, pod, start = replica.id, replica.labels.get("pod", ""), replica.started_at
        seen = self._seen.get(key)
        if seen is not None and seen.pod != pod:  # another replica behind the same address
            seen = None
            self._starts.pop(key, None)
            self._steps.pop(key, None)
        if start is not None:
            if seen is None:
                self._starts[key] = ()
            elif start > seen.start and start > seen.at - CLOCK_DIFFERENCE:
                self._starts[key] = (*self._starts.get(key, ()), start)
            self._seen[key] = _Seen(pod, start, at)
        steps = self._steps.get(key, ())
        if replica.document is not None and (not steps or steps[-1][1] != replica.document):
            self._steps[key] = (*steps, (at, replica.document))

    def _alternations(self, steps: Sequence[Step]) -> tuple[Alternation, ...]:
        """Return the settings that returned to an earlier value in a row of documents."""
        if len(steps) <= ONE_CHANGE:
            return ()
        documents = [self._documents[key].settings for _, key in steps]
        first, *others = documents
        changed = {
            path
            for one in others
            for path in one.keys() & first.keys()
            if one[path] is not first[path] and one[path] != first[path]
        }
        found = []
        for path in sorted(changed):
            reported = [one[path].value for one in documents if path in one and is_comparable(one[path].state)]
            values = _without_repeats(reported)
            returns = len(values) - len(set(values))
            if returns:
                found.append(Alternation(path, returns, tuple(dict.fromkeys(values))))
        return tuple(found)

    def _observe_rollouts(self, fleet: Fleet, at: datetime) -> None:
        replicas = {each.id: each for each in fleet.replicas}
        versions, rollouts = {}, {}
        for pool in fleet.pools:
            before = self._versions.get(pool.name, {})
            now = versions[pool.name] = _versions(pool, replicas, before)
            if seen := _rollout(now, before, self._rollouts.get(pool.name), at):
                rollouts[pool.name] = seen
        self._versions, self._rollouts = versions, rollouts


def window(policy: Policy, rule: str) -> timedelta:
    """Return the option `minutes` of a rule."""
    change = policy.rules.get(rule, RuleChange())
    return timedelta(minutes={**BY_ID[rule].parameters, **change.parameters}["minutes"])


def _versions(pool: Pool, replicas: dict[str, Replica], before: dict[str, str]) -> dict[str, str]:
    """Return the version of each replica; one that does not answer has that of before."""
    known = {}
    for key in pool.replicas:
        version = replicas[key].version
        if version is None:
            version = before.get(key)
        if version is not None and build(version) is not None:
            known[key] = version
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


def _after(times: Iterable[datetime], since: datetime) -> tuple[datetime, ...]:
    return tuple(each for each in times if each > since)


def _steps_after(steps: Sequence[Step], since: datetime) -> tuple[Step, ...]:
    """Return the steps of a window, and the one that it begins with."""
    late = tuple(each for each in steps if each[0] > since)
    return (*steps[: len(steps) - len(late)][-1:], *late)


def _without_repeats(values: Iterable[JsonText]) -> list[JsonText]:
    found: list[JsonText] = []
    for each in values:
        if not found or found[-1] != each:
            found.append(each)
    return found
