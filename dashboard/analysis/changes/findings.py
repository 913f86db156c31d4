"""Compares the findings of two fleets: new, fixed, persisting, or no longer evaluated."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.models import FindingChanges, OneSidedFinding, OtherSideStatus, PersistingFinding
from dashboard.analysis.changes.replicas import is_read
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.engine import own_values
from dashboard.rules.findings import Finding, OutcomeKind
from dashboard.rules.identity.coverage import REASON
from dashboard.rules.subject import FINGERPRINT

RAN = frozenset({OutcomeKind.FAILED, OutcomeKind.PASSED})
ENGINES, DEVICES = "engines.", "devices."  # prefixes of evidence paths that are no settings, before a field's name


class Extent(NamedTuple):
    """On how many of the replicas of its pools a finding is."""

    replicas: int
    total: int

    def exceeds(self, other: "Extent") -> bool:
        """Return whether these are more replicas and a larger share than another time: a larger pool is no spread."""
        return self.replicas > other.replicas and self.replicas * other.total > other.replicas * self.total


def extent_in(fleet: Fleet, pools: Collection[str], replicas: int) -> Extent:
    """Return the extent of what is on so many replicas of some pools; without pools of the whole fleet."""
    total = sum(len(each.replicas) for each in fleet.pools if each.name in pools) if pools else len(fleet.replicas)
    return Extent(replicas, total)


class _WholeFinding(NamedTuple):
    """A finding of one side on all its replicas: a suppression splits it in two."""

    finding: Finding
    replicas: frozenset[str]
    suppressed: frozenset[str]
    is_suppressed: bool  # as a whole


class _Side:
    """One fleet, with its replicas, outcomes and findings to look up; findings are the worst first."""

    def __init__(self, fleet: Fleet) -> None:
        self._documents = fleet.documents
        self.replicas = {replica.id: replica for replica in fleet.replicas}
        self.outcomes = {(each.rule, each.subject): each for each in fleet.inspection.outcomes}
        parts: dict[str, list[Finding]] = defaultdict(list)
        for finding in (*fleet.inspection.findings, *fleet.inspection.suppressed):
            parts[finding.id].append(finding)
        self.found = {
            key: _WholeFinding(
                same[0],
                frozenset(replica for part in same for replica in part.replicas),
                frozenset(replica for part in same if part.suppression for replica in part.replicas),
                all(part.suppression for part in same),
            )
            for key, same in parts.items()
        }

    def has_value(self, path: str, key: str) -> bool:
        """Return whether a replica has a value of a path: a setting, identity, a field of its engines or devices."""
        replica = self.replicas[key]
        if path.startswith(DEVICES):
            return bool(replica.devices)
        if path == FINGERPRINT or path.startswith(ENGINES):
            name = "fingerprint" if path == FINGERPRINT else path.removeprefix(ENGINES)
            return any(getattr(engine, name, None) is not None for engine in replica.engines)
        setting = replica.identity.get(path)
        if setting is None and replica.document is not None:
            setting = lookup_setting(self._documents[replica.document].settings, path)
        return setting is not None and is_comparable(setting.state)


def finding_changes(before: Fleet, after: Fleet) -> FindingChanges:
    """Compare the findings of two fleets."""
    then, now = _Side(before), _Side(after)
    same = _same_findings(then, now)
    gone = then.found.keys() - same.values()
    return FindingChanges(
        new=tuple(_one_sided(each, now, then) for key, each in now.found.items() if key not in same),
        no_longer_found=tuple(_one_sided(each, then, now) for key, each in then.found.items() if key in gone),
        persisting=tuple(_persisting(same[key], key, then, now) for key in now.found if key in same),
    )


def _same_findings(then: _Side, now: _Side) -> dict[str, str]:
    """Return the ids of findings of both sides: by the later one the earlier one, mostly the same.

    Some ids name replicas: that of a finding on block hashes alone, and that of unread replicas, of which each has its
    reason. The only one alike on the other side is the same finding.
    """
    same = {key: key for key in now.found if key in then.found}
    earlier, later = (_alike(side, same) for side in (then, now))
    return same | {keys[0]: earlier[each][0] for each, keys in later.items() if len(keys) == len(earlier[each]) == 1}


def _alike(side: _Side, same: Collection[str]) -> dict[tuple[str, ...], list[str]]:
    """Return the ids that name replicas by what these findings are about otherwise; not those of both sides."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, each in side.found.items():
        values = own_values(each.finding)
        about = [json.dumps(pair) for pair in values if pair[0] != REASON]
        if key not in same and (not values or len(about) < len(values)):
            found[each.finding.fingerprint, *about].append(key)
    return found


def _one_sided(found: _WholeFinding, own: _Side, other: _Side) -> OneSidedFinding:
    """Return a finding of one side with the reason why the other does not have it."""
    finding = found.finding
    there = found.replicas & other.replicas.keys()
    unread = _unread(there, own, other)
    needs_hashes = FINGERPRINT in BY_ID[finding.rule].needs
    paths = [path for path in finding.paths if path != FINGERPRINT or needs_hashes]
    silent = {
        each
        for each in there - unread
        if any(own.has_value(path, each) and not other.has_value(path, each) for path in paths)
    }
    outcome = other.outcomes.get((finding.rule, finding.subject))
    if found.replicas and not there:
        other_side = OtherSideStatus.NOT_THERE
    elif unread or silent or outcome is None or outcome.kind not in RAN:
        other_side = OtherSideStatus.NOT_EVALUATED
    else:
        other_side = OtherSideStatus.EVALUATED
    return OneSidedFinding(
        finding=finding,
        is_suppressed=found.is_suppressed,
        other_side=other_side,
        absent=tuple(sorted(found.replicas - there)),
        unread=tuple(sorted(unread)),
        silent=tuple(sorted(silent)),
        outcome=outcome.kind if outcome else None,
        reason=outcome.reason if outcome else "",
    )


def _unread(replicas: Iterable[str], own: _Side, other: _Side) -> set[str]:
    """Return the replicas that were read on one side, but not on the other."""
    both = (each for each in replicas if each in other.replicas)
    return {each for each in both if is_read(own.replicas[each]) and not is_read(other.replicas[each])}


def _persisting(earlier: str, key: str, before: _Side, after: _Side) -> PersistingFinding:
    then, now = before.found[earlier], after.found[key]
    joined, left = now.replicas - then.replicas, then.replicas - now.replicas
    ended = now.finding.expired
    return PersistingFinding(
        before=then.finding,
        after=now.finding,
        joined=tuple(sorted(joined)),
        left=tuple(sorted(left)),
        unread=tuple(sorted(_unread(joined, after, before) | _unread(left, before, after))),
        suppressed_before=tuple(sorted(then.suppressed)),
        suppressed_after=tuple(sorted(now.suppressed)),
        is_suppressed_before=then.is_suppressed,
        is_suppressed_after=now.is_suppressed,
        ended=ended if ended != then.finding.expired else None,
    )
