"""Rows of codes grouped into cohorts, and the fewest settings that distinguish a cohort."""

from functools import reduce
from itertools import combinations
from operator import or_

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.cohorts import (
    COHORT_COLOURS,
    EXACT_SIZE,
    EXACT_WORK,
    all_letters,
    colour,
    contradicting_rows,
    contradictions,
    give_letters,
    group_rows,
    merge_rows,
    minimal_cover,
)
from dashboard.compare.encoding import MISSING, NULL, REDACTED

ONE, TWO = NULL + 1, NULL + 2
MASKS = st.lists(st.integers(0, 255), max_size=8)


@pytest.mark.parametrize(
    ("rows", "replicas", "cohorts"),
    [
        pytest.param([[ONE, TWO], [ONE, TWO]], [1, 1], [[0, 1]], id="equal rows are one cohort"),
        pytest.param([[ONE], [TWO]], [1, 2], [[1], [0]], id="the largest cohort is first"),
        pytest.param([[ONE, MISSING], [ONE, ONE]], [9, 1], [[1, 0]], id="the most complete row is first"),
        pytest.param(
            [[ONE, ONE], [TWO, ONE], [MISSING, ONE]],
            [1, 5, 1],
            [[1, 2], [0]],
            id="an incomplete row joins the largest cohort without a contradiction",
        ),
        pytest.param(
            [[ONE, ONE, MISSING], [MISSING, ONE, ONE], [ONE, MISSING, TWO]],
            [3, 2, 1],
            [[0, 1], [2]],
            id="a row contradicts the members of a cohort together",
        ),
        pytest.param(
            [[ONE, ONE, ONE], [TWO, ONE, ONE], [TWO, ONE, MISSING], [MISSING, ONE, MISSING]],
            [3, 2, 2, 1],
            [[1, 2, 3], [0]],
            id="every row that joins counts",
        ),
        pytest.param([[ONE], [REDACTED], [MISSING]], [1, 1, 1], [[0, 1, 2]], id="missing contradicts nothing"),
        pytest.param([[ONE], [NULL]], [1, 1], [[0], [1]], id="null contradicts a value"),
        pytest.param(np.zeros((0, 0)), [], [], id="no rows"),
    ],
)
def test_a_row_joins_the_largest_cohort_that_it_does_not_contradict(
    rows: list[list[int]], replicas: list[int], cohorts: list[list[int]]
) -> None:
    assert group_rows(np.array(rows, dtype=np.int32), replicas, [[]] * len(rows)) == cohorts


def test_contradictions_are_bit_sets_of_rows() -> None:
    codes = np.array([[ONE, ONE], [TWO, ONE], [MISSING, ONE]], dtype=np.int32)

    assert contradictions(codes) == [0b010, 0b001, 0]
    assert contradicting_rows([ONE, TWO, REDACTED, TWO]) == [0b1010, 0b0001, 0, 0b0001]


def test_merged_rows_have_every_value_of_their_members() -> None:
    codes = np.array([[ONE, MISSING, MISSING], [MISSING, TWO, REDACTED]], dtype=np.int32)

    assert merge_rows(codes).tolist() == [ONE, TWO, REDACTED]


def test_new_cohorts_have_the_letters_a_to_z_and_then_aa() -> None:
    letters = give_letters([[str(place)] for place in range(1_000)], {})

    places = {0: "A", 1: "B", 25: "Z", 26: "AA", 27: "AB", 701: "ZZ", 702: "AAA", 999: "ALL"}
    assert {place: letters[place] for place in places} == places


def test_the_colours_of_letters_repeat() -> None:
    assert [colour(each) for each in "ABCDEFG"] == [*range(COHORT_COLOURS), 0]
    assert colour("AA") == 26 % COHORT_COLOURS


SEVEN = {f"gone {each}": each for each in "ABCDEFG"}


@pytest.mark.parametrize(
    ("cohorts", "known", "letters"),
    [
        pytest.param([["b"], ["a"]], {"a": "A", "b": "B"}, ["B", "A"], id="a letter stays with its document"),
        pytest.param([["a"], ["new"]], {"a": "A", "gone": "B"}, ["A", "C"], id="the letter of what is gone is taken"),
        pytest.param([["new", "c"]], {"c": "C"}, ["C"], id="a more complete document has the letter of its cohort"),
        pytest.param([["x"], ["y", "x"]], {"x": "A"}, ["A", "B"], id="the first document decides"),
        pytest.param([["x"], ["y"]], {"x": "A", "y": "A"}, ["A", "B"], id="no two cohorts have one letter"),
        pytest.param([["new"], ["b"]], {**SEVEN, "b": "B"}, ["I", "B"], id="H has the colour of B"),
        pytest.param([*map(list, "1234567")], SEVEN, [*"HIJKLMN"], id="all colours are taken"),
    ],
)
def test_a_letter_stays_with_its_document_and_a_new_one_is_free(
    cohorts: list[list[str]], known: dict[str, str], letters: list[str]
) -> None:
    assert give_letters(cohorts, known) == letters


def test_a_shown_letter_belongs_to_no_remembered_document() -> None:
    remembered = {"chat": {"a": "A", "b": "B"}, "gone": {"x": "A"}}

    assert all_letters(remembered, {"chat": {"c": "B"}, "new": {"n": "A"}}) == {
        "chat": {"a": "A", "c": "B"},
        "gone": {"x": "A"},
        "new": {"n": "A"},
    }


@pytest.mark.parametrize(
    ("masks", "others", "cover"),
    [
        pytest.param([0, 0], 0, (), id="a single cohort"),
        pytest.param([0b01, 0b11, 0b10, 0b11], 0b11, (1,), id="the first of two that suffice"),
        pytest.param([0b011110, 0b000111, 0b111000, 0b100000, 1], 0b111111, (1, 2), id="two, where greedy takes three"),
        pytest.param([0b011110, 0b000011, 0b001100, 0b110000], 0b111111, (0, 1, 3), id="three"),
        pytest.param([0b11, 0b1100, 0b110000, 0b11000000], 0b11111111, (0, 1, 2, 3), id="greedy beyond three"),
        pytest.param(
            [*(1 << index for index in range(EXACT_WORK)), ((1 << EXACT_WORK) - 1) ^ 1],
            (1 << EXACT_WORK) - 1,
            (0, EXACT_WORK),
            id="greedy beyond the exact work",
        ),
    ],
)
def test_a_cover_has_the_fewest_and_first_masks(masks: list[int], others: int, cover: tuple[int, ...]) -> None:
    assert minimal_cover(masks, others) == cover


@given(MASKS)
def test_no_fewer_masks_cover_all_and_the_preferred_win(masks: list[int]) -> None:
    others = reduce(or_, masks, 0)
    places = minimal_cover(masks, others)

    def covers(chosen: tuple[int, ...]) -> bool:
        return reduce(or_, (masks[place] for place in chosen), 0) == others

    assert covers(places)
    for size in range(min(len(places), EXACT_SIZE + 1)):
        assert not any(map(covers, combinations(range(len(masks)), size)))
    if len(places) <= EXACT_SIZE:
        assert places == next(filter(covers, combinations(range(len(masks)), len(places))))
