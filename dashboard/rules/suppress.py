"""Suppressions: which findings somebody answers for, until which day, and which entries match nothing."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from dashboard.models import Replica
    from dashboard.rules.findings import Finding, Suppression


class Sorted(NamedTuple):
    """Findings that stand, findings that are suppressed, and the suppressions that matched none."""

    active: list[Finding]
    suppressed: list[Finding]
    unused: list[Suppression]


def sort_out(
    findings: Iterable[Finding],
    suppressions: Sequence[Suppression],
    today: date,
    replicas: Mapping[str, Replica],
    narrowed: Callable[[Finding, tuple[str, ...]], Finding],
) -> Sorted:
    """Apply suppressions, each in turn, to what the ones before it left.

    A suppression that names some of a finding's replicas takes these away: `narrowed` makes a finding of a part.
    An expired one takes nothing: what it would have taken says so.
    """
    active, suppressed, used = list(findings), [], set()
    for suppression in suppressions:
        left: list[Finding] = []
        for finding in active:
            covered = _covered(finding, suppression, replicas)
            if covered is None:
                left.append(finding)
                continue
            used.add(suppression.number)
            part = finding if covered == finding.replicas else narrowed(finding, covered)
            rest = tuple(each for each in finding.replicas if each not in set(covered))
            if suppression.until < today:
                left.append(replace(part, expired=suppression))
            else:
                suppressed.append(replace(part, suppression=suppression))
            left += [narrowed(finding, rest)] if rest else []
        active = left
    return Sorted(active, suppressed, [each for each in suppressions if each.number not in used])


def _covered(finding: Finding, suppression: Suppression, replicas: Mapping[str, Replica]) -> tuple[str, ...] | None:
    """Return the finding's replicas that a suppression covers; None if it does not match at all."""
    if finding.rule != suppression.rule or finding.expired is not None:
        return None
    if suppression.pool is not None and not any(fnmatchcase(pool, suppression.pool) for pool in finding.pools):
        return None
    if not suppression.replicas and not suppression.labels:
        return finding.replicas
    covered = tuple(each for each in finding.replicas if _names(suppression, replicas[each]))
    return covered or None


def _names(suppression: Suppression, replica: Replica) -> bool:
    """Tell whether a suppression names a replica, by name, id or labels; both where it gives both."""
    named = not suppression.replicas or any(
        fnmatchcase(text, glob) for glob in suppression.replicas for text in (replica.name, replica.id)
    )
    return named and all(replica.labels.get(label) == value for label, value in suppression.labels.items())
