"""How replicas get one root of their block hashes: the remedies of RT-06."""

from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.domain import SeedPolicy
from dashboard.rules.drift import say
from dashboard.rules.findings import Remedy, Snippet
from dashboard.rules.routing.releases import VERSION
from dashboard.rules.routing.roots import SEED, SEED_VARIABLE
from dashboard.rules.routing.router import declaration
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM

ZERO = SettingValue("0", State.REPORTED)
FIRST_FIXED = SettingValue('"0.29.0"', State.REPORTED)
REPRODUCIBLE = SettingValue('"sha256_cbor"', State.REPORTED)
ENVIRONMENT = f"seed_policy: {SeedPolicy.ENVIRONMENT}"
EVERYWHERE = f"set {SEED_VARIABLE} to one value, such as 0, on every replica of the pool before Python starts"
SAID = f"say `{ENVIRONMENT}` under the pool's `expects` in fleet.yaml"


def like_others(seed: SettingValue) -> Remedy:
    """Give these replicas the seed of the others, or none if they have none."""
    if seed.state is State.NULL:
        return unset()
    return remedy.set_to(
        [(SEED, seed)],
        f"Set {SEED_VARIABLE} to {say(seed)} on these replicas before Python starts, as others have it.",
    )


def unset() -> Remedy:
    """Take the seed away from these replicas."""
    sentence = f"Leave {SEED_VARIABLE} unset on these replicas, and restart them."
    return Remedy(sentence, (Snippet("env", f"unset {SEED_VARIABLE}"),))


def set_everywhere() -> Remedy:
    """Give all replicas one seed."""
    return remedy.set_to([(SEED, ZERO)], f"{_begun(EVERYWHERE)}.")


def one_seed(*, may_be_unset: bool) -> Remedy:
    """Give all replicas one seed where some have another, or none; or none at all where they have a fixed root then."""
    found = set_everywhere()
    if not may_be_unset:
        return found
    sentence = f"{_begun(EVERYWHERE)}, or leave it unset on all of them."
    return Remedy(sentence, (*found.snippets, *unset().snippets), any_of=True)


def one_version(pool: str, version: SettingValue, *, is_certain: bool) -> Remedy:
    """Bring these replicas to the version of those with the fixed root, or give all of them one seed."""
    sentence = (
        f"This is the version difference of ID-08: give these replicas vLLM {say(version)} like the others. "
        f"Or {EVERYWHERE}."
    )
    return _ways(pool, sentence, [(VERSION, version), (SEED, ZERO)], is_certain=is_certain)


def one_algorithm(pool: str, own: str, algorithm: SettingValue, *, is_certain: bool) -> Remedy:
    """Give these replicas an algorithm with the fixed root; with their `own` on all, they need one seed."""
    sentence = (
        f"Give these replicas {say(algorithm)}, whose root is fixed: the same flag ends RT-05. "
        f"Or run {own} on every replica, and {EVERYWHERE}."
    )
    return _ways(pool, sentence, [(HASH_ALGORITHM, algorithm), (SEED, ZERO)], is_certain=is_certain)


def one_root(pool: str, *, is_algorithm_free: bool, is_certain: bool) -> Remedy:
    """Give a pool of random roots one seed, or an algorithm with a fixed root where that alone ends it."""
    sentence, ways = _begun(EVERYWHERE), [(SEED, ZERO)]
    if is_algorithm_free:
        sentence += f", or give every replica {say(REPRODUCIBLE)}, whose root is fixed"
        ways.append((HASH_ALGORITHM, REPRODUCIBLE))
    return _ways(pool, f"{sentence}.", ways, is_certain=is_certain)


def routers_root(pool: str, sentence: str, way: tuple[str, SettingValue]) -> Remedy:
    """Give these replicas the fixed root that the router computes from, or mend what fleet.yaml says of it."""
    other = f"Or, where the router and all replicas have one {SEED_VARIABLE}, {SAID}."
    return _with(remedy.set_to([way], f"{sentence} {other}"), declaration(pool, "expects:", ENVIRONMENT))


def _ways(pool: str, sentence: str, ways: list[tuple[str, SettingValue]], *, is_certain: bool) -> Remedy:
    """Offer alternatives. Where nobody tells whether the seed is set, who has set it can only say so."""
    found = Remedy(sentence, tuple(each for way in ways if (each := remedy.pasteable(*way))), any_of=len(ways) > 1)
    if is_certain:
        return found
    said = f"{sentence} Where {SEED_VARIABLE} is set on every replica, {SAID}, for no reply tells it."
    return _with(found._replace(sentence=said), declaration(pool, "expects:", ENVIRONMENT))


def _with(told: Remedy, other: Snippet) -> Remedy:
    return told._replace(snippets=(*told.snippets, other), any_of=True)


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
