"""Options for rules in fleet.yaml: domains of pools, changed rules, suppressions, baselines."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from dashboard.fleet import Baseline, Replica
from dashboard.rules.domain import PoolDeclaration
from dashboard.rules.findings import Finding, Severity, Suppression

T = TypeVar("T")
Narrowing = Callable[[Finding, tuple[str, ...]], Finding]


@dataclass(frozen=True, slots=True)
class RuleChange:
    """The changes of one rule in fleet.yaml; None: unchanged."""

    enabled: bool = True
    severity: Severity | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """All options for rules. `pools` is by name or glob, in the order of fleet.yaml; `rules` is by id.

    `file` is the name of fleet.yaml.
    """

    pools: Mapping[str, PoolDeclaration] = field(default_factory=dict)
    rules: Mapping[str, RuleChange] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    file: str = "fleet.yaml"

    def declared(self, pool: str) -> PoolDeclaration:
        return _of_pool(pool, self.pools.items()) or PoolDeclaration()

    def baseline(self, pool: str) -> Baseline | None:
        return _of_pool(pool, [(each.pool, each) for each in self.baselines])


def _of_pool(pool: str, entries: Collection[tuple[str, T]]) -> T | None:
    """Return the entry under a pool's name, else under the first glob that matches it."""
    named = (each for name, each in entries if name == pool)
    matching = (each for glob, each in entries if fnmatchcase(pool, glob))
    return next(chain(named, matching), None)


class SuppressionResult(NamedTuple):
    """Active findings, suppressed findings, and the suppressions that match none."""

    active: list[Finding]
    suppressed: list[Finding]
    unused: list[Suppression]


def suppress(
    findings: Iterable[Finding],
    suppressions: Sequence[Suppression],
    today: date,
    replicas: Mapping[str, Replica],
    narrowed: Narrowing,
) -> SuppressionResult:
    """Apply active suppressions in their order.

    One that covers some of a finding's replicas suppresses these alone: `narrowed` returns a finding of some replicas.
    An expired one suppresses nothing, and is marked on what remains active of its findings.
    """
    findings = list(findings)
    current = [each for each in suppressions if each.until >= today]
    expired = sorted((each for each in suppressions if each.until < today), key=lambda each: each.until, reverse=True)
    active, suppressed = [], []
    for finding in findings:
        left, parts = _split(finding, current, replicas, narrowed)
        suppressed += parts
        if left is not None:
            last = next((each for each in expired if _matches(each, left, replicas)), None)
            active.append(replace(left, expired=last) if last else left)
    unused = [each for each in suppressions if not any(_matches(each, finding, replicas) for finding in findings)]
    return SuppressionResult(active, suppressed, unused)


def _split(
    finding: Finding, suppressions: Iterable[Suppression], replicas: Mapping[str, Replica], narrowed: Narrowing
) -> tuple[Finding | None, list[Finding]]:
    """Return what remains active of a finding, if anything, and its suppressed parts."""
    parts: list[Finding] = []
    for suppression in suppressions:
        if not _matches(suppression, finding, replicas):
            continue
        covered = _covered(suppression, finding, replicas)
        part = finding if covered == finding.replicas else narrowed(finding, covered)
        parts.append(replace(part, suppression=suppression))
        rest = tuple(each for each in finding.replicas if each not in set(covered))
        if not rest:
            return None, parts
        finding = narrowed(finding, rest)
    return finding, parts


def _matches(suppression: Suppression, finding: Finding, replicas: Mapping[str, Replica]) -> bool:
    """Return whether a suppression covers a finding, or some of its replicas.

    A finding without replicas is matched by rule and pools, never by a suppression with replicas or labels.
    """
    if finding.rule != suppression.rule:
        return False
    if finding.replicas:
        return bool(_covered(suppression, finding, replicas))
    return not suppression.replicas and not suppression.labels and matches_any(suppression.pool, finding.pools)


def _covered(suppression: Suppression, finding: Finding, replicas: Mapping[str, Replica]) -> tuple[str, ...]:
    """Return the finding's replicas that a suppression covers, in their order."""
    return tuple(each for each in finding.replicas if _names(suppression, replicas[each]))


def _names(suppression: Suppression, replica: Replica) -> bool:
    """Return whether a suppression covers a replica: all of its pool, names and labels must match."""
    names = (replica.name, replica.id)
    return (
        matches_any(suppression.pool, [replica.pool or ""])
        and (not suppression.replicas or any(matches_any(glob, names) for glob in suppression.replicas))
        and all(replica.labels.get(label) == value for label, value in suppression.labels.items())
    )


def matches_any(glob: str | None, texts: Iterable[str]) -> bool:
    """Return whether a glob matches or equals any of the texts: brackets of an IPv6 address are no glob."""
    return glob is None or any(text == glob or fnmatchcase(text, glob) for text in texts)
