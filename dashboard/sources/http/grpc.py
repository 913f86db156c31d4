"""One gRPC call of a replica, with the limits of a GET. Each has a connection of its own: a full poll makes four."""

import asyncio
import re
import socket
import ssl
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx2

from dashboard.errors import UnreadableError
from dashboard.fleet import FailureKind, Target, TargetAccess
from dashboard.sources.http import failures
from dashboard.sources.http.client import Answer, Client
from dashboard.sources.http.credentials import ApiKey, grant_grpc
from dashboard.sources.http.failures import Endpoint, NotConnectedError
from dashboard.sources.http.transport import METADATA_NAMES, Trust, load_trust, open_socket, unreachable

READ_BYTES = 2**14  # at most 1,800 frames


async def call(client: Client, target: Target, port: str, path: str, seconds: float, key: ApiKey) -> Answer:
    """Call the method that the path names, at another port of a replica, within the client's limits.

    The body is a message. The status is HTTP's: 404 where the method is not there.
    """
    scheme, _, address = target.id.partition("://")
    endpoint = Endpoint(f"{scheme}://{address.partition('/')[0].rpartition(':')[0]}:{port}", path)
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 2**16:
        return Answer(failure=failures.no_grpc_port(Endpoint(target.id, path), port))
    ca_file = target.credentials.ca_file if target.credentials else None
    try:
        trust = load_trust(Trust(ca_file, is_http2=True)) if scheme == "https" else None
    except OSError:  # also ssl.SSLError, for a file without certificates
        return Answer(failure=failures.ca_unreadable(endpoint, ca_file))
    is_named = target.access is not TargetAccess.LISTED
    work = _call(endpoint, grant_grpc(target, key), client.limit(path), trust, is_named=is_named)
    try:
        return await client.ended(work, seconds)
    except TimeoutError:
        return Answer(failure=failures.timed_out(endpoint, seconds, began=False))


async def _call(endpoint: Endpoint, key: ApiKey, limit: int, trust: ssl.SSLContext | None, *, is_named: bool) -> Answer:
    try:
        from dashboard.sources.http.unary import UnaryCall  # noqa: PLC0415  h2 is an extra
    except ImportError:
        return Answer(failure=failures.lacks_h2(endpoint))
    unary = UnaryCall(limit)
    try:
        reader, writer = await _connect(endpoint.server, trust, is_named=is_named)
        try:
            writer.write(unary.request(endpoint, key))
            while not unary.has_ended:
                if not (data := await reader.read(READ_BYTES)):
                    raise httpx2.ReadError("closed")
                writer.write(unary.receive(data))
                await writer.drain()
        finally:
            writer.transport.abort()  # nothing is waited for
        return unary.result(endpoint, key)
    except UnreadableError as error:
        return Answer(unary.status, failure=failures.bad_body(endpoint, error))
    except (OSError, httpx2.TransportError) as error:
        failure = failures.of_error(endpoint, error, began=unary.status is not None)
        return Answer(unary.status, failure=failure)


async def _connect(
    server: str, trust: ssl.SSLContext | None, *, is_named: bool
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that accepts; raise httpx2.TransportError. `is_named`: reserved ones are refused."""
    loop, address = asyncio.get_running_loop(), urlsplit(server)
    host = address.hostname or ""
    if is_named and host.rstrip(".") in METADATA_NAMES:
        raise NotConnectedError(FailureKind.TARGET, host)
    try:
        places = await loop.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotConnectedError(FailureKind.DNS) from None
    failure: httpx2.TransportError = NotConnectedError(FailureKind.DNS)
    for place in places:
        try:
            with ExitStack() as closing:
                opened = closing.enter_context(open_socket(place) if is_named else socket.socket(*place[:3]))
                opened.setblocking(False)
                await loop.sock_connect(opened, place[4])
                streams = await asyncio.open_connection(sock=opened, ssl=trust, server_hostname=trust and host)
                closing.pop_all()
                return streams
        except ssl.SSLError as error:
            failure = NotConnectedError(FailureKind.TLS, getattr(error, "verify_message", ""))
        except OSError as error:
            failure = unreachable(error)
    raise failure
