"""The roots of the block hashes of a pool: `compare/prefix.py` derives them, matching digests prove a shared seed."""

from collections.abc import Mapping

from dashboard.compare.prefix import (
    ALGORITHM_PATH,
    DEFAULT,
    ENVIRONMENT,
    RANDOM,
    VERSION_PATH,
    hash_seed,
    is_fixed,
    known_values,
    seed_number,
)
from dashboard.compare.prefix import SEED_PATH as SEED
from dashboard.compare.prefix import SEED_POLICY_PATH as SEED_POLICY
from dashboard.compare.prefix import HashSeed as Root
from dashboard.compare.prefix import SeedKind as RootKind
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.routing.hashes import groups
from dashboard.rules.subject import PoolSubject

__all__ = [
    "FROM_SEED",
    "SEED",
    "SEED_POLICY",
    "SEED_VARIABLE",
    "UNSEEDED",
    "Root",
    "RootKind",
    "as_number",
    "is_fixed",
    "root_of",
    "roots",
]
SEED_VARIABLE = "PYTHONHASHSEED"
FROM_SEED = SettingValue(ENVIRONMENT, State.REPORTED)
UNSEEDED = (DEFAULT, RANDOM)


def roots(pool: PoolSubject) -> dict[Root, tuple[str, ...]]:
    """Return the known roots with their members. A random root is another one on each member."""
    held: dict[Root, list[str]] = {}
    known: dict[str, Root | None] = {}
    shared = _sharing(pool)
    for member in pool.members:
        document = str(member.document)
        if document not in known:
            known[document] = root_of(pool.settings(member))
        root = known[document]
        if root is None:
            continue
        if root.kind is RootKind.RANDOM and member.id in shared:
            root = root._replace(kind=RootKind.SEED, is_certain=True)
        held.setdefault(root, []).append(member.id)
    return {root: tuple(held[root]) for root in sorted(held)}


def root_of(settings: Mapping[str, Setting]) -> Root | None:
    """Return the root of one document; None where only the policy says that it is random, or nothing decides it."""
    root = hash_seed(known_values(settings, (VERSION_PATH, ALGORITHM_PATH, SEED, SEED_POLICY)))
    is_policy_alone = root is not None and root.kind is RootKind.RANDOM and root.path == SEED_POLICY
    return None if is_policy_alone else root


def as_number(value: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """Return a seed in one spelling: the variable is text, and 0 in every form of it is the same seed."""
    return seed_number(value)


def _sharing(pool: PoolSubject) -> frozenset[str]:
    """Return the members whose engines hash as those of another process do, of the same replica or another."""
    processes = {each.id: 0 if each.is_second_address else len(each.engines) for each in pool.members}
    found = groups(pool.fingerprints(), processes)
    alike = [each.replicas for each in found if len(each.digests) == 1 and sum(processes[r] for r in each.replicas) > 1]
    return frozenset(replica for replicas in alike for replica in replicas)
