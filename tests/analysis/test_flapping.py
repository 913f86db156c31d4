"""What flaps is seen over several polls: restarts, values that return, findings that come and go; and rollouts."""

import gc
import json
import tracemalloc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis import flapping
from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.flapping import ValueHistory, Watch
from dashboard.documents.load import read_snapshot
from dashboard.fleet import Document, Replica
from dashboard.fleet.history import Alternation, RecentEvents, SeenRollout
from dashboard.rules.policy import Policy, RuleChange
from dashboard.store.packing import content_of
from tests import builders
from tests.builders import NOW

POLL = timedelta(minutes=1)
MIB = 2**20
PATH = "cache_config.block_size"
OLD, NEW = "0.32.0", "0.33.0"
FIRST = builders.replica("chat-1").id
Entry = tuple[Replica, Document]


def moment(number: int) -> datetime:
    return NOW + number * POLL


def one(name: str = "chat-1", size: int | None = 16, version: str = OLD, **fields: Any) -> Entry:
    """A replica with a block size."""
    own = builders.document({PATH: size, "version": version}, base={})
    return builders.replica(name, document=own, **fields), own


def silent(name: str) -> Entry:
    """A replica that does not answer, as if it never did."""
    return builders.down(name, pool="chat"), builders.document({PATH: 16, "version": OLD}, base={})


def fleet_of(entries: Iterable[Entry], number: int = 0, policy: Policy | None = None) -> Fleet:
    replicas, documents = zip(*entries, strict=True)
    built = builders.fleet(list(replicas), list({each.id: each for each in documents}.values()))
    return replace(built, polled_at=moment(number), policy=policy or Policy())


def watched(polls: Mapping[int, Sequence[Entry]], policy: Policy | None = None) -> RecentEvents:
    """What is known after polls at these minutes."""
    watch, found = Watch(), RecentEvents()
    for number, entries in polls.items():
        found = watch.add_poll(fleet_of(entries, number, policy), moment(number))
    return found


def started(number: int, at: int, **fields: Any) -> list[Entry]:
    """A replica whose process started at a minute."""
    return [one(started_at=moment(at), **fields)] if number >= 0 else []


RESTARTED = {number: started(number, at) for number, at in {0: -90, 1: -90, 10: 9, 11: 9, 20: 19, 30: 29}.items()}


def test_each_later_start_of_a_process_is_counted() -> None:
    found = watched(RESTARTED)

    assert found.since == moment(0)
    assert found.starts == {FIRST: (moment(9), moment(19), moment(29))}


def test_starts_before_the_window_of_the_rule_are_forgotten() -> None:
    assert watched({**RESTARTED, 75: started(75, 29)}).starts == {FIRST: (moment(19), moment(29))}
    assert watched({**RESTARTED, 85: started(85, 29)}).starts == {}
    longer = Policy(rules={"ID-12": RuleChange(parameters={"minutes": 120})})
    assert watched({**RESTARTED, 85: started(85, 29)}, longer).starts == {FIRST: (moment(9), moment(19), moment(29))}


def test_another_source_of_the_same_start_is_no_restart() -> None:
    """The engine reports a start two minutes after that of the API server."""
    polls = {number: started(number, -30 if number % 2 else -28) for number in range(20, 30)}
    assert watched(polls).starts == {}


def test_another_pod_behind_the_same_address_is_no_restart() -> None:
    polls = {number: started(number, number - 1, labels={"pod": f"chat-{number}"}) for number in range(5)}
    assert watched(polls).starts == {}


def test_a_replica_that_is_no_target_any_more_is_forgotten() -> None:
    assert watched({**RESTARTED, 31: [one("chat-2")]}).starts == {}


def test_a_setting_that_is_unset_in_between_returns_too() -> None:
    found = watched({number: [one(size=size)] for number, size in enumerate((16, None, 16))})
    assert found.alternations == {FIRST: (Alternation(PATH, 1, ("16", "null")),)}


def test_returns_before_the_window_of_the_rule_are_forgotten() -> None:
    polls = {number: [one(size=16 if number % 2 else 32)] for number in range(5)}
    assert watched({**polls, 100: [one(size=32)]}).alternations == {}


def pool(*versions: str, **silenced: str) -> list[Entry]:
    """A pool of replicas of these versions; those that are silenced do not answer."""
    named = {f"chat-{number}": version for number, version in enumerate(versions, 1)}
    return [silent(name) if name.replace("-", "_") in silenced else one(name, version=v) for name, v in named.items()]


def test_a_version_that_joins_another_one_is_a_rollout_that_moves_with_each_replica() -> None:
    polls = {0: pool(OLD, OLD, OLD), 1: pool(NEW, OLD, OLD), 2: pool(NEW, OLD, OLD), 3: pool(NEW, NEW, OLD)}

    assert watched(dict(list(polls.items())[:3])).rollouts == {"chat": SeenRollout(OLD, NEW, moment(1), moment(1))}
    assert watched(polls).rollouts == {"chat": SeenRollout(OLD, NEW, moment(1), moment(3))}
    assert watched({**polls, 4: pool(NEW, NEW, NEW)}).rollouts == {}


def test_an_old_replica_that_crashes_neither_ends_nor_turns_a_rollout() -> None:
    polls = {0: pool(OLD, OLD), 1: pool(NEW, OLD), 2: pool(NEW, OLD, chat_2=""), 3: pool(NEW, OLD)}
    seen = SeenRollout(OLD, NEW, moment(1), moment(1))

    assert watched(dict(list(polls.items())[:3])).rollouts == {"chat": seen}
    assert watched(polls).rollouts == {"chat": seen}

    restarted = [one("chat-1", version=NEW, started_at=moment(1)), one("chat-2", version=OLD, started_at=moment(3))]
    fleet = fleet_of(restarted, 4)
    assert not inspected(fleet, moment(4)).inspection.rollouts  # start times alone show none
    known = inspected(replace(fleet, recent=watched(polls)), moment(4)).inspection.rollouts["chat"]
    assert (known.old, known.new, known.replicas, known.total) == (OLD, NEW, (FIRST,), 2)


@pytest.mark.parametrize(
    "polls", [{0: pool(OLD, NEW)}, {0: pool(OLD, OLD), 1: pool(NEW, "0.31.0")}, {0: pool(OLD, OLD, OLD), 1: pool(OLD)}]
)
def test_a_mixture_that_nobody_saw_begin_is_no_seen_rollout(polls: Mapping[int, Sequence[Entry]]) -> None:
    assert watched(polls).rollouts == {}


def test_a_rollout_that_stands_still_is_a_finding_and_excuses_nothing() -> None:
    recent = watched({0: pool(OLD, OLD, OLD), 1: pool(NEW, OLD, OLD)})
    fleet = replace(fleet_of(pool(NEW, OLD, OLD), 2), recent=recent)

    moving = inspected(fleet, moment(2)).inspection
    assert "ID-14" not in {each.rule for each in moving.findings}
    assert moving.rollouts

    standing = inspected(fleet, moment(2) + timedelta(hours=7)).inspection
    assert "ID-14" in {each.rule for each in standing.findings}
    assert not standing.rollouts


def test_another_process_goes_on_where_the_last_one_ended() -> None:
    polls = {**RESTARTED, 31: started(31, 29)}
    last = replace(fleet_of(polls[31], 31), recent=watched(RESTARTED))
    watch = Watch()
    watch.resume(read_snapshot(content_of(last)))

    found = watch.add_poll(fleet_of(started(40, 39), 40), moment(40))

    assert found.since == moment(0)
    assert found.starts == {FIRST: (moment(9), moment(19), moment(29), moment(39))}


def test_a_saved_fleet_has_what_its_polls_saw() -> None:
    recent = watched({0: pool(OLD, OLD), 1: pool(NEW, OLD)})
    alternating = watched({number: [one(size=16 if number % 2 else 32)] for number in range(5)})
    every = replace(watched(RESTARTED), rollouts=recent.rollouts, alternations=alternating.alternations)

    assert read_snapshot(content_of(replace(fleet_of(pool(NEW, OLD), 2), recent=every))).recent == every


def seen(*documents: Mapping[str, Any], replicas: int = 1) -> ValueHistory:
    """The history after polls of replicas with these settings."""
    history = ValueHistory()
    for number, settings in enumerate(documents):
        own = builders.document(settings, base={})
        polled = [builders.replica(f"chat-{each}", document=own) for each in range(1, replicas + 1)]
        history.add_poll(polled, {own.id: own}, moment(number))
    return history


def alternations(history: ValueHistory) -> tuple[Alternation, ...]:
    return history.alternations(NOW - timedelta(hours=1)).get(FIRST, ())


def noise(turn: int, settings: int) -> dict[str, str]:
    return {f"additional_config.s{number}": f"{turn}-{number}-{'x' * 20}" for number in range(settings)}


def test_replicas_that_change_at_each_poll_leave_no_documents() -> None:
    polls = [fleet_of([changing(turn)], turn) for turn in range(12)]
    watch = Watch()
    gc.collect()
    tracemalloc.start()
    try:
        for turn, fleet in enumerate(polls):
            watch.add_poll(fleet, moment(turn))
        del polls, fleet
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 3 * MIB
    finally:
        tracemalloc.stop()


def changing(turn: int) -> Any:
    own = builders.document(noise(turn, 3_000), base={})
    return builders.replica("chat-1", document=own), own


@pytest.mark.parametrize("replicas", [1, 4])
def test_all_replicas_together_stay_within_the_limit(replicas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flapping, "MOST_BYTES", 40_000)
    documents = [noise(turn, 100) for turn in range(12)]
    for turn in range(12):
        history = seen(*documents[: turn + 1], replicas=replicas)
        held = [steps for each in history._steps.values() for steps in each.values()]
        assert 20_000 < sum(map(flapping._bytes, held)) <= 40_000 or turn < 2
        assert all(len(steps) <= flapping.LEAST_STEPS for steps in held)


def test_a_setting_that_returns_is_seen_among_settings_that_never_do() -> None:
    sizes = (16, 16, 32, 16, 32, 16, 32, 16)
    found = alternations(seen(*({**noise(turn, 1_000), PATH: size} for turn, size in enumerate(sizes))))
    assert found == (Alternation(PATH, 5, ("16", "32")),)


def test_a_long_value_is_remembered_by_its_beginning_and_digest() -> None:
    texts = ["a" * 10_000, "b" * 10_000]
    (found,) = alternations(seen(*({"chat_template": texts[turn % 2]} for turn in range(4))))

    assert found.returns == 2
    assert [json.loads(each)[:3] for each in found.values] == ['"aa', '"bb']
    assert all("SHA-256" in each and len(each) < 200 for each in found.values)


def test_a_setting_that_is_not_reported_in_between_goes_on() -> None:
    found = alternations(seen({PATH: 16}, {PATH: 32}, {"version": "1"}, {PATH: 32}, {PATH: 16}))
    assert found == (Alternation(PATH, 1, ("16", "32")),)


@given(st.lists(st.sampled_from([16, 32, 64]), min_size=1, max_size=12))
def test_every_return_of_a_value_is_counted(sizes: list[int]) -> None:
    kept = [sizes[0], *(after for before, after in pairwise(sizes) if before != after)]
    returns = len(kept) - len(set(kept))
    expected = (Alternation(PATH, returns, tuple(map(str, dict.fromkeys(kept)))),) if returns else ()
    assert alternations(seen(*({PATH: size} for size in sizes))) == expected
