"""RT-05: replicas hash blocks with different algorithms, or with another one than the router."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dashboard.fleet import SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import apart, majority, say
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.hashes import counted_as_one, shown_digests
from dashboard.rules.routing.narrowing import caching
from dashboard.rules.routing.router import unlike_router
from dashboard.rules.subject import Holders, PoolSubject
from dashboard.vllm.canonical import canonical_text

HASH_ALGORITHM = "cache_config.prefix_caching_hash_algo"
NOUN = "hash algorithm"


@rule(
    id="RT-05",
    name="hash-algorithm-differs",
    family=Family.ROUTING,
    severity={
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.INFO,  # before any pool: of equally bad reasons the first is given
        ImpactContext.MODEL: Severity.INFO,
    },
    needs=(HASH_ALGORITHM,),
    least=1,
)
def hash_algorithm_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas hash the same tokens with different algorithms, or with another one than the router.

    The router's algorithm is `expects.hash_algorithm` in fleet.yaml. Replicas that cache no prefixes hash nothing and
    are left out.

    Why it matters:
        - prefix-hash: The router computes hashes with one algorithm; on replicas that use another one it never finds a
          prefix.
        - kv-store: The hash is the key of a stored block, so replicas with another algorithm find nothing of the
          others, and store everything twice.
        - kv-events: An index that makes keys of its own from the tokens in events, such as llm-d's, works with any
          mixture. An older one, which looks up the replicas' own hashes, finds nothing on the odd replicas.
        - any pool: Hashes of the same tokens differ between replicas. A router or a shared store that compares hashes
          never matches these replicas.

    How to fix:
        Use one `--prefix-caching-hash-algo` on every replica: `sha256_cbor` where something outside vLLM computes
        hashes too, for `sha256` hashes what Python's pickle makes of the tokens.

    Exceptions:
        A router that learns both the tokens and the hashes from events, such as llm-d's index, works with any mixture.

    Evidence:
        - vllm/config/cache.py (what each algorithm serializes, and how)
        - vllm-project/vllm#20511

    Example:
        One replica was started with `xxhash` to save time; the router hashes with `sha256_cbor` and sends it no prompt
        because of what it holds.
    """
    hashing, expected = caching(pool), pool.domain.expects.hash_algorithm
    if pool.is_ignored(HASH_ALGORITHM):
        return
    told = _named_alike(hashing)
    if expected is not None:
        drafts = unlike_router(HASH_ALGORITHM, NOUN, told, expected, _why(expected))
        right = told.get(_told(expected), ())
        yield from (_with_digests(hashing, draft, [(draft.replicas, False), (right, True)]) for draft in drafts)
    else:
        for draft in apart({HASH_ALGORITHM: (NOUN, told)}):
            yield _with_digests(hashing, draft, [(each.replicas, each.is_reference) for each in draft.evidence])


def wanted_algorithm(hashing: PoolSubject) -> SettingValue | None:
    """Return the algorithm that this rule has the others change to; None where it leaves the choice, or is ignored.

    `hashing` are the replicas that cache prefixes.
    """
    if hashing.is_ignored(HASH_ALGORITHM):
        return None
    expected = hashing.domain.expects.hash_algorithm
    return _told(expected) if expected is not None else majority(_named_alike(hashing))


def _named_alike(hashing: PoolSubject) -> Holders:
    """Return who tells which algorithm; two names of what hashes alike, as engines computed it, count as one."""
    expected = hashing.domain.expects.hash_algorithm
    first = _told(expected) if expected is not None else None
    return counted_as_one(hashing.values(HASH_ALGORITHM), hashing.fingerprints(), first)


def _with_digests(hashing: PoolSubject, draft: Draft, sides: Sequence[tuple[tuple[str, ...], bool]]) -> Draft:
    """Add what the engines computed: of these replicas, and whether they are what the others are held against."""
    hashes = hashing.fingerprints()
    rows = (row for ids, is_reference in sides for row in shown_digests(hashes, ids, is_reference=is_reference))
    return replace(draft, evidence=(*draft.evidence, *rows))


def _told(algorithm: str) -> SettingValue:
    return SettingValue(canonical_text(algorithm), State.REPORTED)


def _why(expected: str) -> str:
    algorithm = say(_told(expected))
    return (
        f"The router is configured to compute hashes with {algorithm}. A replica with another algorithm has other "
        "hashes for the same tokens, so the router never finds a prefix there."
    )
