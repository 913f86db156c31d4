"""The hash seeds of a pool: compare/prefix.py derives them, and equal digests prove a shared seed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

from dashboard.compare.prefix import (
    DEFAULT,
    ENVIRONMENT,
    RANDOM,
    SEED_PATH,
    SEED_POLICY_PATH,
    HashSeed,
    SeedKind,
    hash_seed,
    is_fixed,
    known_values,
    seed_number,
)
from dashboard.fleet import Setting, SettingValue, State
from dashboard.fleet.formatting import first_of
from dashboard.rules.findings import Evidence
from dashboard.rules.routing.hashes import HASH_ALGORITHM, group_by_hashes
from dashboard.rules.routing.router import VERSION
from dashboard.rules.selection import evidence_of
from dashboard.rules.sentences import MAX_VALUES, say
from dashboard.rules.subject import PoolSubject

SEED, SEED_POLICY = SEED_PATH, SEED_POLICY_PATH  # the provider reports the policy in place of the seed
VARIABLE = "PYTHONHASHSEED"
FROM_VARIABLE = SettingValue(ENVIRONMENT, State.REPORTED)
UNSEEDED = (DEFAULT, RANDOM)

Seeds = Mapping[HashSeed, tuple[str, ...]]  # with the members that have them; a random one differs on each


def seeds_of(pool: PoolSubject) -> dict[HashSeed, tuple[str, ...]]:
    """Return the known seeds with their members. Hashes that match another process prove that a seed is shared."""
    found: dict[HashSeed, list[str]] = {}
    shared = _sharing(pool)
    for replica, seed in pool.of_documents(seed_of).items():
        if seed is None:
            continue
        is_proven = seed.kind is SeedKind.RANDOM and replica in shared
        known = seed._replace(kind=SeedKind.SEED, is_certain=True) if is_proven else seed
        found.setdefault(known, []).append(replica)
    return {seed: tuple(found[seed]) for seed in sorted(found)}


def _sharing(pool: PoolSubject) -> frozenset[str]:
    """Return the members with the hashes of another process, of the same replica or another."""
    processes = {each.id: 0 if each.is_second_address else len(each.engines) for each in pool.members}
    found = group_by_hashes(pool.fingerprints(), processes)
    same = [each.replicas for each in found if len(each.digests) == 1 and sum(processes[r] for r in each.replicas) > 1]
    return frozenset(replica for replicas in same for replica in replicas)


def seed_of(settings: Mapping[str, Setting]) -> HashSeed | None:
    """Return the seed of one document; None where nothing, or a random policy alone, decides it."""
    seed = hash_seed(known_values(settings, (VERSION, HASH_ALGORITHM, SEED, SEED_POLICY)))
    is_policy_alone = seed is not None and seed.kind is SeedKind.RANDOM and seed.path == SEED_POLICY
    return None if is_policy_alone else seed


def as_number(seed: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Return a seed in one spelling, as a meaning."""
    return seed_number(seed)


def by_kind(seeds: Seeds) -> list[dict[HashSeed, tuple[str, ...]]]:
    """Split seeds into random ones, those of the variable, fixed ones."""
    kinds = (SeedKind.RANDOM, SeedKind.SEED, SeedKind.FIXED)
    return [{seed: ids for seed, ids in seeds.items() if seed.kind is kind} for kind in kinds]


def by_cause(seeds: Seeds) -> list[list[HashSeed]]:
    """Group random seeds by what makes them random, version or algorithm, and by certainty."""

    def key(seed: HashSeed) -> tuple[str, bool]:
        return seed.path, seed.is_certain

    return [list(group) for _, group in groupby(sorted(seeds, key=key), key)]


def replicas_of(seeds: Seeds, some: Sequence[HashSeed] | None = None) -> tuple[str, ...]:
    """Return the replicas with these seeds, or with some of them."""
    return tuple(sorted(replica for seed in (seeds if some is None else some) for replica in seeds[seed]))


def without_replicas(seeds: Seeds, replicas: Collection[str]) -> dict[HashSeed, tuple[str, ...]]:
    """Return the seeds of all other replicas."""
    left = {seed: tuple(each for each in ids if each not in replicas) for seed, ids in seeds.items()}
    return {seed: ids for seed, ids in left.items() if ids}


def is_left_to_algorithm(seed: HashSeed, wanted: SettingValue | None) -> bool:
    """Tell whether the algorithm that RT-05 recommends ends a random seed."""
    is_random = (seed.kind, seed.path) == (SeedKind.RANDOM, HASH_ALGORITHM)
    return wanted is not None and is_fixed(wanted) and is_random


def seed_evidence(
    pool: PoolSubject, replicas: tuple[str, ...], reference: tuple[str, ...] = ()
) -> tuple[Evidence, ...]:
    """Return the settings that decide the seeds of these replicas, each followed by those of the reference."""
    return tuple(
        row
        for path in (VERSION, HASH_ALGORITHM, SEED, SEED_POLICY)
        for ids, is_reference in ((replicas, False), (reference, True))
        for row in evidence_of(pool, [path], ids, is_reference=is_reference)
    )


def cause_of(seeds: Sequence[HashSeed]) -> str:
    """Return what makes seeds of one cause random: `before vLLM 0.29 (0.28.0)`, `with xxhash`."""
    values = first_of(dict.fromkeys(say(seed.value) for seed in seeds), MAX_VALUES)
    return f"before vLLM 0.29 ({values})" if seeds[0].path == VERSION else f"with {values}"


def causes_of(seeds: Iterable[HashSeed]) -> str:
    """Return what makes random seeds random."""
    every = list(seeds)
    by_path = ([seed for seed in every if seed.path == path] for path in (VERSION, HASH_ALGORITHM))
    return " and ".join(cause_of(each) for each in by_path if each)
