"""Compares the findings of two fleets: new, fixed, persisting, or no longer evaluated."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.models import FindingChanges, OneSidedFinding, OtherSideStatus, PersistingFinding
from dashboard.analysis.changes.replicas import is_read
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Engine, Replica
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Outcome, OutcomeKind
from dashboard.rules.subject import FINGERPRINT

RAN = frozenset({OutcomeKind.FAILED, OutcomeKind.PASSED})
ENGINES, DEVICES = "engines.", "devices."  # prefixes of evidence paths that are no settings, before a field's name


class _Found(NamedTuple):
    """A finding of one side on all its replicas: a suppression splits it in two."""

    finding: Finding
    replicas: frozenset[str]
    suppressed: frozenset[str]
    is_suppressed: bool  # as a whole


class _Look(NamedTuple):
    """One side, with its replicas and outcomes to look up."""

    fleet: Fleet
    replicas: Mapping[str, Replica]
    outcomes: Mapping[tuple[str, str], Outcome]


def finding_changes(before: Fleet, after: Fleet) -> FindingChanges:
    """Compare the findings of two fleets. Findings with equal ids are the same."""
    then, now = _found(before), _found(after)
    look_then, look_now = _look(before), _look(after)
    return FindingChanges(
        new=tuple(_one_sided(each, look_now, look_then) for key, each in now.items() if key not in then),
        gone=tuple(_one_sided(each, look_then, look_now) for key, each in then.items() if key not in now),
        kept=tuple(_persisting(then[key], each, look_then, look_now) for key, each in now.items() if key in then),
    )


def _found(fleet: Fleet) -> Mapping[str, _Found]:
    """Return the findings by id, the worst first, fully suppressed ones last."""
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


def _one_sided(found: _Found, own: _Look, other: _Look) -> OneSidedFinding:
    """Return a finding of one side with the reason why the other does not have it."""
    finding = found.finding
    there = [each for each in found.replicas if each in other.replicas]
    unread = _lost(there, own, other)
    paths = _needed_paths(finding)
    silent = [each for each in there if each not in unread and not _reports(paths, each, own, other)]
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
    """Return the replicas that were read on one side, but not on the other."""
    both = (each for each in replicas if each in other.replicas)
    return [each for each in both if is_read(own.replicas[each]) and not is_read(other.replicas[each])]


def _needed_paths(finding: Finding) -> Iterable[str]:
    """Return the paths that a finding needs. Fingerprints only where the rule needs them."""
    needs_hashes = FINGERPRINT in BY_ID[finding.rule].needs
    return tuple(path for path in finding.paths if path != FINGERPRINT or needs_hashes)


def _reports(paths: Iterable[str], key: str, own: _Look, other: _Look) -> bool:
    """Return whether a replica reports on the other side all of some paths that it reports here."""
    here, there = own.replicas[key], other.replicas[key]
    return all(_has_value(path, there, other.fleet) for path in paths if _has_value(path, here, own.fleet))


def _has_value(path: str, replica: Replica, fleet: Fleet) -> bool:
    """Return whether a replica has a value of a path: a setting, an identity setting, a field of engines or devices."""
    if path == FINGERPRINT:
        return any(_has(engine, "fingerprint") for engine in replica.engines)
    if path.startswith(ENGINES):
        return any(_has(engine, path.removeprefix(ENGINES)) for engine in replica.engines)
    if path.startswith(DEVICES):
        return bool(replica.devices)
    setting = replica.identity.get(path)
    if setting is None and replica.document is not None:
        setting = lookup_setting(fleet.documents[replica.document].settings, path)
    return setting is not None and is_comparable(setting.state)


def _has(engine: Engine, name: str) -> bool:
    return getattr(engine, name, None) is not None


def _persisting(then: _Found, now: _Found, look_then: _Look, look_now: _Look) -> PersistingFinding:
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
