"""Timelines from counts: steps of groups, rollouts, and marks that are too many."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.timeline import (
    COLUMNS,
    MOST_MARKS,
    CountChange,
    CountStep,
    MarkKind,
    Period,
    TimelineGroup,
    TimelineMark,
    bounded,
    merged,
    moves,
    stepped,
)

SINCE = datetime(2026, 11, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = Period(SINCE, SINCE + timedelta(days=1))
OLD, NEW = "0.31.0", "0.32.0"


def at(minutes: float) -> datetime:
    return SINCE + minutes * MINUTE


def group(key: str, version: str, *steps: tuple[float, int], pool: str = "chat") -> TimelineGroup:
    """A group of these numbers of replicas, each from a minute on."""
    return TimelineGroup(
        pool, key, version, tuple(CountStep(at(minute), number, at(minute)) for minute, number in steps)
    )


def texts(*groups: TimelineGroup) -> list[tuple[str, datetime, datetime]]:
    return [(each.text, each.at, each.until) for each in moves(groups)]


def test_a_group_has_its_number_until_the_next_change() -> None:
    changes = [
        CountChange("chat", "a", OLD, 3, at(19), at(20), -2),
        CountChange("chat", "a", OLD, 50, at(301), at(301), 1),
    ]
    (found,) = stepped(DAY, {("chat", "a", OLD): 5}, changes)

    assert [(each.at, each.number, each.began) for each in found.steps] == [
        (at(0), 5, at(0)),
        (at(20), 3, at(19)),
        (at(301), 4, at(301)),
    ]
    assert [found.number_at(at(minute)) for minute in (-1, 0, 19, 20, 1000)] == [0, 5, 5, 3, 4]
    assert found.weight == 5


def test_replicas_that_move_within_a_column_are_in_one_group_at_every_time() -> None:
    moved = [CountChange("chat", "a", OLD, 3, at(19), at(20), -2), CountChange("chat", "b", NEW, 3, at(21), at(22), 2)]
    old, new = stepped(DAY, {("chat", "a", OLD): 2}, moved)

    assert {old.number_at(at(minute)) + new.number_at(at(minute)) for minute in range(60)} == {2}


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, COLUMNS - 1), st.integers(-3, 3)),
        unique_by=lambda each: each[:3],
    )
)
def test_at_the_end_everything_that_changed_is_counted(changes: list[tuple[str, str, int, int]]) -> None:
    """The order of rows does not matter, and sums of groups are groups of sums."""
    rows = [
        CountChange(pool, key, OLD, column, at(6 * column), at(6 * column + 1), by) for pool, key, column, by in changes
    ]
    groups = stepped(DAY, {}, rows)

    assert groups == stepped(DAY, {}, rows[::-1])
    assert sum(each.steps[-1].number for each in groups) == sum(each.by for each in rows)
    assert all(
        before.at < after.at for each in groups for before, after in zip(each.steps, each.steps[1:], strict=False)
    )
    for pool, whole in merged(groups, lambda each: each.pool).items():
        for column in range(COLUMNS):
            members = [each for each in groups if each.pool == pool]
            assert whole.number_at(at(6 * column + 2)) == sum(each.number_at(at(6 * column + 2)) for each in members)


def test_a_rollout_is_one_mark_from_its_first_to_its_last_replica() -> None:
    old = group("a", OLD, (0, 4), (60, 3), (70, 2), (200, 1), (210, 0))
    new = group("b", NEW, (0, 0), (60, 1), (70, 2), (200, 3), (210, 4))

    assert texts(old, new) == [("rollout 0.31.0 -> 0.32.0 (4/4)", at(60), at(210))]
    (mark,) = moves([old, new])
    assert (mark.kind, mark.pools, mark.number) == (MarkKind.ROLLOUT, ("chat",), 4)


def test_a_rollout_that_stands_still_ends_at_its_last_replica() -> None:
    old, new = group("a", OLD, (0, 7), (60, 6)), group("b", NEW, (0, 0), (60, 1))

    assert texts(old, new) == [("rollout 0.31.0 -> 0.32.0 (1/7)", at(60), at(60))]


def test_replicas_that_are_down_on_their_way_belong_to_the_rollout() -> None:
    old = group("a", OLD, (0, 2), (60, 1), (100, 0))
    new = group("b", NEW, (0, 0), (80, 1), (120, 2))

    assert texts(old, new) == [("rollout 0.31.0 -> 0.32.0 (2/2)", at(80), at(120))]


def test_a_rollout_into_several_cohorts_is_one_rollout() -> None:
    old = group("a", OLD, (0, 4), (60, 2), (70, 0))
    both = group("b", NEW, (0, 0), (60, 2)), group("c", NEW, (0, 0), (70, 2))

    assert texts(old, *both) == [("rollout 0.31.0 -> 0.32.0 (4/4)", at(60), at(70))]


def test_a_change_of_settings_names_no_version() -> None:
    """Also where replicas of another version change at the same time."""
    changed = group("a", NEW, (0, 4), (60, 0)), group("b", NEW, (0, 0), (60, 4))
    others = group("c", OLD, (0, 9), (60, 0)), group("d", OLD, (0, 0), (60, 9))

    assert {text for text, *_ in texts(*changed, *others)} == {"settings changed (13/13)"}
    assert [each.kind for each in moves([*changed, *others])] == [MarkKind.SETTINGS]


@pytest.mark.parametrize("version", ["", "dev"])
def test_a_version_without_an_order_is_in_no_rollout(version: str) -> None:
    """The rules see a rollout between two versions only."""
    groups = group("a", version, (0, 4), (60, 0)), group("b", NEW, (0, 0), (60, 4))

    assert [(each.kind, each.text) for each in moves(groups)] == [(MarkKind.SETTINGS, "settings changed (4/4)")]


def test_rollouts_of_several_pools_and_of_another_day_are_several() -> None:
    groups = [group("a", OLD, (0, 2), (60, 0), (600, 2), pool=pool) for pool in ("chat", "embed")] + [
        group("b", NEW, (0, 0), (60, 2), (600, 0), pool=pool) for pool in ("chat", "embed")
    ]

    assert sorted((each.pools[0], each.text) for each in moves(groups)) == [
        ("chat", "rollout 0.31.0 -> 0.32.0 (2/2)"),
        ("chat", "rollout 0.32.0 -> 0.31.0 (2/2)"),
        ("embed", "rollout 0.31.0 -> 0.32.0 (2/2)"),
        ("embed", "rollout 0.32.0 -> 0.31.0 (2/2)"),
    ]


@pytest.mark.parametrize("back", [65, 80, 119, 125, 600])
def test_a_change_back_is_a_mark_of_its_own(back: int) -> None:
    """Also soon after the change, and after a time down. Those that did not change back do not count."""
    usual = group("a", NEW, (0, 5), (60, 2), (back, 3))
    other = group("b", NEW, (0, 0), (60, 3), (back - 2, 2))

    assert texts(usual, other) == [
        ("settings changed (3/5)", at(60), at(60)),
        ("settings changed (1/5)", at(back), at(back)),
    ]


def test_a_rollout_back_is_a_mark_of_its_own() -> None:
    old, new = group("a", OLD, (0, 5), (60, 4), (80, 5)), group("b", NEW, (0, 0), (60, 1), (80, 0))

    assert texts(old, new) == [
        ("rollout 0.31.0 -> 0.32.0 (1/5)", at(60), at(60)),
        ("rollout 0.32.0 -> 0.31.0 (1/5)", at(80), at(80)),
    ]


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([group("a", OLD, (0, 4), (60, 3), (65, 4))], id="a restart"),
        pytest.param([group("a", OLD, (0, 4), (60, 3), (65, 4)), group("b", NEW, (0, 4), (62, 3))], id="two go down"),
        pytest.param([group("a", OLD, (0, 4)), group("b", NEW, (0, 0), (60, 2))], id="more replicas"),
        pytest.param(
            [group("a", OLD, (0, 4), (63, 3), (65, 4)), group("b", NEW, (0, 0), (60, 2))],
            id="a restart soon after more replicas",
        ),
        pytest.param([group("a", OLD, (0, 4), (60, 2))], id="fewer replicas"),
        pytest.param([group("a", OLD, (0, 0), (60, 4)), group("b", NEW, (0, 0), (60, 4))], id="the first poll"),
    ],
)
def test_no_rollout(groups: list[TimelineGroup]) -> None:
    assert moves(groups) == []


def test_a_cohort_that_is_named_by_another_document_is_no_rollout() -> None:
    """Only at one poll: replicas that move one after the other have other settings."""
    named = [group("a", OLD, (0, 4), (60, 0)), group("b", OLD, (0, 0), (60, 3))]
    moved = [group("a", OLD, (0, 4), (60, 2), (70, 0)), group("b", OLD, (0, 0), (60, 2), (70, 4))]

    assert moves(named, lambda one, other: (one, other) == ("a", "b")) == []
    assert len(moves(named)) == len(moves(moved, lambda *_: True)) == 1


def marks(number: int, kind: MarkKind = MarkKind.RESTART) -> Sequence[TimelineMark]:
    return [
        TimelineMark(kind, at(2 * each), at(2 * each), (f"pool-{each % 2}",), f"r-{each} restarted")
        for each in range(number)
    ]


def test_marks_that_are_too_many_are_joined_with_their_number() -> None:
    many = bounded([*marks(200), *marks(3, MarkKind.CRITICAL)], DAY)
    restarts = [each for each in many if each.kind is MarkKind.RESTART]

    assert len(restarts) < MOST_MARKS
    assert sum(each.number for each in restarts) == 200
    assert restarts[0].text == "r-0 restarted"
    assert restarts[0].pools == ("pool-0", "pool-1")
    assert [each.number for each in many if each.kind is MarkKind.CRITICAL] == [1, 1, 1]


def test_few_marks_stay_as_they_are() -> None:
    assert bounded(marks(MOST_MARKS)[::-1], DAY) == tuple(marks(MOST_MARKS))
