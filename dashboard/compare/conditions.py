"""What replicas with equal block hashes need to share prefixes: the same weights, and blocks of the same lengths."""

import json
from enum import StrEnum
from typing import NamedTuple

from dashboard.compare.equality import is_same_revision
from dashboard.compare.hashes import CohortHashes
from dashboard.compare.prefix import (
    BLOCK_SIZE_PATH,
    MODEL_PATH,
    REVISION_PATH,
    VERSION_PATH,
    WEIGHTS_PATHS,
    differing_paths,
)
from dashboard.vllm.versions import is_unsupported


class Share(StrEnum):
    """Whether replicas share prefixes, by equal hashes in equal blocks of one model; or can transfer KV cache."""

    YES = "yes"
    NO = "no"
    PARTLY = "partly"
    UNKNOWN = "unknown"


class SharingCause(StrEnum):
    """Why two cohorts share prefixes, do not, or why it is unknown."""

    EQUAL_HASHES = "equal hashes"
    CACHING_OFF = "caching off"
    RANDOM_SEED = "random seed"  # per engine process
    REPLICA_SEED = "seed per replica"  # the engines of a replica agree, no two replicas do
    BLOCK_LENGTH = "block length"
    OTHER_SEED = "other seed"
    OTHER_HASHES = "other hashes"
    VARIANTS = "variants"  # several ways of hashing, some of them in common
    SETTINGS = "settings"  # that decide the hashes
    WEIGHTS = "weights"  # equal hashes, or no setting against it, and another model or revision
    BLOCKS = "blocks"  # equal hashes, or no setting against it, and blocks of other lengths
    WEIGHTS_UNKNOWN = "weights unknown"  # equal hashes, but perhaps another model or revision
    BLOCKS_UNKNOWN = "blocks unknown"  # equal hashes, but the blocks of a KV cache group are not reported
    SOME_SILENT = "some silent"  # the hashes that are reported are equal
    MAYBE_RANDOM = "maybe random"  # a random seed unless one is set, and the seed is not reported
    VERSIONS = "versions"  # two versions may hash differently
    NOT_MEASURED = "not measured"


class Condition(NamedTuple):
    """Whether replicas with equal hashes share prefixes, and why they do not or it is unknown. `paths`: see a cell."""

    share: Share
    cause: SharingCause = SharingCause.EQUAL_HASHES
    paths: tuple[str, ...] = ()


def same_conditions(one: CohortHashes, other: CohortHashes) -> Condition:
    """Return whether two cohorts run the same weights and allocate blocks of the same lengths: the worst of both."""
    if one is other and one.replicas == 1:
        return Condition(Share.YES)
    found = (_same_weights(one, other), _same_blocks(one, other))
    return min(found, key=lambda each: (Share.NO, Share.UNKNOWN, Share.YES).index(each.share))


def _same_weights(one: CohortHashes, other: CohortHashes) -> Condition:
    """Compare the models, a mirror or a copy being the same, and their revisions; a folder has none."""
    both = (one, other)
    differing = differing_paths(one.weights, other.weights, WEIGHTS_PATHS)
    if MODEL_PATH in differing:
        # A folder may contain the model with a different name.
        names = [each.values[MODEL_PATH] for each in both]
        is_proof = all("/" in name.value for name in names)
        cause = SharingCause.WEIGHTS if is_proof else SharingCause.WEIGHTS_UNKNOWN
        return Condition(Share.NO if is_proof else Share.UNKNOWN, cause, (MODEL_PATH,))
    if differing:
        return Condition(Share.NO, SharingCause.WEIGHTS, differing)
    if one.revision is not None and other.revision is not None and not (one.has_folder or other.has_folder):
        is_same = is_same_revision(one.revision, other.revision)
        if is_same is False:
            return Condition(Share.NO, SharingCause.WEIGHTS, (REVISION_PATH,))
        lacking: tuple[str, ...] = () if is_same else (REVISION_PATH,)
    else:
        lacking = tuple(path for path in (MODEL_PATH, REVISION_PATH) if lacks(one, path) or lacks(other, path))
    return Condition(Share.UNKNOWN, SharingCause.WEIGHTS_UNKNOWN, lacking) if lacking else Condition(Share.YES)


def _same_blocks(one: CohortHashes, other: CohortHashes) -> Condition:
    """Compare the lengths of the blocks that replicas allocate for each KV cache group."""
    if paths := differing_paths(one.values, other.values, (BLOCK_SIZE_PATH,)):
        return Condition(Share.NO, SharingCause.BLOCKS, paths)
    blocks = one.blocks | other.blocks
    known = [each for each in blocks if each is not None]
    whole = {each.sizes for each in known if each.is_whole}
    smallest = {each.sizes[0] for each in known}
    if len(whole) > 1 or len(smallest) > 1:
        return Condition(Share.NO, SharingCause.BLOCKS)
    has_others = any(len(sizes) > 1 for sizes in whole)  # that a replica which reports no groups may lack
    is_open = None in blocks or (has_others and not all(each.is_whole for each in known))
    return Condition(Share.UNKNOWN, SharingCause.BLOCKS_UNKNOWN) if is_open else Condition(Share.YES)


def lacks(cohort: CohortHashes, path: str) -> bool:
    """Return whether a cohort does not report a setting that its version has."""
    version = json.loads(cohort.values[VERSION_PATH].value) if VERSION_PATH in cohort.values else None
    return path not in cohort.values and not (isinstance(version, str) and is_unsupported(version, path))
