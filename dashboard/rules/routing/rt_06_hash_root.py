"""RT-06: replicas start their block hashes from different roots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.models import State, Told
from dashboard.rules.domain import Facet, SeedPolicy, Store
from dashboard.rules.drift import Contrast, apart, capital, deviation, majority, say, tie
from dashboard.rules.findings import Confidence, Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing import seeding
from dashboard.rules.routing.differing_hashes import differing_hashes
from dashboard.rules.routing.hashes import alike, groups
from dashboard.rules.routing.narrowing import caching, only, shown
from dashboard.rules.routing.random_roots import FEWEST, cause, differing_roots, replicas_of, told_of, without
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
    roots,
)
from dashboard.rules.routing.router import expectation
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM, wanted_algorithm
from dashboard.rules.subject import FINGERPRINT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dashboard.rules.findings import Remedy
    from dashboard.rules.routing.random_roots import Roots
    from dashboard.rules.subject import Holders, PoolSubject

UNSET = Told("null", State.NULL)
FIXED_ROOT = "vLLM's fixed root"


@rule(
    id="RT-06",
    name="hash-root-differs",
    family=Family.ROUTING,
    severity={
        Facet.PREFIX_HASH: Severity.CRITICAL,
        Facet.KV_STORE: Severity.CRITICAL,
        Facet.KV_EVENTS: Severity.INFO,
    },
    needs=(FINGERPRINT, SEED_POLICY, SEED, VERSION, HASH_ALGORITHM),
    least=1,
)
def hash_root_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas start their block hashes from different roots, so the same tokens have other hashes on each.

    From 0.29 on vLLM has one fixed root for `sha256` and `sha256_cbor`; before that, and with `xxhash` at any version,
    each engine process makes up a root of its own unless `PYTHONHASHSEED` is set, and so do the data-parallel ranks of
    one replica. The dashboard's provider tells what each engine really computed: where replicas tell it, that decides,
    whatever their settings say. Of the others it follows from version, algorithm and, where it is told, whether the
    variable is set. What the router expects is `expects.seed_policy` in fleet.yaml: `default`, `environment` or
    `random`.

    Why it matters:
        - prefix-hash: The router computes hashes from one root; on replicas with another root it never finds a prefix,
          although each replica for itself caches well.
        - kv-store: The root is in every key of the store. Replicas with different roots never find what the others have
          put there: no shared hit at all.
        - kv-events: An index that makes keys of its own from the tokens in events is not harmed; one that compares the
          replicas' hashes sees each prefix as a new one on each replica.

    How to fix:
        Set `PYTHONHASHSEED` to the same value on every replica before Python starts, and on LMCache servers and routers
        that compute hashes. Or run 0.29 or later with `sha256` or `sha256_cbor` everywhere, and set it nowhere.

    Exceptions:
        Where the variable is set and nobody tells, say so: `seed_policy: environment` under the pool's `expects`. With
        `seed_policy: random` the router needs no equal roots, and the rule only holds for a shared store. Replicas that
        get the fixed root by doing what RT-05 says of their algorithm are left to RT-05, and those that only cut blocks
        of another length to RT-01 and RT-03.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (resolve_none_hash_seed)
        - vllm-project/vllm#51875
        - LMCache/LMCache#1139
        - llm-d/llm-d#1290
        - captures/0.32.0 (two servers with one command line and xxhash: the same block has two hashes)

    Example:
        Three of four replicas were started with `PYTHONHASHSEED=0`. The fourth was started by hand without it: it
        answers well, caches well, and no other replica and no router ever finds what it holds.
    """
    policy = pool.domain.expects.seed_policy
    is_needless = policy is SeedPolicy.RANDOM and pool.domain.kv_store is Store.NONE
    if is_needless or pool.is_ignored(SEED):
        return
    hashing = caching(pool)
    known = roots(hashing)
    if policy is SeedPolicy.ENVIRONMENT:
        drafts = _of_seeded(hashing, known)
        yield from (replace(each, severity=Severity.CRITICAL, why=_why(pool, SEED_VARIABLE)) for each in drafts)
    elif policy is SeedPolicy.DEFAULT:
        drafts = _unlike_the_routers(hashing, known)
        yield from (replace(each, severity=Severity.CRITICAL, why=_why(pool, FIXED_ROOT)) for each in drafts)
    else:
        yield from _unlike_each_other(hashing, _possible(hashing, known))


def _why(pool: PoolSubject, source: str) -> str | None:
    """Say why a root that the router does not expect hurts, where nothing but that expectation makes it hurt."""
    if not pool.facets.isdisjoint((Facet.PREFIX_HASH, Facet.KV_STORE)):
        return None
    return (
        f"The router is configured to compute hashes that start from {source}. On a replica with another root the "
        "same tokens have other hashes, so the router never finds a prefix there."
    )


def _unlike_each_other(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Draft hashes that engines computed and that differ; of who tells none, what follows from settings."""
    hashes = pool.fingerprints()
    measured = list(differing_hashes(pool, hashes))
    yield from measured
    judged = {replica for draft in measured for replica in draft.replicas}
    left = without(known, judged)
    if any(root.kind is RootKind.SEED for root in left):
        silent = only(pool, {member.id for member in pool.members} - hashes.keys())
        yield from _differing_seeds(silent, left)
        yield from _seeded_in_part(silent)
    else:
        yield from differing_roots(pool, left, FEWEST - bool(judged))


def _possible(pool: PoolSubject, known: Roots) -> Roots:
    """Leave out roots that engines have disproved: two processes that hash alike start from no random root."""
    first = {member.id for member in pool.members if not member.is_second_address}
    alike_ones = [group.replicas for group in groups(pool.fingerprints(), first) if len(group.replicas) > 1]
    random = replicas_of({root: held for root, held in known.items() if root.kind is RootKind.RANDOM})
    return without(known, {each for held in alike_ones for each in held}.intersection(random))


def _of_seeded(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Draft who has no seed, though the router computes from one, and seeds that differ. Who tells none may have it."""
    hashes, holders, policies = pool.fingerprints(), pool.values(SEED, as_number), pool.values(SEED_POLICY)
    seeded = [told for told in holders if told != UNSET]
    having = {each for told in seeded for each in holders[told]}.union(policies.get(FROM_SEED, ()))
    lacking = {each for told, ids in policies.items() if told.value in UNSEEDED for each in ids}
    unset = tuple(sorted(lacking.union(holders.get(UNSET, ())) - alike(hashes, having)))
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
    yield from _differing_seeds(only(pool, having - hashes.keys()), known)


def _unlike_the_routers(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Draft who has not the fixed root that the router computes from, as told or as computed."""
    hashes = pool.fingerprints()
    fixed = {root: held for root, held in known.items() if root.kind is RootKind.FIXED and root.is_certain}
    others = {root: held for root, held in known.items() if root.kind is not RootKind.FIXED}
    odd = without(others, alike(hashes, replicas_of(fixed)))
    yield from (_not_fixed(pool, root, odd[root], known) for root in odd)
    rest = {member.id for member in pool.members}.difference(replicas_of(odd))
    yield from differing_hashes(only(pool, rest), hashes)


def _not_fixed(pool: PoolSubject, root: Root, replicas: tuple[str, ...], known: Roots) -> Draft:
    """Draft replicas whose root is not the fixed one, though the router computes from that."""
    if root.kind is RootKind.SEED:
        value = "set" if root.path == SEED_POLICY else say(root.value)
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
        Confidence.REPORTED if root.kind is RootKind.SEED else Confidence.DERIVED,
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


def _differing_seeds(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Compare the seeds that are told, and that none is set. Who does not tell is left out: it may be any."""
    holders = pool.values(SEED, as_number)
    if len(holders) < FEWEST:
        return
    reference = _seed_to_keep(holders, known)
    if reference is None:
        yield replace(tie(SEED, SEED_VARIABLE, holders), remedy=seeding.set_everywhere())
        return
    for own, replicas in holders.items():
        if own != reference:
            draft = deviation(
                {SEED: (SEED_VARIABLE, holders)}, [Contrast(SEED, SEED_VARIABLE, own, reference)], replicas
            )
            yield replace(draft, remedy=seeding.like_others(reference))


def _seeded_in_part(pool: PoolSubject) -> Iterator[Draft]:
    """Draft replicas of which some have a seed and some have none, where nobody tells what their engines computed."""
    holders = pool.values(SEED_POLICY)
    if FROM_SEED in holders:
        is_free = all(map(is_fixed, pool.values(HASH_ALGORITHM)))
        way = seeding.one_seed(may_be_unset=is_free)
        drafts = apart({SEED_POLICY: ("source of the root of the block hashes", holders)})
        yield from (replace(each, remedy=way, confidence=Confidence.DERIVED) for each in drafts)


def _seed_to_keep(holders: Holders, known: Roots) -> Told | None:
    """Return what most have, or the only seed there is where those without one start at random; else None."""
    most = majority(holders)
    is_random = any(root.kind is RootKind.RANDOM and root.is_certain for root in known)
    if most is not None and (most.state is State.REPORTED or not is_random):
        return most
    seeds = [told for told in holders if told.state is State.REPORTED]
    return seeds[0] if len(seeds) == 1 and is_random else None
