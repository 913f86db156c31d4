"""Where the root of block hashes is made up, as settings tell."""

from collections.abc import Mapping
from typing import Any

import pytest

from dashboard.compare.prefix import ALGORITHM_PATH, FindingContext, telling_of
from dashboard.compare.random_root import SEED_PATH, SEED_PATHS, SEED_POLICY_PATH, is_doubtful, is_random, made_up
from tests.builders import document

VERSION = "version"


def telling(settings: Mapping[str, Any]) -> FindingContext:
    """What settings tell; None is told as not set."""
    return telling_of(document(settings, base={}).settings, [VERSION, ALGORITHM_PATH, *SEED_PATHS])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ""),
        ({VERSION: "0.32.0", ALGORITHM_PATH: "sha256"}, ""),
        ({VERSION: "0.29.0"}, ""),
        ({VERSION: "0.28.3"}, "before vLLM 0.29"),
        ({VERSION: "a branch"}, ""),
        ({VERSION: "0.32.0", ALGORITHM_PATH: "xxhash_cbor"}, "with xxhash"),
        ({ALGORITHM_PATH: ["xxhash"]}, ""),
    ],
)
def test_roots_are_made_up_by_one_algorithm_and_by_old_versions(settings: Mapping[str, Any], expected: str) -> None:
    assert made_up(telling(settings)) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (False, True)),
        ({SEED_POLICY_PATH: "random"}, (True, False)),
        ({SEED_POLICY_PATH: "environment"}, (False, False)),
        ({SEED_PATH: None}, (True, False)),
        ({SEED_PATH: "0"}, (False, False)),
    ],
)
def test_a_seed_decides_and_without_word_of_it_there_is_doubt(
    settings: Mapping[str, Any], expected: tuple[bool, bool]
) -> None:
    told = telling({ALGORITHM_PATH: "xxhash", **settings})

    assert (is_random(told), is_doubtful(told)) == expected


def test_no_seed_leaves_an_algorithm_with_a_fixed_root_alone() -> None:
    told = telling({ALGORITHM_PATH: "sha256", VERSION: "0.32.0", SEED_PATH: None})

    assert not is_random(told)
