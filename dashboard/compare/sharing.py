"""The verdict on prefix sharing: which cohorts of a pool share prefixes, measured by block hashes or from settings.

One cell of it is whether two cohorts share them, the replicas of one, or the engines of a replica.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from dashboard.compare import prefix
from dashboard.compare.encoding import is_comparable
from dashboard.compare.hashes import (
    CohortHashes,
    Share,
    SharingCause,
    SharingCell,
    cohort_hashes,
    lacks,
    same_conditions,
)
from dashboard.compare.holders import document_values
from dashboard.fleet import Document, Pool, Replica
from dashboard.fleet.grouping import grouped
from dashboard.vllm.canonical import FILLED_IN_LATER
from dashboard.vllm.lookahead import LOOKAHEAD
from dashboard.vllm.versions import EARLIEST, is_unsupported

MOST_COHORTS = 12  # a matrix of more cannot be read, and its cells grow with their square
MEASURABLE = 2  # engines at least: one engine alone measures nothing

# What decides the verdict without block hashes, in the order of its conditions. The inputs of a block's hash, and the
# settings that decide where a block ends (vllm/config/cache.py, vllm/v1/core/kv_cache_utils.py); the lookahead is
# derived for most documents.
HASH_PATHS = (prefix.CACHING_PATH, prefix.ALGORITHM_PATH, *prefix.LENGTH_PATHS, LOOKAHEAD)
# Of these, the inputs of canonical digests: caching is on where there are any, and they do not depend on block lengths.
CANONICAL_PATHS = tuple(path for path in HASH_PATHS if path not in {prefix.CACHING_PATH, *prefix.LENGTH_PATHS})
SHARING_PATHS = (prefix.VERSION_PATH, *HASH_PATHS)  # the version, because both change between releases
DECIDING_PATHS = (*SHARING_PATHS, *prefix.SEED_PATHS)


@dataclass(frozen=True, slots=True)
class SharingVerdict:
    """Whether the replicas of a pool share prefixes, with the cohorts that decide it.

    `known` has a cell of every pair of cohorts, each with itself and with those after it; of more than `MOST_COHORTS`
    each with itself, its neighbours, the first and the base. `share` is the weakest cell. `split` are the cohorts whose
    own replicas do not all share prefixes, caching being on. `unread` replicas are in no cohort. `incomplete` replicas
    do not report all settings that others report.
    """

    pool: Pool
    cohorts: tuple[CohortHashes, ...]
    unread: int
    incomplete: int
    known: Mapping[tuple[str, str], SharingCell]
    share: Share
    split: tuple[str, ...]

    @property
    def cells(self) -> tuple[SharingCell, ...]:
        """Every cohort with itself and with those after it; none where there are more than `MOST_COHORTS`."""
        return tuple(self.known.values()) if len(self.cohorts) <= MOST_COHORTS else ()

    def cell(self, one: CohortHashes, other: CohortHashes) -> SharingCell:
        return self.known.get((one.letter, other.letter)) or self.known[other.letter, one.letter]

    def renamed(self, names: Mapping[str, str]) -> "SharingVerdict":
        """Return the verdict with names in place of the cohorts' letters."""
        cells = {
            (names[one], names[other]): cell._replace(one=names[one], other=names[other])
            for (one, other), cell in self.known.items()
        }
        cohorts = tuple(replace(each, letter=names[each.letter]) for each in self.cohorts)
        return replace(self, cohorts=cohorts, known=cells, split=tuple(names[letter] for letter in self.split))

    @property
    def is_off(self) -> bool:
        return bool(self.cohorts) and all(each.is_off and not each.digests for each in self.cohorts)

    @property
    def is_certain(self) -> bool:
        """Whether it is certain that not all replicas share prefixes, caching being on."""
        return self.share is Share.NO and not self.is_off

    @property
    def is_split(self) -> bool:
        """Whether not all replicas share prefixes, or only their versions differ, which may or may not matter."""
        return self.is_certain or (self.is_unknown and bool(self.other_versions))

    @property
    def is_unknown(self) -> bool:
        """Whether sharing is unknown, caching being on."""
        return self.share is Share.UNKNOWN and not self.is_off

    @property
    def is_measured(self) -> bool:
        """Whether block hashes decide any of it: of two engines, or of one next to one that hashes nothing."""
        several = sum(each.engines for each in self.cohorts) >= MEASURABLE
        return several or any(each.digests and each.off for each in self.cohorts)

    @property
    def is_doubted(self) -> bool:
        """Whether sharing is unknown and unlikely: engines probably use random seeds."""
        is_several = sum(each.replicas for each in self.cohorts) > 1
        return self.is_unknown and is_several and any(each.is_maybe_random for each in self.cohorts)

    @property
    def not_known(self) -> int:
        """How many replicas do not report all that decides it: hashes where they are measured, else settings."""
        is_measurable = sum(each.engines + each.off for each in self.cohorts) >= MEASURABLE
        if is_measurable and not self.is_off:
            return self.silent
        if not self.is_unknown:
            return self.incomplete
        doubted = sum(each.replicas for each in self.cohorts if each.is_maybe_random) if self.is_doubted else 0
        return max(self.silent, self.incomplete, doubted if not self.is_split else 0)

    @property
    def other_versions(self) -> tuple[CohortHashes, ...]:
        """The cohorts with a different vLLM version than the first that reports one, where hashes do not settle it."""
        known = [each for each in self.cohorts if prefix.VERSION_PATH in each.values]
        return tuple(
            each
            for each in known[1:]
            if each.values[prefix.VERSION_PATH] != known[0].values[prefix.VERSION_PATH]
            and not (each.is_reporting and known[0].is_reporting)
        )

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Cohorts with equal hashes on all their engines; a cohort with silent replicas is in none."""
        silent = {each.letter for each in self.cohorts if each.silent}
        whole = (tuple(each.letter for each in group if each.letter not in silent) for group in self.classes)
        return tuple(filter(None, whole))

    @property
    def classes(self) -> tuple[tuple[CohortHashes, ...], ...]:
        """Cohorts with equal hashes on all engines that report them; a cohort with several hashes is in none."""
        measured = (each for each in self.cohorts if each.ways == 1 and each.digests)
        alike = grouped((next(iter(each.digests)), each) for each in measured)
        return tuple(map(tuple, alike.values()))

    @property
    def base(self) -> CohortHashes:
        """The cohort that others are compared with: the first that some replicas share hashes in, else the largest."""
        measured = (each for each in self.cohorts if each.digests and not (each.ways > 1 and each.is_each_alone))
        return next(measured, self.cohorts[0]) if self.is_measured else self.cohorts[0]

    @property
    def ways(self) -> int:
        """How many distinct hashes the engines of the pool report."""
        return len(set().union(*(each.digests for each in self.cohorts))) + sum(each.off for each in self.cohorts)

    @property
    def silent(self) -> int:
        return self.unread + sum(each.silent for each in self.cohorts)


def sharing_verdict(pool: Pool, replicas: Mapping[str, Replica], documents: Mapping[str, Document]) -> SharingVerdict:
    """Return the verdict on a pool. `replicas` and `documents` are by id, the pool's or more."""
    paths = (*DECIDING_PATHS, *prefix.WEIGHTS_PATHS, prefix.CONNECTOR_PATH, EARLIEST)
    compared = [path for path in paths if path not in pool.ignored]
    cohorts = tuple(
        cohort_hashes(cohort, replicas, prefix.known_values(cohort.settings, compared)) for cohort in pool.cohorts
    )
    unread = len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts)
    incomplete = unread + _count_incomplete(pool, documents)
    verdict = SharingVerdict(pool, cohorts, unread, incomplete, {}, Share.UNKNOWN, ())
    alone = {(each.letter, each.letter): compare_cohorts(each, each) for each in cohorts}
    others = (
        combinations(cohorts, 2) if len(cohorts) <= MOST_COHORTS else (*pairwise(cohorts), *_with(cohorts[0], cohorts))
    )
    known = alone | {(one.letter, other.letter): compare_cohorts(one, other) for one, other in others}
    found = {cell.share for cell in known.values()}
    if len(cohorts) > MOST_COHORTS:
        known |= {
            (one.letter, other.letter): compare_cohorts(one, other) for one, other in _with(verdict.base, cohorts)
        }
    if found & {Share.NO, Share.PARTLY} or verdict.ways > 1:
        share = Share.NO
    else:
        share = Share.YES if found == {Share.YES} and not unread else Share.UNKNOWN
    split = [
        cell.one
        for cell, cohort in zip(alone.values(), cohorts, strict=True)
        if cohort.replicas and cell.share in {Share.NO, Share.PARTLY} and cell.cause is not SharingCause.CACHING_OFF
    ]
    return replace(verdict, known=known, share=share, split=tuple(split))


def _with(one: CohortHashes, cohorts: Iterable[CohortHashes]) -> list[tuple[CohortHashes, CohortHashes]]:
    return [(one, each) for each in cohorts if each is not one]


def _count_incomplete(pool: Pool, documents: Mapping[str, Document]) -> int:
    """Count the replicas that lack a setting that others report and that their version has."""
    lacking: set[str] = set()
    for path in SHARING_PATHS:
        values = zip(pool.documents, document_values(pool, documents, path), strict=True)
        missing = [key for key, value in values if value is None or not is_comparable(value.state)]
        if path not in pool.ignored and len(missing) < len(pool.documents):
            lacking |= {key for key in missing if not is_unsupported(documents[key].version, path)}
    return sum(key in lacking for each in pool.cohorts for key in each.documents_by_replica.values())


def unreported_settings(verdict: SharingVerdict) -> tuple[str, ...]:
    """Return the settings that decide sharing and that no replica reports, though a version has them."""
    wanted = [path for path in SHARING_PATHS if path not in {*verdict.pool.ignored, *FILLED_IN_LATER}]
    silent = [path for path in wanted if not any(path in each.values for each in verdict.cohorts)]
    return tuple(path for path in silent if any(lacks(each, path) for each in verdict.cohorts))


def compare_cohorts(one: CohortHashes, other: CohortHashes) -> SharingCell:
    """Compare two cohorts, the replicas of one cohort, or the engines of one replica.

    Silent replicas count as those that report only where these differ.
    """
    is_same = one is other
    both = (one,) if is_same else (one, other)
    silent = sum(each.silent for each in both)
    is_alone = is_same and bool(silent) and one.engines + one.off < MEASURABLE
    if is_alone or not all(each.is_reporting for each in both):
        return _derived(one, other, silent)
    shared = one.digests.keys() & other.digests.keys()
    ways = len(one.digests.keys() | other.digests.keys()) + sum(each.off for each in both)
    if shared and ways == 1:
        return _equal_hashes(one, other, silent)
    why: tuple[SharingCause, tuple[str, ...]] = SharingCause.VARIANTS, ()
    if is_same:
        share, why = Share.NO if one.is_each_alone else Share.PARTLY, (_split_cause(one), ())
    elif shared:
        share = Share.PARTLY
    else:
        share, why = Share.NO, _cause_of_other_hashes(one, other)
    is_measured = why[0] is not SharingCause.CACHING_OFF
    return SharingCell(one.letter, other.letter, share, *why, is_measured, ways=ways, silent=silent)


def differing_settings(cohorts: Iterable[CohortHashes]) -> tuple[str, ...]:
    """Return the settings that decide hashes and differ between cohorts, although their hashes are equal."""
    first, *others = cohorts
    found = {path for each in others for path in prefix.differing_paths(first.values, each.values, DECIDING_PATHS)}
    return tuple(path for path in DECIDING_PATHS if path in found)


def _equal_hashes(one: CohortHashes, other: CohortHashes, silent: int) -> SharingCell:
    """Compare two cohorts with equal hashes: they share if weights and blocks are the same too."""
    cell = same_conditions(one, other)._replace(ways=1, silent=silent)
    if silent and cell.share is not Share.NO:
        return cell._replace(share=Share.UNKNOWN, cause=SharingCause.SOME_SILENT, paths=())
    if cell.share is Share.YES:
        return cell._replace(paths=differing_settings([one, other]), is_measured=True)
    return cell


def _derived(one: CohortHashes, other: CohortHashes, silent: int) -> SharingCell:
    """Compare two cohorts by their settings, where block hashes are not reported: take the first cause that applies."""
    is_pair = one is not other or one.replicas > 1
    settings = prefix.differing_paths(one.values, other.values, HASH_PATHS)
    condition = same_conditions(one, other)
    versions = prefix.differing_paths(one.values, other.values, [prefix.VERSION_PATH])
    causes: tuple[tuple[bool, Share, SharingCause, tuple[str, ...]], ...] = (
        (one.is_off or other.is_off, Share.NO, SharingCause.CACHING_OFF, ()),
        (is_pair and (one.is_random or other.is_random), Share.NO, SharingCause.RANDOM_SEED, ()),
        (bool(settings), Share.NO, SharingCause.SETTINGS, settings),
        (condition.share is Share.NO, Share.NO, condition.cause, condition.paths),
        (is_pair and (one.is_maybe_random or other.is_maybe_random), Share.UNKNOWN, SharingCause.MAYBE_RANDOM, ()),
        (bool(versions), Share.UNKNOWN, SharingCause.VERSIONS, versions),
        (True, Share.UNKNOWN, SharingCause.NOT_MEASURED, ()),
    )
    _, share, cause, paths = next(each for each in causes if each[0])
    return SharingCell(one.letter, other.letter, share, cause, paths, silent=silent)


def _cause_of_other_hashes(one: CohortHashes, other: CohortHashes) -> tuple[SharingCause, tuple[str, ...]]:
    """Return why two cohorts that report hashes have none in common. A version alone is no cause."""
    if not (one.digests and other.digests):
        return SharingCause.CACHING_OFF, ()
    if one.has_random_seeds or other.has_random_seeds:
        return SharingCause.RANDOM_SEED, ()
    if one.canonical & other.canonical:
        paths = prefix.differing_paths(one.values, other.values, prefix.LENGTH_PATHS)
        if one.canonical == other.canonical:
            return SharingCause.BLOCK_LENGTH, paths
        return (SharingCause.SETTINGS, paths) if paths else (SharingCause.OTHER_HASHES, ())
    if paths := prefix.differing_paths(one.values, other.values, CANONICAL_PATHS):
        return SharingCause.SETTINGS, paths
    return (SharingCause.RANDOM_SEED, ()) if one.is_random or other.is_random else _cause_of_other_seeds(one, other)


def _cause_of_other_seeds(one: CohortHashes, other: CohortHashes) -> tuple[SharingCause, tuple[str, ...]]:
    """Return what is known of the seeds of two cohorts with one algorithm, or with an unknown one."""
    if paths := prefix.differing_paths(one.values, other.values, (prefix.SEED_POLICY_PATH,)):
        return SharingCause.OTHER_SEED, paths
    known = all(path in each.values for each in (one, other) for path in (prefix.VERSION_PATH, prefix.ALGORITHM_PATH))
    is_one_version = known and one.values[prefix.VERSION_PATH] == other.values[prefix.VERSION_PATH]
    is_one_seed_each = len(one.canonical) == len(other.canonical) == 1
    return (SharingCause.OTHER_SEED if is_one_version and is_one_seed_each else SharingCause.OTHER_HASHES), ()


def _split_cause(cohort: CohortHashes) -> SharingCause:
    if not cohort.digests:
        return SharingCause.CACHING_OFF
    if cohort.has_random_seeds:
        return SharingCause.RANDOM_SEED
    if len(cohort.canonical) == 1 and not cohort.off:
        return SharingCause.BLOCK_LENGTH
    if cohort.is_each_alone and not cohort.off and len(cohort.canonical) == len(cohort.digests):
        return SharingCause.REPLICA_SEED
    return SharingCause.VARIANTS
