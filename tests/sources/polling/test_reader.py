"""Bodies are read once, and never raise."""

from datetime import UTC, datetime

from dashboard.fleet import Failure, ProbeResult, Source
from dashboard.sources.polling.failures import Asked
from dashboard.sources.polling.probes import BY_PATH, Reader
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


def test_a_mistake_of_ours_in_reading_one_body_raises_nothing() -> None:
    def read(_path: str, body: bytes) -> Reading:
        raise ZeroDivisionError(body)

    failure = Reader(read).read(VERSION, AT, b"hush")
    assert isinstance(failure, Failure)
    assert "ZeroDivisionError" in failure.detail
    assert "hush" not in failure.detail
