"""Mode proxy: whose headers count, what is refused, and the address of the client behind proxies."""

import asyncio
import json

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from dashboard.access import audit, gate, proxy
from dashboard.access.gate import Gate
from dashboard.access.visitor import Means, NotSignedInError, Visitor
from dashboard.config.access import AccessOptions, AccessRole

PROXY, VISITOR = "10.0.0.1", "192.0.2.7"
ROLES = {"admin": ["sre"], "viewer": ["*"]}
ACCESS = AccessOptions.model_validate({"mode": "proxy", "trusted_proxies": ["10.0.0.0/24", "fd00::/8"], "roles": ROLES})
SOCKET = AccessOptions.model_validate({"mode": "proxy", "trusted_proxies": ["unix"], "roles": ROLES})
NAMED = AccessOptions.model_validate({**ACCESS.model_dump(), "roles": {"admin": ["sre"]}})
USER, GROUPS = ("X-Forwarded-User", "ann@example.com"), ("X-Forwarded-Groups", "sre, ml")
addresses = st.ip_addresses().map(str)


def headers(*pairs: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.lower().encode(), value.encode()) for name, value in pairs])


def visitor(*pairs: tuple[str, str], peer: str | None = PROXY, access: AccessOptions = ACCESS) -> Visitor:
    return asyncio.run(proxy.visitor_of(peer, headers(*pairs), access))


def refused(*pairs: tuple[str, str], peer: str | None = PROXY, access: AccessOptions = ACCESS) -> str:
    with pytest.raises(NotSignedInError) as raised:
        visitor(*pairs, peer=peer, access=access)
    return str(raised.value)


def test_name_and_groups_of_a_trusted_proxy_count_and_the_groups_give_the_role() -> None:
    found = visitor(USER, GROUPS)

    assert found == Visitor("ann@example.com", Means.PROXY, frozenset({"sre", "ml"}), client=PROXY)
    assert found.role(ACCESS) is AccessRole.ADMIN
    assert visitor(USER).role(ACCESS) is AccessRole.VIEWER


@pytest.mark.parametrize("peer", ["10.0.1.1", "192.0.2.7", "127.0.0.1", "::1", "", None, "10.0.0.1.example.com"])
def test_headers_of_any_other_peer_are_refused(peer: str | None) -> None:
    assert "is not in access.trusted_proxies" in refused(USER, GROUPS, peer=peer)


@pytest.mark.parametrize("peer", ["10.0.0.255", "::ffff:10.0.0.1", "fd00::1", "fd00::1%eth0"])
def test_a_peer_of_a_trusted_network_counts_in_any_spelling(peer: str) -> None:
    assert visitor(USER, peer=peer).name == "ann@example.com"


def test_a_unix_socket_counts_only_where_it_is_listed() -> None:
    assert visitor(USER, peer=None, access=SOCKET).client == "unix"
    assert refused(USER, peer=PROXY, access=SOCKET).startswith(f"{PROXY} is not in")


@pytest.mark.parametrize("twice", [USER, GROUPS])
def test_a_doubled_header_is_refused(twice: tuple[str, str]) -> None:
    name = twice[0].lower()

    assert refused(USER, GROUPS, (twice[0], "sre")) == (
        f"Header {name} was sent twice. The proxy must replace it, not add to it."
    )


@pytest.mark.parametrize("name", ["", " ", "\t"])
def test_without_a_user_nobody_is_signed_in(name: str) -> None:
    sentence = "The proxy sent no header x-forwarded-user. Sign in at the proxy."

    assert refused(GROUPS) == sentence
    assert refused((USER[0], name), GROUPS) == sentence


@pytest.mark.parametrize("name", ["a\x00b", "ann\u202eb", "a\x85b", "n" * 201])
def test_an_unprintable_or_long_name_is_refused_and_not_repeated(name: str) -> None:
    assert refused((USER[0], name)) == "The name of the user is empty, unprintable or longer than 200 characters."


def test_a_name_is_utf_8() -> None:
    assert visitor((USER[0], "zoë")).name == "zoë"
    latin = Headers(raw=[(b"x-forwarded-user", b"zo\xeb")])
    with pytest.raises(NotSignedInError, match="is not UTF-8"):
        asyncio.run(proxy.visitor_of(PROXY, latin, ACCESS))


def test_a_header_with_underscores_is_no_other_spelling() -> None:
    raw = [(b"x_forwarded_user", b"root"), (b"x-forwarded_groups", b"sre"), (b"host", b"localhost")]

    assert "no header x-forwarded-user" in refused(("X_Forwarded_User", "root"))
    assert proxy.without_underscores(raw) == [(b"host", b"localhost")]


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_no_group_that_the_proxy_did_not_send_gives_a_role(text: str) -> None:
    found = visitor(USER, (GROUPS[0], text))

    assert found.groups == {each.strip() for each in text.split(",")} - {""}
    assert (found.role(ACCESS) is AccessRole.ADMIN) == ("sre" in [each.strip() for each in text.split(",")])


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ([], PROXY),
        ([VISITOR], VISITOR),
        (["198.51.100.9, 192.0.2.7"], VISITOR),
        (["192.0.2.7, 10.0.0.9"], VISITOR),
        (["198.51.100.9", "192.0.2.7"], VISITOR),
        (["192.0.2.7:51000"], VISITOR),
        (["[2001:db8::7]:443"], "2001:db8::7"),
        (["2001:db8::7"], "2001:db8::7"),
        (["10.0.0.8, 10.0.0.9"], "10.0.0.8"),
        (["192.0.2.7, unknown, 10.0.0.9"], "10.0.0.9"),
        (["_hidden"], PROXY),
        (["fe80::1%<script>"], PROXY),
        ([""], PROXY),
        ([f"192.0.2.7,{'10.0.0.9,' * 100}10.0.0.9"], "10.0.0.9"),
    ],
)
def test_the_client_is_the_last_forwarded_address_that_is_no_trusted_proxy(forwarded: list[str], client: str) -> None:
    found = headers(*(("X-Forwarded-For", each) for each in forwarded))

    assert proxy.client_of(PROXY, found, ACCESS) == client


@given(st.lists(addresses, max_size=4), addresses)
def test_nothing_that_a_client_forwards_changes_its_address(claimed: list[str], peer: str) -> None:
    """A proxy appends the peer; an untrusted peer is the client itself."""
    behind = headers(("X-Forwarded-For", ", ".join([*claimed, VISITOR])))
    direct = headers(("X-Forwarded-For", ", ".join(claimed)))

    assert proxy.client_of(PROXY, behind, ACCESS) == VISITOR
    if not proxy.is_trusted(peer, ACCESS.trusted_proxies):
        assert proxy.client_of(peer, direct, ACCESS) == peer


@pytest.mark.parametrize(
    ("scheme", "server", "client", "said", "expected"),
    [
        ("https", ("::", 1), ("192.0.2.7", 1), "http", True),
        ("http", ("::", 1), (PROXY, 1), "https", True),
        ("http", ("::", 1), ("192.0.2.7", 1), "https", False),
        ("http", ("::", 1), (PROXY, 1), "http", False),
        ("http", ("/run/fleet.sock", None), None, "https", True),
        ("http", ("::", 1), None, "https", False),
    ],
)
def test_https_is_that_of_the_server_or_of_a_trusted_proxy(
    scheme: str, server: tuple[str, int | None], client: tuple[str, int] | None, said: str, *, expected: bool
) -> None:
    """Of a TCP connection that was closed meanwhile the server knows no address: it is no unix socket."""
    access = SOCKET if client is None else ACCESS
    scope = {"type": "http", "scheme": scheme, "server": server, "client": client}

    assert proxy.is_https({**scope, "headers": [(b"x-forwarded-proto", said.encode())]}, access) is expected


def asked(*pairs: tuple[str, str], peer: str = PROXY) -> httpx2.Response:
    """Ask an app behind the gate, which answers with the headers that it got."""

    async def repeat(request: Request) -> Response:
        return JSONResponse([*map(list, request.headers.items())])

    async def answered() -> httpx2.Response:
        app = Gate(Starlette(routes=[Route("/api/v1/fleet", repeat)]), lambda: NAMED, "0.0.0.0")
        transport = httpx2.ASGITransport(app, client=(peer, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/api/v1/fleet", headers=[*pairs])

    return asyncio.run(answered())


def test_the_gate_passes_the_visitor_on_and_no_header_that_could_be_read_as_another() -> None:
    forged = [("X-Fleet-Visitor", "{}"), ("x_fleet_visitor", "{}"), ("X_Forwarded_User", "root")]
    answer = asked(USER, GROUPS, ("X-Forwarded-For", VISITOR), *forged)
    found = [value for name, value in answer.json() if name.replace("_", "-") == "x-fleet-visitor"]

    assert [Visitor.from_header(each) for each in found] == [
        Visitor("ann@example.com", Means.PROXY, frozenset({"sre", "ml"}), client=VISITOR)
    ]
    assert "root" not in answer.text


@pytest.mark.parametrize(
    ("pairs", "peer", "status", "reason"),
    [
        ([USER, GROUPS], VISITOR, 401, f"{VISITOR} is not in access.trusted_proxies."),
        ([], PROXY, 401, "The proxy sent no header x-forwarded-user."),
        ([USER, USER, GROUPS], PROXY, 401, "Header x-forwarded-user was sent twice."),
        ([USER], PROXY, 403, "No role for ann@example.com."),
        ([USER, (GROUPS[0], "sre ml")], PROXY, 403, "No role for ann@example.com."),
    ],
)
def test_visitors_get_one_plain_sentence_and_the_log_why_and_which_request(
    pairs: list[tuple[str, str]],
    peer: str,
    status: int,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "refusals", audit.RecentKeys())
    answer = asked(*pairs, peer=peer)
    (line,) = (json.loads(each) for each in capsys.readouterr().err.splitlines() if '"audit"' in each)

    assert answer.status_code == status
    hint = "Programs send Authorization: Bearer with a token of access.tokens."
    plain = {401: f"Unauthorized: sign in at the proxy. {hint}", 403: f"Forbidden: {line['reason']}"}
    assert answer.json()["detail"] == plain[status]
    assert (line["result"], line["means"], line["client"]) == ("refused", "proxy", peer)
    assert line["reason"].startswith(reason)
    assert line["request"] == "GET /api/v1/fleet"


def test_sign_out_leads_to_the_proxy_and_so_does_the_page_of_who_has_no_role() -> None:
    out = {**ACCESS.model_dump(), "proxy": {"sign_out_url": "/oauth2/sign_out"}, "roles": {"admin": ["sre"]}}
    app = Gate(Starlette(), lambda: AccessOptions.model_validate(out), "0.0.0.0")
    browser = TestClient(app, client=(PROXY, 1), headers={USER[0]: USER[1], "accept": "text/html"})

    refused = browser.get("/")
    assert refused.status_code == 403
    assert '<a href="/oauth2/sign_out">Sign out</a>' in refused.text
    assert 'content="0;url=/oauth2/sign_out"' in browser.post("/auth/logout").text


@pytest.mark.parametrize("url", ["//evil.com", "/\\evil.com", "javascript:x", "oauth2/sign_out", "https://", "/ x", ""])
def test_what_is_no_place_to_sign_out_is_a_mistake(url: str) -> None:
    with pytest.raises(ValidationError, match="sign_out_url"):
        AccessOptions.model_validate({**ACCESS.model_dump(), "proxy": {"sign_out_url": url}})


def test_an_open_websocket_is_closed_after_a_while_so_that_the_proxy_checks_its_sign_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proxy sees the first request of a websocket only: its headers would count for as long as it is open."""

    async def accepted(websocket: WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)

    monkeypatch.setattr(gate, "RECHECK_SECONDS", 0.01)
    monkeypatch.setattr(gate, "PROXY_SECONDS", 0.2)
    app = Gate(Starlette(routes=[WebSocketRoute("/_stcore/stream", accepted)]), lambda: ACCESS, "0.0.0.0")
    client = TestClient(app, client=(PROXY, 1))
    with client.websocket_connect("/_stcore/stream", headers=dict([USER])) as websocket:
        websocket.send_text("open")
        assert websocket.receive_text() == "open"

        assert websocket.receive() == {"type": "websocket.close", "code": 1008, "reason": "sign-in ended"}
