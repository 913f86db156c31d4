"""RT-05, and which replicas compute the same block hashes, by the digests that their engines report."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.fleet import SettingValue, State
from dashboard.rules.differences import differences, majority
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.router import differs_from_router
from dashboard.rules.selection import caching
from dashboard.rules.sentences import say
from dashboard.rules.subject import FINGERPRINT, Holders, PoolSubject, group_by_value, setting_value

Digests = frozenset[str]
Hashes = Mapping[str, Digests]  # replica -> digests of its engines (PoolSubject.fingerprints)

HASH_ALGORITHM = "cache_config.prefix_caching_hash_algo"
MAX_GROUPS = 50  # groups whose digests are in the evidence; the sentence counts all


class Group(NamedTuple):
    """Replicas with the same digests. With several digests the ranks of each replica differ."""

    digests: Digests
    replicas: tuple[str, ...]


def group_by_hashes(hashes: Hashes, replicas: Collection[str]) -> list[Group]:
    """Group replicas with the same hashes, the largest group first; those that report none are left out."""
    known: dict[Digests, list[str]] = defaultdict(list)
    for replica in sorted(replicas):
        if replica in hashes:
            known[hashes[replica]].append(replica)
    found = [Group(digests, tuple(ids)) for digests, ids in known.items()]
    return sorted(found, key=lambda group: (-len(group.replicas), sorted(group.digests)))


def same_hashes(hashes: Hashes, replicas: Collection[str]) -> frozenset[str]:
    """Return all replicas with the hashes of any of these."""
    wanted = {hashes[each] for each in replicas if each in hashes}
    return frozenset(replica for replica, digests in hashes.items() if digests in wanted)


def count_equal_hashes_as_one(holders: Holders, hashes: Hashes, first: SettingValue | None = None) -> Holders:
    """Count values as one where their replicas have the same hashes: `first` if among them, else the most frequent."""
    if len(holders) <= 1:
        return holders
    place = {value: number for number, value in enumerate(holders)} | ({first: -1} if first is not None else {})
    values = {replica: value for value, replicas in holders.items() for replica in replicas}
    for group in group_by_hashes(hashes, values):
        common = min((values[replica] for replica in group.replicas), key=lambda value: place[value])
        values |= dict.fromkeys(group.replicas, common)
    return group_by_value(values)


def digest_evidence(hashes: Hashes, replicas: Collection[str], *, is_reference: bool = False) -> Iterator[Evidence]:
    """Yield the digests of these replicas, one row a group."""
    for group in group_by_hashes(hashes, replicas)[:MAX_GROUPS]:
        digests = sorted(group.digests)
        value = json.dumps(digests[0] if len(digests) == 1 else digests)
        yield Evidence(FINGERPRINT, value, State.REPORTED, group.replicas, is_reference=is_reference)


# kv-events is before any pool: of equal severities the first reason counts.
@rule(
    "RT-05",
    {
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.INFO,
        ImpactContext.MODEL: Severity.INFO,
    },
    needs=(HASH_ALGORITHM,),
    least=1,
)
def hash_algorithm_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas use different hash algorithms, or another one than the router.

    The router's algorithm is `expects.hash_algorithm` in fleet.yaml. Replicas without prefix caching are excluded.

    Why it matters:
        - prefix-hash: The router computes hashes with one algorithm. It never matches replicas with another one.
        - kv-store: Store keys are block hashes. Replicas with another algorithm share nothing and store everything
          twice.
        - kv-events: An index that computes its own keys from the tokens in events, such as llm-d's, is not affected.
          An older one that looks up the replicas' hashes finds nothing on the other replicas.
        - any pool: Hashes of the same tokens differ between replicas. A router or store that compares hashes never
          matches these replicas.

    How to fix:
        Set one `--prefix-caching-hash-algo` on every replica. Use `sha256_cbor` where something outside vLLM computes
        hashes: `sha256` hashes Python's pickle format.

    Exceptions:
        A router that learns tokens and hashes from events, such as llm-d's index, supports any mixture.

    Evidence:
        - vllm/config/cache.py (what each algorithm serializes, and how)
        - vllm-project/vllm#20511

    Example:
        One replica was started with `xxhash` to save time. The router hashes with `sha256_cbor` and never finds a
        prefix in its cache.
    """
    hashing, expected = caching(pool), pool.domain.expects.hash_algorithm
    if pool.is_ignored(HASH_ALGORITHM):
        return
    algorithms = _algorithms(hashing)
    if expected is not None:
        matching = algorithms.get(setting_value(expected), ())
        for draft in differs_from_router(HASH_ALGORITHM, algorithms, expected, _why(expected)):
            yield _with_digests(hashing, draft, [(draft.replicas, False), (matching, True)])
    else:
        for draft in differences({HASH_ALGORITHM: algorithms}):
            yield _with_digests(hashing, draft, [(each.replicas, each.is_reference) for each in draft.evidence])


def wanted_algorithm(hashing: PoolSubject) -> SettingValue | None:
    """Return the algorithm that RT-05 recommends to the replicas that cache; None where it recommends none."""
    if hashing.is_ignored(HASH_ALGORITHM):
        return None
    expected = hashing.domain.expects.hash_algorithm
    return setting_value(expected) if expected is not None else majority(_algorithms(hashing))


def _algorithms(hashing: PoolSubject) -> Holders:
    """Group replicas by algorithm; algorithms with the same hashes count as one."""
    expected = hashing.domain.expects.hash_algorithm
    first = setting_value(expected) if expected is not None else None
    return count_equal_hashes_as_one(hashing.values(HASH_ALGORITHM), hashing.fingerprints(), first)


def _with_digests(hashing: PoolSubject, draft: Draft, sides: Sequence[tuple[tuple[str, ...], bool]]) -> Draft:
    """Add the digests of (replicas, whether they are the reference) to a draft."""
    hashes = hashing.fingerprints()
    rows = (row for ids, is_reference in sides for row in digest_evidence(hashes, ids, is_reference=is_reference))
    return replace(draft, evidence=(*draft.evidence, *rows))


def _why(expected: str) -> str:
    return (
        f"The router computes hashes with {say(setting_value(expected))}. Another algorithm makes other hashes of the "
        "same tokens, so the router never finds a prefix there."
    )
