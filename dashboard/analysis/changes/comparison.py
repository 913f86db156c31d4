"""Compares the replicas, the KV cache and the findings of two fleets."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import models
from dashboard.analysis.lifecycle import extent_in
from dashboard.capacity.outliers import TOLERANCE
from dashboard.capacity.sums import capacity_of
from dashboard.compare.cohorts import all_letters, give_letters
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Basis, Engine, Replica, ReplicaState, cohort_letters
from dashboard.fleet.formatting import natural
from dashboard.fleet.grouping import grouped
from dashboard.fleet.times import EPOCH
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.engine import own_values
from dashboard.rules.findings import Finding, OutcomeKind
from dashboard.rules.identity.coverage import REASON
from dashboard.rules.subject import FINGERPRINT

RAN = frozenset({OutcomeKind.FAILED, OutcomeKind.PASSED})
ENGINES, DEVICES = "engines.", "devices."  # prefixes of evidence paths that are no settings, before a field's name


class _Side:
    """One fleet, with its replicas, outcomes and findings to look up.

    Findings are the worst first, each with its parts: a suppression of some replicas splits it in two.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._documents = fleet.documents
        self.replicas = {replica.id: replica for replica in fleet.replicas}
        self.outcomes = {(each.rule, each.subject): each for each in fleet.inspection.outcomes}
        every = (*fleet.inspection.findings, *fleet.inspection.suppressed)
        self.found = grouped((finding.id, finding) for finding in every)

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


def pairs(before: Fleet, after: Fleet) -> tuple[models.ReplicaPair, ...]:
    """Return the replicas of both sides, by id; a second address on both sides is the same process once more."""
    earlier = {replica.id: replica for replica in before.replicas}
    both = (models.ReplicaPair(earlier[replica.id], replica) for replica in after.replicas if replica.id in earlier)
    return tuple(pair for pair in both if not all(each.is_second_address for each in pair))


def is_read(replica: Replica) -> bool:
    return replica.fresh and replica.document is not None and replica.state is not ReplicaState.DOWN


def letters_of_sides(before: Fleet, after: Fleet) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the letters of cohorts on both sides by replica id. One document has one letter, that of the newer data.

    Sides of one history agree on it. A snapshot of another dashboard, or a poll without a history, may not.
    """
    older, newer = sorted((before, after), key=lambda side: side.polled_at or EPOCH)
    known = all_letters(older.letters, newer.letters)
    letters: dict[str, str] = {}
    for pool in older.pools:
        given = give_letters([each.documents for each in pool.cohorts], known.get(pool.name, {}))
        for cohort, letter in zip(pool.cohorts, given, strict=True):
            letters |= dict.fromkeys(cohort.replicas, letter)
    of_newer = cohort_letters(newer.pools)
    return (letters, of_newer) if older is before else (of_newer, letters)


def replica_changes(before: Fleet, after: Fleet) -> models.ReplicaChanges:
    letters_before, letters_after = letters_of_sides(before, after)
    return models.ReplicaChanges(
        added=_only(after, before),
        removed=_only(before, after),
        both=tuple(sorted(pairs(before, after), key=lambda each: _place(each.after))),
        letters_before=letters_before,
        letters_after=letters_after,
    )


def _only(one: Fleet, other: Fleet) -> tuple[Replica, ...]:
    """Return the replicas that the other side has at no address of their process."""
    known = {replica.id for replica in other.replicas}
    found = (
        each for each in one.replicas if not each.is_second_address and known.isdisjoint((each.id, *each.same_process))
    )
    return tuple(sorted(found, key=_place))


def _place(replica: Replica) -> tuple[object, ...]:
    """Return the sort key: pool and natural order of the name."""
    return (replica.pool is None, replica.pool or "", natural(replica.name), replica.id)


def capacity_changes(before: Fleet, after: Fleet) -> models.CapacityChanges:
    """Compare the KV cache of two fleets. Only fresh replicas count, and a process behind two addresses once."""
    then, now = (grouped((replica.pool, replica) for replica in side.replicas) for side in (before, after))
    names = sorted(then.keys() | now.keys(), key=lambda name: (name is None, name or ""))
    compared = incomparable = 0
    changed: list[models.RankChange] = []
    for replica, old, new in _ranks(before, after):
        if (old.basis is Basis.ASSUMED) is not (new.basis is Basis.ASSUMED):
            incomparable += 1
            continue
        compared += 1
        tokens = (old.kv_cache_size_tokens or 0, new.kv_cache_size_tokens or 0)
        if is_beyond(*tokens):
            changed.append(
                models.RankChange(replica.id, new.dp_rank, replica.pool, *tokens, new.basis is Basis.ASSUMED)
            )
    return models.CapacityChanges(
        total=_pool(None, before.replicas, after.replicas),
        pools=tuple(_pool(name, then.get(name, ()), now.get(name, ())) for name in names),
        ranks=tuple(sorted(changed, key=lambda each: (each.pool or "", each.replica, each.dp_rank))),
        compared=compared,
        incomparable=incomparable,
    )


def is_beyond(before: int, after: int) -> bool:
    """Return whether tokens changed by more than the tolerance of the smaller number."""
    return abs(after - before) > TOLERANCE * min(before, after)


def _ranks(before: Fleet, after: Fleet) -> Iterator[tuple[Replica, Engine, Engine]]:
    for then, now in pairs(before, after):
        if then.fresh and now.fresh:
            known = {engine.dp_rank: engine for engine in then.engines if engine.kv_cache_size_tokens is not None}
            for engine in now.engines:
                if engine.dp_rank in known and engine.kv_cache_size_tokens is not None:
                    yield now, known[engine.dp_rank], engine


def _pool(name: str | None, before: Sequence[Replica], after: Sequence[Replica]) -> models.PoolCapacityChange:
    return models.PoolCapacityChange(
        name, capacity_of(before), capacity_of(after), _known_ranks(before) == _known_ranks(after)
    )


def _known_ranks(replicas: Iterable[Replica]) -> set[tuple[str, int]]:
    return {
        (replica.id, engine.dp_rank)
        for replica in replicas
        if replica.is_counted
        for engine in replica.engines
        if engine.kv_cache_size_tokens is not None and engine.sleep_level is None
    }


def finding_changes(before: Fleet, after: Fleet) -> models.FindingChanges:
    then, now = _Side(before), _Side(after)
    same = _same_findings(then, now)
    gone = then.found.keys() - same.values()
    return models.FindingChanges(
        new=tuple(_one_sided(each, now, then) for key, each in now.found.items() if key not in same),
        no_longer_found=tuple(_one_sided(each, then, now) for key, each in then.found.items() if key in gone),
        persisting=tuple(_persisting(same[key], key, then, now) for key in now.found if key in same),
    )


def spread_findings(before: Fleet, after: Fleet) -> set[str]:
    """Return the ids of findings that are on more replicas than before, and on a larger share, outside of rollouts."""
    found = set()
    for each in finding_changes(before, after).persisting:
        pools, there = each.after.pools, len(each.before.replicas)
        extent = extent_in(after, pools, there + len(each.spread) - len(each.left))
        is_rolling = not after.inspection.rollouts.keys().isdisjoint(pools)
        if not is_rolling and extent.exceeds(extent_in(before, pools, there)):
            found.add(each.after.id)
    return found


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
    for key, (finding, *_) in side.found.items():
        values = own_values(finding)
        about = [json.dumps(pair) for pair in values if pair[0] != REASON]
        if key not in same and (not values or len(about) < len(values)):
            found[finding.fingerprint, *about].append(key)
    return found


def _replicas_of(parts: Iterable[Finding]) -> set[str]:
    return {replica for part in parts for replica in part.replicas}


def _suppressed_of(parts: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(sorted(_replicas_of(part for part in parts if part.suppression)))


def _one_sided(parts: Sequence[Finding], own: _Side, other: _Side) -> models.OneSidedFinding:
    """Return a finding of one side with the reason why the other does not have it."""
    finding, replicas = parts[0], _replicas_of(parts)
    there = replicas & other.replicas.keys()
    unread = _unread(there, own, other)
    needs_hashes = FINGERPRINT in BY_ID[finding.rule].needs
    paths = [path for path in finding.paths if path != FINGERPRINT or needs_hashes]
    silent = {
        each
        for each in there - unread
        if any(own.has_value(path, each) and not other.has_value(path, each) for path in paths)
    }
    outcome = other.outcomes.get((finding.rule, finding.subject))
    if replicas and not there:
        other_side = models.OtherSideStatus.NOT_THERE
    elif unread or silent or outcome is None or outcome.kind not in RAN:
        other_side = models.OtherSideStatus.NOT_EVALUATED
    else:
        other_side = models.OtherSideStatus.EVALUATED
    return models.OneSidedFinding(
        finding=finding,
        is_suppressed=all(part.suppression for part in parts),
        other_side=other_side,
        absent=tuple(sorted(replicas - there)),
        unread=tuple(sorted(unread)),
        silent=tuple(sorted(silent)),
        outcome=outcome.kind if outcome else None,
        reason=outcome.reason if outcome else "",
    )


def _unread(replicas: Iterable[str], own: _Side, other: _Side) -> set[str]:
    """Return the replicas that were read on one side, but not on the other."""
    both = (each for each in replicas if each in other.replicas)
    return {each for each in both if is_read(own.replicas[each]) and not is_read(other.replicas[each])}


def _persisting(earlier: str, key: str, before: _Side, after: _Side) -> models.PersistingFinding:
    then, now = before.found[earlier], after.found[key]
    replicas_before, replicas_after = _replicas_of(then), _replicas_of(now)
    joined, left = replicas_after - replicas_before, replicas_before - replicas_after
    ended = now[0].expired
    return models.PersistingFinding(
        before=then[0],
        after=now[0],
        joined=tuple(sorted(joined)),
        left=tuple(sorted(left)),
        unread=tuple(sorted(_unread(joined, after, before) | _unread(left, before, after))),
        suppressed_before=_suppressed_of(then),
        suppressed_after=_suppressed_of(now),
        is_suppressed_before=all(part.suppression for part in then),
        is_suppressed_after=all(part.suppression for part in now),
        ended=ended if ended != then[0].expired else None,
    )
