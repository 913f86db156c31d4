"""Bodies within limits."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.sources.polling.client import Body, BodyEncodingError, BodyTooLargeError
from tests.sources.polling.hostile import MIB, bomb

PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    " X-GZIP ": gzip.compress,
    "deflate": zlib.compress,
}


def fed(body: Body, data: bytes, chunk: int) -> Body:
    for start in range(0, len(data), chunk):
        body.feed(data[start : start + chunk])
    return body


@given(data=st.binary(max_size=300), chunk=st.integers(1, 50), encoding=st.sampled_from(sorted(PACKERS)))
def test_a_body_comes_out_as_it_was_packed_however_it_is_cut(data: bytes, chunk: int, encoding: str) -> None:
    body = fed(Body(encoding, 300), PACKERS[encoding](data), chunk)
    body.end()
    assert bytes(body.content) == data


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_body_of_just_the_limit_passes_and_one_byte_more_does_not(encoding: str) -> None:
    body = fed(Body(encoding, 1000), PACKERS[encoding](b"a" * 1000), 64)
    body.end()
    assert len(body.content) == 1000
    with pytest.raises(BodyTooLargeError):
        fed(Body(encoding, 1000), PACKERS[encoding](b"a" * 1001), 64)


def test_one_gigabyte_packed_small_never_takes_more_memory_than_the_limit() -> None:
    packed = bomb()
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            fed(Body("gzip", MIB), packed, 2**16)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "\N{SNOWMAN}"])
def test_a_packing_that_nobody_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(BodyEncodingError, match="not asked for"):
        Body(encoding, 10)
