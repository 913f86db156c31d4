"""How many replicas of a pool share prefixes with its largest set of replicas that all share with each other."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.compare.hashes import CohortHashes, Share, conditions, digests, same_conditions
from dashboard.compare.sharing import SharingVerdict, compare_cohorts
from dashboard.fleet import Replica, ReplicaState
from dashboard.fleet.grouping import grouped

PAIR = 2  # replicas at least: one alone shares with nobody


class SharingCounts(NamedTuple):
    """Replicas that were read lately, by whether they share prefixes with their pool; a second address is not counted.

    `excluded` replicas are alone in their pool, or their router and store do not use prefixes.
    """

    sharing: int = 0
    not_sharing: int = 0
    unknown: int = 0
    excluded: int = 0

    @property
    def counted(self) -> int:
        return self.sharing + self.not_sharing + self.unknown

    @property
    def ratio(self) -> float | None:
        """Return the part of the counted replicas that share, from 0 to 1; None where none is counted."""
        return self.sharing / self.counted if self.counted else None


class _SharingSet(NamedTuple):
    """Replicas with equal hashes in cohorts that share prefixes with each other."""

    digest: str
    cohorts: tuple[CohortHashes, ...]
    replicas: int


_Members = dict[str, dict[str, int]]  # digest -> letter of a cohort -> its replicas with this digest


def sum_counts(counts: Iterable[SharingCounts]) -> SharingCounts:
    return SharingCounts(*map(sum, zip(SharingCounts(), *counts, strict=True)))


def count_sharing(verdict: SharingVerdict, members: Iterable[Replica], *, is_used: bool = True) -> SharingCounts:
    """Count the replicas of a pool. Those that share are the largest set of which every pair shares, proven by hashes.

    The others do not share if that is proven for their hashes or their cohort, else it is unknown. `is_used`: whether a
    router or a store uses shared prefixes.
    """
    answered = (each for each in members if each.state is not ReplicaState.DOWN and each.is_counted)
    counted = sorted(answered, key=lambda each: each.id)  # of two sets of one size always the same is the largest
    if not is_used or len(counted) < PAIR:
        return SharingCounts(excluded=len(counted))
    letters = {key: cohort.letter for cohort in verdict.pool.cohorts for key in cohort.replicas}
    hashes = {each.id: found for each in counted if each.id in letters and (found := digests(each.engines))}
    with_digest: _Members = defaultdict(Counter)
    for key, found in hashes.items():
        if len(found) == 1:  # with several its own ranks do not share
            with_digest[next(iter(found))][letters[key]] += 1
    cohorts = {each.letter: each for each in verdict.cohorts}
    largest = _largest_set(with_digest, cohorts)
    inside = {each.letter for each in largest.cohorts} if largest else set()
    reference = largest.cohorts[0] if largest else verdict.base if verdict.cohorts else None
    states: Counter[Share] = Counter()
    outside: Counter[tuple[str, frozenset[str] | None]] = Counter()
    for each in counted:
        letter, found = letters.get(each.id), hashes.get(each.id)
        if letter is None or reference is None:
            states[Share.UNKNOWN] += 1
        elif largest and found == frozenset({largest.digest}) and letter in inside:
            states[Share.YES] += 1
        else:
            outside[letter, found] += 1
    for (letter, found), number in outside.items():
        states[_share_outside(cohorts[letter], found, reference or cohorts[letter], largest)] += number
    if not largest and states[Share.UNKNOWN] == 1:  # all others do not share with it
        states = Counter({Share.NO: len(counted)})
    return SharingCounts(states[Share.YES], states[Share.NO], states[Share.UNKNOWN])


def _share_outside(
    cohort: CohortHashes, found: frozenset[str] | None, reference: CohortHashes, largest: _SharingSet | None
) -> Share:
    """Return whether a replica outside of the largest set is proven not to share with it: no or unknown.

    `found` are its digests. Without a set it is compared with the reference cohort.
    """
    if found and (len(found) > 1 or (largest and found != frozenset({largest.digest}))):
        return Share.NO
    if found and largest:
        is_proven = same_conditions(cohort, reference).share is Share.NO
    else:
        cell = compare_cohorts(cohort, reference)
        is_proven = cell.share is Share.NO or (cell.share is Share.PARTLY and bool(found))
    return Share.NO if is_proven else Share.UNKNOWN


def _largest_set(members: _Members, cohorts: Mapping[str, CohortHashes]) -> _SharingSet | None:
    """Return the largest set; None without one of two replicas.

    It is a clique, so sharing is never overstated. That no clique is larger is certain where sharing is transitive. It
    nearly is, so this does not search all cliques: a cohort joins the first set whose every cohort it shares with.
    Cohorts that share under equal conditions are one step, as a pool can have a cohort for each replica.
    """
    found: list[_SharingSet] = []
    for digest, numbers in members.items():
        sets: list[_SharingSet] = []
        for group in sorted(_alike(numbers, cohorts), key=lambda each: -each[1]):
            place = next((place for place, known in enumerate(sets) if _shares_with_all(group[0], known)), None)
            if place is None:
                sets.append(_SharingSet(digest, *group))
            else:
                known = sets[place]
                sets[place] = _SharingSet(digest, (*known.cohorts, *group[0]), known.replicas + group[1])
        found += sets
    largest = max(found, key=lambda each: each.replicas, default=None)
    return largest if largest and largest.replicas >= PAIR else None


def _alike(
    numbers: Mapping[str, int], cohorts: Mapping[str, CohortHashes]
) -> list[tuple[tuple[CohortHashes, ...], int]]:
    """Group cohorts by the conditions of sharing, each group with its replicas; groups that share within themselves."""
    groups = grouped((conditions(cohorts[letter]), cohorts[letter]) for letter in numbers)
    return [
        (tuple(own), sum(numbers[each.letter] for each in own))
        for own in groups.values()
        if same_conditions(own[0], own[-1]).share is Share.YES
    ]


def _shares_with_all(group: Sequence[CohortHashes], known: _SharingSet) -> bool:
    """Return whether a group shares with every cohort of a set; of equal conditions one stands for all."""
    others = {conditions(each): each for each in known.cohorts}.values()
    return all(same_conditions(group[0], other).share is Share.YES for other in others)
