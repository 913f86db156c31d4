"""Which rows of codes go together."""

import numpy as np
import pytest

from dashboard.compare.cohorts import contradicting_rows, contradictions, group_rows, letter, merge_rows
from dashboard.compare.encoding import MISSING, NULL, REDACTED

ONE, TWO = NULL + 1, NULL + 2


def grouped(rows: list[list[int]], replicas: list[int]) -> list[list[int]]:
    return group_rows(np.array(rows, dtype=np.int32), replicas)


def test_rows_that_say_the_same_are_one_cohort() -> None:
    assert grouped([[ONE, TWO], [ONE, TWO]], [1, 1]) == [[0, 1]]


def test_the_cohort_with_more_replicas_comes_first() -> None:
    assert grouped([[ONE], [TWO]], [1, 2]) == [[1], [0]]


def test_the_most_completely_read_row_leads_its_cohort() -> None:
    assert grouped([[ONE, MISSING], [ONE, ONE]], [9, 1]) == [[1, 0]]


def test_a_row_that_says_less_joins_the_largest_cohort_it_does_not_contradict() -> None:
    assert grouped([[ONE, ONE], [TWO, ONE], [MISSING, ONE]], [1, 5, 1]) == [[1, 2], [0]]


def test_a_row_contradicts_what_the_members_of_a_cohort_say_together() -> None:
    rows = [[ONE, ONE, MISSING], [MISSING, ONE, ONE], [ONE, MISSING, TWO]]

    assert grouped(rows, [3, 2, 1]) == [[0, 1], [2]]


def test_a_cohort_grows_with_every_row_that_joins() -> None:
    rows = [[ONE, ONE, ONE], [TWO, ONE, ONE], [TWO, ONE, MISSING], [MISSING, ONE, MISSING]]

    assert grouped(rows, [3, 2, 2, 1]) == [[1, 2, 3], [0]]


def test_redacted_and_missing_contradict_nothing() -> None:
    assert grouped([[ONE], [REDACTED], [MISSING]], [1, 1, 1]) == [[0, 1, 2]]


def test_null_contradicts_a_value() -> None:
    assert grouped([[ONE], [NULL]], [1, 1]) == [[0], [1]]


def test_nothing_to_group_is_no_cohort() -> None:
    assert group_rows(np.zeros((0, 0), dtype=np.int32), []) == []


def test_contradictions_are_bit_sets_of_rows() -> None:
    codes = np.array([[ONE, ONE], [TWO, ONE], [MISSING, ONE]], dtype=np.int32)

    assert contradictions(codes) == [0b010, 0b001, 0]
    assert contradicting_rows([ONE, TWO, REDACTED, TWO]) == [0b1010, 0b0001, 0, 0b0001]


def test_members_together_tell_what_any_of_them_tells() -> None:
    codes = np.array([[ONE, MISSING, MISSING], [MISSING, TWO, REDACTED]], dtype=np.int32)

    assert merge_rows(codes).tolist() == [ONE, TWO, REDACTED]


@pytest.mark.parametrize(
    ("place", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (27, "AB"), (701, "ZZ"), (702, "AAA"), (999, "ALL")]
)
def test_letters_go_on_after_z(place: int, name: str) -> None:
    assert letter(place) == name
