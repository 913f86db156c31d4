"""The gate: who a request is from, which requests pass, and what others are answered."""

import asyncio
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket

from dashboard.access import audit, gate
from dashboard.access.gate import Gate, address_mistake
from dashboard.access.visitor import UNKNOWN_VISITOR, VISITOR_HEADER, Means, Visitor
from dashboard.config.access import AccessOptions, AccessRole
from tests.serving import ask

TOKEN = "fleet_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
PROXIED = {"mode": "proxy", "trusted_proxies": ["10.0.0.0/8"], "roles": {"viewer": ["*"]}}


def entry(role: str = "viewer", text: str = TOKEN, **more: Any) -> dict[str, Any]:
    return {"name": "ci", "role": role, "sha256": sha256(text.encode()).hexdigest(), **more}


def bearer(text: str = TOKEN) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


async def who(request: Request) -> Response:
    """The visitor that pages and routes get."""
    return PlainTextResponse("|".join(request.headers.getlist(VISITOR_HEADER)))


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    async with asyncio.timeout(10):  # else a test of one that must end would wait for ever
        async for text in websocket.iter_text():
            await websocket.send_text(text)


def gated(options: Mapping[str, Any], address: str = "127.0.0.1") -> Starlette:
    """An app behind the gate; `options` may change while it runs."""
    guard = Middleware(Gate, lambda: AccessOptions.model_validate(options), address)
    methods = ["GET", "HEAD", "POST", "PUT"]
    routes = [WebSocketRoute("/_stcore/stream", echo), Route("/{path:path}", who, methods=methods)]
    return Starlette(routes=routes, middleware=[guard])


def visitor_of(answer: httpx2.Response) -> Visitor:
    return Visitor.from_header(answer.text)


def test_on_loopback_everybody_is_admin() -> None:
    visitor = visitor_of(ask(gated({}), "/"))

    assert (visitor.means, visitor.role(AccessOptions())) == (Means.NOBODY, AccessRole.ADMIN)


def test_on_another_address_everybody_has_the_role_of_allow_anonymous_and_nobody_without_it() -> None:
    """A reload may take it away while the server runs."""
    options: dict[str, Any] = {"allow_anonymous": "viewer"}
    app = gated(options, "0.0.0.0")
    assert visitor_of(ask(app, "/")).fixed is AccessRole.VIEWER

    options.clear()
    assert ask(app, "/").status_code == 401


@pytest.mark.parametrize("mode", ["proxy", "oidc"])
def test_with_a_sign_in_nobody_is_admin_on_loopback(mode: str) -> None:
    oidc = {"issuer": "https://login.example.com", "client_id": "fleet"}
    app = gated({**PROXIED, "trusted_proxies": ["10.0.0.0/8"], "mode": mode, "oidc": oidc}, "127.0.0.1")

    assert ask(app, "/api/v1/fleet").status_code == 401


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_option(address: str) -> None:
    assert address_mistake(AccessOptions(), address) == ""


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.7", "node-7", "127.0.0.1.example.com", ""])
def test_another_address_needs_a_mode_or_allow_anonymous(address: str) -> None:
    assert "FLEET_ACCESS__ALLOW_ANONYMOUS=viewer" in address_mistake(AccessOptions(), address)
    assert address_mistake(AccessOptions.model_validate({"allow_anonymous": "viewer"}), address) == ""
    assert address_mistake(AccessOptions.model_validate(PROXIED), address) == ""


def test_a_visitor_that_a_client_claims_is_dropped() -> None:
    claimed = Visitor("eve", Means.OIDC, fixed=AccessRole.ADMIN).to_header()
    app = gated({"allow_anonymous": "viewer"}, "0.0.0.0")

    answer = ask(app, "/", headers={VISITOR_HEADER: claimed})

    assert "eve" not in answer.text
    assert ask(app, "/livez", headers={VISITOR_HEADER: claimed}).text == ""


def test_a_visitor_is_the_same_after_the_header() -> None:
    visitor = Visitor("Zoë", Means.OIDC, frozenset({"sre", "ü"}), "s1", None, "::1")

    assert visitor.to_header().isascii()
    assert Visitor.from_header(visitor.to_header()) == visitor


def test_a_token_is_another_author_than_a_person_of_its_name() -> None:
    """Else whoever has the token could rename and undo what that person did."""
    person, proxied = (Visitor("ann", means).author for means in (Means.OIDC, Means.PROXY))
    assert (person, proxied) == ("ann", "ann"), "one person, whichever way the dashboard knows"
    assert Visitor("ann", Means.BEARER).author == "ann (token)"


def test_a_page_without_a_connection_has_no_role_even_where_everybody_has() -> None:
    assert UNKNOWN_VISITOR.role(AccessOptions.model_validate(PROXIED)) is None


def test_a_token_has_its_name_and_its_role() -> None:
    visitor = visitor_of(
        ask(gated({**PROXIED, "tokens": [entry("editor")]}, "0.0.0.0"), "/api/v1/fleet", headers=bearer())
    )

    assert (visitor.name, visitor.means, visitor.fixed) == ("ci", Means.BEARER, AccessRole.EDITOR)


@pytest.mark.parametrize(
    "headers",
    [bearer("fleet_b"), bearer(""), bearer(TOKEN[:-1]), bearer(f"{TOKEN}a"), bearer(TOKEN.upper())],
)
def test_a_wrong_token_is_refused_even_where_nobody_needs_one(headers: Mapping[str, str]) -> None:
    answer = ask(gated({"tokens": [entry()]}), "/api/v1/fleet", headers=headers)

    assert answer.status_code == 401
    assert answer.json() == {"detail": "Unauthorized: the token is unknown."}
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_audit_log_has_no_role_for_somebody_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """Who signed in is viewer here, but nobody did."""
    client = TestClient(gated({**PROXIED, "tokens": [entry()]}, "0.0.0.0"), client=("192.0.2.77", 1))
    client.get("/", headers=bearer("wrong"))

    line = json.loads(capsys.readouterr().err.splitlines()[0])
    assert (line["audit"], line["visitor"], line["client"]) == ("token", "unknown", "192.0.2.77")
    assert "role" not in line


def test_a_token_in_a_url_and_a_forged_cookie_are_refusals_once_a_minute_for_each_client(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "refusals", audit.RecentKeys())
    for client in ("192.0.2.77", "192.0.2.78"):
        browser = TestClient(gated({**PROXIED, "tokens": [entry()]}, "0.0.0.0"), client=(client, 1))
        for _ in range(3):
            assert browser.get(f"/api/v1/fleet?next={TOKEN}").status_code == 400
            assert browser.get(f"/{TOKEN}").status_code == 400
            assert browser.get("/compare", headers={"cookie": "fleet_session=ImlkIg.forged"}).status_code == 401

    said = capsys.readouterr().err
    lines = [json.loads(each) for each in said.splitlines()]
    assert TOKEN not in said
    assert [(each["audit"], each["request"]) for each in lines if each["client"] == "192.0.2.78"] == [
        ("token_in_url", "GET /api/v1/fleet"),
        ("session", "GET /compare"),
        ("sign_in", "GET /compare"),
    ]
    assert len(lines) == 6
    assert audit.refusals.counts == {"token_in_url": 12, "session": 6, "sign_in": 6}, "each of them"


def test_the_audit_log_has_the_role_of_who_is_refused_and_the_owner_of_an_expired_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "refusals", audit.RecentKeys())
    ask(gated({"tokens": [entry()]}, "0.0.0.0"), "/x", "POST", headers=bearer())
    ask(gated({"tokens": [entry("editor", expires="2020-01-01")]}, "0.0.0.0"), "/", headers=bearer())
    ask(gated({"tokens": []}, "0.0.0.0"), "/", headers=bearer())

    lines = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    assert [(each["audit"], each["visitor"], each.get("role")) for each in lines] == [
        ("access", "ci", "viewer"),
        ("token", "ci", "editor"),
        ("token", "unknown", None),
    ]
    assert all(each["client"] for each in lines)


def test_two_authorization_headers_are_refused() -> None:
    sent = [(b"host", b"localhost"), *[(b"authorization", b"Bearer " + TOKEN.encode())] * 2]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": sent, "query_string": b""}
    seen: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        seen.append(message)

    asyncio.run(gated({"tokens": [entry()]})(scope, receive, send))

    assert seen[0]["status"] == 401


def test_a_token_expires_at_the_end_of_its_day() -> None:
    expired = ask(gated({"tokens": [entry(expires="2020-01-01")]}), "/api/v1/fleet", headers=bearer())
    assert (expired.status_code, expired.json()["detail"]) == (401, "Unauthorized: token ci expired on 2020-01-01.")
    assert ask(gated({"tokens": [entry(expires="2999-01-01")]}), "/", headers=bearer()).status_code == 200


def test_a_signed_token_of_a_proxy_is_none_of_ours() -> None:
    """oauth2-proxy passes the ID token on, where it is set up so."""
    assert ask(gated({}), "/", headers=bearer("aa.bb.cc")).status_code == 200


def test_a_browser_gets_a_page_and_a_program_json() -> None:
    app = gated(PROXIED, "0.0.0.0")
    page = ask(app, "/compare", headers={"accept": "text/html,*/*;q=0.8"})
    document = ask(app, "/api/v1/fleet", headers={"accept": "*/*"})

    assert (page.status_code, document.status_code) == (401, 401)
    assert page.headers["content-type"].startswith("text/html")
    assert "<h1>Unauthorized</h1><p>Sign in at the proxy.</p>" in page.text
    assert document.json()["detail"].endswith("Programs send Authorization: Bearer with a token of access.tokens.")
    assert page.headers["cache-control"] == document.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_probes_are_open_to_everybody(path: str) -> None:
    assert ask(gated(PROXIED, "0.0.0.0"), path).status_code == 200


@pytest.mark.parametrize("path", ["/livez/", "//livez", "/livez/x", "/LIVEZ", "/x/livez", "/auth/livez"])
def test_what_only_looks_like_a_probe_is_not_open(path: str) -> None:
    assert ask(gated(PROXIED, "0.0.0.0"), path).status_code == 401


def test_methods_without_a_route_need_the_highest_role() -> None:
    app = gated({"tokens": [entry("editor")]}, "0.0.0.0")

    assert ask(app, "/x", "POST", headers=bearer()).json() == {
        "detail": "Forbidden: this needs role admin; yours is editor."
    }


def test_the_session_route_tells_pages_who_the_visitor_is() -> None:
    answer = ask(gated({"tokens": [entry()]}), "/auth/session", headers=bearer())

    assert json.loads(answer.text) == {"name": "ci", "means": "token", "role": "viewer", "ends_at": None}


def test_a_websocket_without_a_role_is_denied() -> None:
    client = TestClient(gated(PROXIED, "0.0.0.0"))

    with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect("/_stcore/stream"):
        pass

    assert denied.value.status_code == 401


@pytest.mark.parametrize("change", [{"tokens": []}, {"tokens": [entry("editor")]}], ids=["removed", "another role"])
def test_an_open_websocket_ends_when_its_visitor_changes(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Browsers connect again, and get the new role or none."""
    monkeypatch.setattr(gate, "RECHECK_SECONDS", 0.02)
    options = {**PROXIED, "tokens": [entry()]}
    with TestClient(gated(options, "0.0.0.0")).websocket_connect("/_stcore/stream", headers=bearer()) as websocket:
        websocket.send_text("open")
        assert websocket.receive_text() == "open"
        options.update(change)

        assert websocket.receive() == {"type": "websocket.close", "code": 1008, "reason": "sign-in ended"}
