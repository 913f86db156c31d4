"""Bodies: unpacked within limits, and read once."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import Failure, ProbeResult, Source
from dashboard.sources.http.client import Body
from dashboard.sources.http.failures import Endpoint
from dashboard.sources.polling.probes import BY_PATH, Reader
from dashboard.vllm.reading import Reading
from tests.sources.polling.hostile import CAPTURE, MIB, bomb

PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    " X-GZIP ": gzip.compress,
    "deflate": zlib.compress,
}


def feed(body: Body, data: bytes, chunk: int) -> Body:
    for start in range(0, len(data), chunk):
        body.feed(data[start : start + chunk])
    return body


@given(data=st.binary(max_size=300), chunk=st.integers(1, 50), encoding=st.sampled_from(sorted(PACKERS)))
def test_a_body_is_unpacked_from_any_chunks(data: bytes, chunk: int, encoding: str) -> None:
    body = feed(Body(encoding, 300), PACKERS[encoding](data), chunk)
    body.end()
    assert bytes(body.content) == data


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_the_limit_of_a_body_is_exact(encoding: str) -> None:
    body = feed(Body(encoding, 1000), PACKERS[encoding](b"a" * 1000), 64)
    body.end()
    assert len(body.content) == 1000
    with pytest.raises(UnreadableError, match="more than"):
        feed(Body(encoding, 1000), PACKERS[encoding](b"a" * 1001), 64)


def test_a_gzip_bomb_takes_no_more_memory_than_the_limit() -> None:
    packed = bomb()
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableError, match="more than"):
            feed(Body("gzip", MIB), packed, 2**16)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "\N{SNOWMAN}"])
def test_another_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(UnreadableError, match="not asked for"):
        Body(encoding, 10)


VERSION = BY_PATH["/version"]
AT = Endpoint("http://10.0.0.7:8000", "/version")
BODY = (CAPTURE / "version.json").read_bytes()


def as_result(read: Reading | Failure) -> ProbeResult:
    assert isinstance(read, Reading)
    return ProbeResult("/version", Source.VERSION, datetime(2026, 3, 2, tzinfo=UTC), 0.0, reply=read.reply)


def test_equal_bodies_share_one_reply() -> None:
    reader = Reader()
    first = as_result(reader.read(VERSION, AT, BODY))
    assert as_result(reader.read(VERSION, AT, bytes(BODY))).reply is first.reply


def test_a_reply_without_a_result_is_dropped() -> None:
    reader = Reader()
    first = as_result(reader.read(VERSION, AT, BODY))
    reader.forget_all_but([first])
    assert as_result(reader.read(VERSION, AT, BODY)).reply is first.reply
    reader.forget_all_but([])
    assert as_result(reader.read(VERSION, AT, BODY)).reply is not first.reply


def test_an_internal_error_in_reading_is_a_failure() -> None:
    def read(_path: str, body: bytes) -> Reading:
        raise ZeroDivisionError(body)

    failure = Reader(read).read(VERSION, AT, b"hush")
    assert isinstance(failure, Failure)
    assert "ZeroDivisionError" in failure.detail
    assert "hush" not in failure.detail
