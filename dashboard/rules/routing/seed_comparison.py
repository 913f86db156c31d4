"""What RT-06 drafts: hashes that engines computed, and seeds where no hashes are reported."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from dashboard.compare.pool import is_majority
from dashboard.compare.prefix import HashSeed, SeedKind, is_fixed
from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import Text, value
from dashboard.rules import remedy
from dashboard.rules.differences import Contrast, capitalized, deviation, differences, majority, tie
from dashboard.rules.domain import SeedPolicy
from dashboard.rules.findings import Confidence, Draft, Remedy
from dashboard.rules.routing import seed_remedies
from dashboard.rules.routing.hash_seed import (
    FROM_VARIABLE,
    SEED,
    SEED_POLICY,
    UNSEEDED,
    VARIABLE,
    Seeds,
    as_number,
    by_cause,
    by_kind,
    cause_of,
    causes_of,
    is_left_to_algorithm,
    replicas_of,
    seed_evidence,
    seeds_of,
    without_replicas,
)
from dashboard.rules.routing.hashes import (
    HASH_ALGORITHM,
    Group,
    Hashes,
    digest_evidence,
    group_by_hashes,
    same_hashes,
    wanted_algorithm,
)
from dashboard.rules.routing.router import VERSION, expectation, most_used_version
from dashboard.rules.selection import evidence_of
from dashboard.rules.sentences import MAX_VALUES, setting_piece, value_piece, write
from dashboard.rules.subject import NOT_SET, Holders, PoolSubject
from dashboard.vllm.lookahead import LOOKAHEAD

FEWEST = 2  # replicas whose seeds can differ
UNSET = f"{VARIABLE} is unset"
FIXED_SEED = "vLLM's fixed hash seed"


def differing_hashes(pool: PoolSubject, hashes: Hashes) -> Iterator[Draft]:
    """Yield a draft per algorithm for replicas, or ranks of one, that hash the same tokens differently.

    Different algorithms are RT-05's, as are random seeds that its remedy ends; different lookahead is RT-18's.
    """
    wanted = wanted_algorithm(pool)
    known = seeds_of(pool)
    for members in _comparable(pool):
        found = group_by_hashes(hashes, members)
        replicas = {replica for group in found for replica in group.replicas}
        seeds = {seed: part for seed, ids in known.items() if (part := tuple(e for e in ids if e in replicas))}
        is_different = len(found) > 1 or any(len(group.digests) > 1 for group in found)
        if is_different and not any(is_left_to_algorithm(seed, wanted) for seed in seeds):
            yield _different_hashes(pool.only(replicas), hashes, found, seeds)


def _comparable(pool: PoolSubject) -> list[Collection[str]]:
    """Return the members with one algorithm and one lookahead."""
    everyone = {member.id for member in pool.members}
    algorithms = [] if pool.is_ignored(HASH_ALGORITHM) else [*pool.values(HASH_ALGORITHM).values()]
    parts = [*map(set, algorithms), everyone.difference(*algorithms)]
    ahead = {} if pool.is_ignored(LOOKAHEAD) else pool.values(LOOKAHEAD)
    return [part.intersection(own) for part in parts for own in (ahead.values() if len(ahead) > 1 else (everyone,))]


def _different_hashes(pool: PoolSubject, hashes: Hashes, found: Sequence[Group], seeds: Seeds) -> Draft:
    """Draft the members that hash differently from most; all where most have random seeds or ranks differ."""
    everyone = tuple(member.id for member in pool.members)
    random = set(replicas_of(by_kind(seeds)[0]))
    digests, largest = found[0]
    is_right = len(digests) == 1 and is_majority(len(largest), len(everyone)) and random.isdisjoint(largest)
    most = largest if is_right else ()
    odd = tuple(each for each in everyone if each not in set(most))
    rows = (*digest_evidence(hashes, odd), *digest_evidence(hashes, most, is_reference=True))
    text = write(_groups_text(found), ". ", _likely_cause(pool, seeds), ".")
    return Draft(odd, text, (*rows, *seed_evidence(pool, odd, most)), _hash_remedy(pool, seeds))


def _groups_text(found: Sequence[Group]) -> str:
    """Return which replicas cannot share prefixes, by numbers: the evidence has the groups."""
    sizes = [len(group.replicas) for group in found]
    total, split = sum(sizes), sum(len(group.replicas) for group in found if len(group.digests) > 1)
    if len(found) == 1:
        where = "this replica" if total == 1 else f"each of {total:,} replicas"
        return f"Data-parallel ranks of {where} hash the same tokens differently and share no prefixes"
    if max(sizes) == 1:
        text = f"{total:,} replicas hash the same tokens differently; no two of them share prefixes"
    else:
        named = first_of([f"{size:,}" for size in sizes], MAX_VALUES)
        text = f"{total:,} replicas form {len(found):,} groups ({named}) with different hashes of the same tokens"
    return f"{text}; nor do the data-parallel ranks of {split:,} of them" if split else text


def _likely_cause(pool: PoolSubject, seeds: Seeds) -> Text:
    """Return the likely cause of different hashes of one algorithm."""
    random, seeded, fixed = by_kind(seeds)
    if random:
        on = f" on {len(replicas_of(random)):,} of them" if seeded or fixed else ""
        clause = "unset" if all(seed.is_certain for seed in random) else "unset there (not reported)"
        cause = causes_of(random)
        return write(f"Likely cause: random hash seed {cause}{on}, ", setting_piece(SEED), f" is {clause}")
    if seeded and fixed:
        number = len(replicas_of(seeded))
        return write("Likely cause: ", setting_piece(SEED), f" is set on {number:,} of them only")
    if seeded:
        return write("Likely cause: ", setting_piece(SEED), " has different values")
    if len(pool.values(VERSION)) > 1:
        return write("Likely cause: different vLLM versions")
    return write("No reported setting explains it")


def _hash_remedy(pool: PoolSubject, seeds: Seeds) -> Remedy:
    random, seeded, fixed = by_kind(seeds)
    if seeded:
        algorithms = list(pool.values(HASH_ALGORITHM))
        may_be_unset = bool(algorithms) and not random and all(map(is_fixed, algorithms))
        return seed_remedies.one_seed(may_be_unset=may_be_unset)
    if random and fixed:
        return seed_remedies.like_the_fixed(pool, list(random), replicas_of(fixed), is_certain=True)
    if random:
        return seed_remedies.end_random_seeds(pool, random, is_certain=True)
    if len(pool.values(VERSION)) > 1:
        sentence = "Run one vLLM version on every replica of the pool (ID-08)."
        return remedy.set_to([(VERSION, most_used_version(pool))], sentence)
    return Remedy(
        "Start these replicas from one image with one command line and environment. Look for a plugin or patch that "
        "changes hashing."
    )


def differing_random_seeds(pool: PoolSubject, seeds: Seeds, fewest: int = FEWEST) -> Iterator[Draft]:
    """Yield random seeds beside the fixed one where the pool should have that, else all random seeds at once.

    Replicas that RT-05's remedy fixes are left out. With fewer than `fewest` replicas nothing differs.
    """
    wanted = wanted_algorithm(pool)
    is_fixed_wanted = wanted is not None and is_fixed(wanted)
    random, _, defaults = by_kind(seeds)
    odd = {seed: ids for seed, ids in random.items() if not is_left_to_algorithm(seed, wanted)}
    fixed, is_certain = replicas_of(defaults), all(seed.is_certain for seed in defaults)
    if fixed and (is_fixed_wanted or wanted is None):
        for group in by_cause(odd):
            yield _unlike_the_fixed(pool, group, replicas_of(odd, group), fixed, is_fixed_certain=is_certain)
    elif odd and len(replicas_of(odd)) + len(fixed) >= fewest:
        yield _all_random(pool, odd)


def _unlike_the_fixed(
    pool: PoolSubject,
    seeds: Sequence[HashSeed],
    replicas: tuple[str, ...],
    fixed: tuple[str, ...],
    *,
    is_fixed_certain: bool,
) -> Draft:
    is_certain = seeds[0].is_certain
    others = f"{count(len(fixed), 'other replica')} {'has' if len(fixed) == 1 else 'have'} {FIXED_SEED}"
    unless = "" if is_fixed_certain else " (unless the variable is set)"
    return Draft(
        replicas,
        write("The hash seed is random ", cause_of(seeds), ", ", _variable_text(is_certain), f"; {others}{unless}."),
        seed_evidence(pool, replicas, fixed),
        seed_remedies.like_the_fixed(pool, seeds, fixed, is_certain=is_certain),
        Confidence.DERIVED,
        assumptions=() if is_certain else (UNSET,),
    )


def _all_random(pool: PoolSubject, odd: Seeds) -> Draft:
    """Draft replicas with random seeds."""
    everyone = replicas_of(odd)
    is_certain = all(seed.is_certain for seed in odd)
    return Draft(
        everyone,
        write("Every engine process uses a random hash seed ", causes_of(odd), ", ", _variable_text(is_certain), "."),
        seed_evidence(pool, everyone),
        seed_remedies.end_random_seeds(pool, odd, is_certain=is_certain),
        Confidence.DERIVED,
        assumptions=() if is_certain else (UNSET,),
    )


def _variable_text(is_certain: bool) -> Text:  # noqa: FBT001  the two states of one sentence
    if is_certain:
        return write(setting_piece(SEED), " is unset")
    return write("unless ", setting_piece(SEED), " is set (not reported)")


def differing_values(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Compare reported seeds, unset ones included. Replicas that report none are left out."""
    holders = pool.values(SEED, as_number)
    if len(holders) < FEWEST:
        return
    reference = _seed_to_keep(holders, seeds)
    if reference is None:
        yield replace(tie(SEED, holders), remedy=seed_remedies.one_seed())
        return
    for own, replicas in holders.items():
        if own != reference:
            draft = deviation({SEED: holders}, [Contrast(SEED, own, reference)], replicas)
            yield replace(draft, remedy=seed_remedies.same_seed(reference))


def partly_set(pool: PoolSubject) -> Iterator[Draft]:
    """Draft replicas with different seed policies, where one is the variable."""
    holders = pool.values(SEED_POLICY)
    if FROM_VARIABLE in holders:
        way = seed_remedies.one_seed(may_be_unset=all(map(is_fixed, pool.values(HASH_ALGORITHM))))
        for draft in differences({SEED_POLICY: holders}):
            yield replace(draft, remedy=way, confidence=Confidence.DERIVED)


def _seed_to_keep(holders: Holders, seeds: Seeds) -> SettingValue | None:
    """Return the majority's seed, or the only seed where replicas without one have random seeds; else None."""
    most = majority(holders)
    is_random = any(seed.kind is SeedKind.RANDOM and seed.is_certain for seed in seeds)
    if most is not None and (most.state is State.REPORTED or not is_random):
        return most
    values = [seed for seed in holders if seed.state is State.REPORTED]
    return values[0] if len(values) == 1 and is_random else None


def unlike_routers_variable(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Report replicas that lack the router's seed, and seeds that differ. Unreported ones may be equal."""
    hashes, holders, policies = pool.fingerprints(), pool.values(SEED, as_number), pool.values(SEED_POLICY)
    values = [seed for seed in holders if seed != NOT_SET]
    having = {each for seed in values for each in holders[seed]}.union(policies.get(FROM_VARIABLE, ()))
    lacking = {each for policy, ids in policies.items() if policy.value in UNSEEDED for each in ids}
    unset = tuple(sorted(lacking.union(holders.get(NOT_SET, ())) - same_hashes(hashes, having)))
    if unset:
        yield Draft(
            unset,
            write(setting_piece(SEED), " is unset; the router expects hashes that start from it."),
            (*evidence_of(pool, (SEED, SEED_POLICY), unset), expectation(SEED, SeedPolicy.ENVIRONMENT)),
            seed_remedies.same_seed(values[0]) if values else seed_remedies.one_seed(),
        )
    yield from differing_hashes(pool.without(unset), hashes)
    yield from differing_values(pool.only(having - hashes.keys()), seeds)


def unlike_routers_fixed(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Report replicas without the fixed seed that the router expects, by settings or by hashes."""
    hashes = pool.fingerprints()
    fixed = {seed: ids for seed, ids in seeds.items() if seed.kind is SeedKind.FIXED and seed.is_certain}
    others = {seed: ids for seed, ids in seeds.items() if seed.kind is not SeedKind.FIXED}
    odd = without_replicas(others, same_hashes(hashes, replicas_of(fixed)))
    yield from (_unlike_the_routers(pool, seed, odd[seed], seeds) for seed in odd)
    yield from differing_hashes(pool.without(replicas_of(odd)), hashes)


def _unlike_the_routers(pool: PoolSubject, seed: HashSeed, replicas: tuple[str, ...], seeds: Seeds) -> Draft:
    if seed.kind is SeedKind.SEED:
        own = value_piece(seed.value) if seed.path == SEED else value("set")
        state, way = write(setting_piece(SEED), " is ", own), seed_remedies.unset()
    else:
        is_random = "random" if seed.is_certain else f"random or from {VARIABLE}"
        state = capitalized(write(cause_of([seed]), f", the hash seed is {is_random}"))
        way = seed_remedies.routers_fixed_seed(pool, seed, replicas_of(by_kind(seeds)[2]))
    return Draft(
        replicas,
        write(state, f"; the router expects {FIXED_SEED}."),
        (*seed_evidence(pool, replicas), expectation(SEED, SeedPolicy.DEFAULT)),
        way,
        Confidence.REPORTED if seed.path in {SEED, SEED_POLICY} else Confidence.DERIVED,
    )
