"""httpx2 over aiohttp: its own client on our transport, against a real server; and its exceptions."""

import asyncio
import errno

import aiohttp
import httpx2
import pytest
from aiohttp.client_reqrep import ConnectionKey

from dashboard.fleet import FailureKind
from dashboard.sources.http.failures import NotConnectedError
from dashboard.sources.http.transport import AiohttpTransport, to_httpx2
from tests.sources.polling.hostile import Exchange, HostileServer, answers, hangs_up

SOMEWHERE = ConnectionKey(
    "10.0.0.7", 8000, is_ssl=False, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


def send(method: str, url: str, body: bytes | None = None) -> httpx2.Response:
    async def run() -> httpx2.Response:
        transport = AiohttpTransport(connections=1, max_headers=100)
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            return await client.request(method, url, content=body)

    return asyncio.run(run())


def not_connected(number: int) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(SOMEWHERE, OSError(number, "text of the system"))


def test_the_client_of_httpx2_sends_and_reads_through_the_transport(server: HostileServer) -> None:
    server.routes["/a"] = answers(b'{"b": 1}', headers=["Content-Type: application/json", "X-A: 1", "X-A: 2"])
    response = send("POST", f"{server.address}/a?q=%20c", b"body")

    (asked,) = server.asked
    assert (asked.path, asked.body, asked.headers["host"]) == ("/a?q=%20c", b"body", f"127.0.0.1:{server.port}")
    assert (response.status_code, response.json()) == (200, {"b": 1})
    assert response.headers.get_list("x-a") == ["1", "2"]


@pytest.mark.parametrize("path", ["/a%2Fb", "/a/%C3%A4", "/a?q=a+b%26c&d=%7B%7D", "/a%20b?x"])
def test_an_address_is_sent_as_it_is_written(server: HostileServer, path: str) -> None:
    send("GET", f"{server.address}{path}")
    assert [asked.path for asked in server.asked] == [path]


def test_an_end_before_or_within_the_body_is_a_read_error(server: HostileServer) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin")
        exchange.close()

    server.routes |= {"/before": hangs_up, "/within": cut}
    for path in server.routes:
        with pytest.raises(httpx2.ReadError):
            send("GET", f"{server.address}{path}")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ECONNREFUSED, ""),
        (errno.EHOSTUNREACH, "there is no route to that host"),
        (errno.EMFILE, "this machine has too many files open; raise its limit (ulimit -n)"),
    ],
)
def test_an_unreachable_server_is_refused_with_a_reason(number: int, reason: str) -> None:
    error = to_httpx2(not_connected(number))

    assert isinstance(error, NotConnectedError)
    assert (error.kind, error.reason) == (FailureKind.REFUSED, reason)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (not_connected(errno.ETIMEDOUT), httpx2.ConnectTimeout),
        (aiohttp.ConnectionTimeoutError(), httpx2.ConnectTimeout),
        (aiohttp.ClientOSError(errno.ECONNRESET, "Connection reset by peer"), httpx2.ReadError),
        (aiohttp.InvalidUrlClientError("http://"), httpx2.InvalidURL),
        (UnicodeError("label too long"), httpx2.InvalidURL),
    ],
)
def test_every_error_becomes_one_of_httpx2(error: Exception, kind: type[Exception]) -> None:
    assert type(to_httpx2(error)) is kind
