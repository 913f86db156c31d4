"""The simulated fleet as a real HTTP server on loopback: one listening socket per replica, one port for all."""

import asyncio
import errno
import resource
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from dashboard.demo.answers import DemoProcess
from dashboard.demo.arguments import Start, changed
from dashboard.demo.connection import DemoConnection
from dashboard.demo.describe import Behaviour, Configuration, DemoReplica, Speaks
from dashboard.demo.pages import RenderedPages, render

BACKLOG = 128
PORT_ATTEMPTS = 20  # a port that is free on one address may be taken on another
SPARE_FILES = 64
EARLIER_SECONDS = 40 * 86_400.0  # since the start of processes that another one followed
FILES_PER_REPLICA = 3  # one that listens, and connections
TURNS_OF_STOP = 4  # of the loop: a connection that was just accepted is made in the second of them


class Restart(NamedTuple):
    """A scheduled restart of the replica at an address."""

    after_seconds: float
    address: str
    changes: Start


class DemoServer:
    """Answers for every replica of a fleet that is not down. `clock` gives seconds since 1970.

    The fleet answers as it did `ago` seconds before.
    """

    def __init__(self, fleet: Sequence[DemoReplica], port: int = 8000, clock: Callable[[], float] = time.time) -> None:
        self.fleet = tuple(fleet)
        self.port = port
        self.ago = 0.0
        self._clock = clock
        self._rendered: dict[tuple[Configuration, frozenset[Speaks]], RenderedPages] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[DemoConnection] = set()
        began = clock()
        self._processes = {
            replica.address: self._started(replica, began - replica.uptime_seconds) for replica in self.fleet
        }
        self._before = {
            replica.address: self._started(replace(replica, configuration=replica.before), began - EARLIER_SECONDS)
            for replica in self.fleet
            if replica.before
        }

    async def start(self) -> None:
        """Listen on all addresses; port 0 is any port that is free on all. Raises OSError."""
        addresses = [replica.address for replica in self.fleet if replica.behaviour is not Behaviour.DOWN]
        _allow_open_files(FILES_PER_REPLICA * len(addresses) + SPARE_FILES)
        self.port, sockets = _listen(addresses, self.port)
        loop = asyncio.get_running_loop()
        for address, listening in zip(addresses, sockets, strict=True):
            make = partial(DemoConnection, partial(self.process, address), self.now, self._connections)
            self._servers.append(await loop.create_server(make, sock=listening, backlog=BACKLOG))

    async def stop(self) -> None:
        """Stop listening and drop all connections."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for _ in range(TURNS_OF_STOP):
            for connection in tuple(self._connections):
                connection.abort()
            await asyncio.sleep(0)

    def now(self) -> float:
        """Return the time of the fleet, in seconds since 1970."""
        return self._clock() - self.ago

    def process(self, address: str) -> DemoProcess:
        """Return the process of the replica at an address."""
        last = self._processes[address]
        return last if last.started_at <= self.now() else self._before.get(address, last)

    def restart(
        self,
        address: str,
        flags: Sequence[str] = (),
        environment: Mapping[str, str | None] = MappingProxyType({}),
        removed: Sequence[str] = (),
        image: str = "",
    ) -> None:
        """Start a replica again, as `restart("127.1.0.3", ["--block-size", "32"], {"PYTHONHASHSEED": "0"})`.

        The arguments are those of `Start`. Ids, start time, counters and capacity become new ones. Raises KeyError
        when there is no such replica, ValueError as `changed` does.
        """
        replica = changed(self._processes[address].replica, Start(flags, environment, removed, image))
        self._processes[address] = self._started(replica, self._clock())

    def _started(self, replica: DemoReplica, at: float) -> DemoProcess:
        key = replica.configuration, replica.speaks
        if key not in self._rendered:
            self._rendered[key] = render(*key)
        return DemoProcess.start(replica, self._rendered[key], at)


@asynccontextmanager
async def running(
    fleet: Sequence[DemoReplica],
    port: int = 8000,
    clock: Callable[[], float] = time.time,
    restarts: Sequence[Restart] = (),
) -> AsyncIterator[DemoServer]:
    """Serve a fleet in the running event loop, with scheduled restarts."""
    server = DemoServer(fleet, port, clock)
    await server.start()
    loop = asyncio.get_running_loop()
    timers = [
        loop.call_later(after, partial(server.restart, address, *changes)) for after, address, changes in restarts
    ]
    try:
        yield server
    finally:
        for timer in timers:
            timer.cancel()
        await server.stop()


@contextmanager
def in_thread(
    fleet: Sequence[DemoReplica],
    port: int = 0,
    clock: Callable[[], float] = time.time,
    restarts: Sequence[Restart] = (),
) -> Iterator[DemoServer]:
    """Serve a fleet as `running` does, in a thread with a separate event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="demo fleet", daemon=True)
    thread.start()
    serving = running(fleet, port, clock, restarts)
    try:
        server = asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result()
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _listen(addresses: Sequence[str], port: int) -> tuple[int, list[socket.socket]]:
    """Listen on one port of all addresses; port 0 is any port that is free on all."""
    if port or not addresses:
        return port, _listen_each(addresses, port)
    for _ in range(PORT_ATTEMPTS):
        first = socket.create_server((addresses[0], 0), backlog=BACKLOG)
        port = first.getsockname()[1]
        try:
            return port, [first, *_listen_each(addresses[1:], port)]
        except OSError as error:
            first.close()
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, "no port is free on all addresses of the fleet")


def _listen_each(addresses: Sequence[str], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    for address in addresses:
        try:
            sockets.append(socket.create_server((address, port), backlog=BACKLOG))
        except OSError as error:
            for listening in sockets:
                listening.close()
            raise OSError(error.errno, f"cannot listen on {address}:{port}: {error.strerror}") from error
    return sockets


def _allow_open_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard) if hard > 0 else number, hard))
