"""Which findings are new, gone or still there; and whether what is gone was looked at at all."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.finding_nouns import FindingChanges, OneSidedFinding, OtherSideStatus, PersistingFinding
from dashboard.analysis.changes.settings import is_read
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Engine, Replica
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Outcome, OutcomeKind
from dashboard.rules.subject import FINGERPRINT

RAN = frozenset({OutcomeKind.FAILED, OutcomeKind.PASSED})
ENGINES, DEVICES = "engines.", "devices."  # what evidence names beside settings begins so, then a field's name


class _Found(NamedTuple):
    """One finding of one side, its parts together: a suppression may have taken some of its replicas away."""

    finding: Finding
    replicas: frozenset[str]
    suppressed: frozenset[str]
    is_suppressed: bool  # as a whole


class _Look(NamedTuple):
    """One side, to be asked about a replica or a rule."""

    fleet: Fleet
    replicas: Mapping[str, Replica]
    outcomes: Mapping[tuple[str, str], Outcome]


def finding_changes(before: Fleet, after: Fleet) -> FindingChanges:
    """Compare what the rules say of two fleets. Findings are the same by their id."""
    then, now = _found(before), _found(after)
    look_then, look_now = _look(before), _look(after)
    return FindingChanges(
        new=tuple(_lone(each, look_now, look_then) for key, each in now.items() if key not in then),
        gone=tuple(_lone(each, look_then, look_now) for key, each in then.items() if key not in now),
        kept=tuple(_kept(then[key], each, look_then, look_now) for key, each in now.items() if key in then),
    )


def _found(fleet: Fleet) -> Mapping[str, _Found]:
    """Return the findings by id, the worst first, those that are suppressed as a whole after all others."""
    parts: dict[str, list[Finding]] = defaultdict(list)
    for finding in (*fleet.inspection.findings, *fleet.inspection.suppressed):
        parts[finding.id].append(finding)
    return {key: _whole(found) for key, found in parts.items()}


def _whole(parts: Sequence[Finding]) -> _Found:
    return _Found(
        parts[0],
        frozenset(replica for part in parts for replica in part.replicas),
        frozenset(replica for part in parts if part.suppression for replica in part.replicas),
        all(part.suppression for part in parts),
    )


def _look(fleet: Fleet) -> _Look:
    replicas = {replica.id: replica for replica in fleet.replicas}
    return _Look(fleet, replicas, {(each.rule, each.subject): each for each in fleet.inspection.outcomes})


def _lone(found: _Found, own: _Look, other: _Look) -> OneSidedFinding:
    """Say of a finding of one side why the other does not have it."""
    finding = found.finding
    there = [each for each in found.replicas if each in other.replicas]
    unread = _lost(there, own, other)
    paths = _looked_at(finding)
    silent = [each for each in there if each not in unread and not _tells(paths, each, own, other)]
    outcome = other.outcomes.get((finding.rule, finding.subject))
    if found.replicas and not there:
        elsewhere = OtherSideStatus.NOT_THERE
    elif unread or silent or outcome is None or outcome.kind not in RAN:
        elsewhere = OtherSideStatus.NOT_JUDGED
    else:
        elsewhere = OtherSideStatus.JUDGED
    return OneSidedFinding(
        finding=finding,
        is_suppressed=found.is_suppressed,
        elsewhere=elsewhere,
        absent=tuple(sorted(found.replicas.difference(there))),
        unread=tuple(sorted(unread)),
        silent=tuple(sorted(silent)),
        outcome=outcome.kind if outcome else None,
        reason=outcome.reason if outcome else "",
    )


def _lost(replicas: Iterable[str], own: _Look, other: _Look) -> list[str]:
    """Return the replicas that one side has read, and the other has but could not read."""
    both = (each for each in replicas if each in other.replicas)
    return [each for each in both if is_read(own.replicas[each]) and not is_read(other.replicas[each])]


def _looked_at(finding: Finding) -> Iterable[str]:
    """Return the paths without which a finding cannot be judged. Fingerprints are so only where the rule needs them."""
    beside = () if FINGERPRINT in BY_ID[finding.rule].needs else (FINGERPRINT,)
    return tuple(path for path in finding.paths if path not in beside)


def _tells(paths: Iterable[str], key: str, own: _Look, other: _Look) -> bool:
    """Tell whether a replica says on the other side all that it says here of what a finding is about."""
    here, there = own.replicas[key], other.replicas[key]
    return all(_value(path, there, other.fleet) for path in paths if _value(path, here, own.fleet))


def _value(path: str, replica: Replica, fleet: Fleet) -> bool:
    """Tell whether a replica has a value for a path: of a setting, of its identity, of its engines or devices."""
    if path == FINGERPRINT:
        return any(_has(engine, "fingerprint") for engine in replica.engines)
    if path.startswith(ENGINES):
        return any(_has(engine, path.removeprefix(ENGINES)) for engine in replica.engines)
    if path.startswith(DEVICES):
        return bool(replica.devices)
    told = replica.identity.get(path)
    if told is None and replica.document is not None:
        told = lookup_setting(fleet.documents[replica.document].settings, path)
    return told is not None and is_comparable(told.state)


def _has(engine: Engine, name: str) -> bool:
    return getattr(engine, name, None) is not None


def _kept(then: _Found, now: _Found, look_then: _Look, look_now: _Look) -> PersistingFinding:
    ended = now.finding.expired
    joined, left = now.replicas - then.replicas, then.replicas - now.replicas
    unread = {*_lost(joined, look_now, look_then), *_lost(left, look_then, look_now)}
    return PersistingFinding(
        before=then.finding,
        after=now.finding,
        joined=tuple(sorted(joined)),
        left=tuple(sorted(left)),
        unread=tuple(sorted(unread)),
        suppressed_before=tuple(sorted(then.suppressed)),
        suppressed_after=tuple(sorted(now.suppressed)),
        is_suppressed_before=then.is_suppressed,
        is_suppressed_after=now.is_suppressed,
        ended=ended if ended != then.finding.expired else None,
    )
