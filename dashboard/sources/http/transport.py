"""httpx2 over aiohttp's connections, within limits: the only module that imports aiohttp.

httpx2's own pool takes ten times as much processor time per request. A TLS context is one in this process for the same
files: loading the CAs of a machine takes 50 ms of processor time.
"""

import errno
import socket
import ssl
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple, Self

import aiohttp
import httpx2
from yarl import URL

from dashboard.fleet import FailureKind
from dashboard.sources.http.failures import HeadersTooLargeError, NotConnectedError

MAX_HEADER_BYTES = 8190  # per header; aiohttp's own default
UNREACHABLE = {
    errno.EHOSTUNREACH: "there is no route to that host",
    errno.ENETUNREACH: "there is no route to that network",
    errno.EMFILE: "this machine has too many files open; raise its limit (ulimit -n)",
}
# aiohttp 3.14 reports these only as text; if it changes, the kind is "protocol".
HEADERS_TOO_LARGE = ("Too many headers", "Got more than")
MOST_CONTEXTS = 32  # that are kept: one per CA file, one per kubeconfig
# Addresses that no source may name: link-local ones, and those where clouds hand out credentials. They are checked when
# a connection opens, on the address that DNS gave: a name can change its address after a check.
METADATA_NAMES = ("metadata.google.internal", "metadata.goog")
METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        (
            "fd00:ec2::254",  # AWS; its IPv4 address is link-local, as those of Google and Azure
            "fd20:ce::254",  # Google
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure's host agent
            "192.0.0.192",  # Oracle
        ),
    )
)
NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: its last 32 bits are an IPv4 address
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]


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
                URL(url, encoded=True),  # httpx2 has quoted it
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
    match error:
        case aiohttp.ClientConnectorDNSError():
            return NotConnectedError(FailureKind.DNS)
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "no reason given")
            return NotConnectedError(FailureKind.TLS, reason)
        case aiohttp.ClientSSLError():
            return NotConnectedError(FailureKind.TLS)
    return unreachable(error.os_error)


def unreachable(cause: OSError) -> httpx2.TransportError:
    """Return httpx2's exception for a connection that cannot be opened."""
    if isinstance(cause, ReservedAddressError):
        return NotConnectedError(FailureKind.TARGET, cause.address)
    if cause.errno == errno.ETIMEDOUT:
        return httpx2.ConnectTimeout(str(cause))
    return NotConnectedError(FailureKind.REFUSED, UNREACHABLE.get(cause.errno or 0, ""))


class ReservedAddressError(OSError):
    """A connection to a reserved address was not opened."""

    def __init__(self, address: str) -> None:
        # One text for all: of other errors of several addresses aiohttp makes a new one.
        super().__init__("reserved address")
        self.address = address


def is_reserved(address: str) -> bool:
    """Return whether an IP address is link-local or that of a cloud's metadata; raise ValueError for another text."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or (IPv4Address(int(ip) & 2**32 - 1) if ip in NAT64 else ip)
    return ip.is_link_local or ip in METADATA_ADDRESSES


def open_socket(info: AddressInfo) -> socket.socket:
    """Return a socket for an address of `getaddrinfo`; raise ReservedAddressError for a reserved one."""
    family, kind, protocol, _, place = info
    if is_reserved(address := str(place[0])):
        raise ReservedAddressError(address)
    return socket.socket(family, kind, protocol)


class Trust(NamedTuple):
    """The CAs that are trusted, this machine's where none is given, and the certificate that is shown to a server.

    `ca_data` is PEM text. `pair` is a certificate and its key, PEM, in place of the files. `is_http2`: it
    is offered by ALPN.
    """

    ca_file: Path | None = None
    ca_data: str = ""
    is_checked: bool = True
    certificate: Path | None = None
    key: Path | None = None
    pair: bytes = b""
    is_http2: bool = False

    @property
    def files(self) -> tuple[Path | str | None, ...]:
        """Return the files that a context is loaded from; None for those that are not given."""
        machine = ssl.get_default_verify_paths()
        cas = (self.ca_file,) if self.ca_file or self.ca_data else (machine.cafile, machine.capath)
        return (*cas, self.certificate, self.key)


FileState = tuple[int, ...] | None


def load_trust(trust: Trust) -> ssl.SSLContext:
    """Return the context, loaded again only where a file changed; it is shared, so do not change it.

    Raise OSError (also ssl.SSLError) or ValueError for what cannot be read as PEM.
    """
    return _load(trust, tuple(map(_state, trust.files)))  # states first: a file that changes meanwhile is loaded again


def _state(file: Path | str | None) -> FileState:
    """Return what changes with a file's content; None where there is none."""
    if file is None:
        return None
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=MOST_CONTEXTS)
def _load(trust: Trust, _states: tuple[FileState, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trust.ca_file, cadata=trust.ca_data or None)
    if not trust.is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if trust.is_http2:
        context.set_alpn_protocols(["h2"])
    if trust.certificate:
        context.load_cert_chain(trust.certificate, trust.key)
    elif trust.pair:  # Python's ssl reads files only: data goes through a private one
        with NamedTemporaryFile(prefix="kubeconfig-") as private:
            private.write(trust.pair)
            private.flush()
            context.load_cert_chain(private.name)
    return context
