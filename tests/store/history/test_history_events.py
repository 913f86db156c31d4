"""Events of a range are the edges of spans: also what changed and changed back; a gap is an entry of its own."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import Event, EventKind
from dashboard.documents.load import read_snapshot
from dashboard.fleet.history import Rollout
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.policy import Policy
from dashboard.store.history.reader import HistoryReader
from dashboard.store.packing import content_of
from tests import builders, past_fleets
from tests.analysis.changes.sides import BLOCK_SIZE, NEW, OLD, chat, fleet, ids
from tests.builders import NOW, POLLED_AT
from tests.past_fleets import FIRST, LAST, MENDED, ODD
from tests.store.history.recorded import POLL, Recorded


def found(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    return [(each.kind.value, each.at, each.after, [name for _, name in each.replicas], each.rule) for each in events]


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def record(history: Recorded, *fleets: Fleet) -> tuple[Event, ...]:
    """Record polls one after the other; return what happened after the first one."""
    for number, each in enumerate(fleets):
        read = read_snapshot(content_of(replace(each, polled_at=POLLED_AT + number * POLL)))
        history.record(read)
    history.writer.close()
    return history.reader.events(POLLED_AT, POLLED_AT + (len(fleets) - 1) * POLL)


def test_what_changed_and_changed_back_is_listed_with_the_polls_around_it(tmp_path: Path) -> None:
    events = HistoryReader(past_fleets.recorded(tmp_path)).events(FIRST, LAST)

    assert found(events) == [
        ("restarted", ODD, FIRST, ["chat-04"], ""),
        ("finding began", ODD, FIRST, [], "RT-01"),
        ("added", MENDED, ODD, ["chat-05"], ""),
        ("restarted", MENDED, ODD, ["chat-04"], ""),
        ("finding ended", MENDED, ODD, [], "RT-01"),
        ("gap", LAST, MENDED, [], ""),
    ]
    first = events[0]
    assert [(each.path, each.before.value, each.after.value) for each in first.changes] == [(BLOCK_SIZE, "16", "32")]
    assert first.pools == ("chat",)


@pytest.mark.parametrize(
    ("since", "until", "kinds"),
    [
        (FIRST, FIRST, []),
        (FIRST, ODD, ["restarted", "finding began"]),
        (ODD, MENDED, ["added", "restarted", "finding ended"]),
        (MENDED, MENDED + timedelta(minutes=4), []),
        (MENDED, MENDED + timedelta(minutes=20), ["gap"]),
        (FIRST - timedelta(days=9), FIRST, ["gap"]),
    ],
)
def test_a_range_has_what_came_after_its_begin_until_its_end(
    tmp_path: Path, since: datetime, until: datetime, kinds: list[str]
) -> None:
    """Before the first poll is a gap: what the first poll has is not new."""
    events = HistoryReader(past_fleets.recorded(tmp_path)).events(since, until)

    assert [each.kind.value for each in events] == kinds


def test_what_is_first_seen_after_a_gap_came_since_the_last_poll_before_it(history: Recorded) -> None:
    later = POLLED_AT + timedelta(hours=1)
    for each in (fleet(*chat(3)), fleet(*chat(4), polled_at=later)):
        history.record(read_snapshot(content_of(each)))
    events = history.reader.events(POLLED_AT, later)

    assert [(each.kind, each.after, each.at) for each in events if each.rule == ""] == [
        (EventKind.ADDED, POLLED_AT, later),
        (EventKind.GAP, POLLED_AT, later),
    ]


def test_replicas_with_the_same_change_at_one_poll_are_one_event(history: Recorded) -> None:
    restarted = [replace(each, started_at=NOW) for each in chat(2, NEW)]
    (event, *_) = record(history, fleet(*chat(4)), fleet(*restarted, *chat(2, first=3)))

    assert event.kind is EventKind.RESTARTED
    assert event.replicas == (("http://chat-01:8000", "chat-01"), ("http://chat-02:8000", "chat-02"))


def test_settings_that_change_without_a_restart_are_an_event(history: Recorded) -> None:
    (event, *_) = record(history, fleet(*chat(3)), fleet(*chat(3, NEW)))

    assert (event.kind, [each.path for each in event.changes]) == (EventKind.SETTINGS, [BLOCK_SIZE])


def test_an_unreachable_replica_changes_its_state_and_returns_without_a_restart(history: Recorded) -> None:
    gone = replace(builders.down("chat-03"), document=OLD.id, fresh=False, started_at=None)
    events = record(history, fleet(*chat(3)), fleet(*chat(2), gone), fleet(*chat(3)))

    states = [(each.before, each.now) for each in events if each.kind is EventKind.STATE]
    assert states == [("up", "down (refused)"), ("down", "up")]
    assert EventKind.RESTARTED not in {each.kind for each in events}


def test_a_removed_replica_is_an_event_and_another_pod_at_its_address_is_another_replica(history: Recorded) -> None:
    then, now = ([*chat(2), *chat(1, first=3, labels={"pod_uid": uid})] for uid in ("one", "two"))
    events = record(history, fleet(*then), fleet(*now), fleet(*chat(2)))

    kinds = [each.kind for each in events if each.replicas]
    assert kinds == [EventKind.ADDED, EventKind.REMOVED, EventKind.REMOVED]


def test_less_kv_cache_without_another_setting_is_an_event(history: Recorded) -> None:
    less = [replace(chat(1)[0], engines=(builders.engine(600_000),)), *chat(2, first=2)]
    events = record(history, fleet(*chat(3)), fleet(*less))

    assert [(each.kind, each.tokens) for each in events if each.replicas] == [
        (EventKind.CAPACITY, (1_200_000, 600_000))
    ]


def test_a_pool_that_restarts_as_a_whole_has_no_amounts(history: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each amount takes a millisecond."""
    monkeypatch.setattr("dashboard.store.history.events.MOST_MEASURED", 2)
    less = [replace(each, engines=(builders.engine(600_000),), started_at=NOW) for each in chat(3)]
    (event, *_) = record(history, fleet(*chat(3)), fleet(*less))

    assert (event.kind, event.tokens) == (EventKind.RESTARTED, None)


def test_a_changed_severity_is_an_event(history: Recorded) -> None:
    odd = fleet(*chat(3), *chat(1, NEW, first=4))
    undeclared = read_snapshot(content_of(replace(odd, policy=Policy())))
    events = record(history, odd, undeclared)

    changed = [(each.rule, each.before, each.now) for each in events if each.kind is EventKind.SEVERITY]
    assert ("RT-01", "critical", "warning") in changed


def spreads(events: Sequence[Event]) -> list[tuple[str, tuple[int, int] | None, datetime]]:
    return [(each.rule, each.spread, each.at) for each in events if each.kind is EventKind.SPREAD]


def test_a_finding_on_more_replicas_and_a_larger_share_is_a_spread(history: Recorded) -> None:
    """Later it is on fewer, and then on as many of a larger pool."""
    one, two = fleet(*chat(4), *chat(1, NEW, first=5)), fleet(*chat(3), *chat(2, NEW, first=4))
    larger = fleet(*chat(8), *chat(2, NEW, first=9))
    events = record(history, one, two, one, larger)

    assert [each for each in spreads(events) if each[0] == "RT-01"] == [("RT-01", (1, 2), POLLED_AT + POLL)]
    assert EventKind.FINDING_BEGAN not in {each.kind for each in events if each.rule == "RT-01"}


def test_a_rollout_spreads_nothing_until_its_end(history: Recorded) -> None:
    one, two, three = (fleet(*chat(7 - odd), *chat(odd, NEW, first=8 - odd)) for odd in (1, 2, 3))
    rollout = {"chat": Rollout("chat", "0.31.0", "0.32.0", ids("chat-06", "chat-07"), 7, POLLED_AT, POLLED_AT)}
    polls = [one, replace(two, inspection=replace(two.inspection, rollouts=rollout)), three]
    for number, each in enumerate(polls):
        history.record(replace(each, polled_at=POLLED_AT + number * POLL))
    events = history.reader.events(POLLED_AT, POLLED_AT + 2 * POLL)

    assert [each for each in spreads(events) if each[0] == "RT-01"] == [("RT-01", (1, 3), POLLED_AT + 2 * POLL)]


def test_a_finding_that_begins_with_another_rule_set_is_marked(
    history: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.documents.fleet.RULE_SET", RULE_SET - 1)
        history.record(read_snapshot(content_of(fleet(*chat(4)))))
        history.writer.close()
    assert history.reader.rule_set_at(POLLED_AT) == RULE_SET - 1
    odd = fleet(*chat(3), *chat(1, NEW, first=4), polled_at=POLLED_AT + POLL)
    history.record(read_snapshot(content_of(odd)))
    events = history.reader.events(POLLED_AT, POLLED_AT + POLL)

    changed = [(each.before, each.now) for each in events if each.kind is EventKind.RULES]
    assert changed == [(str(RULE_SET - 1), str(RULE_SET))]
    assert {each.is_new_rule_set for each in events if each.kind is EventKind.FINDING_BEGAN} == {True}


def test_without_the_time_of_older_polls_the_last_poll_before_is_not_known(tmp_path: Path) -> None:
    database = past_fleets.recorded(tmp_path)
    with database.maintained() as connection, connection.begin():
        connection.exec_driver_sql("DELETE FROM poll")
    events = HistoryReader(database).events(FIRST, LAST)

    assert {each.after for each in events if each.kind is EventKind.RESTARTED} == {None}
    assert events[-1].after == MENDED, "a gap is kept as long as its watches"


def restarting(number: int, start: datetime) -> Fleet:
    """A pool of five replicas of which the first ones were started again, a poll after the other."""
    starts = [start + place * POLL if place <= number else start - POLL for place in range(1, 6)]
    return fleet(*[one for place, at in enumerate(starts, 1) for one in chat(1, first=place, started_at=at)])


def test_a_rolling_restart_of_any_size_is_one_event(history: Recorded) -> None:
    (event,) = record(history, *[restarting(number, POLLED_AT) for number in range(6)])

    names = [f"chat-{number:02}" for number in range(1, 6)]
    assert found([event]) == [("restarted", POLLED_AT + 5 * POLL, POLLED_AT, names, "")]


@pytest.mark.parametrize(("polls", "states"), [(1, []), (120, []), (121, ["down (refused)", "up"])])
def test_a_replica_that_is_down_until_its_restart_only_restarts(
    history: Recorded, polls: int, states: list[str]
) -> None:
    """One that was down for more than an hour is news."""
    gone = replace(builders.down("chat-03"), document=OLD.id, fresh=False, started_at=None)
    start = POLLED_AT + polls * POLL
    restarted = fleet(*chat(2), *chat(1, first=3, started_at=start))
    events = record(history, fleet(*chat(3)), *[fleet(*chat(2), gone)] * polls, restarted)

    assert [each.now for each in events if each.kind is EventKind.STATE] == states
    assert [each.at for each in events if each.kind is EventKind.RESTARTED] == [start + POLL]


def test_a_replica_that_restarts_again_is_another_event(history: Recorded) -> None:
    events = record(history, *[fleet(*chat(1, started_at=POLLED_AT + number * POLL)) for number in range(3)])

    assert found(events) == [
        ("restarted", POLLED_AT + number * POLL, POLLED_AT + (number - 1) * POLL, ["chat-01"], "") for number in (1, 2)
    ]
