"""HTTP/1.1 for a simulated server: only GET, fast enough for thousands of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from dashboard.demo.answers import DemoAnswer, DemoProcess
from dashboard.demo.describe import Behaviour

END_OF_HEAD = b"\r\n\r\n"
MAX_HEAD_BYTES = 65_536  # h11's limit in uvicorn
SECONDS_PER_BYTE = 1.0
REASONS = {status.value: status.phrase for status in HTTPStatus}


class DemoConnection(asyncio.Protocol):
    """One connection to one replica. `process` is called at each request, so that a restart has effect at once."""

    def __init__(
        self, process: Callable[[], DemoProcess], clock: Callable[[], float], connections: set[DemoConnection]
    ) -> None:
        self._process = process
        self._clock = clock
        self._connections = connections
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None
        self._drip: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the open connections."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Leave the open connections, and stop dripping."""
        self._connections.discard(self)
        if self._drip:
            self._drip.cancel()
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer each complete head; a request with a body is answered, and its connection closed."""
        self._received += data
        while self._transport and END_OF_HEAD in self._received:
            head, _, self._received = self._received.partition(END_OF_HEAD)
            self._respond(self._transport, head)
        if len(self._received) > MAX_HEAD_BYTES:
            self.abort()

    def abort(self) -> None:
        """Drop the connection without sending the rest."""
        if self._transport:
            self._transport.abort()

    def _respond(self, transport: asyncio.WriteTransport, head: bytes) -> None:
        line, *fields = head.decode("latin-1").split("\r\n")
        words = line.split(" ")
        if len(words) != 3:  # noqa: PLR2004 - method, target, version
            transport.abort()
            return
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        process = self._process()
        path, _, query = words[1].partition("?")
        answer = process.answer(words[0], path, headers.get("authorization"), self._clock(), query)
        self._write(transport, answer, slowly=process.replica.behaviour is Behaviour.SLOW)
        if headers.get("connection", "").lower() == "close" or words[0] != "GET" or words[2] == "HTTP/1.0":
            transport.close()

    def _write(self, transport: asyncio.WriteTransport, answer: DemoAnswer, *, slowly: bool) -> None:
        head = b"HTTP/1.1 %d %s\r\nserver: uvicorn\r\ncontent-length: %d\r\n" % (
            answer.status,
            REASONS[answer.status].encode(),
            len(answer.body),
        )
        if answer.content_type:
            head += b"content-type: %s\r\n" % answer.content_type
        transport.write(head + b"\r\n" + (b"" if slowly else answer.body))
        if slowly:
            self._next_byte(transport, answer.body)

    def _next_byte(self, transport: asyncio.WriteTransport, body: bytes) -> None:
        transport.write(body[:1])
        if len(body) > 1:
            loop = asyncio.get_running_loop()
            self._drip = loop.call_later(SECONDS_PER_BYTE, self._next_byte, transport, body[1:])
