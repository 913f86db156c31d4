"""Engines far from the median of their kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.capacity.outliers import medians, outliers, tied


def test_a_value_beyond_a_tenth_of_its_kind_s_median_is_named() -> None:
    found = outliers(["a"] * 5, [100, 100, 100, 89, 111])

    assert [(each.place, each.value, each.median, round(each.share, 2)) for each in found] == [
        (3, 89, 100.0, -0.11),
        (4, 111, 100.0, 0.11),
    ]


def test_a_tenth_itself_is_within_the_tolerance_and_the_tolerance_can_be_set() -> None:
    values = [100, 100, 100, 95]

    assert outliers("aaaa", values) == ()
    assert [each.place for each in outliers("aaaa", values, tolerance=0.04)] == [3]


def test_kinds_are_judged_apart() -> None:
    assert outliers("aaabbb", [1, 1, 1, 9, 9, 9]) == ()


@pytest.mark.parametrize("values", [[1, 9], [1, None, 9], [None, None, None]])
def test_fewer_than_three_known_values_judge_nobody(values: list[float | None]) -> None:
    assert medians("a" * len(values), values) == {}
    assert outliers("a" * len(values), values) == ()


def test_a_median_of_nothing_judges_nobody_and_unknown_values_are_left_out() -> None:
    assert outliers("aaaa", [0, 0, 0, 5]) == ()
    assert outliers("aaaa", [10, None, 10, 10]) == ()


def test_kinds_and_values_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="zip"):
        outliers("aa", [1])


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=20))
def test_the_order_of_the_engines_changes_no_judgement(values: list[int]) -> None:
    def judged(told: list[int]) -> list[float]:
        return sorted(each.value for each in outliers(["a"] * len(told), told))

    assert judged(values) == judged(sorted(values))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([100, 100, 200, 200], id="two halves"),
        pytest.param([100, 100, 100, 200, 200, 200], id="two halves of three"),
        pytest.param([100, 200, 300, 400, 500], id="no two alike"),
    ],
)
def test_a_tie_has_no_outliers_against_a_median_that_no_replica_has(values: list[float]) -> None:
    assert outliers("a" * len(values), values) == ()
    assert tied("a" * len(values), values) == {"a"}


@pytest.mark.parametrize("values", [[100, 100, 200], [60, 100, 100, 140], [100, 100, 100], [0, 0, 0, 5], [1, None, 9]])
def test_what_is_no_tie(values: list[float | None]) -> None:
    assert tied("a" * len(values), values) == frozenset()
