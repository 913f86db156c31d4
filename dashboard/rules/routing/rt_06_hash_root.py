"""RT-06: replicas start their block hashes from different roots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.models import State, Told
from dashboard.rules.domain import Facet, SeedPolicy, Store
from dashboard.rules.drift import Contrast, deviation, majority, say, tie
from dashboard.rules.findings import Confidence, Draft, Evidence, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing import seeding
from dashboard.rules.routing.narrowing import caching, only, shown
from dashboard.rules.routing.releases import VERSION
from dashboard.rules.routing.roots import SEED, SEED_VARIABLE, Root, RootKind, as_number, roots
from dashboard.rules.routing.router import expectation
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM
from dashboard.wording import count, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dashboard.rules.subject import Holders, PoolSubject

    Roots = Mapping[Root, tuple[str, ...]]

UNSET = Told("null", State.NULL)
FEWEST = 2  # replicas whose roots can differ


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
        `seed_policy: random` the router needs no equal roots, and the rule only holds for a shared store.

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
        yield from _not_set(hashing)
        seeded = {each for told, held in hashing.values(SEED).items() if told != UNSET for each in held}
        yield from _differing_seeds(only(hashing, seeded), known)
    elif policy is SeedPolicy.DEFAULT:
        yield from (_not_fixed(root, held) for root, held in known.items() if root.kind is not RootKind.FIXED)
    elif any(root.kind is RootKind.SEED for root in known):
        yield from _differing_seeds(hashing, known)
    elif sum(map(len, known.values())) >= FEWEST:
        yield from _differing_roots(hashing, known)


def _not_set(pool: PoolSubject) -> Iterator[Draft]:
    """Draft the replicas that tell that they have no seed, though the router computes from one."""
    unset = pool.values(SEED).get(UNSET)
    if unset:
        evidence = (*shown(pool, SEED, unset), expectation(SEED, SeedPolicy.ENVIRONMENT))
        sentence = f"{SEED_VARIABLE} is not set; the router expects hashes that start from it."
        yield Draft(unset, sentence, evidence, seeding.set_everywhere(), severity=Severity.CRITICAL)


def _not_fixed(root: Root, replicas: tuple[str, ...]) -> Draft:
    """Draft replicas whose root is not the fixed one, though the router computes from that."""
    is_seed = root.kind is RootKind.SEED
    how = f"{SEED_VARIABLE} is {say(root.value)}" if is_seed else f"The root of the block hashes is {_cause(root)}"
    return Draft(
        replicas,
        f"{how}; the router expects vLLM's fixed root.",
        (Evidence(root.path, *root.value, replicas), expectation(SEED, SeedPolicy.DEFAULT)),
        seeding.fixed_root(root),
        Confidence.REPORTED if is_seed else Confidence.DERIVED,
        Severity.CRITICAL,
    )


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


def _differing_roots(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Draft random roots, where no seed is told: against those that have the fixed root, if any do."""
    odd = {root: replicas for root, replicas in known.items() if root.kind is RootKind.RANDOM}
    fixed = {root: replicas for root, replicas in known.items() if root.kind is RootKind.FIXED}
    if odd and fixed:
        yield from (_unlike_the_fixed(root, replicas, fixed) for root, replicas in odd.items())
    elif odd:
        yield _all_random(pool, odd)


def _unlike_the_fixed(root: Root, replicas: tuple[str, ...], fixed: Roots) -> Draft:
    sentence = (
        f"The root of the block hashes is {_cause(root)}, "
        f"while {count(sum(map(len, fixed.values())), 'replica')} of the pool have vLLM's fixed one."
    )
    kept = (Evidence(each.path, *each.value, held, is_reference=True) for each, held in fixed.items())
    evidence = (Evidence(root.path, *root.value, replicas), *kept)
    return Draft(replicas, sentence, evidence, seeding.fixed_root(root), Confidence.DERIVED)


def _all_random(pool: PoolSubject, odd: Roots) -> Draft:
    """Draft a pool in which each replica has a root of its own, as far as anybody tells."""
    everyone = tuple(sorted(replica for replicas in odd.values() for replica in replicas))
    evidence = (
        *(Evidence(root.path, *root.value, replicas) for root, replicas in odd.items()),
        *shown(pool, SEED, everyone),
    )
    why = joined([_cause(root) for root in odd])
    if all(root.is_certain for root in odd):
        sentence = f"Each replica makes up a root of its own for its block hashes: it is {why}, and no seed is set."
        return Draft(everyone, sentence, evidence, seeding.set_everywhere(), Confidence.DERIVED)
    sentence = (
        f"Each replica makes up a root of its own for its block hashes: it is {why}, "
        f"unless {SEED_VARIABLE} is set, and nobody tells whether it is."
    )
    return Draft(everyone, sentence, evidence, seeding.set_or_say(pool.name), Confidence.ASSUMED)


def _cause(root: Root) -> str:
    told = say(root.value)
    return f"random before vLLM 0.29, as on {told}" if root.path == VERSION else f"random with {told}"
