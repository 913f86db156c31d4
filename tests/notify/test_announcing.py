"""What webhooks are told: new, worse and resolved; nothing of a rollout in progress or of a new rule set."""

from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.notify.alerts import alerts_of
from dashboard.notify.announcing import announce
from tests.builders import NOW
from tests.notify.polls import FLEET, INFO, POLL, WARNING, lost, poll, problem, rolling

Told = list[tuple[str, str]]


def told(*fleets: Fleet, new_rule_set_at: int | None = None) -> list[Told]:
    """What each poll of a sequence announces: event and severity."""
    found: list[Told] = []
    known: Any = {}
    for number, fleet in enumerate(fleets):
        assert fleet.polled_at is not None
        now = alerts_of(fleet, fleet.polled_at)
        step = announce(known, now, fleet, fleet.polled_at, is_new_rule_set=number == new_rule_set_at)
        known = step.known
        found.append([(str(each.event), str(each.severity)) for each in step.alerts])
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
        step = announce(known, alerts_of(fleet, fleet.polled_at), fleet, fleet.polled_at)
        known = step.known
    assert (step.alerts[0].was, step.alerts[0].since) == (WARNING, NOW + POLL)


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
