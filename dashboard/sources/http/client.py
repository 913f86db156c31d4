"""One request, within limits. Every error becomes a `Failure`."""

import asyncio
import re
import ssl
import zlib
from collections.abc import Coroutine, Iterable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, cast

import httpx2

from dashboard import __version__
from dashboard.errors import UnreadableError
from dashboard.fleet import Failure, Target, TargetAccess
from dashboard.sources.http import failures
from dashboard.sources.http.credentials import ApiKey, grant
from dashboard.sources.http.failures import Endpoint
from dashboard.sources.http.transport import AiohttpTransport, Trust, load_trust
from dashboard.vllm.reading import max_bytes

# Compressing 50 KB costs the API server of a busy vLLM more than sending them, and excludes compression bombs.
HEADERS = (
    (b"User-Agent", f"vllm-fleet-dashboard/{__version__}".encode()),
    (b"Accept", b"*/*"),
    (b"Accept-Encoding", b"identity"),
)
CLOSE = (b"Connection", b"close")
READ_HEADERS = frozenset({b"content-encoding", b"content-type", b"etag", b"retry-after"})
MAX_ERROR_PAGE_BYTES = 16 * 2**10  # an error page is only shown, never parsed
# zlib: 32 added to the largest window accepts gzip's header and that of zlib ("deflate" in HTTP).
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
ETAG = re.compile(r'(?:W/)?"[!#-~]{1,200}"')  # RFC 9110, section 8.8.3, without bytes beyond ASCII
T = TypeVar("T")
KNOWN_SERVERS = 16_384  # of 1 KB
KNOWN_PATHS = 256  # those of replicas are 14
BEAT_SECONDS = 0.05  # a later beat shows that the event loop was busy


class Answer(NamedTuple):
    """The result of one request. `body` is decompressed, and cut at a limit.

    `content_type` and `retry_after` are headers as sent, `etag` that of a complete answer.
    """

    status: int | None = None
    body: bytes = b""
    failure: Failure | None = None
    content_type: str | None = None
    etag: str | None = None
    retry_after: str | None = None

    @property
    def is_unchanged(self) -> bool:
        """Whether the answer is still that with the ETag of the request; it is not sent again."""
        return self.status == failures.NOT_MODIFIED and self.failure is None


@lru_cache(maxsize=8)
def _plain_headers(more: tuple[tuple[bytes, bytes], ...]) -> httpx2.Headers:
    """Return the headers of a request without those of its own: httpx2 copies them in a third of the time."""
    named = {name for name, _ in more}
    return httpx2.Headers([*(each for each in HEADERS if each[0] not in named), *more])


@lru_cache(maxsize=KNOWN_SERVERS)
def _parse_url(text: str) -> httpx2.URL:
    """Raise httpx2.InvalidURL, or UnicodeError for half of a surrogate pair."""
    return httpx2.URL(text)


@lru_cache(maxsize=KNOWN_PATHS)
def _quote(path: str) -> bytes:
    """Return a path and its query as they are sent; raise as `_parse_url` does."""
    return httpx2.URL(f"http://server{path}").raw_path


class Body:
    """A body that grows up to `limit` decompressed bytes. `encoding` is the Content-Encoding header.

    Each method raises UnreadableError with the end of a sentence; `content` then has the beginning.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        name = encoding.strip().lower()
        if name not in COMPRESSED | {"", "identity"}:
            raise UnreadableError("decode", "an encoding that was not asked for")
        self.content = bytearray()
        self._limit = limit
        self._began = False
        self._unpack = zlib.decompressobj(GZIP_OR_ZLIB) if name in COMPRESSED else None

    def feed(self, chunk: bytes) -> None:
        """Add one chunk. Raise UnreadableError at the limit."""
        self._began = True
        room = self._limit - len(self.content) + 1
        if self._unpack is not None:
            try:
                chunk = self._unpack.decompress(chunk, room)
            except zlib.error as error:
                raise UnreadableError("decode", "broken gzip") from error
        self.content += chunk[:room]
        if len(self.content) > self._limit:
            raise UnreadableError("too_large", f"more than {self._limit / 2**20:.3g} MiB; the rest was not read")

    def end(self) -> None:
        """Raise UnreadableError when the compressed stream was cut off."""
        if self._unpack is not None and self._began and not self._unpack.eof:
            raise UnreadableError("decode", "gzip that is cut off")


class Patience:
    """A clock, and timeouts, that pause while the event loop is busy: replicas do not pay for this process."""

    def __init__(self) -> None:
        self._late = 0.0
        self._due = 0.0
        self._open: set[asyncio.Timeout] = set()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to measure the running event loop."""
        self._due = asyncio.get_running_loop().time() + BEAT_SECONDS
        self._next = asyncio.get_running_loop().call_at(self._due, self._beat)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def time(self) -> float:
        """Return seconds of a clock that pauses with the event loop."""
        return asyncio.get_running_loop().time() - self._late

    async def ended(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result; raise TimeoutError after that many seconds of this clock."""
        async with asyncio.timeout(seconds) as timeout:
            self._open.add(timeout)
            try:
                return await work
            finally:
                self._open.discard(timeout)

    def _beat(self) -> None:
        """Extend all timeouts by the delay of this call: it runs before those that expired meanwhile."""
        late = asyncio.get_running_loop().time() - self._due
        if late > BEAT_SECONDS:
            self._late += late
            for timeout in self._open:
                when = timeout.when()
                if when is not None and not timeout.expired():
                    timeout.reschedule(when + late)
        self.start()


class Client:
    """An HTTP client; its requests and responses are httpx2's. They go straight to the transport.

    `httpx2.AsyncClient` would take 40% more processor time, and has no limit of the whole time of a request.
    """

    def __init__(self, *, connections: int, max_answer_bytes: int, max_headers: int) -> None:
        self._connections = connections
        self._max_answer_bytes = max_answer_bytes
        self._max_headers = max_headers
        self._patience = Patience()
        self._transports: dict[tuple[object, ...], AiohttpTransport] = {}  # by the arguments of _transport

    async def __aenter__(self) -> Self:
        """Start the clock; connections open on demand."""
        self._patience.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patience.stop()
        for transport in self._transports.values():
            await transport.aclose()

    def time(self) -> float:
        """Return seconds of a clock that pauses while the event loop is busy."""
        return self._patience.time()

    async def ended(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result; raise TimeoutError after that many seconds of the client's clock."""
        return await self._patience.ended(work, seconds)

    def limit(self, path: str) -> int:
        """Return the most bytes of an answer of a replica."""
        return min(self._max_answer_bytes, max_bytes(path))

    async def get(
        self,
        target: Target,
        path: str,
        seconds: float,
        *,
        key: ApiKey | None = None,
        last: bool = False,
        etag: str | None = None,
    ) -> Answer:
        """Send one GET to a replica, with the limits of that path; `last` closes the connection afterwards.

        With `etag`, an unchanged answer is not sent again.
        """
        return await self.fetch(
            Endpoint(target.id, path),
            seconds,
            limit=self.limit(path),
            key=grant(target, key) if key else None,
            ca_file=target.credentials.ca_file if target.credentials else None,
            is_named=target.access is not TargetAccess.LISTED,
            headers=[CLOSE] if last else [],
            etag=etag,
        )

    async def fetch(  # the parts of a request
        self,
        endpoint: Endpoint,
        seconds: float,
        *,
        limit: int,
        key: ApiKey | None = None,
        ca_file: Path | None = None,
        trust: ssl.SSLContext | None = None,
        is_named: bool = False,
        headers: Iterable[tuple[bytes, bytes]] = (),
        form: bytes | None = None,
        json: bytes | None = None,
        etag: str | None = None,
    ) -> Answer:
        """Send one GET, answered within `seconds` of the client's clock with at most `limit` bytes.

        With `json` or `form`, the fields of a form as a URL has them, it is a POST. `trust` has the CAs and a client
        certificate. `is_named`: only a source names the address; it is not asked where it is reserved.
        """
        key = key or ApiKey()
        try:
            if endpoint.server.startswith("https://"):
                transport = self._transport(ca_file, trust, is_secure=True, is_named=is_named)
            else:
                transport = self._transport(None, None, is_secure=False, is_named=is_named)
        except OSError:  # also ssl.SSLError, for a file without certificates
            return Answer(failure=failures.ca_unreadable(endpoint, ca_file))
        try:
            url = _parse_url(endpoint.server)  # each once: all replicas have the same paths
            path = _quote(endpoint.path + endpoint.query)
        except (httpx2.InvalidURL, UnicodeError):
            return Answer(failure=failures.no_address(endpoint))
        data = json if form is None else form
        method = "GET" if data is None else "POST"
        # A stream, not `content`: the transport adds Host and Content-Length.
        request = httpx2.Request(
            method,
            url,
            headers=_plain_headers(tuple(headers)),
            stream=httpx2.ByteStream(data or b""),
            extensions={"target": path},
        )
        if key.token is not None:
            request.headers["Authorization"] = f"{key.scheme} {key.token}"
        if etag is not None:
            request.headers["If-None-Match"] = etag
        if data is not None:
            request.headers["Content-Type"] = (
                "application/json" if form is None else "application/x-www-form-urlencoded"
            )
        return await _Exchange(endpoint, key, limit, self._patience, etag).run(transport, request, seconds)

    def _transport(
        self, ca_file: Path | None, trust: ssl.SSLContext | None, *, is_secure: bool, is_named: bool
    ) -> AiohttpTransport:
        """Return the transport that trusts `trust`, `ca_file`, or this machine's CAs; requests alike share it."""
        key = (ca_file, trust, is_secure, is_named)
        if key not in self._transports:
            if trust is None and is_secure:
                trust = load_trust(Trust(ca_file))
            self._transports[key] = AiohttpTransport(
                connections=self._connections, max_headers=self._max_headers, trust=trust, is_named=is_named
            )
        return self._transports[key]


class _Exchange:
    """One request and its response; the part that arrived before a limit is kept."""

    def __init__(self, endpoint: Endpoint, key: ApiKey, limit: int, patience: Patience, etag: str | None) -> None:
        self._endpoint = endpoint
        self._key = key
        self._patience = patience
        self._limit = limit
        self._etag = etag  # of the request, then of the response
        self._status: int | None = None
        self._content_type: str | None = None
        self._retry_after: str | None = None
        self._body: Body | None = None

    async def run(self, transport: AiohttpTransport, request: httpx2.Request, seconds: float) -> Answer:
        try:
            failure = await self._patience.ended(self._sent(transport, request), seconds)
        except TimeoutError:
            failure = failures.timed_out(self._endpoint, seconds, began=self._status is not None)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            failure = failures.of_error(self._endpoint, error, began=self._status is not None)
        body = bytes(self._body.content) if self._body else b""
        etag = None if failure else self._etag
        return Answer(self._status, body, failure, self._content_type, etag, self._retry_after)

    async def _sent(self, transport: AiohttpTransport, request: httpx2.Request) -> Failure | None:
        response = await transport.handle_async_request(request)
        # Not response.aiter_raw and response.aclose, which take a tenth of the time of a request.
        stream = cast("httpx2.AsyncByteStream", response.stream)
        try:
            return await self._read(response, stream)
        finally:
            await stream.aclose()

    async def _read(self, response: httpx2.Response, stream: httpx2.AsyncByteStream) -> Failure | None:
        # Each look-up in httpx2.Headers reads all. Latin-1 decodes all bytes.
        known = ((name.lower(), value) for name, value in response.headers.raw)
        headers = {name: value.decode("latin-1") for name, value in known if name in READ_HEADERS}
        self._status, self._content_type = response.status_code, headers.get(b"content-type")
        self._retry_after = headers.get(b"retry-after")
        if self._status == failures.NOT_MODIFIED and self._etag is not None:
            return None
        etag = headers.get(b"etag", "")
        self._etag = etag if ETAG.fullmatch(etag) else None
        failure = failures.of_status(self._endpoint, self._status, self._key)
        limit = min(self._limit, MAX_ERROR_PAGE_BYTES) if failure else self._limit
        try:
            self._body = Body(headers.get(b"content-encoding", ""), limit)
            async for chunk in stream:
                self._body.feed(chunk)
            self._body.end()
        except UnreadableError as error:
            return failure or failures.bad_body(self._endpoint, error)
        return failure
