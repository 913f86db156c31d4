"""Host, Origin and headers: what is decided before Streamlit sees a request."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware

from dashboard.config import Options
from dashboard.web import edge, server

LISTED = ("fleet.example.com", "*.corp.example.com")
MINE = "http://127.0.0.1:8501"


def refusal(
    host: str | None,
    origin: str | None = None,
    *,
    method: str = "GET",
    path: str = "/",
    allowed: Sequence[str] = LISTED,
) -> str:
    """Why a request is refused; nothing where it is not."""
    headers = {name: value for name, value in (("host", host), ("origin", origin)) if value is not None}
    return str(edge.refusal(method, path, Headers(headers), allowed) or "")


def cure(name: str) -> str:
    """What to do where a name is refused."""
    option = f"set allowed_hosts: [{name}] in the options (FLEET_ALLOWED_HOSTS={name}) and restart"
    return f"If {name} is a name of this dashboard, {option}."


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8501",
        "127.0.0.1:8501",
        "10.0.0.7",
        "[::1]:8501",
        "[2001:db8::7]",
        "fleet.example.com",
        "FLEET.example.com.:8443",
        "a.corp.example.com",
    ],
)
def test_an_address_localhost_and_what_is_listed_may_be_the_host(host: str) -> None:
    assert refusal(host) == ""


@pytest.mark.parametrize("host", ["evil.example", "fleet.example.com.evil.example", "corp.example.com", "0x7f.1", "1"])
def test_any_other_name_is_refused_with_the_option_that_allows_it(host: str) -> None:
    assert refusal(host) == f"Host {host} is not allowed. {cure(host)}"


@pytest.mark.parametrize(
    "host", [None, "", "a b", "user@localhost", "localhost/x", "localhost:x", "[localhost]", "a\nb", "http://localhost"]
)
def test_what_is_no_host_is_refused_and_not_repeated(host: str | None) -> None:
    assert refusal(host) == "The Host header is missing or malformed."


def test_two_hosts_are_none() -> None:
    headers = Headers(raw=[(b"host", b"localhost"), (b"host", b"evil.example")])

    assert edge.refusal("GET", "/", headers, ()) is not None


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_are_answered_under_every_name(path: str) -> None:
    assert refusal("dashboard.monitoring.svc", path=path) == ""
    assert refusal(None, path=path) == ""


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", ""])
@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (MINE, "127.0.0.1:8501"),
        ("https://127.0.0.1:8501", "127.0.0.1:8501"),
        ("https://fleet.example.com", "fleet.example.com"),
        ("https://fleet.example.com", "fleet.example.com:443"),
        ("http://[::1]:8501", "[::1]:8501"),
        ("https://fleet.example.com:8443", "127.0.0.1:8501"),
    ],
)
def test_an_origin_that_is_the_host_or_listed_is_accepted(origin: str, host: str, method: str) -> None:
    """A proxy may speak TLS, or pass its own address as Host."""
    assert refusal(host, origin, method=method) == ""


@pytest.mark.parametrize("method", ["GET", "POST", ""])
@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:8501", "http://127.0.0.1:3000"])
def test_a_foreign_origin_is_refused_with_the_option_that_allows_it(origin: str, method: str) -> None:
    host = origin.removeprefix("http://").partition(":")[0]

    assert refusal("127.0.0.1:8501", origin, method=method) == (
        f"Origin {host} is not the Host of this request; a proxy has to pass the Host on. {cure(host)}"
    )


@pytest.mark.parametrize("origin", ["null", "", "127.0.0.1:8501", "file://", "ftp://127.0.0.1:8501", "http://a b"])
def test_an_origin_that_is_no_http_site_is_refused(origin: str) -> None:
    """`null` is a sandboxed frame or a file."""
    assert refusal("127.0.0.1:8501", origin) == "The Origin header names no http site."


def test_without_an_origin_only_reading_is_allowed() -> None:
    """Every browser sends one with a websocket and with what changes something."""
    assert {method: refusal("localhost", method=method) != "" for method in ("GET", "HEAD", "POST", "PUT", "")} == {
        "GET": False,
        "HEAD": False,
        "POST": True,
        "PUT": True,
        "": True,
    }


def ask(sent: Mapping[str, str], *, path: str = "/livez", **options: Any) -> httpx.Response:
    app = Starlette(routes=server.routes(), middleware=[Middleware(edge.Edge, **options)])

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get(path, headers=sent)

    return asyncio.run(asked())


@pytest.mark.parametrize("headers", [{}, {"host": "evil.example"}])
def test_every_answer_has_the_security_headers(headers: Mapping[str, str]) -> None:
    answer = ask(headers, path="/metrics")

    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


def test_sites_that_may_embed_are_named_in_place_of_none() -> None:
    answer = ask({}, headers=edge.security_headers(["'self'", "https://wiki.example.com"]))

    assert answer.headers["content-security-policy"].endswith("frame-ancestors 'self' https://wiki.example.com")
    assert "x-frame-options" not in answer.headers


def test_only_the_scripts_of_the_page_itself_may_run_inside_html() -> None:
    policy = edge.security_headers(page="<script>\n a = 1\n</script><script src=x></script>")["Content-Security-Policy"]

    assert "script-src 'self' blob: 'sha256-HGhYatulGgL/ZLTGXJR7yhMjGpABuXcl0CcsqyflceA='" in policy
    assert "unsafe" not in policy.replace("style-src 'self' 'unsafe-inline'", "")


def test_streamlit_gets_no_origin_and_the_true_peer() -> None:
    """Streamlit would look up its own address to judge the Origin; what a visitor claims to be is dropped."""
    seen: list[Any] = []

    async def app(scope: Any = None, *_: Any) -> Any:
        seen.append(sorted(scope["headers"]))

    sent = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"x-fleet-peer", b"192.0.2.1")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": sent, "client": ("10.0.0.7", 1234)}
    asyncio.run(edge.Edge(app)(scope, app, app))

    assert seen == [[(b"host", b"localhost"), (b"x-fleet-peer", b"10.0.0.7")]]


def test_the_name_that_the_server_binds_is_allowed() -> None:
    app = Starlette(routes=server.routes(), middleware=[edge.middleware(Options(), lambda: "Node-7", "")])

    async def asked(host: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return (await client.get("/metrics", headers={"host": host})).status_code

    assert [asyncio.run(asked(host)) for host in ("node-7:8501", "node-8:8501")] == [200, 403]


def test_a_refusal_is_logged_once_a_minute_and_a_flood_of_names_is_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = [1000.0]

    async def nothing(*_: Any) -> Any: ...

    guard = edge.Edge(nothing, clock=lambda: clock[0])

    def send(*names: str) -> None:
        for name in names:
            scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", name.encode())]}
            asyncio.run(guard(scope, nothing, nothing))

    send("evil.example", "evil.example")
    assert caplog.messages == [f"403: Host evil.example is not allowed. {cure('evil.example')}"]
    send(*(f"evil-{number}" for number in range(200)))
    assert len(caplog.messages) == edge.MOST_LOGGED
    clock[0] += edge.REPEAT_SECONDS
    send("evil.example")
    assert len(caplog.messages) == edge.MOST_LOGGED + 1
