"""Limits of the web server: descriptors, connections, seconds until a request is there, lines of log."""

import asyncio
import logging
import os
import resource
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 4096
SESSION_DESCRIPTORS = 4  # its websocket, and the three of an event loop that Streamlit makes
SPARE_DESCRIPTORS = 200  # files, pipes, the parent's
SPARE_CONNECTIONS = 32  # for requests such as /healthz, when websockets have taken the others
# uvicorn 0.54 logs this after each 403 of a websocket, which was answered (websockets_sansio_impl.py, run_asgi).
ANSWERED = "ASGI callable returned without completing handshake."
MOST_LINES, LINES_SECONDS = 20, 60.0  # of the same message


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connection_limit(descriptors: int, poll_connections: int) -> int:
    """Return how many connections may be open, given the limit of open files and what polling uses of it."""
    free = descriptors - poll_connections - SPARE_DESCRIPTORS
    return max(2 * SPARE_CONNECTIONS, min(MOST_CONNECTIONS, free // SESSION_DESCRIPTORS))


class Connection(H11Protocol):
    """An HTTP connection that ends where its request does not come; at the limit the oldest such one makes room."""

    head_seconds = 10.0  # until the head of a request is complete
    body_seconds = 30.0  # until more of its body comes
    opened_at = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        self._expect(self.head_seconds)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_incomplete]
            oldest = min(waiting, key=lambda each: each.opened_at)  # at least this one waits
            self.connections.discard(oldest)
            oldest.transport.abort()

    @property
    def is_incomplete(self) -> bool:
        """Return whether a request, or the rest of one, has yet to come."""
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def data_received(self, data: bytes) -> None:
        """Wait on where the request is incomplete: its head has one time limit, each part of its body another."""
        super().data_received(data)
        if self not in self.connections:  # it is a websocket by now, or closed
            return
        if self.conn.their_state is h11.SEND_BODY:
            self._expect(self.body_seconds)
        elif self.conn.their_state is not h11.IDLE:
            self._expect(None)
        elif self._deadline is None and self.timeout_keep_alive_task is None:
            self._expect(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._expect(None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Become a websocket, unless these have taken their part of the connections: then 503."""
        self._expect(None)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency - SPARE_CONNECTIONS:
            self.logger.warning("websocket refused: %d connections are open", len(self.connections))
            self.transport.write(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()
            return
        super().handle_websocket_upgrade(event)

    def _expect(self, seconds: float | None) -> None:
        """End the connection after so many seconds; None: no more."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class Server(uvicorn.Server):
    """Ends in time: what blocks it when it is asked to end is given up."""

    def __init__(self, config: uvicorn.Config, stop_seconds: float) -> None:
        """Serve nothing yet."""
        super().__init__(config)
        self._stop_seconds = stop_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        if not self.should_exit:
            last_resort = threading.Timer(self._stop_seconds, os._exit, [0])
            last_resort.daemon = True
            last_resort.start()
        super().handle_exit(sig, frame)


class RepeatFilter(logging.Filter):
    """Drops messages that came too often of late: a flood of bad requests fills no disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to count. `clock` gives seconds."""
        super().__init__()
        self._clock = clock
        self._counts: dict[tuple[str, str], int] = {}
        self._until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; the last of a kind says that more are dropped."""
        if record.msg == ANSWERED:
            return False
        if self._clock() >= self._until:
            self._counts, self._until = {}, self._clock() + LINES_SECONDS
        kind = (record.name, str(record.msg).partition("\n")[0])
        self._counts[kind] = number = self._counts.get(kind, 0) + 1
        if number == MOST_LINES:
            record.msg = f"{record.msg} (more of these are dropped for up to {LINES_SECONDS:.0f} s)"
        return number <= MOST_LINES


def limit_log() -> None:
    """Limit what every logger writes that exists by now: a filter of a logger sees no records of those below it."""
    repeats: Any = RepeatFilter()
    for logger in (logging.getLogger(name) for name in tuple(logging.root.manager.loggerDict)):
        logger.addFilter(repeats)
