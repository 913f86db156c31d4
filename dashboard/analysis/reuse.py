"""What one poll takes over from the last one: replicas with equal answers, and what equal input gave."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter, is_

from dashboard.capacity.engines import engines_of
from dashboard.fleet import (
    Document,
    Engine,
    EngineReport,
    KVCacheGroup,
    ProbeResult,
    Replica,
    Snapshot,
    with_answers,
)
from dashboard.vllm.canonical import RecentResults
from dashboard.vllm.replica import is_fresh, read_at

_COMPARED = attrgetter("id", "document", "fresh", "role", "labels")
_engines: RecentResults[tuple[Engine, ...]] = RecentResults()


def renewed(before: Replica | None, snapshot: Snapshot, since: datetime, scraped_at: float | None) -> Replica | None:
    """Return the replica of a snapshot with the same answers as the replica of an earlier one, else None.

    What `read_replica`, which has the same arguments, derives from equal answers stays. A later scrape with equal lines
    is no change: `Fleet.scraped_at` has its time.
    """
    if before is None:
        return None
    target, probes = snapshot.target, tuple(snapshot.probes.values())
    has_same_labels = before.labels is target.labels or before.labels == target.labels
    if not has_same_labels or before.target_stale != target.stale:
        return None
    has_same_source = before.same_digest_as == snapshot.same_digest_as
    is_equal = len(probes) == len(before.probes) and all(map(is_, probes, before.probes))
    if is_equal and has_same_source and before.fresh == is_fresh(before.observed_at, since, scraped_at):
        return before
    if not is_equal and not _have_same_answers(probes, before.probes):
        return None
    observed_at = read_at(probes, scraped_at)
    replica = with_answers(before, probes, fresh=is_fresh(observed_at, since, scraped_at), observed_at=observed_at)
    return replica if has_same_source else replace(replica, same_digest_as=snapshot.same_digest_as)


def _have_same_answers(probes: Sequence[ProbeResult], before: Sequence[ProbeResult]) -> bool:
    if len(probes) != len(before):
        return False
    return all(
        now is then
        or (
            (now.reply is then.reply or now.reply == then.reply)
            and (now.failure is then.failure or now.failure == then.failure)
            and now.path == then.path
            and now.source is then.source
        )
        for now, then in zip(probes, before, strict=True)
    )


def shared_engines(
    document: Document, reports: tuple[EngineReport, ...], groups: tuple[KVCacheGroup, ...]
) -> tuple[Engine, ...]:
    """Return the engines of a replica with their capacity: one object for equal input, which many replicas have."""
    bare = tuple(report._replace(fingerprint=None) for report in reports)  # capacity does not depend on it
    engines = _engines.get((document.id, bare, groups), lambda: engines_of(bare, groups, document.settings))
    if bare == reports:
        return engines

    def with_fingerprints() -> tuple[Engine, ...]:
        return tuple(
            engine._replace(fingerprint=report.fingerprint) for engine, report in zip(engines, reports, strict=True)
        )

    return _engines.get((document.id, reports, groups), with_fingerprints)


def is_compared_alike(replicas: Sequence[Replica], before: Sequence[Replica]) -> bool:
    """Return whether all that comparing a pool reads of its replicas is equal. Most restarts change nothing else."""
    return len(replicas) == len(before) and all(
        now is then or (_COMPARED(now) == _COMPARED(then) and len(now.identity) == len(then.identity))
        for now, then in zip(replicas, before, strict=True)
    )


def in_order(replicas: Iterable[Replica], before: Sequence[Replica]) -> tuple[Replica, ...]:
    """Sort replicas by pool and name. In the order of those before, most of them are sorted already."""
    left = {replica.id: replica for replica in replicas}
    earlier = [left.pop(replica.id) for replica in before if replica.id in left]
    ordered = sorted(
        (*earlier, *left.values()), key=lambda each: (each.pool is None, each.pool or "", each.name, each.id)
    )
    return tuple(ordered)
