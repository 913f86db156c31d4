"""One GET, within limits: the only module that knows httpx. Every way to fail becomes a `Failure`."""

import ssl
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from dashboard import __version__
from dashboard.fleet import Failure, Target
from dashboard.sources.polling import failures
from dashboard.sources.polling.credentials import Key
from dashboard.sources.polling.decoding import Body, BodyEncodingError, BodyTooLargeError
from dashboard.sources.polling.failures import Asked
from dashboard.sources.polling.patience import Patience
from dashboard.vllm.reading import budget_of

# Packing 50 KB costs the API server of a busy vLLM more than sending them, and what is not packed is no bomb.
HEADERS = (
    (b"User-Agent", f"vllm-fleet-dashboard/{__version__}".encode()),
    (b"Accept", b"*/*"),
    (b"Accept-Encoding", b"identity"),
)
CLOSE = (b"Connection", b"close")
# An error page is only shown, never read: its beginning is enough.
MAX_ERROR_PAGE_BYTES = 16 * 2**10
NO_KEY = Key()


class Answer(NamedTuple):
    """What came back from one GET. `body` is decoded, and cut where a limit ended it."""

    status: int | None = None
    body: bytes = b""
    failure: Failure | None = None


class Client:
    """An HTTP client for the time of one poll.

    It speaks through httpx's transport alone, without `httpx.AsyncClient` around it: so there is nothing that follows
    a redirect, keeps a cookie or looks into the environment, and a request costs a third less.
    """

    def __init__(self, *, connections: int, max_answer_bytes: int, max_headers: int, max_header_bytes: int) -> None:
        self._connections = connections
        self._max_answer_bytes = max_answer_bytes
        self._max_headers = max_headers
        self._max_header_bytes = max_header_bytes
        self._patience = Patience()
        self._opened = AsyncExitStack()
        self._transports: dict[tuple[bool, Path | None], httpx.AsyncBaseTransport] = {}

    async def __aenter__(self) -> Self:
        """Open nothing yet: the first target that needs a connection does."""
        self._patience.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        self._patience.stop()
        await self._opened.aclose()

    def time(self) -> float:
        """Return seconds of a clock that pauses while the event loop is busy with something else."""
        return self._patience.time()

    async def get(self, target: Target, path: str, seconds: float, *, key: Key = NO_KEY, last: bool = False) -> Answer:
        """Ask `target` for `path`, all of it within `seconds`; with `last` the connection is closed afterwards.

        Seconds in which the event loop was busy with something else do not count.
        """
        asked = Asked(target.id, path)
        secure = target.id.startswith("https://")
        ca_file = target.credentials.ca_file if secure and target.credentials else None
        try:
            transport = await self._transport(secure=secure, ca_file=ca_file)
        except OSError:  # also ssl.SSLError, for a file that holds no certificate
            return Answer(failure=failures.ca_unreadable(asked, ca_file))
        headers = [*HEADERS, CLOSE] if last else list(HEADERS)
        if key.token is not None:
            headers.append((b"Authorization", b"Bearer " + key.token.encode("ascii")))
        try:
            request = httpx.Request("GET", httpx.URL(target.id + path), headers=headers)
        except httpx.InvalidURL:
            return Answer(failure=failures.no_address(asked))
        limit = min(self._max_answer_bytes, budget_of(path).max_bytes)
        return await _Exchange(asked, key, limit, self._patience).run(transport, request, seconds)

    async def _transport(self, *, secure: bool, ca_file: Path | None) -> httpx.AsyncBaseTransport:
        """Return the transport that trusts `ca_file`, or this machine's own CAs; reading those takes 50 ms."""
        if (secure, ca_file) not in self._transports:
            trust = ssl.create_default_context(cafile=ca_file) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            transport = AiohttpTransport(verify=trust, trust_env=False, client=lambda: self._session(trust))
            self._transports[secure, ca_file] = await self._opened.enter_async_context(transport)
        return self._transports[secure, ca_file]

    def _session(self, trust: ssl.SSLContext) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=trust),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_headers=self._max_headers,
            max_line_size=self._max_header_bytes,
            max_field_size=self._max_header_bytes,
        )


class _Exchange:
    """One request and its response; what has arrived when a limit strikes is kept."""

    def __init__(self, asked: Asked, key: Key, limit: int, patience: Patience) -> None:
        self._asked = asked
        self._key = key
        self._patience = patience
        self._limit = limit
        self._status: int | None = None
        self._body: Body | None = None

    async def run(self, transport: httpx.AsyncBaseTransport, request: httpx.Request, seconds: float) -> Answer:
        try:
            async with (
                self._patience.timeout(seconds),
                aclosing(await transport.handle_async_request(request)) as response,
            ):
                failure = await self._read(response)
        except TimeoutError:
            failure = failures.timed_out(self._asked, seconds, began=self._status is not None)
        except httpx.HTTPError as error:
            failure = failures.of_error(self._asked, error.__cause__ or error)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # what the transport lets through
            failure = failures.of_error(self._asked, error)
        return Answer(self._status, bytes(self._body.content) if self._body else b"", failure)

    async def _read(self, response: httpx.Response) -> Failure | None:
        self._status = response.status_code
        failure = failures.of_status(self._asked, self._status, self._key)
        limit = min(self._limit, MAX_ERROR_PAGE_BYTES) if failure else self._limit
        try:
            self._body = Body(response.headers.get("Content-Encoding", ""), limit)
            async for chunk in response.aiter_raw():
                self._body.feed(chunk)
            self._body.end()
        except BodyTooLargeError:
            return failure or failures.too_large(self._asked, self._limit)
        except BodyEncodingError as error:
            return failure or failures.badly_encoded(self._asked, str(error))
        return failure
