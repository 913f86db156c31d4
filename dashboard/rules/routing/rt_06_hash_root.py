"""RT-06: replicas start their block hashes from different roots."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet.formatting import count
from dashboard.rules.domain import ImpactContext, SeedPolicy, Store
from dashboard.rules.findings import Draft, Family, Severity, Unjudged
from dashboard.rules.registry import rule
from dashboard.rules.routing.differing_hashes import differing_hashes
from dashboard.rules.routing.narrowing import caching, only
from dashboard.rules.routing.random_roots import FEWEST, Roots, differing_roots, replicas_of, without
from dashboard.rules.routing.releases import VERSION
from dashboard.rules.routing.roots import SEED, SEED_POLICY, SEED_VARIABLE, RootKind, roots
from dashboard.rules.routing.routers_root import FIXED_ROOT, not_fixed, not_from_seed
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM
from dashboard.rules.routing.told_seeds import differing_seeds, seeded_in_part
from dashboard.rules.subject import FINGERPRINT, PoolSubject

COMPARING = (ImpactContext.PREFIX_HASH, ImpactContext.KV_STORE, ImpactContext.KV_EVENTS)


@rule(
    id="RT-06",
    name="hash-root-differs",
    family=Family.ROUTING,
    severity={
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.INFO,  # before any pool: of equally bad reasons the first is given
        ImpactContext.MODEL: Severity.INFO,
    },
    needs=(FINGERPRINT, SEED_POLICY, SEED, VERSION, HASH_ALGORITHM),
    least=1,
)
def hash_root_differs(pool: PoolSubject) -> Iterator[Draft | Unjudged]:
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
        - any pool: The same tokens have other hashes on each replica. Nothing configured here compares them; a shared
          store would never match.

    How to fix:
        Set `PYTHONHASHSEED` to the same value on every replica before Python starts, and on LMCache servers and routers
        that compute hashes. Or run 0.29 or later with `sha256` or `sha256_cbor` everywhere, and set it nowhere.

    Exceptions:
        A replica that reports neither its seed nor its block hashes is unknown. Where the variable is set and nobody
        reports it, declare `seed_policy: environment` under the pool's `expects`. With
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
    yield from _unknown(hashing, known)
    if policy is SeedPolicy.ENVIRONMENT:
        drafts = not_from_seed(hashing, known)
        yield from (replace(each, severity=Severity.CRITICAL, why=_why(pool, SEED_VARIABLE)) for each in drafts)
    elif policy is SeedPolicy.DEFAULT:
        drafts = not_fixed(hashing, known)
        yield from (replace(each, severity=Severity.CRITICAL, why=_why(pool, FIXED_ROOT)) for each in drafts)
    else:
        # Where nothing compares hashes, a seed that is only assumed to be unset is not worth a finding.
        is_compared = not pool.facets.isdisjoint(COMPARING)
        yield from (each for each in _unlike_each_other(hashing, known) if is_compared or not each.assumptions)


def _unknown(hashing: PoolSubject, known: Roots) -> Iterator[Unjudged]:
    """Yield who reports neither digests nor a seed: vLLM's default may be in force there, or any seed."""
    certain = replicas_of({root: held for root, held in known.items() if root.is_certain})
    silent = {member.id for member in hashing.members}.difference(certain, hashing.fingerprints())
    if silent and len(hashing.members) >= FEWEST:
        total = len(hashing.members)
        is_all = len(silent) == total
        reason = f"{SEED_VARIABLE} and block hashes: reported by 0 of {count(total, 'replica')}." if is_all else ""
        yield Unjudged(tuple(sorted(silent)), reason)


def _why(pool: PoolSubject, source: str) -> str | None:
    """Say why a root that the router does not expect hurts, where nothing but that expectation makes it hurt."""
    if not pool.facets.isdisjoint((ImpactContext.PREFIX_HASH, ImpactContext.KV_STORE)):
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
        yield from differing_seeds(silent, left)
        yield from seeded_in_part(silent)
    else:
        yield from differing_roots(pool, left, FEWEST - bool(judged))
