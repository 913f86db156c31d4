"""The block hashes that the engines of a cohort report, and the settings that decide them; their row in a matrix."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.compare.columns import MatrixColumn, Reference, ReferenceKind
from dashboard.compare.equality import WEIGHTS, Revision, loaded_revision
from dashboard.compare.matrix import NO_EXPECTATION, CellState, MatrixCell, MatrixRow
from dashboard.compare.prefix import (
    BLOCK_SIZE_PATH,
    CACHING_PATH,
    CONNECTOR_PATH,
    MODEL_PATH,
    RANDOM,
    REVISION_PATH,
    SEED_POLICY_PATH,
    HashSeed,
    SeedKind,
    Values,
    hash_seed,
)
from dashboard.fleet import Cohort, Engine, Pool, Replica, State
from vllm_fleet_provider.shared.identity import is_folder

HASH_LABEL = "block hashes"
DIGEST_LENGTH = 12  # characters of a digest that are shown: enough to see which are equal
_OFF = "false"


class BlockSizes(NamedTuple):
    """The tokens of the blocks that a replica allocates, smallest first: one size, or one for each KV cache group.

    `is_whole`: it reports its groups. Else only `block_size` is known, which is that of the smallest.
    """

    sizes: tuple[int, ...]
    is_whole: bool


class CohortHashes(NamedTuple):
    """The block hashes of a cohort; a second address of a process is not counted.

    `digests`: per `engine` digest the ids of its replicas; `canonical` ones are empty where one is missing. `engines`
    report a digest, `off` engines hash no blocks. Of `replicas`, `reporting` report anything and `silent` not
    everything. `blocks` are those of its replicas, None where unknown. `revision` is the loaded one of its model, None
    where unknown; with `has_folder` it counts for nothing. `weights` are the other settings that decide the weights, as
    they count for a comparison.
    """

    letter: str
    replicas: int
    values: Values
    digests: Mapping[str, tuple[str, ...]]
    canonical: frozenset[str]
    engines: int
    off: int
    reporting: int
    silent: int
    blocks: frozenset[BlockSizes | None]
    revision: Revision | None
    has_folder: bool
    weights: Values

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
        """Whether its settings say that no blocks are hashed: a KV connector needs hashes without prefix caching."""
        has_connector = CONNECTOR_PATH in self.values and self.values[CONNECTOR_PATH].state is State.REPORTED
        return CACHING_PATH in self.values and self.values[CACHING_PATH].value == _OFF and not has_connector

    @property
    def seed(self) -> HashSeed | None:
        """The seed of its block hashes, by its settings."""
        return hash_seed(self.values)

    @property
    def is_random(self) -> bool:
        """Whether its settings prove that every engine process uses a random seed; the reported policy wins."""
        if SEED_POLICY_PATH in self.values:
            return self.values[SEED_POLICY_PATH].value == RANDOM
        return self.seed is not None and self.seed.kind is SeedKind.RANDOM and self.seed.is_certain

    @property
    def is_maybe_random(self) -> bool:
        """Whether engine processes use a random seed unless one is set, and the seed is not reported."""
        is_random = self.seed is not None and self.seed.kind is SeedKind.RANDOM
        return bool(self.silent) and is_random and not self.is_random


def cohort_hashes(cohort: Cohort, replicas: Mapping[str, Replica], values: Values) -> CohortHashes:
    """Return the block hashes of a cohort. `values` are its settings that decide sharing."""
    members = set(cohort.replicas)
    # Of several addresses of one process in the cohort, the first counts.
    repeated = {each for each in members if any(one < each and one in members for one in replicas[each].same_process)}
    engines = {each: replicas[each].engines for each in cohort.replicas if each not in repeated}
    marks = {key: [mark for each in own if (mark := each.fingerprint) and mark.engine] for key, own in engines.items()}
    bare = CohortHashes(cohort.letter, len(engines), values, {}, frozenset(), 0, 0, 0, 0, frozenset(), None, False, {})
    off = {key: sum(map(_hashes_nothing, own)) if bare.is_off else 0 for key, own in engines.items()}
    digests: dict[str, list[str]] = {}
    for key, own_marks in marks.items():
        for digest in dict.fromkeys(mark.engine for mark in own_marks if mark.engine):
            digests.setdefault(digest, []).append(key)
    revision = loaded_revision(cohort.settings) if REVISION_PATH in values else None
    names = [whole for each in engines if (whole := replicas[each].identity.get(MODEL_PATH)) is not None]
    canonical = [mark.canonical for own_marks in marks.values() for mark in own_marks]
    return bare._replace(
        digests={digest: tuple(keys) for digest, keys in digests.items()},
        canonical=frozenset(filter(None, canonical)) if all(canonical) else frozenset(),
        engines=len(canonical),
        off=sum(off.values()),
        reporting=sum(bool(marks[key] or off[key]) for key in engines),
        silent=sum(not own or len(marks[key]) + off[key] < len(own) for key, own in engines.items()),
        values=values if revision is None else {**values, REVISION_PATH: revision.value},
        revision=revision,
        weights={path: meaning(values[path], cohort.settings) for path, meaning in WEIGHTS.items() if path in values},
        has_folder=any(is_folder(json.loads(whole.value)) for whole in names),
        blocks=frozenset(_blocks(replicas[key], values) for key in engines),
    )


def _blocks(replica: Replica, values: Values) -> BlockSizes | None:
    """Return the blocks of a replica's first engine: by its KV cache groups, else by `block_size`."""
    first = min((each.dp_rank for each in replica.kv_cache_groups), default=0)
    sizes = {each.block_size for each in replica.kv_cache_groups if each.dp_rank == first}
    if sizes:
        return BlockSizes(tuple(sorted(sizes)), is_whole=True)
    size = json.loads(values[BLOCK_SIZE_PATH].value) if BLOCK_SIZE_PATH in values else None
    return BlockSizes((size,), is_whole=False) if isinstance(size, int) else None


def hash_row(
    path: str, pool: Pool, reference: Reference, columns: Sequence[MatrixColumn], replicas: Mapping[str, Replica]
) -> MatrixRow | None:
    """Return a row with the digests of the engines of each column; None where no engine reports one.

    The reference is the digest of its cohort or replica, or the digest of most replicas. Without a single reference
    digest, such as for a baseline, nothing is marked; a tie marks all. A column with replicas that report no digest is
    unknown.
    """
    reported = [{*_digests([replicas[key]])} for column in columns for key in column.replicas]
    first, *others = Counter(digest for own in reported for digest in own).most_common(2) or [("", 0)]
    if not first[0]:
        return None
    is_majority = reference.kind is ReferenceKind.MAJORITY
    is_tie = is_majority and bool(others) and others[0][1] == first[1]
    wanted = ("" if is_tie else first[0]) if is_majority else _reference_digest(pool, reference, replicas)
    cells = [_hash_cell([replicas[key] for key in column.replicas], wanted) for column in columns]
    if reference.kind is ReferenceKind.BASELINE:
        cells[0] = MatrixCell(CellState.UNKNOWN, json.dumps(NO_EXPECTATION))
    differs = any(cell.state is CellState.DIFFERS for cell in cells)
    return MatrixRow(path, HASH_LABEL, tuple(cells), differs=differs, tie=is_tie)


def _reference_digest(pool: Pool, reference: Reference, replicas: Mapping[str, Replica]) -> str | None:
    """Return the digest of the cohort or replica that is the reference; None where it has none or several."""
    members = {cohort.letter: cohort.replicas for cohort in pool.cohorts}
    keys = [reference.key] if reference.kind is ReferenceKind.REPLICA else members.get(reference.key, ())
    digests = {*_digests(replicas[key] for key in keys)}
    return digests.pop() if len(digests) == 1 else None


def _digests(replicas: Iterable[Replica]) -> list[str]:
    marks = (engine.fingerprint for each in replicas for engine in each.engines)
    return [mark.engine for mark in marks if mark and mark.engine]


def _hash_cell(replicas: Sequence[Replica], wanted: str | None) -> MatrixCell:
    """Return the cell of one column; `wanted` is the reference, empty for a tie, None where nothing is marked."""
    digests = _digests(replicas)
    if not digests:
        has_reason = any(each.fingerprint and each.fingerprint.reason for own in replicas for each in own.engines)
        return MatrixCell(CellState.UNKNOWN, json.dumps("none")) if has_reason else MatrixCell(CellState.ABSENT, "")
    distinct = set(digests)
    text = digests[0][:DIGEST_LENGTH]
    if len(distinct) > 1:
        text = f"{len(distinct):,} {'different' if len(distinct) == len(digests) else 'ways'}"
    reporting = sum(bool(each.engines) and len(_digests([each])) == len(each.engines) for each in replicas)
    is_whole = reporting == len(replicas)
    if wanted is not None and distinct != {wanted}:
        state = CellState.DIFFERS
    else:
        state = CellState.SAME if is_whole and wanted is not None else CellState.UNKNOWN
    return MatrixCell(state, json.dumps(text), None if is_whole else reporting)


def _hashes_nothing(engine: Engine) -> bool:
    """Return whether an engine reports a reason in place of digests. Where caching is off, it hashes no blocks."""
    mark = engine.fingerprint
    return mark is not None and not mark.engine and bool(mark.reason)
