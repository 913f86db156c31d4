"""Limits of the server: connections that wait, their number, probes under load, and records of the log."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from dashboard.web.limits import (
    MOST_CONNECTIONS,
    MOST_RECORDS,
    MOST_TRACEBACKS,
    PERIOD_SECONDS,
    SESSION_DESCRIPTORS,
    SPARE_CONNECTIONS,
    Connection,
    LogLimit,
    Server,
    connection_limit,
    kind_of,
)

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
PROBE = GET.replace(b"/", b"/healthz", 1)
SHORT = 0.1  # seconds


class Hasty(Connection):
    """Has time limits of a tenth of a second."""

    head_seconds = body_seconds = SHORT


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and answer; /slow takes longer than any time limit of a request."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        return
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/slow":
        await asyncio.sleep(3 * SHORT)
    if scope["path"] == "/endless":
        await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class Client:
    """Opens and closes connections to a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._port = server.servers[0].sockets[0].getsockname()[1]
        self._writers: list[asyncio.StreamWriter] = []

    async def send(self, *parts: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        for part in parts:
            writer.write(part)
            await writer.drain()
        return reader

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def serving(protocol: type[Connection], limit: int | None = None) -> AsyncIterator[Client]:
    config = uvicorn.Config(
        answer,
        port=0,
        http=protocol,
        ws="websockets-sansio",
        lifespan="off",
        limit_concurrency=limit,
        timeout_keep_alive=1,  # whole seconds
        log_config=None,
    )
    server = Server(config, stop_seconds=60, greeting="")
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    client = Client(server)
    try:
        yield client
    finally:
        client.close()
        await server.shutdown()


def run(
    test: Callable[[Client], Coroutine[Any, Any, None]], protocol: type[Connection], limit: int | None = None
) -> None:
    async def tested() -> None:
        async with serving(protocol, limit) as client:
            await asyncio.wait_for(test(client), 60)

    asyncio.run(tested())


async def status(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until the server closes the connection."""
    with suppress(ConnectionResetError):
        await reader.read()


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"GET / HT",),
        (b"GET / HTTP/1.1\r\nhost: a\r\n",),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc",),
    ],
)
def test_a_connection_without_a_complete_request_is_closed(parts: tuple[bytes, ...]) -> None:
    async def test(client: Client) -> None:
        reader = await client.send(*parts)
        await ended(reader)

    run(test, Hasty)


def test_a_connection_without_a_complete_second_request_is_closed() -> None:
    async def test(client: Client) -> None:
        reader = await client.send(GET, b"GET / HT")
        assert await status(reader) == 200
        await ended(reader)

    run(test, Hasty)


def test_an_answer_has_no_time_limit() -> None:
    async def test(client: Client) -> None:
        assert await status(await client.send(GET.replace(b"/", b"/slow", 1))) == 200

    run(test, Hasty)


def test_a_websocket_has_no_time_limit() -> None:
    async def test(client: Client) -> None:
        reader = await client.send(handshake())
        assert await status(reader) == 101
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(3 * SHORT)
        assert not reader.at_eof()

    run(test, Hasty)


def handshake() -> bytes:
    return (
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )


def test_at_the_limit_of_descriptors_the_oldest_incomplete_connection_is_closed() -> None:
    """1,100 half-open connections silenced /healthz for 48 s."""

    async def test(client: Client) -> None:
        for _ in range(1100):
            await client.send(b"GET / HT")
        assert await status(await client.send(PROBE)) == 200
        assert len(client.server.server_state.connections) <= 60 * SESSION_DESCRIPTORS

    run(test, Connection, limit=60)


def test_probes_are_answered_first() -> None:
    """With 500 requests to /api at once 2 of 40 to /healthz were reset."""

    async def test(client: Client) -> None:
        others = await asyncio.gather(*(client.send(GET.replace(b"/", b"/endless", 1)) for _ in range(500)))
        probes = await asyncio.gather(*(client.send(PROBE) for _ in range(40)))

        assert [await status(each) for each in probes] == [200] * 40
        refused = await asyncio.wait_for(status(others[-1]), 60)
        assert refused == 503

    run(test, Connection, limit=200)


def test_websockets_leave_connections_for_other_requests() -> None:
    """A liveness probe must be answered when there is no room for sessions."""
    limit = SPARE_CONNECTIONS + 5

    async def test(client: Client) -> None:
        opened = [await status(await client.send(handshake())) for _ in range(8)]
        assert opened == [101] * 5 + [503] * 3
        assert await status(await client.send(GET)) == 200

    run(test, Connection, limit=limit)


@pytest.mark.parametrize(
    ("descriptors", "polling", "limit"),
    [(1024, 100, 181), (4096, 100, 949), (2**20, 100, MOST_CONNECTIONS), (256, 100, 2 * SPARE_CONNECTIONS)],
)
def test_the_limit_of_connections_follows_from_file_descriptors(descriptors: int, polling: int, limit: int) -> None:
    assert connection_limit(descriptors, polling) == limit


logger = logging.getLogger("tests.flood")


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> Iterator[LogLimit]:
    """A limit on the loggers of these tests."""
    limit = LogLimit(clock)
    limit.attach()
    yield limit
    limit.detach()


def send(text: str) -> None:
    logger.warning("bad request %s", text)


def send_formatted(text: str) -> None:
    logger.warning(f"bad request {text}")  # noqa: G004  as libraries do


def fail(error: Exception) -> None:
    try:
        raise error  # noqa: TRY301  each from the same place
    except Exception as caught:
        logger.error("Uncaught app execution", exc_info=caught)  # noqa: TRY400  as Streamlit does


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("sender", [send, send_formatted])
def test_records_of_one_kind_are_suppressed_whatever_values_they_contain(
    sender: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1000):
        sender(str(number))
    logger.warning("another")

    assert len(caplog.messages) == MOST_RECORDS + 1
    assert caplog.messages[-2:] == [
        f"bad request {MOST_RECORDS - 1} (similar records are suppressed for up to 60 s)",
        "another",
    ]


@pytest.mark.usefixtures("limit")
def test_tracebacks_are_suppressed_by_the_type_and_place_of_their_exception(caplog: pytest.LogCaptureFixture) -> None:
    """A link with an error in it wrote 16 GB of tracebacks a day."""
    for number in range(1000):
        fail(TypeError(f"value {number}"))
    fail(KeyError("x"))

    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [TypeError] * MOST_TRACEBACKS + [
        KeyError
    ]


def test_the_number_of_suppressed_records_is_logged_after_the_period(
    limit: LogLimit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MOST_RECORDS + 7):
        send(str(number))
    limit.report()
    assert len(caplog.messages) == MOST_RECORDS
    kind = kind_of(caplog.records[0])
    clock.now = PERIOD_SECONDS
    limit.report()
    limit.report()

    assert caplog.messages[MOST_RECORDS:] == [f"Suppressed 7 records of {kind} in 60 s"]
    assert kind.startswith("tests.flood (test_limits.py:")


@pytest.mark.usefixtures("limit")
def test_a_flood_that_goes_on_is_reported_each_period(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for second in range(150):
        clock.now = float(second)
        send(str(second))

    reported = [each for each in caplog.messages if each.startswith("Suppressed")]
    assert [each.split()[1] for each in reported] == ["40", "40"]
    assert len(caplog.messages) == 3 * MOST_RECORDS + 2


def test_the_kind_of_a_traceback_has_its_exception(
    limit: LogLimit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(MOST_TRACEBACKS + 1):
        fail(TypeError("x"))
    logger.error("not raised", exc_info=ValueError("x"))
    clock.now = PERIOD_SECONDS
    limit.report()

    assert ": TypeError at test_limits.py:" in caplog.messages[-1]
    assert kind_of(caplog.records[-2]).endswith(": ValueError at )")


@pytest.mark.usefixtures("limit")
def test_a_refused_websocket_was_answered(caplog: pytest.LogCaptureFixture) -> None:
    logger.error("ASGI callable returned without completing handshake.")

    assert caplog.messages == []
