"""RT-06: replicas start their block hashes from different roots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.models import State, Told
from dashboard.rules.domain import Facet, SeedPolicy, Store
from dashboard.rules.drift import Contrast, capital, deviation, majority, say, tie
from dashboard.rules.findings import Confidence, Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing import seeding
from dashboard.rules.routing.narrowing import caching, only, shown
from dashboard.rules.routing.random_roots import FEWEST, cause, differing_roots, replicas_of, told_of
from dashboard.rules.routing.releases import VERSION, most_run
from dashboard.rules.routing.roots import SEED, SEED_VARIABLE, Root, RootKind, as_number, is_fixed, roots
from dashboard.rules.routing.router import expectation
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM, wanted_algorithm

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
    needs=(SEED, VERSION, HASH_ALGORITHM),
    least=1,
)
def hash_root_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas start their block hashes from different roots, so the same tokens have other hashes on each.

    From 0.29 on vLLM has one fixed root for `sha256` and `sha256_cbor`; before that, and with `xxhash` at any version,
    each process makes up a root of its own unless `PYTHONHASHSEED` is set. No public endpoint tells whether it is set.
    What the router expects is `expects.seed_policy` in fleet.yaml: `default`, `environment` or `random`.

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
        get the fixed root by doing what RT-05 says of their algorithm are left to RT-05.

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
        odd = (root for root in known if root.kind is not RootKind.FIXED)
        drafts = (_not_fixed(hashing, root, known) for root in odd)
        yield from (replace(each, severity=Severity.CRITICAL, why=_why(pool, FIXED_ROOT)) for each in drafts)
    elif any(root.kind is RootKind.SEED for root in known):
        yield from _differing_seeds(hashing, known)
    else:
        yield from differing_roots(hashing, known)


def _why(pool: PoolSubject, source: str) -> str | None:
    """Say why a root that the router does not expect hurts, where nothing but that expectation makes it hurt."""
    if not pool.facets.isdisjoint((Facet.PREFIX_HASH, Facet.KV_STORE)):
        return None
    return (
        f"The router is configured to compute hashes that start from {source}. On a replica with another root the "
        "same tokens have other hashes, so the router never finds a prefix there."
    )


def _of_seeded(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Draft who has no seed, though the router computes from one, and seeds that differ. Who tells none may have it."""
    holders = pool.values(SEED, as_number)
    unset = holders.get(UNSET, ())
    seeded = [told for told in holders if told != UNSET]
    if unset:
        evidence = (*shown(pool, SEED, unset), expectation(SEED, SeedPolicy.ENVIRONMENT))
        sentence = f"{SEED_VARIABLE} is not set; the router expects hashes that start from it."
        yield Draft(unset, sentence, evidence, seeding.like_others(seeded[0]) if seeded else seeding.set_everywhere())
    yield from _differing_seeds(only(pool, [each for told in seeded for each in holders[told]]), known)


def _not_fixed(pool: PoolSubject, root: Root, known: Roots) -> Draft:
    """Draft replicas whose root is not the fixed one, though the router computes from that."""
    replicas = known[root]
    if root.kind is RootKind.SEED:
        how, way = f"{SEED_VARIABLE} is {say(root.value)}", seeding.unset()
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


def _seed_to_keep(holders: Holders, known: Roots) -> Told | None:
    """Return what most have, or the only seed there is where those without one start at random; else None."""
    most = majority(holders)
    is_random = any(root.kind is RootKind.RANDOM and root.is_certain for root in known)
    if most is not None and (most.state is State.REPORTED or not is_random):
        return most
    seeds = [told for told in holders if told.state is State.REPORTED]
    return seeds[0] if len(seeds) == 1 and is_random else None
