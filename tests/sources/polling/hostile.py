"""A real server on loopback with raw answers by path, in its own thread.

`certificate.pem` is a key and a self-signed certificate for 127.0.0.1, for these tests only.
"""

import asyncio
import contextlib
import gzip
import json
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from dashboard.fleet import FailureKind, Target
from dashboard.sources.polling.probes import PROBES

CERTIFICATE = Path(__file__).with_name("certificate.pem")
CAPTURE = Path(__file__).parents[2] / "captures" / "0.32.0" / "llama"
MIB = 2**20
STOCK = {  # the paths of a stock vLLM, and the files of a capture
    "/metrics": "metrics.txt",
    "/version": "version.json",
    "/kv_event_sources": "kv_event_sources.json",
    "/v1/models": "models.json",
}
DEV_MODE = {**STOCK, "/server_info": "server_info.json"}


class Asked(NamedTuple):
    """One request as the server saw it; header names in lower case. `body` is that of a POST."""

    path: str
    headers: Mapping[str, str]
    connection: int
    body: bytes = b""


class Exchange:
    """One request that is being answered."""

    def __init__(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send raw bytes; return when the other side has read them."""
        self._writer.write(data)
        await self._writer.drain()

    async def reply(self, body: bytes, status: int = 200, headers: Iterable[str] = ()) -> None:
        """Send a complete regular answer."""
        lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", *headers]
        await self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    async def until_gone(self) -> None:
        """Wait until the other side closes the connection."""
        await self._reader.read()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


class HostileServer:
    """Answers on 127.0.0.1 by `routes`, a mapping of path (without query) to behaviour; 404 elsewhere.

    `asks_certificate`: only to who shows CERTIFICATE, over TLS.
    """

    def __init__(self, *, tls: bool = False, asks_certificate: bool = False) -> None:
        self.routes: dict[str, Callable[[Exchange], Awaitable[None]]] = {}
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self._tls = tls or asks_certificate
        self._asks_certificate = asks_certificate
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def address(self) -> str:
        """Scheme, host and port, as a target's id has them."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def replica(self, name: str, files: Mapping[str, str] = STOCK) -> Target:
        """Serve the capture below `/name`; return its target."""
        for path, file in files.items():
            self.routes[f"/{name}{path}"] = answers((CAPTURE / file).read_bytes())
        return Target(f"{self.address}/{name}")

    def paths(self, name: str) -> list[str]:
        """Return the requested paths of a replica, in order, without query."""
        begin = f"/{name}/"
        return [asked.path.partition("?")[0][len(begin) - 1 :] for asked in self.asked if asked.path.startswith(begin)]

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        context = None
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            if self._asks_certificate:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(CERTIFICATE)
        handlers: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            handlers.add(asyncio.ensure_future(self._handle(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await asyncio.sleep(0)  # a closed transport closes its socket in the next turn of the loop

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while not writer.is_closing():
                first = await reader.readexactly(1)
                if first not in {b"G", b"P"}:  # no GET or POST: a TLS handshake, say
                    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                    return
                head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
                pairs = (line.partition(":") for line in head[1:-1])
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                asked = Asked(head[0].split()[1], headers, number, body)
                self.asked.append(asked)
                answer = self.routes.get(asked.path.partition("?")[0], missing)
                await answer(Exchange(asked, reader, writer))
                if headers.get("connection") == "close":
                    return


def answers(body: bytes, status: int = 200, headers: Iterable[str] = ()) -> Callable[[Exchange], Awaitable[None]]:
    """Return the behaviour of a regular answer."""

    async def behave(exchange: Exchange) -> None:
        await exchange.reply(body, status, headers)

    return behave


missing = answers(b'{"detail":"Not Found"}', 404)


async def silent(exchange: Exchange) -> None:
    """Read the request and send nothing."""
    await exchange.until_gone()


async def hangs_up(exchange: Exchange) -> None:
    """Close the connection without an answer."""
    exchange.close()


async def closes_mid_answer(exchange: Exchange) -> None:
    """Send less than the Content-Length."""
    await exchange.send(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"version"')
    exchange.close()


async def trickles(exchange: Exchange) -> None:
    """Send single bytes forever."""
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await exchange.send(b" ")
        await asyncio.sleep(0.02)


async def is_large(exchange: Exchange) -> None:
    """Send 100 MB."""
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (100 * MIB))
    for _ in range(1600):
        await exchange.send(b" " * (MIB // 16))


async def is_endless(exchange: Exchange) -> None:
    """Send chunks forever."""
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await exchange.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


async def has_many_headers(exchange: Exchange) -> None:
    """Send 50,000 headers."""
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    for first in range(0, 50_000, 1000):
        await exchange.send(b"".join(b"X-%d: 1\r\n" % number for number in range(first, first + 1000)))
    await exchange.send(b"Content-Length: 2\r\n\r\n{}")


async def is_no_http(exchange: Exchange) -> None:
    """Answer as an SSH server does."""
    await exchange.send(b"SSH-2.0-OpenSSH_9.2p1\r\n\x00\x01\x02")
    exchange.close()


def bomb() -> bytes:
    """Return gzip of 1 MB that grows to 1 GB: a block of zeros, packed once and repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packer.compress(b"\0" * MIB)
    packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b"\0" * MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + block * 1024


def tiny_objects(size: int = 8 * MIB) -> bytes:
    """Return JSON that fits into that many bytes, all of them small objects, which take 30 times as much memory."""
    return b"[" + b'{"":{}},' * (size // 8 - 1) + b"{}]"


def nested(depth: int = 1_000) -> bytes:
    """Return JSON that is nested `depth` deep."""
    return b'{"a":' * depth + b"1" + b"}" * depth


GZIP = ("Content-Encoding: gzip",)
JSON = ("Content-Type: application/json",)
BAD_ANSWERS: Mapping[str, tuple[Callable[[Exchange], Awaitable[None]], frozenset[FailureKind]]] = {
    name: (behaviour, frozenset(kinds))
    for name, behaviour, kinds in (
        ("nothing", answers(b""), {FailureKind.DECODE}),
        ("status 500", answers(b"Internal Server Error", 500), {FailureKind.STATUS}),
        ("status 204", answers(b"", 204), {FailureKind.STATUS}),
        ("status 401", answers(b'{"error":"Unauthorized"}', 401), {FailureKind.UNAUTHORIZED}),
        ("status 403", answers(b"", 403), {FailureKind.UNAUTHORIZED}),
        ("html", answers(b"<!doctype html><script>alert(1)</script>"), {FailureKind.DECODE}),
        ("half a JSON", answers(b'{"data": [{"id": "a"', headers=JSON), {FailureKind.DECODE, FailureKind.SCHEMA}),
        ("another shape", answers(b'[[1], "a", {"b": null}]', headers=JSON), {FailureKind.SCHEMA}),
        ("only NaN", answers(b"NaN"), {FailureKind.SCHEMA}),
        ("too deep", answers(nested()), {FailureKind.DECODE, FailureKind.SCHEMA}),
        ("tiny objects", answers(tiny_objects(), headers=JSON), {FailureKind.TOO_LARGE, FailureKind.SCHEMA}),
        ("wrong charset", answers('{"version": "é"}'.encode("utf-16")), {FailureKind.DECODE, FailureKind.SCHEMA}),
        ("endless", is_endless, {FailureKind.TOO_LARGE}),
        ("100 MB", is_large, {FailureKind.TOO_LARGE}),
        ("gzip bomb", answers(bomb(), headers=GZIP), {FailureKind.TOO_LARGE}),
        ("no gzip", answers(b"this is not gzip", headers=GZIP), {FailureKind.DECODE}),
        ("half a gzip", answers(gzip.compress(b"{}" * 99)[:-9], headers=GZIP), {FailureKind.DECODE}),
        ("unknown packing", answers(b"{}", headers=("Content-Encoding: br, gzip",)), {FailureKind.DECODE}),
        ("50,000 headers", has_many_headers, {FailureKind.TOO_LARGE}),
        ("one long header", answers(b"{}", headers=("X-Long: " + "a" * MIB,)), {FailureKind.TOO_LARGE}),
        ("closed mid-answer", closes_mid_answer, {FailureKind.PROTOCOL}),
        ("hangs up", hangs_up, {FailureKind.PROTOCOL}),
        ("no HTTP", is_no_http, {FailureKind.PROTOCOL}),
        ("silent", silent, {FailureKind.TIMEOUT}),
        ("one byte now and then", trickles, {FailureKind.TIMEOUT}),
    )
}


def changed_metrics(**labels: object) -> bytes:
    """Return the captured /metrics with other labels of `vllm:cache_config_info`, escaped as Prometheus does."""
    page = (CAPTURE / "metrics.txt").read_text()
    for label, value in labels.items():
        start = page.index(f'{label}="', page.index("\nvllm:cache_config_info")) + len(label) + 2
        page = page[:start] + json.dumps(str(value), ensure_ascii=False)[1:-1] + page[page.index('"', start) :]
    return page.encode()


def everywhere(server: HostileServer, name: str, behaviour: Callable[[Exchange], Awaitable[None]]) -> Target:
    """Return a target that gives this answer to every probe."""
    for probe in PROBES:
        server.routes[f"/{name}{probe.path.partition('?')[0]}"] = behaviour
    return Target(f"{server.address}/{name}")
