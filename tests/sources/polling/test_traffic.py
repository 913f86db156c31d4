"""When pages are read for their counters, with a real server."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.config import TrafficOptions
from tests.captured import capture
from tests.provider_answers import provider_body
from tests.sources.polling.hostile import CAPTURE as HOSTILE_CAPTURE
from tests.sources.polling.hostile import DEV_MODE, HostileServer
from tests.sources.polling.test_replica import CONFIG, LIGHT, LORA, Clocked

CAPTURE = Path(__file__).parents[2] / "traffic" / "0.33.0" / "llama"
FIRST, SECOND = ((CAPTURE / f"{each}.txt").read_bytes() for each in ("first", "second"))
MINUTE = timedelta(seconds=60)


@pytest.fixture
def clocked(server: HostileServer) -> Clocked:
    return Clocked(server, TrafficOptions(interval_seconds=60))


def test_the_page_of_a_poll_is_not_read_again_and_counts_once_a_minute(clocked: Clocked) -> None:
    clocked.answer("/metrics", FIRST)
    clocked.poll()
    clocked.answer("/metrics", SECOND)
    soon, paths = clocked.poll()
    assert (soon.traffic, paths) == ({}, LIGHT)
    later, paths = clocked.poll(MINUTE)
    assert paths == LIGHT
    assert (
        later.traffic[0]._asdict() | {"seconds": 75, "requests": 18, "prompt_tokens": 10476, "hits": 9216}
        == later.traffic[0]._asdict()
    )


def test_a_replica_that_is_asked_by_etag_has_its_page_read_once_a_minute_instead(clocked: Clocked) -> None:
    clocked.answer("/metrics", FIRST)
    clocked.answer_with_etag("/inference/v1/config", provider_body(capture("llama")))
    clocked.poll()
    _, paths = clocked.poll()
    assert paths == [CONFIG]
    clocked.answer("/metrics", SECOND)
    later, paths = clocked.poll(MINUTE)
    assert paths == LIGHT
    assert later.traffic[0].requests == 18
    _, paths = clocked.poll()
    assert paths == [CONFIG]


def test_where_lora_adapters_can_change_the_page_is_read_besides(clocked: Clocked) -> None:
    clocked.answer("/metrics", LORA + FIRST)
    clocked.answer_with_etag("/inference/v1/config", provider_body(capture("llama")))
    clocked.poll()
    _, paths = clocked.poll(MINUTE)
    assert {CONFIG, "/metrics"} <= {*paths}


def test_a_restart_begins_the_window_anew(clocked: Clocked) -> None:
    clocked.answer("/metrics", SECOND)
    clocked.poll()
    start = next(each for each in FIRST.splitlines() if each.startswith(b"process_start_time_seconds "))
    clocked.answer("/metrics", FIRST.replace(start, b"process_start_time_seconds 1.8e+09"))
    snapshot, _ = clocked.poll(MINUTE)
    assert snapshot.traffic == {}


def test_a_replica_that_does_not_answer_has_no_traffic_until_it_answers_again(clocked: Clocked) -> None:
    clocked.answer("/metrics", FIRST)
    clocked.poll()
    clocked.all_break()
    assert clocked.poll(MINUTE)[0].traffic == {}
    for path, file in DEV_MODE.items():
        clocked.answer(path, (HOSTILE_CAPTURE / file).read_bytes())
    clocked.answer("/metrics", SECOND)
    again, _ = clocked.poll(MINUTE)
    assert (again.traffic[0].seconds, again.traffic[0].requests) == (120, 18)


def test_while_the_page_alone_fails_there_is_no_traffic(clocked: Clocked) -> None:
    clocked.answer("/metrics", FIRST)
    clocked.poll()
    clocked.answer("/metrics", SECOND)
    assert clocked.poll(MINUTE)[0].traffic
    clocked.drop("/metrics")
    snapshot, _ = clocked.poll(MINUTE)
    assert snapshot.traffic == snapshot.counted == {}
