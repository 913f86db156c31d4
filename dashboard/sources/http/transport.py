"""httpx2 over aiohttp's connections, within limits: the only module that imports aiohttp.

httpx2's own pool takes ten times as much processor time per request.
"""

import errno
import ssl
from functools import lru_cache
from typing import Self

import aiohttp
import httpx2
from yarl import URL

from dashboard.fleet import FailureKind
from dashboard.sources.http.failures import HeadersTooLargeError, NotConnectedError
from dashboard.sources.http.reserved import METADATA_NAMES, ReservedAddressError, open_socket

MAX_HEADER_BYTES = 8190  # per header; aiohttp's own default
KNOWN_URLS = 16_384  # of 1 KB: one for each of 5,000 replicas, those of their full polls among them
UNREACHABLE = {
    errno.EHOSTUNREACH: "there is no route to that host",
    errno.ENETUNREACH: "there is no route to that network",
    errno.EMFILE: "this machine has too many files open; raise its limit (ulimit -n)",
}
# aiohttp 3.14 reports these only as text; if it changes, the kind is "protocol".
HEADERS_TOO_LARGE = ("Too many headers", "Got more than")


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends requests of httpx2: no redirects, no cookies, no proxies from the environment.

    The extension `target` of a request is the path, quoted, that follows its URL. Answers stay as they were sent: a
    compressed one is not unpacked.
    """

    def __init__(
        self, *, connections: int, max_headers: int, trust: ssl.SSLContext | None = None, is_named: bool = False
    ) -> None:
        """Open no connection yet. `trust` has the CAs and a client certificate; None: this machine's CAs.

        `is_named`: a source names the addresses; reserved ones are refused.
        """
        self._is_named = is_named
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections, ssl=trust or True, socket_factory=open_socket if is_named else None
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
            max_headers=max_headers,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response once its headers are there; close it after its body, or instead of it.

        Raise httpx2.TransportError, also while the body is read, or httpx2.InvalidURL.
        """
        if self._is_named and request.url.host.rstrip(".") in METADATA_NAMES:
            raise NotConnectedError(FailureKind.TARGET, request.url.host)
        stream = request.stream
        url = str(request.url)
        if path := request.extensions.get("target"):
            url = url.rstrip("/") + path.decode("ascii")
        body = b"".join(stream) if isinstance(stream, httpx2.ByteStream) else await request.aread()
        try:
            response = await self._session.request(
                request.method,
                _to_yarl(url),
                headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
                data=body or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise to_httpx2(error) from error
        answer = httpx2.Response(
            response.status, headers=response.raw_headers, stream=BodyStream(response), request=request
        )
        answer.headers.encoding = "latin-1"  # decodes all bytes; httpx2 would try each header in ASCII and UTF-8 first
        return answer

    async def aclose(self) -> None:
        await self._session.close()


class BodyStream(httpx2.AsyncByteStream):
    """The body of a response, in the pieces that arrive."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def __aiter__(self) -> Self:
        """Return the pieces; no generator, which asyncio would have to end where a body is not read to its end."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        try:
            piece = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise to_httpx2(error) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Give the connection back; close it where the body was not read to its end."""
        self._response.release()
        await self._response.wait_for_close()


@lru_cache(maxsize=KNOWN_URLS)
def _to_yarl(text: str) -> URL:
    """Return the same address: httpx2 has quoted it."""
    return URL(text, encoded=True)


def to_httpx2(error: Exception) -> Exception:
    """Return httpx2's exception for one of aiohttp or below it."""
    made: Exception
    match error:
        case aiohttp.ClientConnectorError():
            made = _not_connected(error)
        case aiohttp.ConnectionTimeoutError():
            made = httpx2.ConnectTimeout(str(error))
        case aiohttp.ClientResponseError() if error.message.startswith(HEADERS_TOO_LARGE):
            made = HeadersTooLargeError(error.message)
        case aiohttp.ClientResponseError():
            made = httpx2.RemoteProtocolError(error.message)
        case ValueError():  # also aiohttp.InvalidURL and UnicodeError
            made = httpx2.InvalidURL(str(error))
        case _:
            made = httpx2.ReadError(str(error))
    return made


def _not_connected(error: aiohttp.ClientConnectorError) -> httpx2.TransportError:
    cause = error.os_error
    match error:
        case aiohttp.ClientConnectorDNSError():
            return NotConnectedError(FailureKind.DNS)
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "no reason given")
            return NotConnectedError(FailureKind.TLS, reason)
        case aiohttp.ClientSSLError():
            return NotConnectedError(FailureKind.TLS)
    if isinstance(cause, ReservedAddressError):
        return NotConnectedError(FailureKind.TARGET, cause.address)
    if cause.errno == errno.ETIMEDOUT:
        return httpx2.ConnectTimeout(str(error))
    return NotConnectedError(FailureKind.REFUSED, UNREACHABLE.get(cause.errno or 0, ""))
