"""Which cohorts can share prefixes: measured by the block hashes that engines tell, else derived from settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from dashboard.compare.prefix import (
    ALGORITHM_PATH,
    CACHING_PATH,
    LENGTH_PATHS,
    SHARING_PATHS,
    VERSION_PATH,
    contrasts_between,
    short_name,
    telling_of,
)
from dashboard.compare.random_root import SEED_PATHS, SEED_POLICY_PATH, is_doubtful, is_random
from dashboard.models import State
from dashboard.normalize.lookahead import LOOKAHEAD, UPGRADE
from dashboard.wording import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dashboard.compare.prefix import Telling
    from dashboard.models import Cohort, Engine, Pool, Replica

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
NOT_MEASURED = "block hashes are not told, and no setting contradicts"
DOUBTFUL = "probably not: each engine has a root of its own unless PYTHONHASHSEED is set, which is not told"
CONNECTOR_PATH = "kv_transfer_config.kv_connector"
_OFF = "false"


class Share(StrEnum):
    """Whether the engines of one cohort, or of two, hash equal tokens to equal blocks."""

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
    told: Telling
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
    paths = [path for path in (*DECIDING_PATHS, CONNECTOR_PATH) if path not in pool.ignored]
    cohorts = tuple(_hashing(cohort, replicas, telling_of(cohort.settings, paths)) for cohort in pool.cohorts)
    return PoolSharing(cohorts, len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts))


def within(cohort: Hashing) -> Cell:
    """Say whether the replicas of a cohort share with each other; of one replica, whether its engines do."""
    if not cohort.tells:
        return _derived(cohort, cohort)
    if cohort.ways == 1 and cohort.digests:
        share = Share.UNKNOWN if cohort.silent else Share.YES
        reason = _silent(cohort.silent) if cohort.silent else EQUAL_HASHES
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
        share = Share.UNKNOWN if silent else Share.YES
        reason = _silent(silent) if silent else _alike(one, other)
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


def _hashing(cohort: Cohort, replicas: Mapping[str, Replica], settings: Telling) -> Hashing:
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
    return share is not Share.UNKNOWN and reason != CACHING_OFF


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
    if one.is_off or other.is_off:
        return Cell(one.letter, other.letter, Share.NO, False, CACHING_OFF, 0, silent)
    if (one.is_random or other.is_random) and not (is_one and one.replicas == 1):
        return Cell(one.letter, other.letter, Share.NO, False, OWN_ROOTS, 0, silent)
    if certain := _named_in(one, other, SHARING_PATHS, but=(VERSION_PATH,)):
        return Cell(one.letter, other.letter, Share.NO, False, certain, 0, silent)
    if (one.is_doubtful or other.is_doubtful) and not (is_one and one.replicas == 1):
        return Cell(one.letter, other.letter, Share.UNKNOWN, False, DOUBTFUL, 0, silent)
    if one.outdated or other.outdated:
        return Cell(one.letter, other.letter, Share.UNKNOWN, False, OUTDATED, 0, silent)
    is_other_release = _named_in(one, other, (VERSION_PATH,))
    reason = "two versions may hash in different ways" if is_other_release else NOT_MEASURED
    return Cell(one.letter, other.letter, Share.UNKNOWN, False, reason, 0, silent)


def _named_in(one: Hashing, other: Hashing, paths: Iterable[str], but: Iterable[str] = ()) -> str:
    """Write `block_size differs` for the settings among `paths` in which two cohorts contradict each other."""
    wanted = [path for path in paths if path not in set(but)]
    names = [short_name(each.path) for each in contrasts_between(one.told, other.told) if each.path in wanted]
    return f"{joined(names)} {'differs' if len(names) == 1 else 'differ'}" if names else ""


def _alike(one: Hashing, other: Hashing) -> str:
    names = although([one, other])
    return (
        f"{EQUAL_HASHES}, although {joined(names)} {'differs' if len(names) == 1 else 'differ'}"
        if names
        else EQUAL_HASHES
    )


def _silent(silent: int) -> str:
    return f"those that tell have equal block hashes; {silent:,} {'does' if silent == 1 else 'do'} not tell"


def _only(cohort: Hashing, path: str) -> Telling:
    return {path: cohort.told[path]} if path in cohort.told else {}
