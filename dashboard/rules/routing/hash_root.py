"""RT-06: replicas have different hash seeds. Hashes that engines computed decide, settings where none are reported."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from dashboard.compare.equality import NOT_SET
from dashboard.compare.hashes import DigestGroups, Hashes, group_by_hashes, same_hashes
from dashboard.compare.holders import Holders
from dashboard.compare.pool import is_majority
from dashboard.compare.prefix import HashSeed, SeedKind, is_fixed, seed_number
from dashboard.fleet import SettingChange, SettingValue, State
from dashboard.fleet.formatting import count, shortlist
from dashboard.fleet.pieces import Text, value
from dashboard.rules import remedy
from dashboard.rules.differences import deviation, differences, majority, tie
from dashboard.rules.domain import ImpactContext, SeedPolicy, Store
from dashboard.rules.findings import Confidence, Draft, Remedy, Severity, UnevaluatedReplicas, expectation
from dashboard.rules.registry import rule
from dashboard.rules.routing import hashes as seeding
from dashboard.rules.routing.hashes import (
    FROM_VARIABLE,
    HASH_ALGORITHM,
    SEED,
    SEED_POLICY,
    UNSEEDED,
    VARIABLE,
    Seeds,
    digest_evidence,
    of_kind,
    wanted_algorithm,
)
from dashboard.rules.sentences import MAX_VALUES, capital, setting_piece, value_piece, write
from dashboard.rules.subject import FINGERPRINT, PoolSubject
from dashboard.vllm.lookahead import LOOKAHEAD
from dashboard.vllm.versions import VERSION

COMPARING = (ImpactContext.PREFIX_HASH, ImpactContext.KV_STORE, ImpactContext.KV_EVENTS)
FEWEST = 2  # replicas whose seeds can differ
UNSET = f"{VARIABLE} is unset"
FIXED_SEED = "vLLM's fixed hash seed"


@rule(
    "RT-06",
    needs=(FINGERPRINT, SEED_POLICY, SEED, VERSION, HASH_ALGORITHM),
    needs_any=True,
    least=1,
    spares_own_keys=True,
)
def hash_root_differs(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas have different hash seeds, so the same tokens have different hashes.

    Since 0.29 vLLM has one fixed hash seed for `sha256` and `sha256_cbor`. Before that, and with `xxhash` at any
    version, every engine process uses a random one unless `PYTHONHASHSEED` is set; so do the data-parallel ranks of one
    replica. The dashboard's provider reports the hashes that each engine computed: these decide where reported. For the
    others the seed is derived from version, algorithm and variable. The router's policy is `expects.seed_policy` in
    fleet.yaml: `default`, `environment` or `random`.
    """
    policy = pool.domain.expects.seed_policy
    is_needless = policy is SeedPolicy.RANDOM and pool.domain.kv_store is Store.NONE
    if is_needless or pool.is_ignored(SEED):
        return
    hashing = pool.caching
    seeds = seeding.seeds_of(hashing)
    yield from _not_evaluated(hashing, seeds)
    if policy is SeedPolicy.ENVIRONMENT:
        drafts, source = _unlike_routers_variable(hashing, seeds), VARIABLE
    elif policy is SeedPolicy.DEFAULT:
        drafts, source = _unlike_routers_fixed(hashing, seeds), FIXED_SEED
    else:
        # Where nothing compares hashes, an assumed random seed is not reported.
        is_compared = not pool.contexts.isdisjoint(COMPARING)
        yield from (each for each in _unlike_each_other(hashing, seeds) if is_compared or not each.assumptions)
        return
    # Behind a router that hashes by itself, and with a store, the rule's own reasons apply.
    has_reason = not pool.contexts.isdisjoint((ImpactContext.PREFIX_HASH, ImpactContext.KV_STORE))
    why = (
        f"The router computes hashes that start from {source}. A different seed produces different hashes for "
        "the same tokens, so the router never finds a prefix there."
    )
    yield from (replace(each, severity=Severity.CRITICAL, why=None if has_reason else why) for each in drafts)


def _not_evaluated(hashing: PoolSubject, seeds: Seeds) -> Iterator[UnevaluatedReplicas]:
    """Yield the replicas that report neither hashes nor a seed."""
    certain = {replica for replica, seed in seeds.items() if seed.is_certain}
    silent = {member.id for member in hashing.members}.difference(certain, hashing.fingerprints())
    total = len(hashing.members)
    if silent and total >= FEWEST:
        reason = f"{VARIABLE} and block hashes: reported by 0 of {count(total, 'replica')}."
        yield UnevaluatedReplicas(tuple(sorted(silent)), reason if len(silent) == total else "")


def _unlike_each_other(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Yield computed hashes that differ; for replicas without hashes what follows from settings."""
    hashes = pool.fingerprints()
    measured = list(_differing_hashes(pool, hashes, seeds))
    yield from measured
    drafted = {replica for draft in measured for replica in draft.replicas}
    left = {replica: seed for replica, seed in seeds.items() if replica not in drafted}
    if of_kind(left, SeedKind.SEED):
        silent = pool.without(hashes.keys())
        yield from _differing_values(silent, left)
        yield from _partly_set(silent)
    else:
        yield from _differing_random_seeds(pool, left, FEWEST - bool(measured))


def _differing_hashes(pool: PoolSubject, hashes: Hashes, seeds: Seeds | None = None) -> Iterator[Draft]:
    """Yield a draft per algorithm for replicas, or ranks of one, that hash the same tokens differently.

    Different algorithms are RT-05's, as are random seeds that its remedy ends; different lookahead is RT-18's.
    """
    wanted = wanted_algorithm(pool)
    known = seeding.seeds_of(pool) if seeds is None else seeds
    for members in _comparable(pool):
        found = group_by_hashes(hashes, members)
        replicas = {replica for group in found.values() for replica in group}
        own = {replica: seed for replica, seed in known.items() if replica in replicas}
        is_different = len(found) > 1 or any(len(digests) > 1 for digests in found)
        if is_different and not any(seeding.is_left_to_algorithm(each, wanted) for each in own.values()):
            yield _different_hashes(pool.only(replicas), hashes, found, own)


def _comparable(pool: PoolSubject) -> list[Collection[str]]:
    """Return the members with one algorithm and one lookahead."""
    everyone = {member.id for member in pool.members}
    algorithms = [] if pool.is_ignored(HASH_ALGORITHM) else [*pool.values(HASH_ALGORITHM).values()]
    parts = [*map(set, algorithms), everyone.difference(*algorithms)]
    ahead = {} if pool.is_ignored(LOOKAHEAD) else pool.values(LOOKAHEAD)
    return [part.intersection(own) for part in parts for own in (ahead.values() if len(ahead) > 1 else (everyone,))]


def _different_hashes(pool: PoolSubject, hashes: Hashes, found: DigestGroups, seeds: Seeds) -> Draft:
    """Return the members that hash differently from most; all where most have random seeds or ranks differ."""
    everyone = tuple(member.id for member in pool.members)
    digests, largest = next(iter(found.items()))
    has_random = not of_kind(seeds, SeedKind.RANDOM).keys().isdisjoint(largest)
    most = largest if len(digests) == 1 and is_majority(len(largest), len(everyone)) and not has_random else ()
    odd = tuple(each for each in everyone if each not in set(most))
    rows = (*digest_evidence(hashes, odd), *digest_evidence(hashes, most, is_reference=True))
    text = write(_groups_text(found), ". ", _likely_cause(pool, seeds), ".")
    return Draft(odd, text, (*rows, *seeding.seed_evidence(pool, odd, most)), _hash_remedy(pool, seeds))


def _groups_text(found: DigestGroups) -> str:
    """Return which replicas cannot share prefixes, by numbers: the evidence has the groups."""
    sizes = [len(group) for group in found.values()]
    total, split = sum(sizes), sum(len(group) for digests, group in found.items() if len(digests) > 1)
    if len(found) == 1:
        where = "this replica" if total == 1 else f"each of {total:,} replicas"
        return f"Data-parallel ranks of {where} hash the same tokens differently and share no prefixes"
    if max(sizes) == 1:
        text = f"{total:,} replicas hash the same tokens differently; no two of them share prefixes"
    else:
        named = shortlist([f"{size:,}" for size in sizes], MAX_VALUES)
        text = f"{total:,} replicas form {len(found):,} groups ({named}) with different hashes of the same tokens"
    return f"{text}; nor do the data-parallel ranks of {split:,} of them" if split else text


def _likely_cause(pool: PoolSubject, seeds: Seeds) -> Text:
    """Return the likely cause of different hashes of one algorithm."""
    random, seeded, fixed = (of_kind(seeds, kind) for kind in (SeedKind.RANDOM, SeedKind.SEED, SeedKind.FIXED))
    if random:
        on = f" on {len(random):,} of them" if seeded or fixed else ""
        clause = "unset" if seeding.are_certain(random) else "unset there (not reported)"
        cause = seeding.causes_of(random.values())
        return write(f"Likely cause: random hash seed {cause}{on}, ", setting_piece(SEED), f" is {clause}")
    if seeded:
        how = f" is set on {len(seeded):,} of them only" if fixed else " has different values"
        return write("Likely cause: ", setting_piece(SEED), how)
    if len(pool.values(VERSION)) > 1:
        return write("Likely cause: different vLLM versions")
    return write("No reported setting explains it")


def _hash_remedy(pool: PoolSubject, seeds: Seeds) -> Remedy:
    random, fixed = of_kind(seeds, SeedKind.RANDOM), of_kind(seeds, SeedKind.FIXED)
    if of_kind(seeds, SeedKind.SEED):
        algorithms = list(pool.values(HASH_ALGORITHM))
        may_be_unset = bool(algorithms) and not random and all(map(is_fixed, algorithms))
        may_be_unset = may_be_unset and pool.domain.expects.seed_policy is not SeedPolicy.ENVIRONMENT
        return seeding.one_seed(may_be_unset=may_be_unset)
    if random and fixed:
        return seeding.like_the_fixed(pool, random, fixed, is_certain=True)
    if random:
        return seeding.end_random_seeds(pool, random, is_certain=True)
    if len(pool.values(VERSION)) > 1:
        sentence = "Run one vLLM version on every replica of the pool (ID-08)."
        return remedy.set_to([(VERSION, pool.most_used_version)], sentence)
    return Remedy(
        "Start these replicas from one image with one command line and environment. Look for a plugin or patch that "
        "changes hashing."
    )


def _differing_random_seeds(pool: PoolSubject, seeds: Seeds, fewest: int) -> Iterator[Draft]:
    """Yield random seeds that differ from the fixed one where the pool should have that, else all random seeds at once.

    Replicas that RT-05's remedy fixes are left out. With fewer than `fewest` replicas nothing differs.
    """
    wanted = wanted_algorithm(pool)
    random, fixed = of_kind(seeds, SeedKind.RANDOM), of_kind(seeds, SeedKind.FIXED)
    odd = {replica: seed for replica, seed in random.items() if not seeding.is_left_to_algorithm(seed, wanted)}
    if fixed and (wanted is None or is_fixed(wanted)):
        for group in seeding.by_cause(odd):
            yield _random_seeds(pool, group, fixed)
    elif odd and len(odd) + len(fixed) >= fewest:
        yield _random_seeds(pool, odd, {})


def _random_seeds(pool: PoolSubject, odd: Seeds, fixed: Seeds) -> Draft:
    """Return replicas with random seeds, among others with the fixed one or alone."""
    is_certain = seeding.are_certain(odd)
    cause = seeding.causes_of(odd.values())
    variable = write(setting_piece(SEED), " is unset")
    if not is_certain:
        variable = write("unless ", setting_piece(SEED), " is set (not reported)")
    if fixed:
        others = f"{count(len(fixed), 'other replica')} {'has' if len(fixed) == 1 else 'have'} {FIXED_SEED}"
        unless = "" if seeding.are_certain(fixed) else " (unless the variable is set)"
        text = write(f"The hash seed is random {cause}, ", variable, f"; {others}{unless}.")
        way = seeding.like_the_fixed(pool, odd, fixed, is_certain=is_certain)
    else:
        text = write(f"Every engine process uses a random hash seed {cause}, ", variable, ".")
        way = seeding.end_random_seeds(pool, odd, is_certain=is_certain)
    return Draft(
        tuple(sorted(odd)),
        text,
        seeding.seed_evidence(pool, odd, fixed),
        way,
        Confidence.DERIVED,
        assumptions=() if is_certain else (UNSET,),
    )


def _differing_values(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Compare reported seeds, unset ones included. Replicas that report none are left out."""
    holders = _seed_values(pool)
    if len(holders) < FEWEST:
        return
    reference = _seed_to_keep(holders, seeds)
    if reference is None:
        yield replace(tie(SEED, holders), remedy=seeding.one_seed())
        return
    for own, replicas in holders.items():
        if own != reference:
            draft = deviation({SEED: holders}, [SettingChange(SEED, own, reference)], replicas)
            yield replace(draft, remedy=seeding.same_seed(reference))


def _seed_values(pool: PoolSubject) -> Holders:
    """Return the reported seeds, each in one spelling."""
    return pool.values(SEED, lambda seed, _: seed_number(seed))


def _partly_set(pool: PoolSubject) -> Iterator[Draft]:
    """Yield replicas with different seed policies, where one is the variable."""
    holders = pool.values(SEED_POLICY)
    if FROM_VARIABLE in holders:
        way = seeding.one_seed(may_be_unset=all(map(is_fixed, pool.values(HASH_ALGORITHM))))
        for draft in differences({SEED_POLICY: holders}):
            yield replace(draft, remedy=way, confidence=Confidence.DERIVED)


def _seed_to_keep(holders: Holders, seeds: Seeds) -> SettingValue | None:
    """Return the majority's seed, or the only seed where replicas without one have random seeds; else None."""
    most = majority(holders)
    is_random = any(seed.is_certain for seed in of_kind(seeds, SeedKind.RANDOM).values())
    if most is not None and (most.state is State.REPORTED or not is_random):
        return most
    values = [seed for seed in holders if seed.state is State.REPORTED]
    return values[0] if len(values) == 1 and is_random else None


def _unlike_routers_variable(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Yield replicas that lack the router's seed, and seeds that differ. Unreported ones may be equal."""
    hashes, holders, policies = pool.fingerprints(), _seed_values(pool), pool.values(SEED_POLICY)
    values = [seed for seed in holders if seed != NOT_SET]
    having = {each for seed in values for each in holders[seed]}.union(policies.get(FROM_VARIABLE, ()))
    lacking = {each for policy, ids in policies.items() if policy.value in UNSEEDED for each in ids}
    unset = tuple(sorted(lacking.union(holders.get(NOT_SET, ())) - same_hashes(hashes, having)))
    if unset:
        yield Draft(
            unset,
            write(setting_piece(SEED), " is unset; the router expects hashes that start from it."),
            (*pool.evidence((SEED, SEED_POLICY), unset), expectation(SEED, SeedPolicy.ENVIRONMENT)),
            seeding.same_seed(values[0]) if values else seeding.one_seed(),
        )
    yield from _differing_hashes(pool.without(unset), hashes)
    yield from _differing_values(pool.only(having - hashes.keys()), seeds)


def _unlike_routers_fixed(pool: PoolSubject, seeds: Seeds) -> Iterator[Draft]:
    """Yield replicas without the fixed seed that the router expects, by settings or by hashes."""
    hashes = pool.fingerprints()
    fixed = of_kind(seeds, SeedKind.FIXED)
    same = same_hashes(hashes, [replica for replica, seed in fixed.items() if seed.is_certain])
    odd = {replica: seed for replica, seed in seeds.items() if replica not in same and replica not in fixed}
    for seed in sorted(set(odd.values())):
        replicas = tuple(replica for replica, own in odd.items() if own == seed)
        yield _unlike_the_routers(pool, seed, replicas, fixed)
    yield from _differing_hashes(pool.without(odd), hashes)


def _unlike_the_routers(pool: PoolSubject, seed: HashSeed, replicas: tuple[str, ...], fixed: Seeds) -> Draft:
    if seed.kind is SeedKind.SEED:
        own = value_piece(seed.value) if seed.path == SEED else value("set")
        state, way = write(setting_piece(SEED), " is ", own), seeding.unset_seed()
    else:
        is_random = "random" if seed.is_certain else f"random or from {VARIABLE}"
        state = write(f"{capital(seeding.causes_of([seed]))}, the hash seed is {is_random}")
        way = seeding.routers_fixed_seed(pool, seed, fixed)
    return Draft(
        replicas,
        write(state, f"; the router expects {FIXED_SEED}."),
        (*seeding.seed_evidence(pool, replicas), expectation(SEED, SeedPolicy.DEFAULT)),
        way,
        Confidence.REPORTED if seed.path in {SEED, SEED_POLICY} else Confidence.DERIVED,
    )
