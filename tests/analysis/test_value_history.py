"""What polls remember of changed settings: values that returned, within a limit of memory."""

import gc
import json
import tracemalloc
from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis import flapping
from dashboard.analysis.flapping import ValueHistory, Watch
from dashboard.fleet.history import Alternation
from tests import builders
from tests.analysis.test_flapping import fleet_of, moment
from tests.builders import NOW

MIB = 2**20
PATH = "cache_config.block_size"
NAME = builders.replica("chat-1").id


def seen(*documents: Mapping[str, Any], replicas: int = 1) -> ValueHistory:
    """The history after polls of replicas with these settings."""
    history = ValueHistory()
    for number, settings in enumerate(documents):
        own = builders.document(settings, base={})
        polled = [builders.replica(f"chat-{each}", document=own) for each in range(1, replicas + 1)]
        history.add_poll(polled, {own.id: own}, moment(number))
    return history


def alternations(history: ValueHistory) -> tuple[Alternation, ...]:
    return history.alternations(NOW - timedelta(hours=1)).get(NAME, ())


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
