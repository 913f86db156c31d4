"""Whether two cohorts share prefixes, the replicas of one, or the engines of a replica: one cell of the verdict."""

from collections.abc import Iterable

from dashboard.compare import prefix
from dashboard.compare.hashes import CohortHashes, Share, SharingCause, SharingCell, same_conditions
from dashboard.vllm.lookahead import LOOKAHEAD

MEASURABLE = 2  # engines at least: one engine alone measures nothing

# What decides the verdict without block hashes, in the order of its conditions. The inputs of a block's hash, and the
# settings that decide where a block ends (vllm/config/cache.py, vllm/v1/core/kv_cache_utils.py); the lookahead is
# derived for most documents.
HASH_PATHS = (prefix.CACHING_PATH, prefix.ALGORITHM_PATH, *prefix.LENGTH_PATHS, LOOKAHEAD)
# Of these, the inputs of canonical digests: caching is on where there are any, and they do not depend on block lengths.
CANONICAL_PATHS = tuple(path for path in HASH_PATHS if path not in {prefix.CACHING_PATH, *prefix.LENGTH_PATHS})
SHARING_PATHS = (prefix.VERSION_PATH, *HASH_PATHS)  # the version, because both change between releases
DECIDING_PATHS = (*SHARING_PATHS, *prefix.SEED_PATHS)


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
