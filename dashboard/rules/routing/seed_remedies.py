"""How replicas get one hash seed: the remedies of RT-06."""

from collections.abc import Iterable, Sequence

from dashboard.compare.prefix import HashSeed, is_fixed
from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.domain import SeedPolicy
from dashboard.rules.findings import Remedy, Snippet
from dashboard.rules.routing.hash_seed import SEED, VARIABLE
from dashboard.rules.routing.hashes import HASH_ALGORITHM, wanted_algorithm
from dashboard.rules.routing.router import VERSION, declaration, most_used_version
from dashboard.rules.sentences import say
from dashboard.rules.subject import PoolSubject

ZERO = SettingValue("0", State.REPORTED)
FIRST_FIXED = SettingValue('"0.29.0"', State.REPORTED)
REPRODUCIBLE = SettingValue('"sha256_cbor"', State.REPORTED)
ENVIRONMENT = f"seed_policy: {SeedPolicy.ENVIRONMENT}"
SET_EVERYWHERE = f"Set `{VARIABLE}` to one value, such as 0, on every replica of the pool before Python starts"
DECLARE = f"set `{ENVIRONMENT}` under `expects` of the pool in fleet.yaml"

Way = tuple[str, SettingValue]


def same_seed(seed: SettingValue) -> Remedy:
    """Set the seed of the other replicas, or none."""
    if seed.state is State.NULL:
        return unset()
    sentence = f"Set `{VARIABLE}` to {say(seed)} on these replicas before Python starts, as on the others."
    return remedy.set_to([(SEED, seed)], sentence)


def unset() -> Remedy:
    """Remove the variable from these replicas."""
    return Remedy(f"Unset `{VARIABLE}` on these replicas and restart them.", (Snippet("env", f"unset {VARIABLE}"),))


def one_seed(*, may_be_unset: bool = False) -> Remedy:
    """Set one seed on all replicas; where they then have a fixed one, alternatively none."""
    found = remedy.set_to([(SEED, ZERO)], f"{SET_EVERYWHERE}.")
    if not may_be_unset:
        return found
    sentence = f"{SET_EVERYWHERE}, or unset it on all of them."
    return Remedy(sentence, (*found.snippets, *unset().snippets), any_of=True)


def like_the_fixed(pool: PoolSubject, seeds: Sequence[HashSeed], fixed: tuple[str, ...], *, is_certain: bool) -> Remedy:
    """Set the version, or the algorithm, of most replicas with the fixed seed."""
    part = pool.only(fixed)
    everywhere = f"{SET_EVERYWHERE[:1].lower()}{SET_EVERYWHERE[1:]}"
    if seeds[0].path == VERSION:
        version = most_used_version(part)
        sentence = f"Update these replicas to vLLM {say(version)} like the others (ID-08). Or {everywhere}."
        return _alternatives(pool, sentence, [(VERSION, version), (SEED, ZERO)], is_certain=is_certain)
    algorithm = next(iter(part.values(HASH_ALGORITHM)))
    sentence = (
        f"Set {say(algorithm)}, whose seed is fixed, on these replicas: this also fixes RT-05. "
        f"Or run {say(seeds[0].value)} on every replica and {everywhere}."
    )
    return _alternatives(pool, sentence, [(HASH_ALGORITHM, algorithm), (SEED, ZERO)], is_certain=is_certain)


def end_random_seeds(pool: PoolSubject, seeds: Iterable[HashSeed], *, is_certain: bool) -> Remedy:
    """Set one seed, or where that is enough and the router has no algorithm, another algorithm."""
    sentence, ways = SET_EVERYWHERE, [(SEED, ZERO)]
    if VERSION not in {seed.path for seed in seeds} and pool.domain.expects.hash_algorithm is None:
        sentence += f", or use {say(REPRODUCIBLE)}, whose seed is fixed, on every replica"
        ways.append((HASH_ALGORITHM, REPRODUCIBLE))
    return _alternatives(pool, f"{sentence}.", ways, is_certain=is_certain)


def routers_fixed_seed(pool: PoolSubject, seed: HashSeed, fixed: tuple[str, ...]) -> Remedy:
    """Set the fixed seed that the router expects, as `fixed` replicas have it, or correct fleet.yaml."""
    part = pool.only(fixed)
    if seed.path == VERSION and fixed:
        way = (VERSION, most_used_version(part))
        sentence = f"Update these replicas to vLLM {say(way[1])} like the others (ID-08)."
    elif seed.path == VERSION:
        way, sentence = (VERSION, FIRST_FIXED), "Update these replicas to vLLM 0.29 or later."
    elif (wanted := wanted_algorithm(pool)) is not None and is_fixed(wanted):
        way = (HASH_ALGORITHM, wanted)
        sentence = f"Set {say(wanted)}, whose seed is fixed, on these replicas: this also fixes RT-05."
    else:
        way = (HASH_ALGORITHM, next(iter(part.values(HASH_ALGORITHM)), REPRODUCIBLE))
        sentence = f"Set {say(way[1])}, whose seed is fixed, on these replicas."
    other = f"Or, where the router and all replicas have one `{VARIABLE}`, {DECLARE}."
    return _with_declaration(pool, remedy.set_to([way], f"{sentence} {other}"))


def _alternatives(pool: PoolSubject, sentence: str, ways: Sequence[Way], *, is_certain: bool) -> Remedy:
    """Offer alternatives; where it is unknown whether the variable is set, also to declare it."""
    snippets = tuple(each for way in ways if (each := remedy.pasteable(*way)))
    found = Remedy(sentence, snippets, any_of=len(ways) > 1)
    if is_certain:
        return found
    declare = f"{sentence} Where `{VARIABLE}` is set but not reported, {DECLARE}."
    return _with_declaration(pool, found._replace(sentence=declare))


def _with_declaration(pool: PoolSubject, found: Remedy) -> Remedy:
    snippets = (*found.snippets, declaration(pool.name, "expects:", ENVIRONMENT))
    return found._replace(snippets=snippets, any_of=True)
