"""A rollout is recognized by start times, and a difference along it by versions."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.holders import Holders
from dashboard.fleet import Replica, SettingValue, State
from dashboard.fleet.history import Rollout
from dashboard.fleet.pieces import plain
from dashboard.rules.findings import Draft, Remedy, Snippet
from dashboard.rules.rollout import STUCK_AFTER, TOGETHER, is_along, remedy_along, rollout_of
from tests import builders

OLD, NEW = "0.20.2", "0.32.0"
A_SECOND, A_MINUTE = 1 / 3600, 1 / 60  # in hours
HOUR = timedelta(hours=1)
LIMIT = STUCK_AFTER / HOUR


def started(version: str | None, hours_ago: float | None, number: int = 0) -> Replica:
    """A replica of a version that started some hours ago; None: unknown."""
    at = None if hours_ago is None else builders.NOW - timedelta(hours=hours_ago)
    return builders.replica(f"chat-{version}-{number}", version=version, started_at=at)


def rollout(*members: Replica) -> Rollout | None:
    found, is_stalled = rollout_of("chat", members, builders.NOW)
    assert not is_stalled
    return found


OLD_ONES = [started(OLD, 700, number) for number in range(3)]
NEW_ONES = [started(NEW, 1 + number / 10, number) for number in range(2)]
EVERY = [*OLD_ONES, *NEW_ONES]


def current() -> Rollout:
    found = rollout(*EVERY)
    assert found is not None
    return found


def test_a_rollout_has_the_replicas_of_the_new_version_and_the_times_of_their_starts() -> None:
    found = current()

    assert (found.old, found.new, found.total) == (OLD, NEW, 5)
    assert set(found.replicas) == {each.id for each in NEW_ONES}
    assert (found.began, found.last) == (NEW_ONES[1].started_at, NEW_ONES[0].started_at)


@pytest.mark.parametrize(
    ("members", "versions"),
    [
        ([(NEW, 700), (OLD, 1)], (NEW, OLD)),
        ([("0.32.1.dev12+gabc", 700), ("0.32.1.dev580+gdef", 1)], ("0.32.1.dev12+gabc", "0.32.1.dev580+gdef")),
        *(([(OLD, 1 + apart), (NEW, 1)], (OLD, NEW)) for apart in (TOGETHER / HOUR + A_SECOND, 20 * A_MINUTE, 3, 700)),
        *(([(OLD, 700), (OLD, restarted), (NEW, 1), (NEW, 1.5)], (OLD, NEW)) for restarted in (0.1, 1.5, 1 + A_MINUTE)),
        ([(OLD, 700), (NEW, LIMIT)], (OLD, NEW)),
        ([(OLD, 700), (NEW, 1), (None, None)], (OLD, NEW)),
    ],
)
def test_the_new_version_is_the_one_whose_first_replica_started_last(
    members: list[tuple[str | None, float | None]], versions: tuple[str, str]
) -> None:
    found = rollout(*(started(*each, number) for number, each in enumerate(members)))

    assert found is not None
    assert (found.old, found.new) == versions
    assert found.total == sum(version is not None for version, _ in members)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([], id="no replica"),
        pytest.param([(NEW, 1), (NEW, 2)], id="one version"),
        pytest.param([(NEW, 1), (OLD, 2), ("0.31.0", 3)], id="three versions"),
        pytest.param([(NEW, 2), (OLD, 700), (OLD, 1), (OLD, 0.5)], id="most old replicas restarted since"),
        pytest.param([(NEW, 1), (OLD, None)], id="unknown start time"),
        pytest.param([(NEW, 1), ("unknown", 700)], id="unknown version"),
        pytest.param([(OLD, 700), (NEW, LIMIT + 0.01)], id="no start for hours"),
        *(
            pytest.param([(first, 1 + apart), (second, 1)], id=f"{first} started {apart * 3600:.0f} s earlier")
            for first, second in ((OLD, NEW), (NEW, OLD))
            for apart in (0, A_SECOND, 2 * A_MINUTE, TOGETHER / HOUR)
        ),
    ],
)
def test_other_mixtures_are_no_rollout(members: list[tuple[str, float | None]]) -> None:
    assert rollout(*(started(*each, number) for number, each in enumerate(members))) is None


@given(st.lists(st.tuples(st.sampled_from([OLD, NEW, None]), st.integers(0, 20)), max_size=6), st.randoms())
def test_a_rollout_does_not_depend_on_the_order_of_replicas(starts: list[tuple[str | None, int]], random: Any) -> None:
    members = [started(version, hours, number) for number, (version, hours) in enumerate(starts)]

    assert rollout(*random.sample(members, len(members))) == rollout(*members)


FLAG = (Snippet("flag", "--block-size 16"),)
IS_NEW = "Wait for the rollout. If the new value is not intended, change it in the new revision."


@pytest.mark.parametrize(
    ("replicas", "sentence", "snippets"),
    [
        (NEW_ONES, f"these replicas run the new version. {IS_NEW}", ()),
        (EVERY, f"2 of these replicas run the new version. {IS_NEW}", ()),
        (OLD_ONES, "these replicas run the old version. Wait for the rollout; if it stopped, update them.", FLAG),
    ],
    ids=["new", "both", "old"],
)
def test_the_remedy_along_a_rollout_never_sets_an_old_value_on_new_replicas(
    replicas: list[Replica], sentence: str, snippets: tuple[Snippet, ...]
) -> None:
    draft = Draft(tuple(each.id for each in replicas), plain("It differs."), (), Remedy("Set it.", FLAG))

    assert remedy_along(current(), draft) == Remedy(f"Rollout 0.20.2 -> 0.32.0 (2/5): {sentence}", snippets)


def values(*holders: Sequence[Replica]) -> Holders:
    """One setting with a value per group of replicas."""
    return {
        SettingValue(str(number), State.REPORTED): tuple(each.id for each in replicas)
        for number, replicas in enumerate(holders)
    }


ALONG = values(NEW_ONES, OLD_ONES)
WITHOUT_VERSION = started(None, 2)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param([ALONG], True, id="between the versions"),
        pytest.param([values(OLD_ONES, NEW_ONES)], True, id="in the other order"),
        pytest.param([values(NEW_ONES[:1], OLD_ONES[1:])], True, id="not reported by all"),
        pytest.param([values(EVERY), ALONG], True, id="equal settings do not count"),
        pytest.param([values(EVERY)], False, id="equal"),
        pytest.param([], False, id="no setting"),
        pytest.param([values(OLD_ONES[:1], [*OLD_ONES[1:], *NEW_ONES])], False, id="inside one version"),
        pytest.param([values(OLD_ONES[:1], OLD_ONES[1:])], False, id="inside the old version"),
        pytest.param([values([EVERY[0], EVERY[3]], [*EVERY[1:3], EVERY[4]])], False, id="across both versions"),
        pytest.param([values(OLD_ONES[:1], OLD_ONES[1:], NEW_ONES)], False, id="three values"),
        pytest.param([ALONG, values(OLD_ONES[:1], [*OLD_ONES[1:], *NEW_ONES])], False, id="one of two settings"),
        pytest.param([values([*NEW_ONES, WITHOUT_VERSION], OLD_ONES)], False, id="unknown version"),
    ],
)
def test_a_difference_is_along_a_rollout_where_each_value_belongs_to_one_version(
    settings: list[Holders], *, expected: bool
) -> None:
    assert is_along(settings, current(), [*EVERY, WITHOUT_VERSION]) is expected
