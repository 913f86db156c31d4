"""Block hashes that engines computed themselves, and differ: what is drafted of them, and the likely cause."""

from collections.abc import Collection, Iterator, Sequence

from dashboard.compare.pool import is_majority
from dashboard.fleet.formatting import first_of
from dashboard.rules import remedy
from dashboard.rules.drift import MOST_SIDES
from dashboard.rules.findings import Draft, Remedy
from dashboard.rules.routing import seeding
from dashboard.rules.routing.hashes import Group, Hashes, groups, shown_digests
from dashboard.rules.routing.narrowing import only
from dashboard.rules.routing.random_roots import Roots, causes, is_left, like_the_fixed, one_root, replicas_of, told_of
from dashboard.rules.routing.releases import VERSION, most_run
from dashboard.rules.routing.roots import SEED_VARIABLE, Root, RootKind, is_fixed, roots
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM, wanted_algorithm
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.lookahead import LOOKAHEAD


def differing_hashes(pool: PoolSubject, hashes: Hashes) -> Iterator[Draft]:
    """Yield a draft per algorithm with which replicas, or the ranks of one, hash the same tokens differently.

    That two algorithms differ is RT-05's, and so are random roots that its remedy ends; that they look ahead by
    different numbers of tokens is RT-18's: one cause is one finding.
    """
    wanted = wanted_algorithm(pool)
    known = roots(pool)
    for members in _comparable(pool):
        found = groups(hashes, members)
        replicas = {replica for group in found for replica in group.replicas}
        held = {root: part for root, ids in known.items() if (part := tuple(each for each in ids if each in replicas))}
        is_apart = len(found) > 1 or any(len(group.digests) > 1 for group in found)
        if is_apart and not any(is_left(root, wanted) for root in held):
            yield _draft(only(pool, replicas), hashes, found, held)


def _comparable(pool: PoolSubject) -> list[Collection[str]]:
    """Return who hashes with one algorithm and one lookahead."""
    everyone = {member.id for member in pool.members}
    told = [] if pool.is_ignored(HASH_ALGORITHM) else [*pool.values(HASH_ALGORITHM).values()]
    parts = [*map(set, told), everyone.difference(*told)]
    ahead = {} if pool.is_ignored(LOOKAHEAD) else pool.values(LOOKAHEAD)
    return [part.intersection(own) for part in parts for own in (ahead.values() if len(ahead) > 1 else (everyone,))]


def _draft(pool: PoolSubject, hashes: Hashes, found: Sequence[Group], held: Roots) -> Draft:
    """Draft replicas of one algorithm. Where most hash alike, and not at random, the others are to be changed."""
    everyone = tuple(member.id for member in pool.members)
    random = set(replicas_of(_kinds(held)[0]))
    digests, largest = found[0]
    is_right = len(digests) == 1 and is_majority(len(largest), len(everyone)) and random.isdisjoint(largest)
    most = largest if is_right else ()
    odd = tuple(each for each in everyone if each not in set(most))
    return Draft(
        odd,
        f"{_apart(found)}; {_likely(pool, held)}.",
        (
            *shown_digests(hashes, odd),
            *shown_digests(hashes, most, is_reference=True),
            *told_of(pool, odd, most),
        ),
        _remedy(pool, held),
    )


def _apart(found: Sequence[Group]) -> str:
    """Say who cannot share with whom, by numbers: the groups themselves stand in the evidence."""
    sizes = [len(group.replicas) for group in found]
    total, split = sum(sizes), sum(len(group.replicas) for group in found if len(group.digests) > 1)
    if len(found) == 1:
        where = "Inside this replica" if total == 1 else f"Inside each of {total:,} replicas"
        return f"{where} the data-parallel ranks hash the same tokens differently and cannot share prefixes"
    between = f"{total:,} replicas form {len(found):,} groups"
    if max(sizes) == 1:
        said = f"{total:,} replicas hash the same tokens differently, and no two of them can share prefixes"
    else:
        named = first_of([f"{size:,}" for size in sizes], MOST_SIDES)
        said = f"{between}, of {named}, that hash the same tokens differently and cannot share prefixes"
    return f"{said}, nor can the data-parallel ranks inside {split:,} of them" if split else said


def _likely(pool: PoolSubject, held: Roots) -> str:
    """Say what most likely makes hashes differ that the engines computed with one algorithm."""
    random, seeded, fixed = _kinds(held)
    if random:
        is_certain = all(root.is_certain for root in random)
        on = f" on {len(replicas_of(random)):,} of them" if seeded or fixed else ""
        unset = f"as {SEED_VARIABLE} is not set there" if is_certain else f"if {SEED_VARIABLE} is not set there"
        return f"the likely cause is a random root in each engine process{on} {causes(random)}, {unset}"
    if seeded and fixed:
        return f"the likely cause is that {SEED_VARIABLE} is set on {len(replicas_of(seeded)):,} of them and not on all"
    if seeded:
        return f"the likely cause is that {SEED_VARIABLE} is set to different values"
    if len(pool.values(VERSION)) > 1:
        return "the likely cause is that their versions of vLLM hash differently"
    return "no setting that they tell says why"


def _kinds(held: Roots) -> list[dict[Root, tuple[str, ...]]]:
    """Part roots into random ones, those from a seed, fixed ones."""
    kinds = (RootKind.RANDOM, RootKind.SEED, RootKind.FIXED)
    return [{root: ids for root, ids in held.items() if root.kind is kind} for kind in kinds]


def _remedy(pool: PoolSubject, held: Roots) -> Remedy:
    random, seeded, fixed = _kinds(held)
    if seeded:
        algorithms = list(pool.values(HASH_ALGORITHM))
        return seeding.one_seed(may_be_unset=bool(algorithms) and not random and all(map(is_fixed, algorithms)))
    if random and fixed:
        return like_the_fixed(pool, [root._replace(is_certain=True) for root in random], replicas_of(fixed))
    if random:
        return one_root(pool, random, is_certain=True)
    versions = pool.values(VERSION)
    if len(versions) > 1:
        newest = most_run(pool)
        sentence = "Give every replica of the pool the same version of vLLM; it is the difference of ID-08."
        return remedy.set_to([(VERSION, newest)], sentence)
    sentence = (
        "Start these replicas from one image with one command line and one environment; look for a plugin or a patch "
        "that changes how vLLM hashes."
    )
    return Remedy(sentence)
