"""RT-05: replicas use different hash algorithms. Those with equal hashes count as one."""

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice

from dashboard.compare.hashes import Hashes, count_equal_hashes_as_one, group_by_hashes
from dashboard.compare.holders import Holders
from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.differences import code, differences, majority
from dashboard.rules.findings import Draft, Evidence, Severity, expectation
from dashboard.rules.registry import rule
from dashboard.rules.sentences import setting_name, setting_piece, to_text, value_piece, write
from dashboard.rules.subject import FINGERPRINT, PoolSubject, setting_value

HASH_ALGORITHM = "cache_config.prefix_caching_hash_algo"
MAX_GROUPS = 50  # groups whose digests are in the evidence; the sentence counts all


def digest_evidence(hashes: Hashes, replicas: Collection[str], *, is_reference: bool = False) -> Iterator[Evidence]:
    """Yield the digests of these replicas, one row a group."""
    for digests, members in islice(group_by_hashes(hashes, replicas).items(), MAX_GROUPS):
        value = json.dumps(min(digests) if len(digests) == 1 else sorted(digests))
        yield Evidence(FINGERPRINT, value, State.REPORTED, members, is_reference=is_reference)


@rule("RT-05", needs=(HASH_ALGORITHM,), least=1, spares_own_keys=True)
def hash_algorithm_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas use different hash algorithms, or another one than the router.

    `expects.hash_algorithm` in fleet.yaml declares the router's algorithm. Replicas without prefix caching are
    excluded.
    """
    if pool.is_ignored(HASH_ALGORITHM):
        return
    hashing, wanted = pool.caching, _expected(pool)
    algorithms, hashes = _algorithms(hashing), hashing.fingerprints()
    drafts = differences({HASH_ALGORITHM: algorithms}) if wanted is None else _unlike_router(algorithms, wanted)
    for draft in drafts:
        rows = [*draft.evidence]
        for each in draft.evidence:  # the row of the router has no replicas
            ids = each.replicas or algorithms.get(SettingValue(each.value, each.state), ())
            rows += digest_evidence(hashes, ids, is_reference=each.is_reference)
        yield replace(draft, evidence=tuple(rows))


def _expected(pool: PoolSubject) -> SettingValue | None:
    """Return the router's algorithm."""
    expected = pool.domain.expects.hash_algorithm
    return None if expected is None else setting_value(expected)


def _algorithms(hashing: PoolSubject) -> Holders:
    """Group replicas by algorithm; algorithms with the same hashes count as one."""
    return count_equal_hashes_as_one(hashing.values(HASH_ALGORITHM), hashing.fingerprints(), _expected(hashing))


def wanted_algorithm(hashing: PoolSubject) -> SettingValue | None:
    """Return the algorithm that RT-05 recommends to the replicas that cache; None where it recommends none."""
    if hashing.is_ignored(HASH_ALGORITHM):
        return None
    return _expected(hashing) or majority(_algorithms(hashing))


def _unlike_router(algorithms: Holders, wanted: SettingValue) -> Iterator[Draft]:
    """Yield a draft per algorithm that differs from the router's, critical in every domain."""
    router = value_piece(wanted)
    for own, replicas in algorithms.items():
        if own == wanted:
            continue
        yield Draft(
            replicas,
            write(setting_piece(HASH_ALGORITHM), " is ", value_piece(own), "; the router expects ", router, "."),
            (Evidence(HASH_ALGORITHM, *own, replicas), expectation(HASH_ALGORITHM, json.loads(wanted.value))),
            remedy.set_to(
                [(HASH_ALGORITHM, wanted)],
                f"Set {code(setting_name(HASH_ALGORITHM))} to the router's value and restart these replicas.",
            ),
            severity=Severity.CRITICAL,
            why=f"The router computes hashes with {to_text(wanted)}. A different algorithm produces different "
            "hashes for the same tokens, so the router never finds a prefix there.",
        )
