"""The headline says how the fleet is, in a sentence that is true."""

from __future__ import annotations

import pytest

from dashboard.models import ReplicaState
from dashboard.ui import headline
from dashboard.ui.headline import Standing
from tests.builders import alike, document, down, fleet, replica, story


def standing(**counts: object) -> Standing:
    """Ten replicas in two pools, all fine, but for what is given."""
    fine = {"replicas": 10, "down": 0, "partial": 0, "pools": 2, "read": 2, "split": (), "differences": 0, "unread": ()}
    return Standing(**{**fine, **counts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "title"),
    [
        ({}, "No difference within any pool"),
        ({"split": ("a",)}, "One pool is split"),
        ({"split": ("a", "b"), "down": 1}, "Two pools are split; one replica is down"),
        ({"down": 3}, "Three replicas are down"),
        ({"down": 10}, "No replica answers"),
        ({"partial": 1}, "One replica is read only in part"),
        ({"split": tuple("abcdefghijklmn")}, "14 pools are split"),
    ],
)
def test_the_title_names_what_is_wrong_first(counts: dict[str, object], title: str) -> None:
    """Split before down before partial; small numbers as words."""
    assert headline.title(standing(**counts)) == title


def test_the_second_sentence_says_what_follows() -> None:
    """Prefixes that cannot be shared, then versions; each pool by name, few of them."""
    now = standing(split=("a", "b"))

    assert headline.more(now, ["a"], ["b"]) == (
        "Prefixes cannot be shared by all replicas of a. b runs several versions."
    )
    assert headline.more(now, list("abcde"), []).endswith("replicas of a, b, c and 2 more.")
    assert headline.more(now, [], []) == "What differs in a and b does not decide prefix sharing."


def test_a_calm_fleet_is_not_praised_for_what_was_not_read() -> None:
    """Unknown is not equal: what was not read is said not to count."""
    told = document()
    missing = fleet([*alike("chat", 3, told), down("chat-9"), down("other-1", pool="other")], [told])
    now = headline.standing(missing)

    assert (now.pools, now.read) == (2, 1)
    assert headline.more(now, [], []) == "1 pool, each with one configuration. What was not read is not counted."


def test_replicas_are_counted_by_state_and_those_down_come_first() -> None:
    """A partial replica answered; a replica that is down did not."""
    now = headline.standing(story())

    assert (now.replicas, now.down, now.partial, now.pools, now.differences) == (40, 1, 1, 5, 8)
    assert now.split == ("chat-70b", "embed-8b")
    assert [each.state for each in now.unread] == [ReplicaState.DOWN, ReplicaState.PARTIAL]


def test_when_nothing_answers_nothing_else_is_claimed() -> None:
    """Values that were last read say nothing of now."""
    now = headline.standing(fleet([replica("chat-1", state=ReplicaState.DOWN, fresh=False)]))

    assert headline.more(now, ["chat"], []) == "Every replica was asked, and none gave a usable answer."
