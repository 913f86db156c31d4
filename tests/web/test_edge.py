"""The checks of Host and Origin, the security headers, and Streamlit's page with our styles."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dashboard.access.auth import Auth
from dashboard.config import Options
from dashboard.config.access import AccessOptions
from dashboard.web import edge, server
from dashboard.web.edge import FIRST_SCRIPT, LOOK, with_first_paint
from tests.serving import ask

LISTED = ("fleet.example.com", "*.corp.example.com", "gate.example.com:8443")
MINE = "http://127.0.0.1:8501"
PAGE = Path(st.__file__).with_name("static") / "index.html"


def refusal(
    host: str | None,
    origin: str | None = None,
    *,
    method: str = "GET",
    path: str = "/",
    allowed: Sequence[str] = LISTED,
    is_https: bool = False,
) -> str:
    """Why a request is refused; empty where it is not. The server is bound to the name node-7."""
    headers = {name: value for name, value in (("host", host), ("origin", origin)) if value is not None}
    return edge.refusal(method, path, Headers(headers), edge.AllowedHosts(allowed, "node-7"), is_https=is_https)


def action(name: str) -> str:
    """The action after a refused name."""
    option = f"set allowed_hosts: [{name}] in fleet.yaml (FLEET_ALLOWED_HOSTS={name}) and restart"
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
        "gate.example.com",
        "node-7:8501",
    ],
)
def test_any_address_localhost_and_listed_names_are_allowed_hosts(host: str) -> None:
    assert refusal(host) == ""


@pytest.mark.parametrize("host", ["evil.example", "fleet.example.com.evil.example", "corp.example.com", "0x7f.1", "1"])
def test_any_other_host_is_refused_with_the_option_that_allows_it(host: str) -> None:
    assert refusal(host) == f"Host {host} is not allowed. {action(host)}"


@pytest.mark.parametrize(
    "host", [None, "", "a b", "user@localhost", "localhost/x", "localhost:x", "[localhost]", "a\nb", "http://localhost"]
)
def test_a_malformed_host_is_refused_and_not_repeated(host: str | None) -> None:
    assert refusal(host) == "The Host header is missing or malformed."


def test_two_hosts_are_refused() -> None:
    headers = Headers(raw=[(b"host", b"localhost"), (b"host", b"evil.example")])

    assert edge.refusal("GET", "/", headers, edge.AllowedHosts(), is_https=False) != ""


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_answer_under_any_name(path: str) -> None:
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
        ("http://node-7:8501", "node-7:8501"),
        ("https://fleet.example.com:8443", "fleet.example.com:8443"),
        ("https://fleet.example.com", "127.0.0.1:8501"),
        ("http://fleet.example.com", "127.0.0.1:8501"),
        ("https://fleet.example.com:8501", "127.0.0.1:8501"),
        ("https://gate.example.com:8443", "127.0.0.1:8501"),
    ],
)
def test_an_origin_equal_to_the_host_or_listed_is_accepted(origin: str, host: str, method: str) -> None:
    """A proxy may speak TLS, or pass its own address as Host: then a listed name has the default port or Host's."""
    assert refusal(host, origin, method=method) == ""


@pytest.mark.parametrize(
    ("origin", "host", "entry"),
    [
        ("http://127.0.0.1:3000", "127.0.0.1:8501", "127.0.0.1:3000"),
        ("http://127.0.0.1", "127.0.0.1:8501", "127.0.0.1"),
        ("http://localhost:8501", "localhost", "localhost:8501"),
        ("http://node-7:3000", "node-7:8501", "node-7:3000"),
        ("http://node-7", "node-7:8501", "node-7"),
        ("http://fleet.example.com:3000", "fleet.example.com:8501", "fleet.example.com:3000"),
        ("https://fleet.example.com:8443", "127.0.0.1:8501", "fleet.example.com:8443"),
        ("https://gate.example.com", "127.0.0.1:8501", "gate.example.com"),
        ("http://fleet.example.com:443", "fleet.example.com", "fleet.example.com:443"),
    ],
)
def test_another_port_of_the_same_host_is_another_site(origin: str, host: str, entry: str) -> None:
    """Chromium opens a websocket from a page of any port."""
    for method in ("GET", "POST", ""):
        assert refusal(host, origin, method=method) == (
            f"Origin {origin} differs from the Host of this request: a proxy must forward Host. {action(entry)}"
        )


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8501", "http://fleet.example.com"])
def test_over_tls_the_origin_must_be_https(origin: str) -> None:
    assert refusal("127.0.0.1:8501", origin, is_https=True) == f"Origin {origin} is not https, as this dashboard is."
    assert refusal("127.0.0.1:8501", origin.replace("http", "https"), is_https=True) == ""


def test_an_origin_that_no_entry_can_allow_names_none() -> None:
    assert refusal("127.0.0.1:8501", "http://[::1]:8501") == (
        "Origin http://[::1]:8501 differs from the Host of this request: a proxy must forward Host."
    )


@pytest.mark.parametrize("method", ["GET", "POST", ""])
@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example:8501", "http://localhost:8501"])
def test_a_foreign_origin_is_refused_with_the_option_that_allows_it(origin: str, method: str) -> None:
    entry = origin.partition("://")[2]

    assert refusal("127.0.0.1:8501", origin, method=method) == (
        f"Origin {origin} differs from the Host of this request: a proxy must forward Host. {action(entry)}"
    )


@pytest.mark.parametrize(
    "origin", ["null", "", "127.0.0.1:8501", "file://", "ftp://127.0.0.1:8501", "http://a b", "http://a:0x1"]
)
def test_a_malformed_origin_is_refused(origin: str) -> None:
    """`null` is a sandboxed frame or a file."""
    assert refusal("127.0.0.1:8501", origin) == "The Origin header is malformed."


@pytest.mark.parametrize(("method", "is_refused"), [("GET", 0), ("HEAD", 0), ("POST", 1), ("PUT", 1), ("", 1)])
def test_without_an_origin_only_reading_is_allowed(method: str, is_refused: int) -> None:
    """Browsers send one with every websocket and every change."""
    assert bool(refusal("localhost", method=method)) == is_refused


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("node-7:8501", 200), ("evil.example", 403)])
def test_every_answer_has_the_security_headers_and_the_bound_name_is_allowed(host: str, status: int) -> None:
    anybody = AccessOptions(allow_anonymous="viewer")
    guard = edge.middleware(Options(access=anybody), lambda: "Node-7", PAGE)
    answer = ask(Starlette(routes=server.routes(), middleware=[guard]), "/metrics", headers={"host": host})

    assert answer.status_code == status
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


def test_sites_that_may_embed_pages_are_in_the_policy() -> None:
    headers = edge.security_headers(["'self'", "https://wiki.example.com"])

    assert headers["Content-Security-Policy"].endswith("frame-ancestors 'self' https://wiki.example.com")
    assert "X-Frame-Options" not in headers


def test_only_inline_scripts_of_the_page_may_run() -> None:
    policy = edge.security_headers(page="<script>\n a = 1\n</script><script src=x></script>")["Content-Security-Policy"]

    assert "script-src 'self' blob: 'sha256-HGhYatulGgL/ZLTGXJR7yhMjGpABuXcl0CcsqyflceA='" in policy
    assert "unsafe" not in policy.replace("style-src 'self' 'unsafe-inline'", "")


def test_streamlit_gets_no_origin() -> None:
    """It would look up its own name to check the Origin."""
    seen: list[Any] = []

    async def app(scope: Any = None, *_: Any) -> Any:
        seen.append(sorted(scope["headers"]))

    sent = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": sent, "client": ("10.0.0.7", 1234)}

    async def call() -> None:
        await edge.guarded(app, edge.AllowedHosts(), {}, Auth(AccessOptions))(scope, app, app)

    asyncio.run(call())

    assert seen == [[(b"host", b"localhost")]]


@pytest.mark.parametrize("origin", [(), ((b"origin", b"http://localhost"),)])
def test_only_a_request_with_an_origin_asks_whether_the_browser_speaks_https(origin: tuple[Any, ...]) -> None:
    asked: list[str] = []

    def options() -> AccessOptions:
        asked.append("options")
        return AccessOptions()

    async def app(*_: Any) -> None:
        pass

    async def call() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost"), *origin]}
        await edge.guarded(app, edge.AllowedHosts(), {}, Auth(options))(scope, app, app)  # type: ignore[arg-type]

    asyncio.run(call())

    assert bool(asked) == bool(origin)


INDEX = '<html><head></head><body><div id="root"></div></body></html>'
BROWSER = {"accept": "text/html,*/*;q=0.8"}
SCRIPTS = ("Html.A1.js", "BidiComponent.B2.js", "PlotlyChart.C3.js")


async def page(request: Request) -> Response:
    if "if-none-match" in request.headers:
        return Response(status_code=304)
    return HTMLResponse(INDEX, headers={"etag": '"of-streamlit"'})


async def report(request: Request) -> Response:
    return HTMLResponse("<html><body>a report</body></html>", headers={"seen": request.headers.get("range", "")})


def get_page(path: str, headers: Mapping[str, str]) -> httpx2.Response:
    app = with_first_paint(Starlette(routes=[Route("/report", report), Route("/{any}", page)]), INDEX, SCRIPTS)
    return ask(app, path, headers={"accept-encoding": "identity", **headers})


@pytest.mark.parametrize("encoding", ["identity", "gzip, br"])
def test_the_page_has_the_styles_and_preloads_what_every_page_needs(encoding: str) -> None:
    answer = get_page("/findings", {**BROWSER, "accept-encoding": encoding})

    assert (
        f'<body><script>{FIRST_SCRIPT}</script><link rel="modulepreload" crossorigin href="./static/js/{SCRIPTS[0]}">'
        in (answer.text)
    )
    assert f"<style>{LOOK}</style><div" in answer.text
    assert SCRIPTS[1] in answer.text
    assert SCRIPTS[2] not in answer.text
    assert SCRIPTS[2] in get_page("/capacity", BROWSER).text
    assert ("content-encoding" in answer.headers) is ("gzip" in encoding)
    assert answer.headers["vary"] == "Accept-Encoding"


def test_a_cached_page_is_never_confirmed_because_its_styles_may_have_changed() -> None:
    answer = get_page("/findings", {**BROWSER, "if-none-match": '"of-streamlit"'})

    assert answer.status_code == 200
    assert LOOK in answer.text
    assert "etag" not in answer.headers


@pytest.mark.parametrize(("path", "headers"), [("/report", BROWSER), ("/findings", {"accept": "*/*"})])
def test_another_answer_is_passed_on(path: str, headers: Mapping[str, str]) -> None:
    answer = get_page(path, {**headers, "accept-encoding": "gzip"})

    assert "<style>" not in answer.text
    assert "content-encoding" not in answer.headers
