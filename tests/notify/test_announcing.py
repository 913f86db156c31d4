"""What webhooks are told: new, worse and resolved; nothing of a rollout in progress or of a new rule set."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.notify.alerts import alerts_of
from dashboard.notify.announcing import announce
from tests import builders
from tests.builders import NOW
from tests.notify.polls import DOCUMENT, FLEET, INFO, POLL, WARNING, lived, lost, poll, problem, rolling

Told = list[tuple[str, str]]


def told(*fleets: Fleet, new_rule_set_at: int | None = None) -> list[Told]:
    """What each poll of a sequence announces: event and severity."""
    found: list[Told] = []
    known: Any = {}
    for number, fleet in enumerate(lived(*fleets)):
        assert fleet.polled_at is not None
        now = alerts_of(fleet, fleet.polled_at)
        known, alerts = announce(known, now, fleet, fleet.polled_at, is_new_rule_set=number == new_rule_set_at)
        found.append([(str(each.event), str(each.severity)) for each in alerts])
    return found


def test_the_begin_and_the_end_are_announced_once() -> None:
    assert told(poll(0, problem()), poll(1, problem()), poll(2), poll(3)) == [
        [("new", "critical")],
        [],
        [("resolved", "critical")],
        [],
    ]


def test_worse_is_announced_with_the_end_of_what_was_milder() -> None:
    worse = [("worse", "critical"), ("resolved", "warning")]
    milder = [("milder", "info"), ("resolved", "critical")]
    polls = (poll(0, problem(severity=WARNING)), poll(1, problem()), poll(2, problem(severity=INFO)))

    assert told(*polls)[1:] == [worse, milder]


def test_a_worse_alert_names_the_former_severity() -> None:
    known: Any = {}
    for fleet in (poll(0, problem(severity=WARNING)), poll(1, problem())):
        assert fleet.polled_at is not None
        known, announced = announce(known, alerts_of(fleet, fleet.polled_at), fleet, fleet.polled_at)
    assert (announced[0].was, announced[0].since) == (WARNING, NOW + POLL)


def test_what_follows_a_rollout_waits_until_it_is_over_and_is_forgotten_where_it_ends_with_it() -> None:
    follows = problem(severity=WARNING, is_rollout=True)
    during = poll(0, follows, rollouts=rolling())

    assert told(during, poll(1)) == [[], []]
    assert told(during, poll(1, problem(severity=WARNING))) == [[], [("new", "warning")]]


def test_what_does_not_follow_the_rollout_is_announced_meanwhile() -> None:
    assert told(poll(0, problem(), rollouts=rolling())) == [[("new", "critical")]]


def test_an_end_in_a_rolling_pool_is_announced_after_the_rollout_where_it_is_one() -> None:
    follows = poll(1, problem(severity=WARNING, is_rollout=True), rollouts=rolling())

    assert told(poll(0, problem()), follows, poll(2)) == [[("new", "critical")], [], [("resolved", "critical")]]
    assert told(poll(0, problem()), follows, poll(2, problem())) == [[("new", "critical")], [], []]


def test_an_end_that_has_nothing_to_do_with_the_rollout_is_announced_meanwhile() -> None:
    told_of = told(poll(0, problem(), rollouts=rolling()), poll(1, rollouts=rolling()), poll(2))
    assert told_of == [[("new", "critical")], [("resolved", "critical")], []]


def test_a_rollout_of_another_pool_delays_nothing() -> None:
    assert told(poll(0, problem()), poll(1, rollouts=rolling("embed")))[1] == [("resolved", "critical")]


def test_what_a_new_rule_set_finds_first_is_not_new_and_neither_is_its_end() -> None:
    assert told(poll(0, problem()), poll(1), new_rule_set_at=0) == [[], []]


def test_after_a_new_rule_set_a_further_finding_and_another_severity_are_announced() -> None:
    further = poll(1, problem(), problem(path="cache_config.cache_dtype"))

    assert told(poll(0, problem()), further, poll(2), new_rule_set_at=0)[1:] == [
        [("new", "critical")],
        [("resolved", "critical")],
    ]
    assert told(poll(0, problem(severity=WARNING)), poll(1, problem()), new_rule_set_at=0)[1] == [("worse", "critical")]


def test_a_replica_that_cannot_be_read_announces_nothing() -> None:
    assert told(poll(0, problem()), poll(1, fleet=lost(FLEET, "chat-01")), poll(2, problem())) == [
        [("new", "critical")],
        [],
        [],
    ]


def on(*names: str, **more: Any) -> Any:
    """One finding on these replicas of the pool chat."""
    return replace(problem("chat-01", **more), replicas=tuple(sorted(f"http://{each}:8000" for each in names)))


ONE, TWO, THREE = on("chat-01"), on("chat-01", "chat-02"), on("chat-01", "chat-02", "chat-03")
WORSE, NEW = [("worse", "critical")], [("new", "critical")]


def test_a_finding_that_spreads_is_worse_once() -> None:
    assert told(poll(0, ONE), poll(1, THREE), poll(2, THREE), poll(3)) == [NEW, WORSE, [], [("resolved", "critical")]]


def test_fewer_replicas_and_as_many_as_before_announce_nothing() -> None:
    """A replaced replica, a restart, and one that was not read for a while are no spread."""
    assert told(poll(0, TWO), poll(1, ONE), poll(2, on("chat-02", "chat-03")), poll(3, TWO))[1:] == [[], [], []]


def test_a_spread_in_a_rolling_pool_is_announced_after_the_rollout_where_it_lasts() -> None:
    during = poll(1, THREE, rollouts=rolling())

    assert told(poll(0, ONE), during, poll(2, THREE)) == [NEW, [], WORSE]
    assert told(poll(0, ONE), during, poll(2, ONE)) == [NEW, [], []]
    assert told(poll(0, ONE), poll(1, THREE, rollouts=rolling("embed")))[1] == WORSE


def test_what_began_in_a_rollout_is_announced_once_with_all_its_replicas() -> None:
    begun = poll(0, on("chat-01", is_rollout=True), rollouts=rolling())

    assert told(begun, poll(1, THREE), poll(2, THREE)) == [[], NEW, []]
    assert told(poll(0, ONE, rollouts=rolling()), poll(1, TWO), poll(2, TWO)) == [NEW, WORSE, []]


def test_a_new_rule_set_that_sees_more_replicas_spreads_nothing() -> None:
    assert told(poll(0, ONE), poll(1, TWO), poll(2, TWO), poll(3, THREE), new_rule_set_at=1) == [NEW, [], [], WORSE]


def test_a_larger_pool_with_the_same_finding_on_every_replica_is_no_spread() -> None:
    """An autoscaler would send a message for each replica that it adds."""
    small = builders.fleet([*builders.alike("chat", 2, DOCUMENT), *builders.alike("embed", 2, DOCUMENT)], [DOCUMENT])

    assert told(poll(0, TWO, fleet=small), poll(1, THREE)) == [NEW, []]
    assert told(poll(0, ONE, fleet=small), poll(1, THREE)) == [NEW, WORSE]


SPREADS = st.sets(st.sampled_from(["chat-01", "chat-02", "chat-03"]), min_size=1)


@given(st.lists(st.tuples(SPREADS, st.booleans()), min_size=1, max_size=12))
def test_a_finding_that_lasts_is_announced_exactly_when_it_is_on_more_replicas_than_were_announced(
    polls: list[tuple[set[str], bool]],
) -> None:
    fleets = [
        poll(number, on(*names), rollouts=rolling() if is_rolling else {})
        for number, (names, is_rolling) in enumerate(polls)
    ]
    most = 0
    for number, (told_now, (names, is_rolling)) in enumerate(zip(told(*fleets), polls, strict=True)):
        is_more = len(names) > most and (number == 0 or not is_rolling)
        assert [event for event, _ in told_now] == ([] if not is_more else ["new"] if number == 0 else ["worse"])
        most = max(most, len(names)) if is_more else most
