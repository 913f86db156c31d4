"""RT-05: replicas use different hash algorithms. Those with equal hashes count as one.

And the hash seeds of replicas, with the remedies of RT-06: how replicas get one seed.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice

from dashboard.compare import prefix
from dashboard.compare.equality import NOT_SET
from dashboard.compare.hashes import Hashes, count_equal_hashes_as_one, group_by_hashes
from dashboard.compare.holders import Holders
from dashboard.fleet import Setting, SettingValue, State
from dashboard.fleet.formatting import shortlist, uncapitalized
from dashboard.rules import remedy
from dashboard.rules.differences import code, differences, majority
from dashboard.rules.domain import SeedPolicy
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Way, expectation
from dashboard.rules.registry import rule
from dashboard.rules.sentences import MAX_VALUES, setting_name, setting_piece, to_text, value_piece, write
from dashboard.rules.subject import FINGERPRINT, PoolSubject, setting_value
from dashboard.vllm.versions import EARLIEST, VERSION

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


SEED, SEED_POLICY = prefix.SEED_PATH, prefix.SEED_POLICY_PATH  # the provider reports the policy in place of the seed
VARIABLE = "PYTHONHASHSEED"
FROM_VARIABLE = SettingValue(prefix.ENVIRONMENT, State.REPORTED)
UNSEEDED = (prefix.DEFAULT, prefix.RANDOM)
ZERO = SettingValue("0", State.REPORTED)
SEED_EVERYWHERE = Way(((SEED, ZERO),), is_everywhere=True)
FIRST_FIXED = SettingValue('"0.29.0"', State.REPORTED)
REPRODUCIBLE = SettingValue('"sha256_cbor"', State.REPORTED)
DECLARED = f"seed_policy: {SeedPolicy.ENVIRONMENT}"
SET_EVERYWHERE = f"Set `{VARIABLE}` to one value, such as 0, on every replica of the pool before Python starts"
DECLARE = f"set `{DECLARED}` under `expects` of the pool in fleet.yaml"

Seeds = Mapping[str, prefix.HashSeed]  # by replica; a random one differs on each


def seeds_of(pool: PoolSubject) -> Seeds:
    """Return the known seeds of the members. Hashes that match another process prove that a seed is shared."""
    found = {replica: seed for replica, seed in pool.of_documents(seed_of).items() if seed is not None}
    if random := of_kind(found, prefix.SeedKind.RANDOM):
        proven = random.keys() & _sharing(pool)
        found |= {each: random[each]._replace(kind=prefix.SeedKind.SEED, is_certain=True) for each in proven}
    return found


def _sharing(pool: PoolSubject) -> set[str]:
    """Return the members with the hashes of another process, of the same replica or another."""
    processes = {each.id: 0 if each.is_second_address else len(each.engines) for each in pool.members}
    sharing: set[str] = set()
    for digests, replicas in group_by_hashes(pool.fingerprints(), processes).items():
        if len(digests) == 1 and sum(processes[replica] for replica in replicas) > 1:
            sharing.update(replicas)
    return sharing


def seed_of(settings: Mapping[str, Setting]) -> prefix.HashSeed | None:
    """Return the seed of one document; None where nothing, or a random policy alone, decides it."""
    seed = prefix.hash_seed(prefix.known_values(settings, (VERSION, EARLIEST, HASH_ALGORITHM, SEED, SEED_POLICY)))
    is_policy_alone = seed is not None and seed.kind is prefix.SeedKind.RANDOM and seed.path == SEED_POLICY
    return None if is_policy_alone else seed


def of_kind(seeds: Seeds, kind: prefix.SeedKind) -> dict[str, prefix.HashSeed]:
    return {replica: seed for replica, seed in seeds.items() if seed.kind is kind}


def by_cause(seeds: Seeds) -> list[Seeds]:
    """Group random seeds by what makes them random, version or algorithm, and by certainty."""

    def key(item: tuple[str, prefix.HashSeed]) -> tuple[str, bool]:
        return item[1].path, item[1].is_certain

    return [dict(group) for _, group in groupby(sorted(seeds.items(), key=key), key)]


def are_certain(seeds: Seeds) -> bool:
    """Return whether the setting that decides each seed is reported."""
    return all(seed.is_certain for seed in seeds.values())


def is_left_to_algorithm(seed: prefix.HashSeed, wanted: SettingValue | None) -> bool:
    """Return whether the algorithm that RT-05 recommends ends a random seed."""
    is_random = (seed.kind, seed.path) == (prefix.SeedKind.RANDOM, HASH_ALGORITHM)
    return wanted is not None and prefix.is_fixed(wanted) and is_random


def seed_evidence(
    pool: PoolSubject, replicas: Collection[str], reference: Collection[str] = ()
) -> tuple[Evidence, ...]:
    """Return the settings that decide the seeds of these replicas, each followed by those of the reference."""
    return pool.evidence((VERSION, HASH_ALGORITHM, SEED, SEED_POLICY), replicas, reference)


def causes_of(seeds: Iterable[prefix.HashSeed]) -> str:
    """Return why hash seeds are random: `before vLLM 0.29 (0.28.0) and with xxhash`."""
    known = sorted(set(seeds))
    causes = []
    for path, form in ((VERSION, "before vLLM 0.29 ({})"), (HASH_ALGORITHM, "with {}")):
        if values := dict.fromkeys(to_text(seed.value) for seed in known if seed.path == path):
            causes.append(form.format(shortlist(values, MAX_VALUES)))
    return " and ".join(causes)


def same_seed(seed: SettingValue) -> Remedy:
    """Return how to set the seed of the other replicas, or none."""
    if seed.state is State.NULL:
        return unset_seed()
    sentence = f"Set `{VARIABLE}` to {to_text(seed)} on these replicas before Python starts, as on the others."
    return remedy.set_to([(SEED, seed)], sentence)


def unset_seed() -> Remedy:
    return remedy.set_to([(SEED, NOT_SET)], f"Unset `{VARIABLE}` on these replicas and restart them.")


def one_seed(*, may_be_unset: bool = False) -> Remedy:
    """Return how to set one seed on all replicas; where they then have a fixed one, alternatively none."""
    if not may_be_unset:
        return remedy.set_to([(SEED, ZERO)], f"{SET_EVERYWHERE}.", is_everywhere=True)
    ways = [Way(((SEED, seed),), is_everywhere=True) for seed in (ZERO, NOT_SET)]
    return remedy.one_of(ways, f"{SET_EVERYWHERE}, or unset it on all of them.")


def like_the_fixed(pool: PoolSubject, seeds: Seeds, fixed: Seeds, *, is_certain: bool) -> Remedy:
    """Return how to use the version, or the algorithm, of most replicas with the fixed seed."""
    part, own = pool.only(fixed), min(seeds.values())
    seed_everywhere = uncapitalized(SET_EVERYWHERE)
    if own.path == VERSION:
        version = part.most_used_version
        sentence = f"Update these replicas to vLLM {to_text(version)} like the others (ID-08). Or {seed_everywhere}."
        ways = [Way(((VERSION, version),)), SEED_EVERYWHERE]
        return _alternatives(pool, sentence, ways, is_certain=is_certain)
    algorithm = next(iter(part.values(HASH_ALGORITHM)))
    sentence = (
        f"Set {to_text(algorithm)}, whose seed is fixed, on these replicas: this also fixes RT-05. "
        f"Or run {to_text(own.value)} on every replica and {seed_everywhere}."
    )
    return _alternatives(pool, sentence, [Way(((HASH_ALGORITHM, algorithm),))], is_certain=is_certain)


def end_random_seeds(pool: PoolSubject, seeds: Seeds, *, is_certain: bool) -> Remedy:
    """Return how to set one seed, or where that is enough and the router has no algorithm, a different algorithm."""
    sentence, ways = SET_EVERYWHERE, [SEED_EVERYWHERE]
    if VERSION not in {seed.path for seed in seeds.values()} and pool.domain.expects.hash_algorithm is None:
        sentence += f", or use {to_text(REPRODUCIBLE)}, whose seed is fixed, on every replica"
        ways.append(Way(((HASH_ALGORITHM, REPRODUCIBLE),), is_everywhere=True))
    return _alternatives(pool, f"{sentence}.", ways, is_certain=is_certain)


def routers_fixed_seed(pool: PoolSubject, seed: prefix.HashSeed, fixed: Seeds) -> Remedy:
    """Return how to get the fixed seed that the router expects, as `fixed` replicas have it; or correct fleet.yaml."""
    part, wanted = pool.only(fixed), wanted_algorithm(pool)
    if seed.path == VERSION:
        path, value = VERSION, part.most_used_version if fixed else FIRST_FIXED
        target = f"{to_text(value)} like the others (ID-08)" if fixed else "0.29 or later"
        sentence = f"Update these replicas to vLLM {target}."
    else:
        is_wanted_fixed = wanted is not None and prefix.is_fixed(wanted)
        path = HASH_ALGORITHM
        value = wanted if wanted and is_wanted_fixed else next(iter(part.values(HASH_ALGORITHM)), REPRODUCIBLE)
        also = ": this also fixes RT-05" if is_wanted_fixed else ""
        sentence = f"Set {to_text(value)}, whose seed is fixed, on these replicas{also}."
    other = f"Or, where the router and all replicas have one `{VARIABLE}`, {DECLARE}."
    return _with_declaration(pool, remedy.set_to([(path, value)], f"{sentence} {other}"))


def _alternatives(pool: PoolSubject, sentence: str, ways: Sequence[Way], *, is_certain: bool) -> Remedy:
    """Return alternatives; where it is unknown whether the variable is set, also to declare it."""
    found = remedy.one_of(ways, sentence)._replace(any_of=len(ways) > 1)
    if is_certain:
        return found
    return _with_declaration(
        pool, found._replace(sentence=f"{sentence} Where `{VARIABLE}` is set but not reported, {DECLARE}.")
    )


def _with_declaration(pool: PoolSubject, found: Remedy) -> Remedy:
    snippets = (*found.snippets, remedy.declaration(pool.name, "expects:", DECLARED))
    return found._replace(snippets=snippets, any_of=True)
