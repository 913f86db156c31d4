"""Roots of block hashes held against the one that the router computes from: from the seed, or the fixed one."""

from collections.abc import Iterator, Sequence

from dashboard.rules.domain import SeedPolicy
from dashboard.rules.drift import capital, say
from dashboard.rules.findings import Confidence, Draft, Remedy
from dashboard.rules.holders import NOT_SET
from dashboard.rules.routing import seeding
from dashboard.rules.routing.differing_hashes import differing_hashes
from dashboard.rules.routing.hashes import alike
from dashboard.rules.routing.narrowing import only, shown
from dashboard.rules.routing.random_roots import Roots, cause, replicas_of, told_of, without
from dashboard.rules.routing.releases import VERSION, most_run
from dashboard.rules.routing.roots import (
    FROM_SEED,
    SEED,
    SEED_POLICY,
    SEED_VARIABLE,
    UNSEEDED,
    Root,
    RootKind,
    as_number,
    is_fixed,
)
from dashboard.rules.routing.router import expectation
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM, wanted_algorithm
from dashboard.rules.routing.told_seeds import differing_seeds
from dashboard.rules.subject import PoolSubject

FIXED_ROOT = "vLLM's fixed root"


def not_from_seed(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Draft who has no seed, though the router computes from one, and seeds that differ. Who tells none may have it."""
    hashes, holders, policies = pool.fingerprints(), pool.values(SEED, as_number), pool.values(SEED_POLICY)
    seeded = [told for told in holders if told != NOT_SET]
    having = {each for told in seeded for each in holders[told]}.union(policies.get(FROM_SEED, ()))
    lacking = {each for told, ids in policies.items() if told.value in UNSEEDED for each in ids}
    unset = tuple(sorted(lacking.union(holders.get(NOT_SET, ())) - alike(hashes, having)))
    if unset:
        evidence = (*shown(pool, SEED, unset), *shown(pool, SEED_POLICY, unset))
        yield Draft(
            unset,
            f"{SEED_VARIABLE} is not set; the router expects hashes that start from it.",
            (*evidence, expectation(SEED, SeedPolicy.ENVIRONMENT)),
            seeding.like_others(seeded[0]) if seeded else seeding.set_everywhere(),
        )
    others = {member.id for member in pool.members}.difference(unset)
    yield from differing_hashes(only(pool, others), hashes)
    yield from differing_seeds(only(pool, having - hashes.keys()), known)


def not_fixed(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Draft who has not the fixed root that the router computes from, as told or as computed."""
    hashes = pool.fingerprints()
    fixed = {root: held for root, held in known.items() if root.kind is RootKind.FIXED and root.is_certain}
    others = {root: held for root, held in known.items() if root.kind is not RootKind.FIXED}
    odd = without(others, alike(hashes, replicas_of(fixed)))
    yield from (_unlike_the_routers(pool, root, odd[root], known) for root in odd)
    rest = {member.id for member in pool.members}.difference(replicas_of(odd))
    yield from differing_hashes(only(pool, rest), hashes)


def _unlike_the_routers(pool: PoolSubject, root: Root, replicas: tuple[str, ...], known: Roots) -> Draft:
    """Draft replicas whose root is not the fixed one, though the router computes from that."""
    if root.kind is RootKind.SEED:
        value = say(root.value) if root.path == SEED else "set"
        how, way = f"{SEED_VARIABLE} is {value}", seeding.unset()
    else:
        is_random = "random" if root.is_certain else f"random or from {SEED_VARIABLE}"
        how = f"{capital(cause([root]))}, the root of the block hashes is {is_random}"
        way = _fixed_root(pool, root, [each for each in known if each.kind is RootKind.FIXED], known)
    return Draft(
        replicas,
        f"{how}; the router expects {FIXED_ROOT}.",
        (*told_of(pool, replicas), expectation(SEED, SeedPolicy.DEFAULT)),
        way,
        Confidence.REPORTED if root.path in {SEED, SEED_POLICY} else Confidence.DERIVED,
    )


def _fixed_root(pool: PoolSubject, root: Root, fixed: Sequence[Root], known: Roots) -> Remedy:
    """Say how replicas get the fixed root: as others of the pool have it, else as vLLM first had it."""
    part = only(pool, replicas_of(known, fixed))
    if root.path == VERSION and fixed:
        version = most_run(part)
        sentence = f"This is the version difference of ID-08: give these replicas vLLM {say(version)} like the others."
        return seeding.routers_root(pool.name, sentence, (VERSION, version))
    if root.path == VERSION:
        sentence = "Upgrade these replicas to vLLM 0.29 or later."
        return seeding.routers_root(pool.name, sentence, (VERSION, seeding.FIRST_FIXED))
    if (wanted := wanted_algorithm(pool)) is not None and is_fixed(wanted):
        sentence = f"Give these replicas {say(wanted)}, whose root is fixed: the same flag ends RT-05."
        return seeding.routers_root(pool.name, sentence, (HASH_ALGORITHM, wanted))
    algorithm = next(iter(part.values(HASH_ALGORITHM)), seeding.REPRODUCIBLE)
    sentence = f"Give these replicas {say(algorithm)}, whose root is fixed."
    return seeding.routers_root(pool.name, sentence, (HASH_ALGORITHM, algorithm))
