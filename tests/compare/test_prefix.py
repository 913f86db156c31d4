"""The seed of block hashes by the settings, and the digests of a replica."""

from collections.abc import Mapping
from typing import Any

import pytest

from dashboard.compare.hashes import digests
from dashboard.compare.prefix import (
    ALGORITHM_PATH,
    PREFIX_PATHS,
    SEED_PATH,
    SEED_PATHS,
    SEED_POLICY_PATH,
    VERSION_PATH,
    SeedKind,
    Values,
    hash_seed,
    known_values,
    random_seed_cause,
    short_name,
)
from dashboard.fleet import EngineFingerprint
from tests.builders import document, hashing

XXHASH, SHA = {ALGORITHM_PATH: "xxhash_cbor"}, {ALGORITHM_PATH: "sha256"}


def values(settings: Mapping[str, Any]) -> Values:
    """The values of the settings; None is an option that is not set."""
    return known_values(document(settings, base={}).settings, [VERSION_PATH, ALGORITHM_PATH, *SEED_PATHS])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ""),
        ({"version": "0.32.0", **SHA}, ""),
        ({"version": "0.29.0"}, ""),
        ({"version": "0.28.3"}, "before vLLM 0.29"),
        ({"version": "a branch"}, ""),
        ({"version": "0.32.0", **XXHASH}, "with xxhash"),
        ({ALGORITHM_PATH: ["xxhash"]}, ""),
    ],
)
def test_one_algorithm_and_old_versions_use_a_random_seed(settings: Mapping[str, Any], expected: str) -> None:
    assert random_seed_cause(values(settings)) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        (SHA, None),
        (XXHASH, (SeedKind.RANDOM, ALGORITHM_PATH, False)),
        ({**XXHASH, SEED_PATH: None}, (SeedKind.RANDOM, ALGORITHM_PATH, True)),
        ({**XXHASH, SEED_PATH: "007"}, (SeedKind.SEED, SEED_PATH, True)),
        ({**XXHASH, SEED_POLICY_PATH: "environment"}, (SeedKind.SEED, SEED_POLICY_PATH, True)),
        ({**SHA, SEED_POLICY_PATH: "random"}, (SeedKind.RANDOM, ALGORITHM_PATH, True)),
        ({SEED_POLICY_PATH: "random"}, (SeedKind.RANDOM, SEED_POLICY_PATH, True)),
        ({"version": "0.28.0", SEED_POLICY_PATH: "default"}, None),
        ({**XXHASH, SEED_POLICY_PATH: "default"}, (SeedKind.FIXED, ALGORITHM_PATH, True)),
        ({"version": "0.28.0", **SHA}, (SeedKind.RANDOM, VERSION_PATH, False)),
        ({"version": "0.32.0", **SHA}, (SeedKind.FIXED, ALGORITHM_PATH, False)),
        ({"version": "0.32.0", ALGORITHM_PATH: [1]}, None),
    ],
)
def test_a_configured_seed_takes_precedence_over_version_and_algorithm(
    settings: Mapping[str, Any], expected: tuple[SeedKind, str, bool] | None
) -> None:
    seed = hash_seed(values(settings))

    assert (seed and (seed.kind, seed.path, seed.is_certain)) == expected


@pytest.mark.parametrize(("text", "value"), [("007", "7"), ("0", "0"), ("x", '"x"'), ("9" * 11, f'"{"9" * 11}"')])
def test_a_seed_has_one_spelling(text: str, value: str) -> None:
    seed = hash_seed(values({SEED_PATH: text}))

    assert seed
    assert seed.value.value == value


def test_a_replica_has_digests_only_if_all_its_engines_report_one() -> None:
    engines = hashing(EngineFingerprint("c", "a"), EngineFingerprint("c", "b"))

    assert digests(engines) == frozenset("ab")
    assert digests(engines, "canonical") == frozenset("c")
    assert digests(hashing("a", None)) is None
    assert digests((), "canonical") is None


def test_short_names_omit_the_section() -> None:
    assert [short_name(path) for path in (VERSION_PATH, PREFIX_PATHS[-1])] == ["vLLM version", "prefix_match_unit"]
