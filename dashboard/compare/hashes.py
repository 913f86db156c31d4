"""Who hashes blocks alike, by the digests that engines report: replicas in groups, and the hashes of a cohort.

What cohorts with equal hashes need to share prefixes.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from dashboard.compare import prefix
from dashboard.compare.equality import WEIGHTS, Revision, is_same_revision, loaded_revision
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import Cohort, Engine, Replica, SettingValue, State
from dashboard.fleet.grouping import grouped
from dashboard.vllm.versions import is_unsupported
from vllm_fleet_provider.shared.identity import is_folder

_OFF = "false"
Digests = frozenset[str]
Hashes = Mapping[str, Digests]  # replica -> digests of its engines
DigestGroups = dict[Digests, tuple[str, ...]]  # digests -> replicas that report them; several: ranks differ


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


class SharingCell(NamedTuple):
    """A cohort and another one, or itself. `paths` are the settings of the cause: that differ, or are not reported.

    `is_measured`: block hashes prove it (confidence reported), else settings (derived). `ways` counts the distinct
    hashes, `silent` the replicas that do not report theirs.
    """

    one: str
    other: str
    share: Share
    cause: SharingCause = SharingCause.EQUAL_HASHES
    paths: tuple[str, ...] = ()
    is_measured: bool = False
    ways: int = 0
    silent: int = 0


def digests(engines: Sequence[Engine], kind: Literal["engine", "canonical"] = "engine") -> Digests | None:
    """Return the digests of a replica; None where an engine reports none.

    Engines with equal digests give equal tokens equal block hashes; `canonical` ones do not depend on the block length.
    With several digests its own ranks cannot share.
    """
    found = [getattr(engine.fingerprint, kind, None) for engine in engines]
    return frozenset(filter(None, found)) if found and None not in found else None


def group_by_hashes(hashes: Hashes, replicas: Collection[str]) -> DigestGroups:
    """Group replicas with the same digests, the largest group first; those that report none are left out."""
    known = grouped((hashes[replica], replica) for replica in sorted(replicas) if replica in hashes)
    order = sorted(known, key=lambda digests: (-len(known[digests]), sorted(digests)))
    return {digests: tuple(known[digests]) for digests in order}


def same_hashes(hashes: Hashes, replicas: Collection[str]) -> frozenset[str]:
    """Return all replicas with the hashes of any of these."""
    wanted = {hashes[each] for each in replicas if each in hashes}
    return frozenset(replica for replica, digests in hashes.items() if digests in wanted)


def count_equal_hashes_as_one(holders: Holders, hashes: Hashes, first: SettingValue | None = None) -> Holders:
    """Count values as one where their replicas have the same hashes: `first` if among them, else the most frequent."""
    if len(holders) <= 1:
        return holders
    place = {value: number for number, value in enumerate(holders)} | ({first: -1} if first is not None else {})
    values = {replica: value for value, replicas in holders.items() for replica in replicas}
    for group in group_by_hashes(hashes, values).values():
        common = min((values[replica] for replica in group), key=lambda value: place[value])
        values |= dict.fromkeys(group, common)
    return group_by_value(values)


@dataclass(frozen=True, slots=True)
class CohortHashes:
    """The block hashes of a cohort; a second address of a process is not counted.

    `digests`: per `engine` digest the ids of its replicas; `canonical` ones are empty where one is missing. `engines`
    report a digest, `off` engines hash no blocks. Of `replicas`, `reporting` report anything and `silent` not
    everything. `group_sizes` are the block sizes of replicas that report their KV cache groups, smallest first;
    `block_sizes` those of the others, which report that of the smallest group, or None. `revision` is the loaded one of
    its model, None where unknown; with `has_folder` it counts for nothing. `weights` are the other settings that decide
    the weights, as they count for a comparison. `seed` is that of the hashes by the settings.
    """

    letter: str
    replicas: int
    values: prefix.Values
    digests: Mapping[str, tuple[str, ...]]
    canonical: frozenset[str]
    engines: int
    off: int
    reporting: int
    silent: int
    group_sizes: frozenset[tuple[int, ...]]
    block_sizes: frozenset[int | None]
    revision: Revision | None
    has_folder: bool
    weights: prefix.Values
    seed: prefix.HashSeed | None

    @property
    def is_reporting(self) -> bool:
        """Whether any engine reports how it hashes."""
        return bool(self.engines or self.off)

    @property
    def ways(self) -> int:
        """How many distinct hashes its engines have; one that hashes no blocks counts for itself."""
        return len(self.digests) + self.off

    @property
    def has_random_seeds(self) -> bool:
        """Whether no two engines hash alike, and not because of the length of their blocks."""
        return self.engines > 1 and len(self.digests) == len(self.canonical) == self.engines

    @property
    def is_each_alone(self) -> bool:
        """Whether no two replicas hash alike, or no two engines of a single replica."""
        most = max(map(len, self.digests.values()), default=1)
        return most == 1 and (self.reporting > 1 or self.ways == self.engines + self.off)

    @property
    def is_off(self) -> bool:
        return _hashes_no_blocks(self.values)

    @property
    def is_random(self) -> bool:
        """Whether its settings prove that every engine process uses a random seed; the reported policy wins."""
        if prefix.SEED_POLICY_PATH in self.values:
            return self.values[prefix.SEED_POLICY_PATH].value == prefix.RANDOM
        return self.seed is not None and self.seed.kind is prefix.SeedKind.RANDOM and self.seed.is_certain

    @property
    def is_maybe_random(self) -> bool:
        """Whether engine processes use a random seed unless one is set, and the seed is not reported."""
        is_random = self.seed is not None and self.seed.kind is prefix.SeedKind.RANDOM
        return bool(self.silent) and is_random and not self.is_random


def cohort_hashes(cohort: Cohort, replicas: Mapping[str, Replica], values: prefix.Values) -> CohortHashes:
    """Return the block hashes of a cohort. `values` are its settings that decide sharing."""
    members = set(cohort.replicas)
    # Of several addresses of one process in the cohort, the first counts.
    repeated = {each for each in members if any(one < each and one in members for one in replicas[each].same_process)}
    engines = {each: replicas[each].engines for each in cohort.replicas if each not in repeated}
    marks = {key: [mark for each in own if (mark := each.fingerprint) and mark.engine] for key, own in engines.items()}
    is_off = _hashes_no_blocks(values)
    off = {key: sum(map(_hashes_nothing, own)) if is_off else 0 for key, own in engines.items()}
    digests: dict[str, list[str]] = {}
    for key, own_marks in marks.items():
        for digest in dict.fromkeys(mark.engine for mark in own_marks if mark.engine):
            digests.setdefault(digest, []).append(key)
    revision = loaded_revision(cohort.settings) if prefix.REVISION_PATH in values else None
    names = [whole for each in engines if (whole := replicas[each].identity.get(prefix.MODEL_PATH)) is not None]
    canonical = [mark.canonical for own_marks in marks.values() for mark in own_marks]
    groups = [_group_sizes(replicas[key]) for key in engines]
    values = values if revision is None else {**values, prefix.REVISION_PATH: revision.value}
    return CohortHashes(
        letter=cohort.letter,
        replicas=len(engines),
        values=values,
        digests={digest: tuple(keys) for digest, keys in digests.items()},
        canonical=frozenset(filter(None, canonical)) if all(canonical) else frozenset(),
        engines=len(canonical),
        off=sum(off.values()),
        reporting=sum(bool(marks[key] or off[key]) for key in engines),
        silent=sum(not own or len(marks[key]) + off[key] < len(own) for key, own in engines.items()),
        group_sizes=frozenset(filter(None, groups)),
        block_sizes=frozenset() if all(groups) else frozenset({_block_size(values)}),
        revision=revision,
        has_folder=any(is_folder(json.loads(whole.value)) for whole in names),
        weights={path: meaning(values[path], cohort.settings) for path, meaning in WEIGHTS.items() if path in values},
        seed=prefix.hash_seed(values),
    )


def _hashes_no_blocks(values: prefix.Values) -> bool:
    """Return whether settings say that no blocks are hashed: a KV connector needs hashes without prefix caching."""
    has_connector = prefix.CONNECTOR_PATH in values and values[prefix.CONNECTOR_PATH].state is State.REPORTED
    return prefix.CACHING_PATH in values and values[prefix.CACHING_PATH].value == _OFF and not has_connector


def _group_sizes(replica: Replica) -> tuple[int, ...]:
    """Return the distinct block sizes of the KV cache groups of a replica's first engine, smallest first."""
    first = min((group.dp_rank for group in replica.kv_cache_groups), default=0)
    return tuple(sorted({group.block_size for group in replica.kv_cache_groups if group.dp_rank == first}))


def _block_size(values: prefix.Values) -> int | None:
    size = json.loads(values[prefix.BLOCK_SIZE_PATH].value) if prefix.BLOCK_SIZE_PATH in values else None
    return size if isinstance(size, int) else None


def _hashes_nothing(engine: Engine) -> bool:
    """Return whether an engine reports a reason in place of digests. Where caching is off, it hashes no blocks."""
    mark = engine.fingerprint
    return mark is not None and not mark.engine and bool(mark.reason)


def conditions(cohort: CohortHashes) -> tuple[object, ...]:
    """Return all that `same_conditions` reads of a cohort, hashable: cohorts with equal ones share with the same."""
    values = [cohort.values.get(path) for path in (prefix.MODEL_PATH, prefix.REVISION_PATH, prefix.BLOCK_SIZE_PATH)]
    lacking = [lacks(cohort, path) for path in (prefix.MODEL_PATH, prefix.REVISION_PATH)]
    sizes = cohort.group_sizes, cohort.block_sizes
    return (frozenset(cohort.weights.items()), cohort.revision, cohort.has_folder, *sizes, *values, *lacking)


def same_conditions(one: CohortHashes, other: CohortHashes) -> SharingCell:
    """Return whether two cohorts with equal hashes share prefixes: with the same weights in blocks of the same lengths.

    Of both conditions the worse one counts.
    """
    if one is other and one.replicas == 1:
        return SharingCell(one.letter, other.letter, Share.YES)
    found = (_same_weights(one, other), _same_blocks(one, other))
    return min(found, key=lambda each: (Share.NO, Share.UNKNOWN, Share.YES).index(each.share))


def _same_weights(one: CohortHashes, other: CohortHashes) -> SharingCell:
    """Compare the models, a mirror or a copy being the same, and their revisions; a folder has none."""
    letters = one.letter, other.letter
    differing = prefix.differing_paths(one.weights, other.weights, prefix.WEIGHTS_PATHS)
    if prefix.MODEL_PATH in differing:
        # A folder may contain the model with a different name.
        names = [each.values[prefix.MODEL_PATH] for each in (one, other)]
        is_proof = all("/" in name.value for name in names)
        cause = SharingCause.WEIGHTS if is_proof else SharingCause.WEIGHTS_UNKNOWN
        return SharingCell(*letters, Share.NO if is_proof else Share.UNKNOWN, cause, (prefix.MODEL_PATH,))
    if differing:
        return SharingCell(*letters, Share.NO, SharingCause.WEIGHTS, differing)
    if one.revision is not None and other.revision is not None and not (one.has_folder or other.has_folder):
        is_same = is_same_revision(one.revision, other.revision)
        if is_same is False:
            return SharingCell(*letters, Share.NO, SharingCause.WEIGHTS, (prefix.REVISION_PATH,))
        lacking: tuple[str, ...] = () if is_same else (prefix.REVISION_PATH,)
    else:
        lacking = tuple(
            path for path in (prefix.MODEL_PATH, prefix.REVISION_PATH) if lacks(one, path) or lacks(other, path)
        )
    if lacking:
        return SharingCell(*letters, Share.UNKNOWN, SharingCause.WEIGHTS_UNKNOWN, lacking)
    return SharingCell(*letters, Share.YES)


def _same_blocks(one: CohortHashes, other: CohortHashes) -> SharingCell:
    """Compare the lengths of the blocks that replicas allocate for each KV cache group."""
    letters = one.letter, other.letter
    if paths := prefix.differing_paths(one.values, other.values, (prefix.BLOCK_SIZE_PATH,)):
        return SharingCell(*letters, Share.NO, SharingCause.BLOCKS, paths)
    group_sizes, block_sizes = one.group_sizes | other.group_sizes, one.block_sizes | other.block_sizes
    smallest = {sizes[0] for sizes in group_sizes} | (block_sizes - {None})
    if len(group_sizes) > 1 or len(smallest) > 1:
        return SharingCell(*letters, Share.NO, SharingCause.BLOCKS)
    has_others = any(len(sizes) > 1 for sizes in group_sizes)  # that a replica which reports no groups may lack
    if None in block_sizes or (has_others and block_sizes):
        return SharingCell(*letters, Share.UNKNOWN, SharingCause.BLOCKS_UNKNOWN)
    return SharingCell(*letters, Share.YES)


def lacks(cohort: CohortHashes, path: str) -> bool:
    """Return whether a cohort does not report a setting that its version has."""
    version = json.loads(cohort.values[prefix.VERSION_PATH].value) if prefix.VERSION_PATH in cohort.values else None
    return path not in cohort.values and not (isinstance(version, str) and is_unsupported(version, path))
