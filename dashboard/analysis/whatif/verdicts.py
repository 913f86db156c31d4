"""Findings before and after: what would go, what would come, and what is known only after the restart."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif.nouns import Verdicts
from dashboard.analysis.whatif.target import told_of
from dashboard.fleet import Replica
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Evidence, Finding
from dashboard.rules.identity.id_08_version import vllm_version_differs
from dashboard.rules.subject import FINGERPRINT

ADAPTERS = "adapters"
# What evidence names beside settings, by how its path begins: what a running engine measured or loaded ends with it.
MEASURED = ("engines.", "kv_cache_groups", ADAPTERS)
# What the operator or the machine decides stays.
STAYING = ("devices", "replicas.")
ROUTE = "/"  # a route that answered: whether it does follows from settings, where these are told


def verdicts(before: Fleet, after: Fleet, pool: str, restarted: Collection[str]) -> Verdicts:
    """Compare the findings of a fleet before and after some replicas of a pool restarted.

    A finding is gone only where everything that it rested on is known afterwards: one that cannot be judged any more
    is open. What is suppressed, before or after, neither comes nor goes.
    """
    told = _Told(before, after, frozenset(restarted))
    now, then = before.inspection, after.inspection
    known_before = {each.id for each in (*now.findings, *now.suppressed)}
    known_after = {each.id for each in (*then.findings, *then.suppressed)}
    lost = [each for each in now.findings if each.id not in known_after]
    new = [each for each in then.findings if each.id not in known_before]
    both = _pairs(now.findings, then.findings)
    restated = list(_restated(lost, new))
    said_before, said_after = ({side[place].id for side in restated} for place in (0, 1))
    lost = [each for each in lost if each.id not in said_before]
    is_open = {each.id: told.is_open(each) for each in lost}
    spread = tuple((one, other) for one, other in both if _reaches_more(one, other))
    eased = tuple((one, other) for one, other in (*both, *restated) if told.is_eased(one, other))
    moved = {one.id for one, _ in (*spread, *eased)}
    return Verdicts(
        gone=tuple(each for each in lost if not is_open[each.id]),
        came=tuple(each for each in new if each.id not in said_after),
        spread=spread,
        eased=eased,
        open=tuple(each for each in lost if is_open[each.id]),
        stay=sum(pool in one.pools and one.id not in moved for one, _ in (*both, *restated)),
    )


def without_rollout(told: Verdicts) -> Verdicts:
    """Leave out of what goes that a rollout is in progress: to go back on one is no gain."""
    return replace(told, gone=tuple(each for each in told.gone if each.rule != vllm_version_differs.id))


def _restated(lost: Iterable[Finding], new: Iterable[Finding]) -> Iterator[tuple[Finding, Finding]]:
    """Yield what is the same finding in other words: less is known, on the same replicas or some of them."""
    left = list(new)
    for one in lost:
        same = (each for each in left if _is_restated(one, each))
        if (other := next(same, None)) is not None:
            left.remove(other)
            yield one, other


def _is_restated(one: Finding, other: Finding) -> bool:
    rows = [{(each.path, each.value) for each in side.evidence if not each.is_reference} for side in (one, other)]
    is_same_rule = (one.rule, one.subject) == (other.rule, other.subject)
    return is_same_rule and set(other.replicas) <= set(one.replicas) and not rows[0].isdisjoint(rows[1])


def _pairs(before: tuple[Finding, ...], after: tuple[Finding, ...]) -> list[tuple[Finding, Finding]]:
    """Put the same findings together, in the order of before; parts of one finding in theirs."""
    by_id: dict[str, list[Finding]] = defaultdict(list)
    for each in after:
        by_id[each.id].append(each)
    found = ((each, by_id[each.id].pop(0)) for each in before if by_id[each.id])
    return list(found)


def _reaches_more(one: Finding, other: Finding) -> bool:
    return not set(other.replicas) <= set(one.replicas)


class _Told:
    """What replicas that restart tell before and after."""

    def __init__(self, before: Fleet, after: Fleet, restarted: frozenset[str]) -> None:
        self._before = {each.id: each for each in before.replicas if each.id in restarted}
        self._after = {each.id: each for each in after.replicas if each.id in restarted}
        self._documents = after.documents

    def is_open(self, finding: Finding) -> bool:
        """Tell whether a finding rests on something that is not known after the restart."""
        return any(self._is_lost(replica, rows) for replica, rows in self._rows(finding).items())

    def is_eased(self, one: Finding, other: Finding) -> bool:
        """Tell whether a finding is known to be no longer about some of its replicas."""
        rows = self._rows(one)
        left = set(one.replicas) - set(other.replicas)
        return bool(left) and not any(self._is_lost(each, rows[each]) for each in left & rows.keys())

    def _rows(self, finding: Finding) -> Mapping[str, list[str]]:
        """Return which paths a finding rests on, per replica that restarts.

        Fingerprints only where the rule needs them: to others they are evidence beside the settings.
        """
        needs = BY_ID[finding.rule].needs
        rows: dict[str, list[str]] = defaultdict(list)
        for each in finding.evidence:
            if each.path != FINGERPRINT or FINGERPRINT in needs:
                for replica in self._concerned(each):
                    rows[replica].append(each.path)
        return rows

    def _concerned(self, row: Evidence) -> Iterator[str]:
        return (replica for replica in row.replicas if replica in self._before)

    def _is_lost(self, replica: str, paths: list[str]) -> bool:
        contradicted = {each.path for each in self._before[replica].contradictions}
        if not contradicted.isdisjoint(paths):
            return True
        routes = [path for path in paths if path.startswith(ROUTE)]
        others = [path for path in paths if not path.startswith(ROUTE)]
        return any(not self._tells(self._after[replica], path) for path in others) or (bool(routes) and not others)

    def _tells(self, replica: Replica, path: str) -> bool:
        """Tell whether a replica tells a path after the restart: a setting, or what else evidence can name."""
        if path == FINGERPRINT or path.startswith(MEASURED):
            return path.startswith(MEASURED[0]) and not self._is_changed(replica)
        is_kept = path.startswith(STAYING) or path in replica.identity
        return is_kept or told_of(self._documents[str(replica.document)].settings, path) is not None

    def _is_changed(self, replica: Replica) -> bool:
        """Tell whether what a replica's engines hold may change."""
        before = self._before[replica.id].engines
        tokens = [engine.kv_cache_size_tokens for engine in replica.engines]
        return tokens != [engine.kv_cache_size_tokens for engine in before] or any(
            one.basis is not other.basis for one, other in zip(before, replica.engines, strict=True)
        )
