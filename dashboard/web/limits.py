"""Limits of the web server: file descriptors, connections, request time, shutdown time, and the records of its log."""

import asyncio
import logging
import os
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from socket import socket
from threading import Lock
from types import FrameType, TracebackType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.h11_impl import H11Protocol

from dashboard.access.routes import PROBES
from dashboard.logs import follow_environment

MOST_CONNECTIONS = 4096
SESSION_DESCRIPTORS = 4  # its websocket, and three of Streamlit's event loop
SPARE_DESCRIPTORS = 200  # files, pipes, inherited ones
SPARE_CONNECTIONS = 32  # for requests such as /healthz: websockets cannot use them
log = logging.getLogger(__name__)
# uvicorn 0.54 logs this after each websocket that was answered with 403 (websockets_sansio_impl.py, run_asgi).
ANSWERED = "ASGI callable returned without completing handshake."
MOST_RECORDS, MOST_TRACEBACKS = 20, 3  # of a kind in a period; a traceback has 2 to 10 KB
PERIOD_SECONDS = 60.0


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connection_limit(descriptors: int, poll_connections: int) -> int:
    """Return the limit of open connections, given the limit of open files and the connections of polling."""
    free = descriptors - poll_connections - SPARE_DESCRIPTORS
    return max(2 * SPARE_CONNECTIONS, min(MOST_CONNECTIONS, free // SESSION_DESCRIPTORS))


class Connection(H11Protocol):
    """An HTTP connection that closes when its request is late.

    Above the limit of connections every request but a probe is answered with 503. None is closed before its request is
    read, as it may be a probe, until file descriptors run out: then the oldest incomplete one is.
    """

    head_seconds = 10.0  # until the head of a request is complete
    body_seconds = 30.0  # until more of its body comes
    opened_at = 0.0
    limit: int | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first request, and keep within the limit of descriptors."""
        super().connection_made(transport)
        self.limit, self.limit_concurrency = self.limit_concurrency, None  # uvicorn would refuse probes, too
        self._limited, self.app = self.app, self._answer
        self.opened_at = self.loop.time()
        self._expect(self.head_seconds)
        if self.limit is None or len(self.connections) < self.limit:
            return
        used = sum(1 if isinstance(each, Connection) else SESSION_DESCRIPTORS for each in self.connections)
        if used >= SESSION_DESCRIPTORS * self.limit:
            waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_incomplete]
            oldest = min(waiting, key=lambda each: each.opened_at)  # this one at least
            self.connections.discard(oldest)
            oldest.transport.abort()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on; above the limit, probes only."""
        is_over = self.limit is not None and max(len(self.connections), len(self.tasks)) > self.limit
        app = service_unavailable if is_over and scope["path"] not in PROBES else self._limited
        await app(scope, receive, send)

    @property
    def is_incomplete(self) -> bool:
        """Return whether the server waits for a request or the rest of one."""
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def data_received(self, data: bytes) -> None:
        """Set the time limit for the rest of the request: one for its head, one for each part of its body."""
        super().data_received(data)
        if self not in self.connections:  # upgraded to a websocket, or closed
            return
        if self.conn.their_state is h11.SEND_BODY:
            self._expect(self.body_seconds)
        elif self.conn.their_state is not h11.IDLE:
            self._expect(None)
        elif self._deadline is None and self.timeout_keep_alive_task is None:
            self._expect(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Upgrade to a websocket; answer 503 when websockets have used up their share of the connections."""
        self._expect(None)
        if self.limit is not None and len(self.connections) > self.limit - SPARE_CONNECTIONS:
            self.logger.warning("websocket refused: %d connections are open", len(self.connections))
            self.transport.write(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()
            return
        super().handle_websocket_upgrade(event)

    def _expect(self, seconds: float | None) -> None:
        """Close the connection after some seconds; None cancels this."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class Server(uvicorn.Server):
    """A server that exits within a time limit, whatever blocks it."""

    def __init__(self, config: uvicorn.Config, stop_seconds: float, greeting: str) -> None:
        """Prepare the server; `stop_seconds` limit its shutdown. The `greeting` is printed once it listens."""
        super().__init__(config)
        self._stop_seconds, self._greeting = stop_seconds, greeting

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._greeting, file=sys.stderr, flush=True)  # noqa: T201

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down, and kill this process after the time limit."""
        if not self.should_exit:
            last_resort = threading.Timer(self._stop_seconds, os._exit, [0])
            last_resort.daemon = True
            last_resort.start()
        super().handle_exit(sig, frame)


def kind_of(record: logging.LogRecord) -> str:
    """Return what a record is counted by: its logger and place, and the type and place of its exception.

    Its text is left out: some contain the values that a visitor sent.
    """
    error, _, traceback = record.exc_info or (None, None, None)
    raised = f": {error.__name__} at {_place(traceback)}" if error else ""
    return f"{record.name} ({Path(record.pathname).name}:{record.lineno}{raised})"


def _place(traceback: TracebackType | None) -> str:
    """Return file and line of the innermost frame; empty for an exception that was not raised."""
    last = traceback
    while last and last.tb_next:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}" if last else ""


class LogLimit(logging.Filter):
    """Passes the first records of each kind in a period; `report` logs how many were suppressed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty count. `clock` gives seconds."""
        super().__init__()
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._suppressed: Counter[str] = Counter()
        self._ends_at = 0.0
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; the last one of its kind announces the limit."""
        if record.msg == ANSWERED:
            return False
        self.report()
        kind, limit = kind_of(record), MOST_TRACEBACKS if record.exc_info else MOST_RECORDS
        with self._lock:
            self._counts[kind] += 1
            number = self._counts[kind]
            if number > limit:
                self._suppressed[kind] += 1
        if number == limit:
            record.msg = f"{record.msg} (similar records are suppressed for up to {PERIOD_SECONDS:.0f} s)"
        return number <= limit

    def report(self) -> None:
        """Once a period is over, start the next one and log how many records of each kind were suppressed."""
        with self._lock:
            if self._clock() < self._ends_at:
                return
            self._ends_at = self._clock() + PERIOD_SECONDS
            suppressed, self._suppressed = self._suppressed, Counter()
            self._counts.clear()
        for kind, number in suppressed.most_common(MOST_RECORDS):
            log.warning("Suppressed %d records of %s in %.0f s", number, kind, PERIOD_SECONDS)

    def attach(self) -> None:
        """Limit every existing logger: a filter of a logger does not get the records of its children."""
        follow_environment()
        for logger in _loggers():
            logger.addFilter(self)

    def detach(self) -> None:
        for logger in _loggers():
            logger.removeFilter(self)


def _loggers() -> list[logging.Logger]:
    return [logging.root, *map(logging.getLogger, tuple(logging.root.manager.loggerDict))]
