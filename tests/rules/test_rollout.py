"""A rollout is told apart from a mixture by when replicas started, and a difference along it from any other."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import Replica, SettingValue, State
from dashboard.fleet.pieces import plain
from dashboard.rules.findings import Draft, Remedy, Rollout, Snippet
from dashboard.rules.rollout import STUCK_AFTER, TOGETHER, is_along, remedy_along, rollout_of
from dashboard.rules.subject import Holders
from tests import builders

OLD, NEW = "0.20.2", "0.32.0"
A_SECOND, A_MINUTE = 1 / 3600, 1 / 60  # in hours
APART = TOGETHER / timedelta(hours=1) + A_SECOND


def at(version: str | None, hours_ago: float | None, number: int = 0) -> Replica:
    """A replica of a version that started some hours ago, or nobody knows when."""
    started = None if hours_ago is None else builders.NOW - timedelta(hours=hours_ago)
    return builders.replica(f"chat-{version}-{number}", version=version, started_at=started)


def going(*members: Replica) -> Rollout | None:
    return rollout_of("chat", members, builders.NOW)


def told(*held: tuple[Any, Sequence[Replica]]) -> Holders:
    """The values of one setting, each with the replicas that tell it."""
    return {SettingValue(str(value), State.REPORTED): tuple(each.id for each in replicas) for value, replicas in held}


def half_way() -> tuple[list[Replica], list[Replica], Rollout]:
    old = [at(OLD, 700, number) for number in range(3)]
    new = [at(NEW, 1 + number / 10, number) for number in range(2)]
    found = going(*old, *new)
    assert found is not None
    return old, new, found


def test_new_replicas_that_all_started_after_the_old_ones_are_a_rollout() -> None:
    old, new, found = half_way()

    assert (found.old, found.new, found.total) == (OLD, NEW, 5)
    assert set(found.replicas) == {each.id for each in new}
    assert (found.began, found.last) == (new[1].started_at, new[0].started_at)
    assert all(each.id not in found.replicas for each in old)


def test_going_back_to_an_older_version_is_a_rollout_of_that_version() -> None:
    found = going(at(NEW, 700), at(OLD, 1))

    assert found is not None
    assert (found.old, found.new) == (NEW, OLD)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([], id="nobody"),
        pytest.param([at(NEW, 1), at(NEW, 2, 1)], id="one version"),
        pytest.param([at(NEW, 1), at(OLD, 2), at("0.31.0", 3)], id="three versions"),
        pytest.param([at(NEW, 2), at(OLD, 700), at(OLD, 1, 1), at(OLD, 0.5, 2)], id="most old ones started since"),
        pytest.param([at(NEW, 1), at(OLD, 1)], id="started at one time"),
        pytest.param([at(NEW, 1), at(OLD, None)], id="a start that nobody knows"),
        pytest.param([at(NEW, 1), at("unknown", 700)], id="a version that is none"),
    ],
)
def test_what_is_no_rollout(members: list[Replica]) -> None:
    assert going(*members) is None


def test_a_rollout_that_stopped_hours_ago_no_longer_goes_on() -> None:
    limit = STUCK_AFTER / timedelta(hours=1)

    assert going(at(OLD, 700), at(NEW, limit)) is not None
    assert going(at(OLD, 700), at(NEW, limit + 0.01)) is None


@pytest.mark.parametrize(("first", "second"), [(OLD, NEW), (NEW, OLD)])
@pytest.mark.parametrize("apart", [A_SECOND, 40 * A_SECOND, 2 * A_MINUTE, TOGETHER / timedelta(hours=1)])
def test_two_versions_that_were_started_together_replace_nothing_whichever_seems_to_be_later(
    first: str, second: str, apart: float
) -> None:
    """One tells when its API process started and the other when its engine did: the order of the two means nothing."""
    assert going(at(first, 1 + apart), at(second, 1)) is None


@pytest.mark.parametrize("apart", [APART, 20 * A_MINUTE, 3, 700])
def test_a_version_that_came_minutes_to_weeks_later_replaces_the_other(apart: float) -> None:
    forward, back = going(at(OLD, 1 + apart), at(NEW, 1)), going(at(NEW, 1 + apart), at(OLD, 1))

    assert forward is not None
    assert back is not None
    assert (forward.old, forward.new) == (back.new, back.old) == (OLD, NEW)


@pytest.mark.parametrize("restarted", [0.1, 1, 1.5, 1 + A_MINUTE])
def test_an_old_replica_that_restarts_ends_no_rollout(restarted: float) -> None:
    """After a crash, before or after the new ones started."""
    found = going(at(OLD, 700), at(OLD, restarted, 1), at(NEW, 1), at(NEW, 1.5, 1))

    assert found is not None
    assert (found.old, found.new, len(found.replicas), found.total) == (OLD, NEW, 2, 4)
    assert (found.began, found.last) == (builders.NOW - timedelta(hours=1.5), builders.NOW - timedelta(hours=1))


def test_nightly_builds_are_versions_of_their_own() -> None:
    found = going(at("0.32.1.dev12+gabc", 700), at("0.32.1.dev580+gdef", 1))

    assert found is not None
    assert (found.old, found.new) == ("0.32.1.dev12+gabc", "0.32.1.dev580+gdef")


def test_replicas_without_a_version_do_not_count() -> None:
    found = going(at(OLD, 700), at(NEW, 1), at(None, None))

    assert found is not None
    assert found.total == 2


def remedy_of(replicas: Sequence[Replica], rollout: Rollout) -> Remedy:
    flag = Remedy("Give these replicas the same block size.", (Snippet("flag", "--block-size 16"),))
    return remedy_along(rollout, Draft(tuple(each.id for each in replicas), plain("Block size differs."), (), flag))


def test_a_remedy_says_which_side_of_the_rollout_is_new_and_never_undoes_it() -> None:
    old, new, rollout = half_way()
    finish = "Wait for the rollout. If the new value is not intended, change it in the new revision."

    assert remedy_of(new, rollout) == Remedy(
        f"Rollout 0.20.2 -> 0.32.0 (2/5): these replicas run the new version. {finish}"
    )
    assert remedy_of([*old, *new], rollout) == Remedy(
        f"Rollout 0.20.2 -> 0.32.0 (2/5): 2 of these replicas run the new version. {finish}"
    )


def test_an_old_replica_may_take_the_new_value() -> None:
    old, _, rollout = half_way()

    assert remedy_of(old, rollout) == Remedy(
        "Rollout 0.20.2 -> 0.32.0 (2/5): these replicas run the old version. "
        "Wait for the rollout; if it stopped, update them.",
        (Snippet("flag", "--block-size 16"),),
    )


@given(st.lists(st.tuples(st.sampled_from([OLD, NEW, None]), st.integers(0, 20)), max_size=6), st.randoms())
def test_the_order_of_replicas_means_nothing(starts: list[tuple[str | None, int]], random: Any) -> None:
    members = [at(version, hours, number) for number, (version, hours) in enumerate(starts)]
    mixed = random.sample(members, len(members))

    assert going(*mixed) == going(*members)


def test_a_difference_between_the_versions_is_along() -> None:
    old, new, rollout = half_way()

    assert is_along([told((16, new), (32, old))], rollout, [*old, *new])
    assert is_along([told((32, old), (16, new))], rollout, [*old, *new])


def test_replicas_that_tell_nothing_do_not_change_what_is_along() -> None:
    old, new, rollout = half_way()

    assert is_along([told((16, new[:1]), (32, old[1:]))], rollout, [*old, *new])


def test_a_difference_inside_one_version_is_not_explained() -> None:
    old, new, rollout = half_way()

    assert not is_along([told((32, old[:1]), (16, [*old[1:], *new]))], rollout, [*old, *new])
    assert not is_along([told((32, old[:1]), (16, old[1:]))], rollout, [*old, *new])


def test_a_tie_across_both_versions_is_not_explained_though_it_concerns_all_of_them() -> None:
    old, new, rollout = half_way()

    assert not is_along([told((32, [old[0], new[0]]), (16, [*old[1:], new[1]]))], rollout, [*old, *new])


def test_three_values_on_two_versions_are_not_explained() -> None:
    old, new, rollout = half_way()

    assert not is_along([told((8, old[:1]), (32, old[1:]), (16, new))], rollout, [*old, *new])


def test_a_setting_that_is_the_same_on_all_is_no_difference() -> None:
    old, new, rollout = half_way()
    same, differs = told((1, [*old, *new])), told((16, new), (32, old))

    assert not is_along([same], rollout, [*old, *new])
    assert not is_along([], rollout, [*old, *new])
    assert is_along([same, differs], rollout, [*old, *new])


def test_all_settings_of_a_finding_must_run_along_the_rollout() -> None:
    old, new, rollout = half_way()
    along, across = told((16, new), (32, old)), told((1, old[:1]), (2, [*old[1:], *new]))

    assert not is_along([along, across], rollout, [*old, *new])


def test_a_replica_whose_version_nobody_knows_is_on_neither_side() -> None:
    old, new, rollout = half_way()
    unknown = at(None, 2)

    assert not is_along([told((16, [*new, unknown]), (32, old))], rollout, [*old, *new, unknown])
