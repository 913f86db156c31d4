"""What is said around a compared pool: what deviates from its baseline, who is not counted, whose data it is."""

import pytest

from dashboard.analysis.assembly import empty_fleet
from dashboard.compare import BASELINE, MAJORITY, build_matrix
from dashboard.fleet import Baseline
from dashboard.report.pools.compared import coverage_words, equal_words, hidden_words
from tests.builders import alike, document, down, fleet

TOLD = document()
UNIFORM = fleet(alike("chat", 3, TOLD), [TOLD])
(POOL,) = UNIFORM.pools


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"cache_config.block_size": "16"}, "0 settings differ from the baseline agreed."),
        ({"cache_config.block_size": "64"}, "1 setting differs from the baseline agreed."),
        (
            {"cache_config.block_size": "64", "model_config.max_logprobs": "5"},
            "2 settings differ from the baseline agreed.",
        ),
    ],
)
def test_a_pool_in_which_nothing_differs_may_still_deviate_from_its_baseline(
    expected: dict[str, str], words: str
) -> None:
    matrix = build_matrix(POOL, UNIFORM.documents, BASELINE, baseline=Baseline("agreed", "chat", expected))

    assert hidden_words(POOL, matrix, []).startswith(f"0 of 17 settings differ. {words}")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, ""),
        (1, " Excluded: r0 (unreachable)."),
        (3, " Excluded: r0, r1 and r2 (unreachable)."),
        (4, " Excluded: 4 unreachable replicas."),
    ],
)
def test_replicas_that_are_not_counted_are_named_and_many_are_a_number(number: int, words: str) -> None:
    matrix = build_matrix(POOL, UNIFORM.documents, MAJORITY)

    assert equal_words(POOL, matrix, [down(f"r{place}") for place in range(number)]) == f"17 settings compared.{words}"


def test_a_copied_table_says_whose_data_it_is_how_many_answered_and_of_when() -> None:
    """Before the first poll there is no time to tell."""
    assert coverage_words(UNIFORM) == "prod-eu: 3 of 3 answered, data as of 2026-03-02T11:42:05Z"
    assert coverage_words(empty_fleet("prod-eu")) == "prod-eu: 0 of 0 answered"
