"""The fewest settings that tell a cohort from all others."""

from functools import reduce
from itertools import combinations
from operator import or_

from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.cohorts import EXACT_SIZE, EXACT_WORK, minimal_cover

MASKS = st.lists(st.integers(0, 255), max_size=8)


def covered(masks: list[int], places: tuple[int, ...]) -> int:
    return reduce(or_, (masks[place] for place in places), 0)


def test_a_single_cohort_needs_no_setting() -> None:
    assert minimal_cover([0, 0], 0) == ()


def test_one_setting_that_tells_from_all_is_enough_and_the_first_one_wins() -> None:
    assert minimal_cover([0b01, 0b11, 0b10, 0b11], 0b11) == (1,)


def test_two_settings_beat_three_that_look_better_one_by_one() -> None:
    greedy_takes_first = 0b011110
    assert minimal_cover([greedy_takes_first, 0b000111, 0b111000, 0b100000, 0b000001], 0b111111) == (1, 2)


def test_three_settings_are_found_exactly() -> None:
    assert minimal_cover([0b011110, 0b000011, 0b001100, 0b110000], 0b111111) == (0, 1, 3)


def test_more_than_three_are_taken_greedily() -> None:
    masks = [0b00000011, 0b00001100, 0b00110000, 0b11000000]

    assert minimal_cover(masks, 0b11111111) == (0, 1, 2, 3)


def test_beyond_the_exact_work_every_cohort_is_still_told_apart() -> None:
    count = EXACT_WORK
    masks = [1 << index for index in range(count)]
    masks.append(((1 << count) - 1) ^ 1)

    assert minimal_cover(masks, (1 << count) - 1) == (0, count)


@given(MASKS)
def test_the_fewest_settings_cover_all_and_no_fewer_do(masks: list[int]) -> None:
    others = reduce(or_, masks, 0)
    places = minimal_cover(masks, others)

    assert covered(masks, places) == others
    for size in range(min(len(places), EXACT_SIZE + 1)):
        assert all(covered(masks, fewer) != others for fewer in combinations(range(len(masks)), size))


@given(MASKS)
def test_among_equally_few_the_preferred_win(masks: list[int]) -> None:
    others = reduce(or_, masks, 0)
    places = minimal_cover(masks, others)

    if len(places) <= EXACT_SIZE:
        every = combinations(range(len(masks)), len(places))
        assert places == next(found for found in every if covered(masks, found) == others)
