"""Block hashes that start at random where no seed is told, and those beside them that start from the fixed root."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from dashboard.fleet import SettingValue
from dashboard.fleet.formatting import count, first_of
from dashboard.rules.drift import MOST_SIDES, say
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy
from dashboard.rules.routing import seeding
from dashboard.rules.routing.narrowing import only, shown
from dashboard.rules.routing.releases import VERSION, most_run
from dashboard.rules.routing.roots import SEED, SEED_POLICY, SEED_VARIABLE, Root, RootKind, is_fixed
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM, wanted_algorithm
from dashboard.rules.subject import PoolSubject

Roots = Mapping[Root, tuple[str, ...]]

FEWEST = 2  # replicas whose roots can differ
NOT_TOLD = f"unless {SEED_VARIABLE} is set there, which no reply tells"
UNSET = f"{SEED_VARIABLE} is unset"
NOT_SET = f"and {SEED_VARIABLE} is not set there"


def differing_roots(pool: PoolSubject, known: Roots, fewest: int = FEWEST) -> Iterator[Draft]:
    """Yield what differs from the fixed root where the pool is to have that, else all random roots at once.

    Replicas that get the fixed root by doing what RT-05 says of them are left out: one cause is one finding. Fewer
    than `fewest` of those left have nobody to differ from.
    """
    wanted = wanted_algorithm(pool)
    is_cured = wanted is not None and is_fixed(wanted)
    odd = {root: held for root, held in known.items() if root.kind is RootKind.RANDOM and not is_left(root, wanted)}
    defaults = {root: held for root, held in known.items() if root.kind is RootKind.FIXED}
    fixed, is_certain = replicas_of(defaults), all(root.is_certain for root in defaults)
    if fixed and (is_cured or wanted is None):
        for group in by_cause(odd):
            yield _unlike_the_fixed(pool, group, replicas_of(odd, group), fixed, is_fixed_certain=is_certain)
    elif odd and len(replicas_of(odd)) + len(fixed) >= fewest:
        yield _all_random(pool, odd)


def is_left(root: Root, wanted: SettingValue | None) -> bool:
    """Tell whether a random root is RT-05's: the algorithm that it wants has the fixed one."""
    return wanted is not None and is_fixed(wanted) and (root.kind, root.path) == (RootKind.RANDOM, HASH_ALGORITHM)


def replicas_of(known: Roots, some: Sequence[Root] | None = None) -> tuple[str, ...]:
    """Return who has these roots, or some of them."""
    return tuple(sorted(replica for root in (known if some is None else some) for replica in known[root]))


def without(known: Roots, replicas: Collection[str]) -> dict[Root, tuple[str, ...]]:
    """Leave replicas out, and roots that nobody else has."""
    left = {root: tuple(each for each in held if each not in replicas) for root, held in known.items()}
    return {root: held for root, held in left.items() if held}


def told_of(pool: PoolSubject, replicas: tuple[str, ...], reference: tuple[str, ...] = ()) -> tuple[Evidence, ...]:
    """Hold like against like: what decides the roots, as these replicas tell it and as the reference does."""
    return tuple(
        row
        for path in (VERSION, HASH_ALGORITHM, SEED, SEED_POLICY)
        for held, is_reference in ((replicas, False), (reference, True))
        for row in shown(pool, path, held, is_reference=is_reference)
    )


def cause(roots: Sequence[Root]) -> str:
    """Say what makes roots random that have one cause, as the end of `before vLLM 0.29, as on 0.28.0`."""
    named = first_of(dict.fromkeys(say(root.value) for root in roots), MOST_SIDES)
    return f"before vLLM 0.29, as on {named}" if roots[0].path == VERSION else f"with {named}"


def by_cause(odd: Roots) -> list[list[Root]]:
    """Put roots together that are random by the version or by the algorithm, and as sure as each other."""

    def key(root: Root) -> tuple[str, bool]:
        return root.path, root.is_certain

    return [list(group) for _, group in groupby(sorted(odd, key=key), key)]


def _unlike_the_fixed(
    pool: PoolSubject,
    roots: Sequence[Root],
    replicas: tuple[str, ...],
    fixed: tuple[str, ...],
    *,
    is_fixed_certain: bool,
) -> Draft:
    is_certain = roots[0].is_certain
    have = "has" if len(fixed) == 1 else "have"
    seed = "" if is_fixed_certain else f", unless {SEED_VARIABLE} is set"
    return Draft(
        replicas,
        f"The root of the block hashes is random {cause(roots)}, {NOT_SET if is_certain else NOT_TOLD}; "
        f"{count(len(fixed), 'other replica')} {have} vLLM's fixed root{seed}.",
        told_of(pool, replicas, fixed),
        like_the_fixed(pool, roots, fixed),
        Confidence.DERIVED,
        assumptions=() if is_certain else (UNSET,),
    )


def like_the_fixed(pool: PoolSubject, roots: Sequence[Root], fixed: tuple[str, ...]) -> Remedy:
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
    return Draft(
        everyone,
        "Each of these replicas makes up a root of its own for its block hashes: "
        f"it is random {causes(odd)}, {NOT_SET if is_certain else NOT_TOLD}.",
        told_of(pool, everyone),
        one_root(pool, odd, is_certain=is_certain),
        Confidence.DERIVED,
        assumptions=() if is_certain else (UNSET,),
    )


def causes(odd: Iterable[Root]) -> str:
    """Say what makes random roots random, whatever their causes."""
    by_path = {path: [root for root in odd if root.path == path] for path in (VERSION, HASH_ALGORITHM)}
    return ", and ".join(cause(roots) for roots in by_path.values() if roots)


def one_root(pool: PoolSubject, odd: Iterable[Root], *, is_certain: bool) -> Remedy:
    """Give random roots one seed, or another algorithm where that alone ends it and the router has no word in it."""
    is_algorithm_free = VERSION not in {root.path for root in odd} and pool.domain.expects.hash_algorithm is None
    return seeding.one_root(pool.name, is_algorithm_free=is_algorithm_free, is_certain=is_certain)
