"""Engines far from the median of their kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.capacity.outliers import medians, outliers, tied


def test_an_outlier_is_more_than_a_tenth_from_the_median_of_its_kind() -> None:
    assert outliers(["a"] * 5, [100, 100, 100, 89, 111]) == {3: pytest.approx(-0.11), 4: pytest.approx(0.11)}
    assert outliers("aaaa", [100, 100, 100, 91]) == {}
    assert list(outliers("aaaa", [100, 100, 100, 95], tolerance=0.04)) == [3]
    assert outliers("aaabbb", [1, 1, 1, 9, 9, 9]) == {}


@pytest.mark.parametrize("values", [[1, 9], [1, None, 9], [None, None, None]])
def test_fewer_than_three_known_values_have_no_median(values: list[float | None]) -> None:
    assert medians("a" * len(values), values) == {}
    assert outliers("a" * len(values), values) == {}


@pytest.mark.parametrize("values", [[0, 0, 0, 5], [10, None, 10, 10]])
def test_a_median_of_zero_and_unknown_values_give_no_outlier(values: list[float | None]) -> None:
    assert outliers("aaaa", values) == {}


def test_every_value_needs_a_kind() -> None:
    with pytest.raises(ValueError, match="zip"):
        outliers("aa", [1])


@pytest.mark.parametrize(
    ("values", "is_tied"),
    [
        ([100, 100, 200, 200], 1),
        ([100, 100, 100, 200, 200, 200], 1),
        ([100, 200, 300, 400, 500], 1),
        ([100, 100, 200], 0),
        ([60, 100, 100, 140], 0),
        ([100, 100, 100], 0),
        ([0, 0, 0, 5], 0),
        ([1, None, 9], 0),
    ],
)
def test_a_tie_has_no_outliers(values: list[float | None], is_tied: int) -> None:
    """The median of a tie is a value that no replica has."""
    kinds = "a" * len(values)

    assert tied(kinds, values) == ({"a"} if is_tied else frozenset())
    assert not is_tied or outliers(kinds, values) == {}


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=20))
def test_the_order_of_the_engines_does_not_matter(values: list[int]) -> None:
    first, second = (outliers(["a"] * len(values), own) for own in (values, sorted(values)))

    assert sorted(first.values()) == sorted(second.values())
