"""Which cohorts can share prefixes: measured by the block hashes that engines tell, else derived from settings."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, pairwise, starmap
from typing import NamedTuple

from dashboard.compare.prefix import (
    ALGORITHM_PATH,
    CACHING_PATH,
    LENGTH_PATHS,
    SHARING_PATHS,
    VERSION_PATH,
    FindingContext,
    contrasts_between,
    short_name,
    telling_of,
)
from dashboard.compare.random_root import SEED_PATHS, SEED_POLICY_PATH, is_doubtful, is_random
from dashboard.fleet import Cohort, Engine, Pool, Replica, SettingValue, State
from dashboard.fleet.formatting import joined
from dashboard.vllm.lookahead import LOOKAHEAD, UPGRADE
from dashboard.vllm.versions import is_unsupported

MOST_COHORTS = 12  # a matrix of more is no longer read by eye, and its cells grow with their square
DECIDING_PATHS = (*SHARING_PATHS, *SEED_PATHS)
# Why not. What is measured is told apart from what settings say.
CACHING_OFF = "prefix caching is off"
OWN_ROOTS = "each engine has a root of its own"
REPLICA_ROOTS = "each replica has a root of its own"
LENGTH_ONLY = "only the block length differs"
OTHER_ROOT = "another root of the block hashes"
OTHER_HASHES = "different block hashes"
EQUAL_HASHES = "equal block hashes"
OUTDATED = "block hashes are unknown until the provider is upgraded"
TWO_VERSIONS = "two versions may hash in different ways"
NOT_MEASURED = "block hashes are not told, and no setting contradicts"
DOUBTFUL = "probably not: each engine has a root of its own unless PYTHONHASHSEED is set, which is not told"
CONNECTOR_PATH = "kv_transfer_config.kv_connector"
MODEL_PATH = "model_config.model"
# Equal hashes name equal tokens. The KV cache under them is the same only if these are equal too.
KV_PATHS = (MODEL_PATH, "model_config.revision", "cache_config.cache_dtype", "cache_config.kv_cache_layout")
DTYPE_PATH = "model_config.dtype"  # what a KV cache dtype `auto` follows
HASH_ALIKE = "they hash alike"
_AUTO, _OFF = '"auto"', "false"


class Share(StrEnum):
    """Whether the engines of one cohort, or of two, share prefixes: equal hashes of equal tokens, equal KV cache."""

    YES = "yes"
    NO = "no"
    PARTLY = "partly"
    UNKNOWN = "unknown"


class Cell(NamedTuple):
    """A cohort and another one, or itself. `reason` is ours, without foreign text.

    `is_measured`: told by engines (confidence reported), else from settings (derived). `ways` is in how many ways those
    that tell hash blocks, `silent` how many replicas do not tell.
    """

    one: str
    other: str
    share: Share
    is_measured: bool
    reason: str
    ways: int = 0
    silent: int = 0


class Hashing(NamedTuple):
    """What a cohort's replicas tell of their block hashes.

    `digests`: per `engine` digest who has it, by id; `canonical` ones are empty where one is missing. `engines` tell
    one, `off` engines hash no blocks. Of `replicas`, `telling` tell anything and `silent` do not tell all. `told` are
    the settings that decide. Of `outdated` the provider is too old for their vLLM. A second address of a process is
    not counted.
    """

    letter: str
    replicas: int
    telling: int
    digests: Mapping[str, tuple[str, ...]]
    canonical: frozenset[str]
    engines: int
    off: int
    silent: int
    told: FindingContext
    outdated: int = 0

    @property
    def tells(self) -> bool:
        """Whether any engine tells how it hashes."""
        return bool(self.engines or self.off)

    @property
    def ways(self) -> int:
        """In how many ways its engines hash; one that hashes no blocks is alone."""
        return len(self.digests) + self.off

    @property
    def has_own_roots(self) -> bool:
        """Whether no two engines hash alike, and not for the length of their blocks."""
        return self.engines > 1 and len(self.digests) == len(self.canonical) == self.engines

    @property
    def is_off(self) -> bool:
        """Whether its settings say that no blocks are hashed: a KV connector needs hashes without prefix caching."""
        has_connector = CONNECTOR_PATH in self.told and self.told[CONNECTOR_PATH].state is State.REPORTED
        return CACHING_PATH in self.told and self.told[CACHING_PATH].value == _OFF and not has_connector

    @property
    def is_random(self) -> bool:
        """Whether its settings say that every engine process makes up a root of its own."""
        return is_random(self.told)

    @property
    def is_doubtful(self) -> bool:
        """Whether every engine process makes up a root of its own unless a seed is set, which nobody tells."""
        return bool(self.silent) and is_doubtful(self.told)


@dataclass(frozen=True, slots=True)
class PoolSharing:
    """The cohorts of a pool, the largest first; `unread` replicas belong to none."""

    cohorts: tuple[Hashing, ...]
    unread: int

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cohort with itself and with those after it; none where there are more than `MOST_COHORTS`."""
        if len(self.cohorts) > MOST_COHORTS:
            return ()
        pairs = (between(one, other) for one, other in combinations(self.cohorts, 2))
        return (*map(within, self.cohorts), *pairs)

    @property
    def share(self) -> Share:
        """Whether all replicas share prefixes: the weakest cell. Of very many cohorts each is held against two."""
        pairs: Iterable[tuple[Hashing, Hashing]] = combinations(self.cohorts, 2)
        if len(self.cohorts) > MOST_COHORTS:
            pairs = [*((self.cohorts[0], each) for each in self.cohorts[1:]), *pairwise(self.cohorts)]
        found = {cell.share for cell in (*map(within, self.cohorts), *starmap(between, pairs))}
        if found & {Share.NO, Share.PARTLY}:
            return Share.NO
        return Share.YES if found == {Share.YES} and not self.unread else Share.UNKNOWN

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Cohorts by the one way in which all their engines hash blocks; one of which not all tell is in none."""
        silent = {each.letter for each in self.cohorts if each.silent}
        whole = (tuple(letter for letter in letters if letter not in silent) for letters in self.classes)
        return tuple(filter(None, whole))

    @property
    def classes(self) -> tuple[tuple[str, ...], ...]:
        """Cohorts by the one way in which all their engines that tell hash blocks; who has no such way is left out."""
        alike: dict[str, list[str]] = {}
        for each in self.cohorts:
            if each.ways == 1 and each.digests:
                alike.setdefault(next(iter(each.digests)), []).append(each.letter)
        return tuple(map(tuple, alike.values()))

    @property
    def ways(self) -> int:
        """In how many ways the engines of the pool hash blocks, as far as they tell."""
        return len(set().union(*(each.digests for each in self.cohorts))) + sum(each.off for each in self.cohorts)

    @property
    def silent(self) -> int:
        """Replicas that do not tell how they hash blocks."""
        return self.unread + sum(each.silent for each in self.cohorts)


def pool_sharing(pool: Pool, replicas: Mapping[str, Replica]) -> PoolSharing:
    """Gather what the replicas of a pool tell of their block hashes. `replicas`: by id, the pool's or more."""
    decide = (*DECIDING_PATHS, *KV_PATHS, DTYPE_PATH, CONNECTOR_PATH)
    paths = [path for path in decide if path not in pool.ignored]
    cohorts = tuple(_hashing(cohort, replicas, telling_of(cohort.settings, paths)) for cohort in pool.cohorts)
    return PoolSharing(cohorts, len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts))


def within(cohort: Hashing) -> Cell:
    """Say whether the replicas of a cohort share with each other; of one replica, whether its engines do."""
    if not cohort.tells or (cohort.silent and cohort.engines + cohort.off == 1):  # one engine alone measures nothing
        return _derived(cohort, cohort)
    if cohort.ways == 1 and cohort.digests:
        share, reason = _alike(cohort, cohort, cohort.silent)
    else:
        share = Share.NO if _is_each_alone(cohort) else Share.PARTLY
        reason = _why_apart(cohort)
    return Cell(cohort.letter, cohort.letter, share, _is_measured(share, reason), reason, cohort.ways, cohort.silent)


def between(one: Hashing, other: Hashing) -> Cell:
    """Say whether the replicas of two cohorts share with each other; the order of the two decides no more than letters.

    Who does not tell is as those that tell only where these already differ.
    """
    if not (one.tells and other.tells):
        return _derived(one, other)
    shared = one.digests.keys() & other.digests.keys()
    ways = len(one.digests.keys() | other.digests.keys()) + one.off + other.off
    silent = one.silent + other.silent
    if not shared:
        share, reason = Share.NO, why_not(one, other)
    elif ways > 1:
        share, reason = Share.PARTLY, f"{ways:,} ways of hashing blocks, of which both have {len(shared):,}"
    else:
        share, reason = _alike(one, other, silent)
    return Cell(one.letter, other.letter, share, _is_measured(share, reason), reason, ways, silent)


def why_not(one: Hashing, other: Hashing) -> str:
    """Say why two cohorts that both tell have no way of hashing in common. A version alone is no reason."""
    if not (one.digests and other.digests):
        return CACHING_OFF
    if one.has_own_roots or other.has_own_roots:
        return OWN_ROOTS
    if one.canonical & other.canonical:
        is_all = one.canonical == other.canonical
        return LENGTH_ONLY if is_all else _named_in(one, other, LENGTH_PATHS) or OTHER_HASHES
    return _named_in(one, other, (ALGORITHM_PATH, LOOKAHEAD)) or _why_other_root(one, other)


def although(cohorts: Iterable[Hashing]) -> list[str]:
    """Name the settings that one would take for a reason, in which cohorts that hash alike differ."""
    first, *others = cohorts
    return [
        short_name(path)
        for path in DECIDING_PATHS
        if any(contrasts_between(_only(first, path), _only(other, path)) for other in others)
    ]


def _hashing(cohort: Cohort, replicas: Mapping[str, Replica], settings: FindingContext) -> Hashing:
    members = set(cohort.replicas)
    engines = {each: replicas[each].engines for each in cohort.replicas if not _is_repeated(replicas[each], members)}
    bare = Hashing(cohort.letter, len(engines), 0, {}, frozenset(), 0, 0, 0, settings)
    told = {key: [mark for each in own if (mark := each.fingerprint) and mark.engine] for key, own in engines.items()}
    off = {key: sum(map(_hashes_nothing, own)) if bare.is_off else 0 for key, own in engines.items()}
    digests: dict[str, list[str]] = {}
    for key, marks in told.items():
        for digest in dict.fromkeys(mark.engine for mark in marks if mark.engine):
            digests.setdefault(digest, []).append(key)
    canonical = [mark.canonical for marks in told.values() for mark in marks]
    return bare._replace(
        telling=sum(bool(told[key] or off[key]) for key in engines),
        digests={digest: tuple(held) for digest, held in digests.items()},
        canonical=frozenset(filter(None, canonical)) if all(canonical) else frozenset(),
        engines=len(canonical),
        off=sum(off.values()),
        outdated=sum(any(e.fingerprint and e.fingerprint.reason == UPGRADE for e in own) for own in engines.values()),
        silent=sum(not own or len(told[key]) + off[key] < len(own) for key, own in engines.items()),
    )


def _hashes_nothing(engine: Engine) -> bool:
    """Tell whether an engine gives a reason in place of digests. Where caching is off, it hashes no blocks."""
    mark = engine.fingerprint
    return mark is not None and not mark.engine and bool(mark.reason)


def _is_repeated(replica: Replica, members: set[str]) -> bool:
    """Tell whether an earlier address of the same process stands in the same cohort."""
    return any(other < replica.id and other in members for other in replica.same_process)


def _is_measured(share: Share, reason: str) -> bool:
    """Tell what engines told from what follows from a setting: that they hash no blocks is one."""
    return share is not Share.UNKNOWN and reason != CACHING_OFF and not reason.startswith(HASH_ALIKE)


def _why_other_root(one: Hashing, other: Hashing) -> str:
    """Say what is known of the roots of two that hash with one algorithm, or with one that is not told."""
    if one.is_random or other.is_random:
        return OWN_ROOTS
    if _named_in(one, other, (SEED_POLICY_PATH,)):
        return OTHER_ROOT
    agree = all(path in one.told and path in other.told for path in (VERSION_PATH, ALGORITHM_PATH))
    is_one_version = agree and one.told[VERSION_PATH] == other.told[VERSION_PATH]
    return OTHER_ROOT if is_one_version and len(one.canonical) == len(other.canonical) == 1 else OTHER_HASHES


def _is_each_alone(cohort: Hashing) -> bool:
    """Tell whether no two replicas hash alike; of one replica, no two engines."""
    most = max(map(len, cohort.digests.values()), default=1)
    return most == 1 and (cohort.telling > 1 or cohort.ways == cohort.engines + cohort.off)


def _why_apart(cohort: Hashing) -> str:
    if not cohort.digests:
        return CACHING_OFF
    if cohort.has_own_roots:
        return OWN_ROOTS
    if len(cohort.canonical) == 1 and not cohort.off:
        return LENGTH_ONLY
    if _is_each_alone(cohort) and not cohort.off and len(cohort.canonical) == len(cohort.digests):
        return REPLICA_ROOTS
    return f"{cohort.ways:,} ways of hashing blocks"


def _derived(one: Hashing, other: Hashing) -> Cell:
    """Conclude from settings where block hashes are not told: two releases may hash alike, all else is certain."""
    is_one = one is other
    silent = one.silent if is_one else one.silent + other.silent
    share, reason = _by_settings(one, other, is_pair=not (is_one and one.replicas == 1))
    return Cell(one.letter, other.letter, share, False, reason, 0, silent)


def _by_settings(one: Hashing, other: Hashing, *, is_pair: bool) -> tuple[Share, str]:
    """Return the first reason that settings give; `is_pair`: they are two replicas or more."""
    share, other_cache = same_kv_cache(one, other)
    reasons = (
        (Share.NO, CACHING_OFF if one.is_off or other.is_off else ""),
        (Share.NO, OWN_ROOTS if is_pair and (one.is_random or other.is_random) else ""),
        (Share.NO, _named_in(one, other, SHARING_PATHS, but=(VERSION_PATH,))),
        (Share.NO, other_cache if share is Share.NO else ""),
        (Share.UNKNOWN, DOUBTFUL if is_pair and (one.is_doubtful or other.is_doubtful) else ""),
        (Share.UNKNOWN, OUTDATED if one.outdated or other.outdated else ""),
        (Share.UNKNOWN, TWO_VERSIONS if _named_in(one, other, (VERSION_PATH,)) else NOT_MEASURED),
    )
    return next(each for each in reasons if each[1])


def _named_in(one: Hashing, other: Hashing, paths: Iterable[str], but: Iterable[str] = ()) -> str:
    """Write `block_size differs` for the settings among `paths` in which two cohorts contradict each other."""
    wanted = [path for path in paths if path not in set(but)]
    names = [short_name(each.path) for each in contrasts_between(one.told, other.told) if each.path in wanted]
    return differ(names) if names else ""


def _alike(one: Hashing, other: Hashing, silent: int) -> tuple[Share, str]:
    """Conclude for two that have one way of hashing: they share if the KV cache under equal hashes is the same."""
    share, why = same_kv_cache(one, other)
    if silent and share is not Share.NO:
        return Share.UNKNOWN, _silent(silent)
    if share is not Share.YES:
        return share, f"{HASH_ALIKE}, but {why}"
    names = although([one, other])
    return Share.YES, f"{EQUAL_HASHES}, although {differ(names)}" if names else EQUAL_HASHES


def same_kv_cache(one: Hashing, other: Hashing) -> tuple[Share, str]:
    """Say whether equal tokens have the same KV cache in two cohorts, and which settings say no, or are missing."""
    if one is other and one.replicas == 1:
        return Share.YES, ""
    contrasts = {each.path: each for each in contrasts_between(one.told, other.told)}
    apart = [path for path in KV_PATHS if path in contrasts]
    if DTYPE_PATH in contrasts and _follows_dtype(one) and _follows_dtype(other):
        apart.append(DTYPE_PATH)
    if apart:
        # One model may have two names, where one of them is a folder's.
        is_proof = apart != [MODEL_PATH] or all("/" in told.value for told in contrasts[MODEL_PATH][1:])
        return Share.NO if is_proof else Share.UNKNOWN, differ([short_name(path) for path in apart])
    lacking = [short_name(path) for path in KV_PATHS if any(_lacks(each, path) for each in (one, other))]
    return (Share.UNKNOWN, f"{joined(lacking)} not reported") if lacking else (Share.YES, "")


def _follows_dtype(cohort: Hashing) -> bool:
    return cohort.told.get(KV_PATHS[2], SettingValue(_AUTO, State.REPORTED)).value == _AUTO


def _lacks(cohort: Hashing, path: str) -> bool:
    """Tell whether a cohort does not report a setting that its version has."""
    version = json.loads(cohort.told[VERSION_PATH].value) if VERSION_PATH in cohort.told else None
    return path not in cohort.told and not (isinstance(version, str) and is_unsupported(version, path))


def differ(names: list[str]) -> str:
    """Write `a differs`, or `a and b differ`."""
    return f"{joined(names)} {'differs' if len(names) == 1 else 'differ'}"


def _silent(silent: int) -> str:
    return f"those that tell have equal block hashes; {silent:,} {'does' if silent == 1 else 'do'} not tell"


def _only(cohort: Hashing, path: str) -> FindingContext:
    return {path: cohort.told[path]} if path in cohort.told else {}
