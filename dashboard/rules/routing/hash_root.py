"""RT-06: replicas have different hash seeds."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.compare.prefix import SeedKind
from dashboard.fleet.formatting import count
from dashboard.rules.domain import ImpactContext, SeedPolicy, Store
from dashboard.rules.findings import Draft, NotEvaluated, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.hash_seed import (
    SEED,
    SEED_POLICY,
    VARIABLE,
    Seeds,
    replicas_of,
    seeds_of,
    without_replicas,
)
from dashboard.rules.routing.hashes import HASH_ALGORITHM
from dashboard.rules.routing.router import VERSION
from dashboard.rules.routing.seed_comparison import (
    FEWEST,
    FIXED_SEED,
    differing_hashes,
    differing_random_seeds,
    differing_values,
    partly_set,
    unlike_routers_fixed,
    unlike_routers_variable,
)
from dashboard.rules.selection import caching
from dashboard.rules.subject import FINGERPRINT, PoolSubject

COMPARING = (ImpactContext.PREFIX_HASH, ImpactContext.KV_STORE, ImpactContext.KV_EVENTS)


# kv-events is before any pool: of equal severities the first reason counts.
@rule(
    "RT-06",
    {
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.INFO,
        ImpactContext.MODEL: Severity.INFO,
    },
    needs=(FINGERPRINT, SEED_POLICY, SEED, VERSION, HASH_ALGORITHM),
    least=1,
)
def hash_root_differs(pool: PoolSubject) -> Iterator[Draft | NotEvaluated]:
    """Replicas have different hash seeds, so the same tokens have different hashes.

    Since 0.29 vLLM has one fixed hash seed for `sha256` and `sha256_cbor`. Before that, and with `xxhash` at any
    version, every engine process uses a random one unless `PYTHONHASHSEED` is set; so do the data-parallel ranks of one
    replica. The dashboard's provider reports the hashes that each engine computed: these decide where reported. For the
    others the seed is derived from version, algorithm and variable. The router's policy is `expects.seed_policy` in
    fleet.yaml: `default`, `environment` or `random`.

    Why it matters:
        - prefix-hash: The router computes hashes from one seed. It never matches replicas with another seed, although
          their own caches work.
        - kv-store: Every store key depends on the seed. Replicas with different seeds share nothing.
        - kv-events: An index that computes its own keys from the tokens in events is not affected. One that compares
          the replicas' hashes treats every prefix as new on each replica.
        - any pool: The same tokens have different hashes on each replica. Nothing configured here compares them, but a
          shared store would never match.

    How to fix:
        Set `PYTHONHASHSEED` to the same value on every replica before Python starts, and on LMCache servers and routers
        that compute hashes. Or run 0.29 or later with `sha256` or `sha256_cbor` everywhere, and set it nowhere.

    Exceptions:
        A replica that reports neither seed nor block hashes is unknown. Where the variable is set but not reported,
        declare `seed_policy: environment` under the pool's `expects`. With `seed_policy: random` only a shared store
        needs equal seeds. Seeds that RT-05's remedy fixes are left to RT-05, block lengths to RT-01 and RT-03.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (resolve_none_hash_seed)
        - vllm-project/vllm#51875
        - LMCache/LMCache#1139
        - llm-d/llm-d#1290
        - captures/0.32.0 (two servers with one command line and xxhash: the same block has two hashes)

    Example:
        Three of four replicas were started with `PYTHONHASHSEED=0`, the fourth without. It answers and caches well, but
        no other replica and no router ever finds its blocks.
    """
    policy = pool.domain.expects.seed_policy
    is_needless = policy is SeedPolicy.RANDOM and pool.domain.kv_store is Store.NONE
    if is_needless or pool.is_ignored(SEED):
        return
    hashing = caching(pool)
    seeds = seeds_of(hashing)
    yield from _unknown(hashing, seeds)
    if policy is SeedPolicy.ENVIRONMENT:
        drafts = unlike_routers_variable(hashing, seeds)
        yield from (replace(each, severity=Severity.CRITICAL, why=_why(pool, VARIABLE)) for each in drafts)
    elif policy is SeedPolicy.DEFAULT:
        drafts = unlike_routers_fixed(hashing, seeds)
        yield from (replace(each, severity=Severity.CRITICAL, why=_why(pool, FIXED_SEED)) for each in drafts)
    else:
        # Where nothing compares hashes, an assumed random seed is not reported.
        is_compared = not pool.contexts.isdisjoint(COMPARING)
        yield from (each for each in _unlike_each_other(hashing, seeds) if is_compared or not each.assumptions)


def _unknown(hashing: PoolSubject, seeds: Seeds) -> Iterator[NotEvaluated]:
    """Yield replicas that report neither hashes nor a seed."""
    certain = replicas_of({seed: ids for seed, ids in seeds.items() if seed.is_certain})
    silent = {member.id for member in hashing.members}.difference(certain, hashing.fingerprints())
    if silent and len(hashing.members) >= FEWEST:
        total = len(hashing.members)
        is_all = len(silent) == total
        reason = f"{VARIABLE} and block hashes: reported by 0 of {count(total, 'replica')}." if is_all else ""
        yield NotEvaluated(tuple(sorted(silent)), reason)


def _why(pool: PoolSubject, source: str) -> str | None:
    """Return the impact of another seed than the router's; None where the rule's own reasons apply."""
    if not pool.contexts.isdisjoint((ImpactContext.PREFIX_HASH, ImpactContext.KV_STORE)):
        return None
    return (
        f"The router computes hashes that start from {source}. Another seed makes other hashes of the same tokens, so "
        "the router never finds a prefix there."
    )


def _unlike_each_other(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Draft computed hashes that differ; for replicas without hashes what follows from settings."""
    hashes = pool.fingerprints()
    measured = list(differing_hashes(pool, hashes))
    yield from measured
    left = without_replicas(seeds, {replica for draft in measured for replica in draft.replicas})
    if any(seed.kind is SeedKind.SEED for seed in left):
        silent = pool.without(hashes.keys())
        yield from differing_values(silent, left)
        yield from partly_set(silent)
    else:
        yield from differing_random_seeds(pool, left, FEWEST - bool(measured))
