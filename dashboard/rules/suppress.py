"""Suppressions: which findings somebody answers for, until which day, and which entries match nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from typing import NamedTuple

from dashboard.fleet import Replica
from dashboard.rules.findings import Finding, Suppression

Narrowed = Callable[[Finding, tuple[str, ...]], Finding]


class Sorted(NamedTuple):
    """Findings that stand, findings that are suppressed, and the suppressions that match none."""

    active: list[Finding]
    suppressed: list[Finding]
    unused: list[Suppression]


def sort_out(
    findings: Iterable[Finding],
    suppressions: Sequence[Suppression],
    today: date,
    replicas: Mapping[str, Replica],
    narrowed: Narrowed,
) -> Sorted:
    """Apply those suppressions that still hold, each in turn, to what the ones before it left.

    One that names some of a finding's replicas takes these away: `narrowed` makes a finding of a part. One that ended
    takes nothing, not even a part, so that every count is as without it: what is left of the finding says that it
    ended, unless another one took over. Unused is what matches no finding, whether it ended or others match as well.
    """
    findings = list(findings)
    live = [each for each in suppressions if each.until >= today]
    ended = sorted((each for each in suppressions if each.until < today), key=lambda each: each.until, reverse=True)
    active, suppressed = [], []
    for finding in findings:
        left, parts = _taken(finding, live, replicas, narrowed)
        suppressed += parts
        active += [_marked(each, ended, replicas) for each in left]
    unused = [each for each in suppressions if not any(_matches(each, finding, replicas) for finding in findings)]
    return Sorted(active, suppressed, unused)


def _taken(
    finding: Finding, live: Iterable[Suppression], replicas: Mapping[str, Replica], narrowed: Narrowed
) -> tuple[list[Finding], list[Finding]]:
    """Return what is left of a finding, if anything, and the parts that suppressions took."""
    parts: list[Finding] = []
    for suppression in live:
        if not _matches(suppression, finding, replicas):
            continue
        covered = _covered(suppression, finding, replicas)
        part = finding if covered == finding.replicas else narrowed(finding, covered)
        parts.append(replace(part, suppression=suppression))
        rest = tuple(each for each in finding.replicas if each not in set(covered))
        if not rest:
            return [], parts
        finding = narrowed(finding, rest)
    return [finding], parts


def _marked(finding: Finding, ended: Iterable[Suppression], replicas: Mapping[str, Replica]) -> Finding:
    """Return a finding that says which suppression of it ended last, if one did."""
    last = next((each for each in ended if _matches(each, finding, replicas)), None)
    return finding if last is None else replace(finding, expired=last)


def _matches(suppression: Suppression, finding: Finding, replicas: Mapping[str, Replica]) -> bool:
    """Tell whether a suppression is about a finding, or about a part of it.

    A finding that names no replica is matched by its rule and pools; never by one that names replicas or labels.
    """
    if finding.rule != suppression.rule:
        return False
    if finding.replicas:
        return bool(_covered(suppression, finding, replicas))
    return not suppression.replicas and not suppression.labels and _any_is(suppression.pool, finding.pools)


def _covered(suppression: Suppression, finding: Finding, replicas: Mapping[str, Replica]) -> tuple[str, ...]:
    """Return the finding's replicas that a suppression covers, in their order."""
    return tuple(each for each in finding.replicas if _names(suppression, replicas[each]))


def _names(suppression: Suppression, replica: Replica) -> bool:
    """Tell whether a suppression names a replica: by pool, by name or id, by labels; by all that it gives."""
    called = (replica.name, replica.id)
    return (
        _any_is(suppression.pool, [replica.pool or ""])
        and (not suppression.replicas or any(_any_is(glob, called) for glob in suppression.replicas))
        and all(replica.labels.get(label) == value for label, value in suppression.labels.items())
    )


def _any_is(glob: str | None, texts: Iterable[str]) -> bool:
    """Tell whether a glob matches any of the texts, or is one of them: brackets of an IPv6 address are no glob."""
    return glob is None or any(text == glob or fnmatchcase(text, glob) for text in texts)
