"""Which replicas came, went, restarted or changed their state."""

from collections.abc import Iterable, Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.nouns import ReplicaChanges, Seen, Stayed
from dashboard.fleet import Replica, cohort_letters
from dashboard.fleet.formatting import natural


def pairs(before: Fleet, after: Fleet) -> tuple[tuple[Replica, Replica], ...]:
    """Return the replicas that both sides have, by id; a second address on both sides is the same process once more."""
    earlier = {replica.id: replica for replica in before.replicas}
    both = ((earlier[replica.id], replica) for replica in after.replicas if replica.id in earlier)
    return tuple(pair for pair in both if not all(each.is_second_address for each in pair))


def replica_changes(before: Fleet, after: Fleet) -> ReplicaChanges:
    """Compare the replicas of two fleets, what they are configured with apart."""
    letters_before, letters_after = cohort_letters(before.pools), cohort_letters(after.pools)
    both = (Stayed(seen(then, letters_before), seen(now, letters_after)) for then, now in pairs(before, after))
    return ReplicaChanges(
        came=_only(after, before, letters_after),
        went=_only(before, after, letters_before),
        both=tuple(sorted(both, key=lambda each: _place(each.after))),
    )


def seen(replica: Replica, letters: Mapping[str, str]) -> Seen:
    """Return what is shown of a replica."""
    return Seen(
        replica.id,
        replica.name,
        replica.pool,
        replica.state,
        replica.version,
        replica.started_at,
        letters.get(replica.id, ""),
    )


def _only(one: Fleet, other: Fleet, letters: Mapping[str, str]) -> tuple[Seen, ...]:
    """Return the replicas that the other side does not have, at no address of their process."""
    known = {replica.id for replica in other.replicas}
    lone = (each for each in one.replicas if not each.is_second_address and known.isdisjoint(_addresses(each)))
    return tuple(sorted((seen(each, letters) for each in lone), key=_place))


def _addresses(replica: Replica) -> Iterable[str]:
    return (replica.id, *replica.same_process)


def _place(each: Seen) -> tuple[object, ...]:
    """Sort by pool and name, as people count."""
    return (each.pool is None, each.pool or "", natural(each.name), each.id)
