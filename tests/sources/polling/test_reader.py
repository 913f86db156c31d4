"""Bodies are read once, and never raise."""

from datetime import UTC, datetime

import pytest

from dashboard.fleet import Failure, FailureKind, ProbeResult, Reply, Source
from dashboard.sources.polling.failures import Asked
from dashboard.sources.polling.probes import BY_PATH, METRICS, Reader
from dashboard.vllm.reading import Reading
from tests.sources.polling.hostile import CAPTURE

VERSION = BY_PATH["/version"]
AT = Asked("http://10.0.0.7:8000", "/version")
BODY = (CAPTURE / "version.json").read_bytes()


def held(read: Reading | Failure) -> ProbeResult:
    assert isinstance(read, Reading)
    return ProbeResult("/version", Source.VERSION, datetime(2026, 3, 2, tzinfo=UTC), 0.0, reply=read.reply)


def test_equal_bodies_share_one_reply() -> None:
    reader = Reader()
    first = held(reader.read(VERSION, AT, BODY))
    assert held(reader.read(VERSION, AT, bytes(BODY))).reply is first.reply


def test_a_reply_that_no_result_holds_is_forgotten() -> None:
    reader = Reader()
    first = held(reader.read(VERSION, AT, BODY))
    reader.forget_all_but([first])
    assert held(reader.read(VERSION, AT, BODY)).reply is first.reply
    reader.forget_all_but([])
    assert held(reader.read(VERSION, AT, BODY)).reply is not first.reply


def test_what_differs_at_every_poll_is_not_remembered() -> None:
    calls: list[bytes] = []

    def read(_path: str, body: bytes) -> Reading:
        calls.append(body)
        return Reading(Reply(Source.METRICS), body)

    reader = Reader(read)
    for _ in range(2):
        reader.read(METRICS, AT, b"same")
    assert calls == [b"same", b"same"]


@pytest.mark.parametrize(("body", "kind"), [(b"{", FailureKind.DECODE), (b"[]", FailureKind.SCHEMA)])
def test_a_body_that_cannot_be_read_is_a_failure_each_time(body: bytes, kind: FailureKind) -> None:
    reader = Reader()
    for _ in range(2):
        read = reader.read(VERSION, AT, body)
        assert isinstance(read, Failure)
        assert read.kind is kind


def test_a_mistake_of_ours_in_reading_one_body_raises_nothing() -> None:
    def read(_path: str, body: bytes) -> Reading:
        raise ZeroDivisionError(body)

    failure = Reader(read).read(VERSION, AT, b"hush")
    assert isinstance(failure, Failure)
    assert "ZeroDivisionError" in failure.detail
    assert "hush" not in failure.detail
