"""The root of the block hashes, as it follows from what a replica tells: seed policy, version, hash algorithm.

vLLM hashes each block together with its parent; the first parent is made from a seed
(vllm/v1/core/kv_cache_utils.py, resolve_none_hash_seed). Equal tokens have equal hashes only under equal roots.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.compare.random_root import FIXED_SINCE, RANDOM_WITH
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import SeedPolicy
from dashboard.rules.routing.hashes import groups
from dashboard.rules.routing.releases import VERSION
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.versions import has_change

SEED_VARIABLE = "PYTHONHASHSEED"
SEED = f"env.{SEED_VARIABLE}"
SEED_POLICY = "seed_policy"  # what our provider tells in the seed's place: where the root comes from
FROM_SEED = SettingValue(json.dumps(SeedPolicy.ENVIRONMENT), State.REPORTED)
UNSEEDED = (json.dumps(SeedPolicy.DEFAULT), json.dumps(SeedPolicy.RANDOM))
# How the names of algorithms begin that resist collisions (vllm/v1/core/kv_cache_utils.py).
FIXED_WITH = "sha256"
LONGEST_SEED = 10  # digits: Python takes seeds up to 4294967295


class RootKind(StrEnum):
    """Where a root comes from, as a sentence says it."""

    FIXED = "the fixed one of vLLM 0.29 and later"
    RANDOM = "random"
    SEED = "from PYTHONHASHSEED"


class Root(NamedTuple):
    """One root. `path` and `value` are what decides it; `is_certain` where it is told whether a seed is set."""

    kind: RootKind
    path: str
    value: SettingValue
    is_certain: bool


def roots(pool: PoolSubject) -> dict[Root, tuple[str, ...]]:
    """Return the roots that are known, with the members that have them. A random root is another one on each.

    Who hashes as another process does has no random root, whatever is told of it: a seed is set.
    """
    held: dict[Root, list[str]] = {}
    known: dict[str, Root | None] = {}
    shared = _sharing(pool)
    for member in pool.members:
        document = str(member.document)
        if document not in known:
            known[document] = root_of(pool.settings(member))
        root = known[document]
        if root is None:
            continue
        if root.kind is RootKind.RANDOM and member.id in shared:
            root = root._replace(kind=RootKind.SEED, is_certain=True)
        held.setdefault(root, []).append(member.id)
    return {root: tuple(held[root]) for root in sorted(held)}


def _sharing(pool: PoolSubject) -> frozenset[str]:
    """Return the members whose engines hash as those of another process do, of the same replica or another."""
    processes = {each.id: 0 if each.is_second_address else len(each.engines) for each in pool.members}
    found = groups(pool.fingerprints(), processes)
    alike = [each.replicas for each in found if len(each.digests) == 1 and sum(processes[r] for r in each.replicas) > 1]
    return frozenset(replica for replicas in alike for replica in replicas)


def root_of(settings: Mapping[str, Setting]) -> Root | None:
    """Return the root of one document: a seed wins, told or known to be set; None where nothing decides it."""
    seed, policy = _told(settings, SEED), _told(settings, SEED_POLICY)
    if seed is not None and seed.state is State.REPORTED:
        return Root(RootKind.SEED, SEED, as_number(seed, settings), is_certain=True)
    if policy == FROM_SEED:
        return Root(RootKind.SEED, SEED_POLICY, policy, is_certain=True)
    said = policy.value if policy is not None and policy.value in UNSEEDED else None
    return _unseeded(settings, said, is_certain=seed is not None or said is not None)


def _unseeded(settings: Mapping[str, Setting], said: str | None, *, is_certain: bool) -> Root | None:
    """Return the root that vLLM takes by itself: what is said of it counts, else the version and the algorithm."""
    default, random = UNSEEDED
    version, algorithm = _told(settings, VERSION), _told(settings, HASH_ALGORITHM)
    has_fixed = has_change(str(json.loads(version.value)), FIXED_SINCE) if version is not None else None
    if version is not None and has_fixed is False and said != default:
        return Root(RootKind.RANDOM, VERSION, version, is_certain)
    if algorithm is None:
        return None
    if said == random or (said is None and _begins(algorithm, RANDOM_WITH)):
        return Root(RootKind.RANDOM, HASH_ALGORITHM, algorithm, is_certain)
    if said == default or (has_fixed and is_fixed(algorithm)):
        return Root(RootKind.FIXED, HASH_ALGORITHM, algorithm, is_certain)
    return None


def is_fixed(algorithm: SettingValue) -> bool:
    """Tell whether vLLM has a fixed root for a hash algorithm, from 0.29 on."""
    return _begins(algorithm, FIXED_WITH)


def as_number(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """Return a seed in one spelling: the variable is text, and 0 in every form of it is the same seed."""
    value = json.loads(told.value)
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= LONGEST_SEED
    return SettingValue(json.dumps(int(value)), told.state) if is_number else told


def _begins(algorithm: SettingValue, name: str) -> bool:
    value = json.loads(algorithm.value)
    return isinstance(value, str) and value.startswith(name)


def _told(settings: Mapping[str, Setting], path: str) -> SettingValue | None:
    setting = lookup_setting(settings, path)
    return SettingValue(setting.value, setting.state) if setting is not None and is_comparable(setting.state) else None
