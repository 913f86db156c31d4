"""Block hashes that start at random where no seed is told, and those beside them that start from the fixed root."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from dashboard.rules.drift import MOST_SIDES, say
from dashboard.rules.findings import Confidence, Draft
from dashboard.rules.routing import seeding
from dashboard.rules.routing.narrowing import only, shown
from dashboard.rules.routing.releases import VERSION, most_run
from dashboard.rules.routing.roots import SEED, SEED_VARIABLE, Root, RootKind, is_fixed
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM, wanted_algorithm
from dashboard.wording import count, first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dashboard.rules.findings import Evidence, Remedy
    from dashboard.rules.subject import PoolSubject

    Roots = Mapping[Root, tuple[str, ...]]

FEWEST = 2  # replicas whose roots can differ
NOT_TOLD = f"unless {SEED_VARIABLE} is set there, which no reply tells"
NOT_SET = f"and {SEED_VARIABLE} is not set there"


def differing_roots(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Yield what differs from the fixed root where the pool is to have that, else all random roots at once.

    Replicas that get the fixed root by doing what RT-05 says of them are left out: one cause is one finding.
    """
    wanted = wanted_algorithm(pool)
    is_cured = wanted is not None and is_fixed(wanted)
    odd = {
        root: held
        for root, held in known.items()
        if root.kind is RootKind.RANDOM and not (is_cured and root.path == HASH_ALGORITHM)
    }
    fixed = replicas_of({root: held for root, held in known.items() if root.kind is RootKind.FIXED})
    if fixed and (is_cured or wanted is None):
        yield from (_unlike_the_fixed(pool, group, replicas_of(odd, group), fixed) for group in _by_cause(odd))
    elif odd and len(replicas_of(odd)) + len(fixed) >= FEWEST:
        yield _all_random(pool, odd)


def replicas_of(known: Roots, some: Sequence[Root] | None = None) -> tuple[str, ...]:
    """Return who has these roots, or some of them."""
    return tuple(sorted(replica for root in (known if some is None else some) for replica in known[root]))


def told_of(pool: PoolSubject, replicas: tuple[str, ...], reference: tuple[str, ...] = ()) -> tuple[Evidence, ...]:
    """Hold like against like: what decides the roots, as these replicas tell it and as the reference does."""
    return tuple(
        row
        for path in (VERSION, HASH_ALGORITHM, SEED)
        for held, is_reference in ((replicas, False), (reference, True))
        for row in shown(pool, path, held, is_reference=is_reference)
    )


def cause(roots: Sequence[Root]) -> str:
    """Say what makes roots random that have one cause, as the end of `before vLLM 0.29, as on 0.28.0`."""
    named = first_of(dict.fromkeys(say(root.value) for root in roots), MOST_SIDES)
    return f"before vLLM 0.29, as on {named}" if roots[0].path == VERSION else f"with {named}"


def _by_cause(odd: Roots) -> list[list[Root]]:
    """Put roots together that are random by the version or by the algorithm, and as sure as each other."""

    def key(root: Root) -> tuple[str, bool]:
        return root.path, root.is_certain

    return [list(group) for _, group in groupby(sorted(odd, key=key), key)]


def _unlike_the_fixed(
    pool: PoolSubject, roots: Sequence[Root], replicas: tuple[str, ...], fixed: tuple[str, ...]
) -> Draft:
    is_certain = roots[0].is_certain
    have = "has" if len(fixed) == 1 else "have"
    return Draft(
        replicas,
        f"The root of the block hashes is random {cause(roots)}, {NOT_SET if is_certain else NOT_TOLD}; "
        f"{count(len(fixed), 'other replica')} {have} vLLM's fixed root.",
        told_of(pool, replicas, fixed),
        _like_the_fixed(pool, roots, fixed),
        Confidence.DERIVED if is_certain else Confidence.ASSUMED,
    )


def _like_the_fixed(pool: PoolSubject, roots: Sequence[Root], fixed: tuple[str, ...]) -> Remedy:
    """Give replicas the version, or the algorithm, that most of those with the fixed root have."""
    part = only(pool, fixed)
    is_certain = roots[0].is_certain
    if roots[0].path == VERSION:
        return seeding.one_version(pool.name, most_run(part), is_certain=is_certain)
    algorithm = next(iter(part.values(HASH_ALGORITHM)))
    return seeding.one_algorithm(pool.name, say(roots[0].value), algorithm, is_certain=is_certain)


def _all_random(pool: PoolSubject, odd: Roots) -> Draft:
    """Draft replicas each of which has a root of its own, as far as anybody tells."""
    everyone = replicas_of(odd)
    is_certain = all(root.is_certain for root in odd)
    by_path = {path: [root for root in odd if root.path == path] for path in (VERSION, HASH_ALGORITHM)}
    why = ", and ".join(cause(roots) for roots in by_path.values() if roots)
    is_algorithm_free = not by_path[VERSION] and pool.domain.expects.hash_algorithm is None
    return Draft(
        everyone,
        "Each of these replicas makes up a root of its own for its block hashes: "
        f"it is random {why}, {NOT_SET if is_certain else NOT_TOLD}.",
        told_of(pool, everyone),
        seeding.one_root(pool.name, is_algorithm_free=is_algorithm_free, is_certain=is_certain),
        Confidence.DERIVED if is_certain else Confidence.ASSUMED,
    )
