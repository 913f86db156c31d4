"""Sign-in through the gate: from a page to the provider and back, and what becomes of the session."""

import asyncio
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboard.access import audit, signing_in
from dashboard.access.auth import Auth
from dashboard.access.gate import Gate, start_mistake
from dashboard.access.sessions import COOKIE, utc_now
from dashboard.access.visitor import VISITOR_HEADER, Visitor
from dashboard.config import Options
from dashboard.config.access import AccessOptions
from dashboard.store.sign_ins import MemorySignIns, SignIns, configured_sign_ins
from tests.access.openid import CLIENT, SECRET, OpenIdServer, openid_server, sign_in
from tests.serving import free_port, wait_for

DASHBOARD = "http://127.0.0.1:9"
CALLBACK = f"{DASHBOARD}/auth/callback"
HTML = {"accept": "text/html"}
ROLES = {"admin": ["sre"], "viewer": ["ml"]}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_SECRET", SECRET)


@pytest.fixture(scope="module")
def server() -> Iterator[OpenIdServer]:
    with openid_server(DASHBOARD) as found:
        found.control(accounts={"ann": {"groups": ["sre"]}, "bob": {"groups": ["ml"]}, "eve": {"groups": ["x"]}})
        yield found


class Dashboard:
    """The gate, and its options, which may change while it runs."""

    def __init__(self, issuer: str, rows: SignIns | None = None, **more: Any) -> None:
        oidc = {"issuer": issuer, "client_id": CLIENT, "client_secret_env": "OIDC_SECRET", **more}
        self.options: dict[str, Any] = {"mode": "oidc", "oidc": oidc, "roles": ROLES}
        self.late = timedelta()
        self.auth = Auth(lambda: AccessOptions.model_validate(self.options), rows)
        self.auth.sessions._clock = lambda: utc_now() + self.late
        guard = Middleware(Gate, lambda: AccessOptions.model_validate(self.options), "127.0.0.1", self.auth)
        self.app = Starlette(routes=[Route("/{path:path}", who)], middleware=[guard])

    def browser(self) -> TestClient:
        return TestClient(self.app, DASHBOARD, follow_redirects=False)


async def who(request: Request) -> Response:
    """The visitor that pages get."""
    return PlainTextResponse(request.headers[VISITOR_HEADER])


@pytest.fixture
def dashboard(server: OpenIdServer) -> Dashboard:
    return Dashboard(server.url)


def at_provider(url: str, login: str) -> dict[str, str]:
    """Sign in at the provider; return the parameters that it gives the browser for the dashboard."""
    with httpx2.Client(trust_env=False, timeout=30) as browser:
        return dict(sign_in(browser, url, login, CALLBACK))


def answered(browser: TestClient, login: str, path: str = "/auth/login") -> dict[str, str]:
    """Begin a sign-in; return the parameters of the callback."""
    began = browser.get(path, headers=HTML)
    assert began.status_code == 303
    return at_provider(began.headers["location"], login)


def signed_in(dashboard: Dashboard, login: str = "ann") -> TestClient:
    browser = dashboard.browser()
    done = browser.get("/auth/callback", params=answered(browser, login))
    assert (done.status_code, done.headers["location"]) == (303, "/")
    return browser


def visitor(browser: TestClient) -> Visitor:
    return Visitor.from_header(browser.get("/", headers=HTML).raise_for_status().text)


def session(browser: TestClient) -> str:
    found = browser.cookies.get(COOKIE)
    assert found
    return found


def told(answer: Any) -> str:
    """The sentence of a small page."""
    assert answer.headers["cache-control"] == "no-store"
    found = re.search("<p>(.*?)</p>", answer.text)
    assert found
    return found[1]


def test_a_page_without_a_session_leads_through_the_provider_and_back_to_the_page(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    asked = browser.get("/findings?pool=chat", headers=HTML)
    assert (asked.status_code, asked.headers["location"]) == (303, "/auth/login?next=%2Ffindings%3Fpool%3Dchat")
    done = browser.get("/auth/callback", params=answered(browser, "ann", asked.headers["location"]))
    assert (done.status_code, done.headers["location"]) == (303, "/findings?pool=chat")

    found = visitor(browser)
    assert (found.name, found.groups, found.means) == ("ann@example.com", frozenset({"sre"}), "oidc")
    assert [each for each in browser.cookies if each.startswith("fleet_sign_in")] == []


def test_programs_are_answered_401_and_never_redirected(dashboard: Dashboard) -> None:
    for path in ("/", "/api/v1/fleet", "/metrics"):
        assert dashboard.browser().get(path).status_code == 401


def test_the_cookies_are_for_this_server_only_and_no_script_reads_them(server: OpenIdServer) -> None:
    plain, secure = Dashboard(server.url), Dashboard(server.url, url="https://fleet.example.com")
    began = plain.browser().get("/auth/login").headers["set-cookie"]
    over_tls = secure.browser().get("/auth/login")

    assert "HttpOnly" in began
    assert "SameSite=lax" in began
    assert re.match(r"__Host-fleet_sign_in_[\w-]{8}=.*; Secure", over_tls.headers["set-cookie"])
    asked = parse_qs(urlsplit(over_tls.headers["location"]).query)
    assert asked["redirect_uri"] == ["https://fleet.example.com/auth/callback"]


@pytest.mark.parametrize("path", ["https://evil.com", "//evil.com", "/\\evil.com", "/auth/logout", "javascript:x", ""])
def test_a_sign_in_never_ends_at_another_server(dashboard: Dashboard, path: str) -> None:
    browser = dashboard.browser()
    began = browser.get("/auth/login", params={"next": path})
    done = browser.get("/auth/callback", params=at_provider(began.headers["location"], "ann"))

    assert done.headers["location"] == "/"


def test_a_session_of_before_ends_at_a_sign_in_and_the_new_one_has_another_id(dashboard: Dashboard) -> None:
    """Session fixation: somebody who planted a cookie does not share the sign-in."""
    planted = session(signed_in(dashboard, "bob"))
    browser = dashboard.browser()
    browser.cookies.set(COOKIE, planted)
    done = browser.get("/auth/callback", params=answered(browser, "ann"))
    assert done.status_code == 303

    ours = done.cookies[COOKIE]
    assert ours != planted
    attacker = dashboard.browser()
    attacker.cookies.set(COOKIE, planted)
    assert attacker.get("/").status_code == 401


def test_an_answer_of_the_provider_is_used_once(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    answer = answered(browser, "ann")
    kept = dict(browser.cookies)
    assert browser.get("/auth/callback", params=answer).headers["location"] == "/"
    again = browser.get("/auth/callback", params=answer)
    assert (again.status_code, again.headers["location"]) == (303, "/"), "the button back"

    thief = dashboard.browser()
    thief.cookies.update(kept)
    refused = thief.get("/auth/callback", params=answer)
    assert refused.status_code == 403
    assert told(refused) == "The sign-in expired, ended or was used before. Sign in again."
    assert COOKIE not in thief.cookies


def test_only_the_browser_that_began_a_sign_in_ends_it(dashboard: Dashboard) -> None:
    """Else somebody could sign in others under a name of their own."""
    attacker, victim = dashboard.browser(), dashboard.browser()
    answer = answered(attacker, "eve")
    answered(victim, "ann")
    refused = victim.get("/auth/callback", params=answer)

    assert refused.status_code == 400
    assert told(refused) == "It began in another browser, more than 10 minutes ago, or has ended already."
    assert COOKIE not in victim.cookies


def test_a_forged_swapped_or_old_cookie_ends_no_sign_in(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = dashboard.browser()
    answer = answered(browser, "ann")
    ((name, kept),) = browser.cookies.items()
    other = dashboard.browser()
    other.get("/auth/login")
    ((_, of_another),) = other.cookies.items()
    of_a_session = session(signed_in(dashboard))
    text, _, signature = kept.rpartition(".")

    forgeries = (text, f"{text}.", f"{text}x.{signature}", f"{text}.{signature[::-1]}", of_another, of_a_session, "é")
    for forged in forgeries:
        thief = dashboard.browser()
        headers = [(b"cookie", f"{name}={forged}".encode())]
        assert thief.get("/auth/callback", params=answer, headers=headers).status_code == 400
    with monkeypatch.context() as patch:
        patch.setattr(signing_in, "PENDING_SECONDS", 0)
        assert browser.get("/auth/callback", params=answer).status_code == 400
    thief = dashboard.browser()
    thief.cookies.set(COOKIE, kept)
    assert thief.get("/").status_code == 401, "no session, although we signed it"


@pytest.mark.parametrize("query", ["", "?state=", "?state=é&code=x", "?code=x", "?state=a&state=b&code=x", "?error=x"])
def test_a_callback_without_a_sign_in_is_a_sentence_and_in_the_audit_log(
    dashboard: Dashboard, query: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_refusals", audit.RecentKeys())
    assert dashboard.browser().get(f"/auth/callback{query}").status_code == 400

    wait_for(lambda: '"audit": "sign_in"' in (said := capsys.readouterr().err) and '"result": "refused"' in said)


def test_a_doubled_parameter_ends_no_sign_in(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    answer = answered(browser, "ann")

    assert browser.get("/auth/callback", params=[*answer.items(), ("code", "x")]).status_code == 400


def test_several_tabs_sign_in_at_once(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    answers = [answered(browser, "ann", f"/auth/login?next=/{name}") for name in "abc"]
    ends = [browser.get("/auth/callback", params=each).headers["location"] for each in answers]

    assert ends == ["/a", "/b", "/c"]


def test_tabs_without_end_leave_few_cookies(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    for _ in range(3 * signing_in.MOST_COOKIES):
        browser.get("/auth/login")

    assert len(browser.cookies) <= signing_in.MOST_COOKIES


def test_a_client_that_signs_in_without_end_is_told_to_wait(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    codes = [browser.get("/auth/login").status_code for _ in range(signing_in.MOST_STARTS + 2)]

    assert codes[-1] == 429
    assert codes[0] == 303


def test_somebody_without_a_role_gets_no_session_but_a_way_to_sign_in_as_somebody_else(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    refused = browser.get("/auth/callback", params=answered(browser, "eve"))
    assert refused.status_code == 403
    sentence = "No role for eve@example.com: no group of this account is in access.roles. Ask an administrator."
    assert told(refused) == sentence
    assert COOKIE not in browser.cookies
    assert 'href="/auth/login?again=1"' in refused.text

    again = browser.get("/auth/login?again=1")
    assert parse_qs(urlsplit(again.headers["location"]).query)["prompt"] == ["login"]


def test_a_role_that_the_provider_takes_away_is_gone_at_the_next_refresh(
    dashboard: Dashboard, server: OpenIdServer
) -> None:
    server.control(accounts={"fay": {"groups": ["sre"]}})
    browser = signed_in(dashboard, "fay")
    server.control(accounts={"fay": {"groups": ["ml"]}})
    assert visitor(browser).groups == {"sre"}

    dashboard.late += timedelta(seconds=901)
    assert visitor(browser).groups == {"ml"}
    server.control(accounts={"fay": {"groups": []}})
    dashboard.late += timedelta(seconds=901)
    refused = browser.get("/", headers=HTML)
    assert refused.status_code == 403
    assert told(refused).startswith("No role for fay@example.com:")


def test_an_account_that_is_gone_at_the_provider_ends_its_sessions(dashboard: Dashboard, server: OpenIdServer) -> None:
    server.control(accounts={"gil": {"groups": ["sre"]}})
    browser = signed_in(dashboard, "gil")
    server.control(accounts={"gil": None})
    dashboard.late += timedelta(seconds=901)

    gone = browser.get("/", headers=HTML)
    assert gone.headers["location"] == "/auth/login?next=%2F"
    assert browser.get("/").status_code == 401


def test_while_the_provider_is_down_visitors_go_on_and_new_ones_get_a_sentence(dashboard: Dashboard) -> None:
    browser = signed_in(dashboard)
    port = free_port()
    dashboard.options["oidc"]["issuer"] = f"http://127.0.0.1:{port}"
    known = dashboard.auth.oidc._unsealed(only(dashboard))
    assert known is not None
    moved = replace(known, issuer=f"http://127.0.0.1:{port}")
    dashboard.auth.sessions.refresh(only(dashboard), known.groups, dashboard.auth.oidc._sealed(moved))
    new = dashboard.browser().get("/auth/login", headers=HTML)

    assert new.status_code == 503
    assert told(new) == f"127.0.0.1:{port} refused the connection. Try again later."
    for _ in range(3):
        dashboard.late += timedelta(hours=7)
        assert visitor(browser).groups == {"sre"}
    dashboard.late += timedelta(hours=4)
    assert browser.get("/").status_code == 401, "the absolute end"


def only(dashboard: Dashboard) -> Any:
    (found,) = dashboard.auth.sessions._rows._by_id.values()  # type: ignore[attr-defined]
    return found


def test_two_dashboards_of_one_store_refresh_a_session_once(server: OpenIdServer) -> None:
    """A refresh token that is used twice would end the session at the provider."""
    server.control(accounts={"hal": {"groups": ["sre"]}})
    rows = MemorySignIns()
    one, two = (Dashboard(server.url, rows) for _ in range(2))
    two.auth.keys._own = one.auth.keys._own = "k" * 64
    browser = signed_in(one, "hal")
    begun = only(one)
    one.late = two.late = timedelta(seconds=901)

    async def both() -> list[Any]:
        return await asyncio.gather(*(each.auth.oidc.current(begun) for each in (one, two) for _ in range(3)))

    assert None not in asyncio.run(both())
    one.late = two.late = timedelta(seconds=1802)
    assert visitor(browser).groups == {"sre"}


def test_sign_out_ends_the_session_here_and_at_the_provider(dashboard: Dashboard, server: OpenIdServer) -> None:
    browser = signed_in(dashboard)
    kept = session(browser)
    out = browser.post("/auth/logout", headers=HTML)
    assert out.status_code == 200
    (url,) = re.findall('content="0;url=([^"]+)"', out.text)
    asked = parse_qs(urlsplit(url.replace("&amp;", "&")).query)
    assert url.startswith(f"{server.url}/session/end?")
    assert asked["post_logout_redirect_uri"] == [f"{DASHBOARD}/auth/signed-out"]
    assert asked["id_token_hint"][0].count(".") == 2

    thief = dashboard.browser()
    thief.cookies.set(COOKIE, kept)
    for each in (browser, thief):
        assert each.get("/").status_code == 401
    assert told(browser.get("/auth/signed-out")) == "Close the browser if others use it."


def test_scripts_that_sign_out_get_the_next_url(dashboard: Dashboard, server: OpenIdServer) -> None:
    out = signed_in(dashboard).post("/auth/logout", headers={"accept": "application/json"})

    assert out.json()["next"].startswith(f"{server.url}/session/end?")


def test_a_reload_to_another_mode_ends_sign_ins_by_the_provider(dashboard: Dashboard) -> None:
    browser = signed_in(dashboard)
    dashboard.options.update(mode="proxy", trusted_proxies=["10.0.0.0/8"])

    assert browser.get("/").status_code == 401
    assert browser.get("/auth/login").status_code == 404


def test_without_its_client_secret_the_server_does_not_start(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = AccessOptions.model_validate(dashboard.options)
    assert not start_mistake(access, "127.0.0.1")
    monkeypatch.delenv("OIDC_SECRET")

    assert start_mistake(access, "127.0.0.1").startswith("access.oidc has no client secret: the environment variable ")


def test_an_open_page_that_was_signed_out_elsewhere_signs_in_only_when_asked(dashboard: Dashboard) -> None:
    """A page of its own, or the provider signs in silently and undoes the sign-out."""
    refused = dashboard.browser().get("/auth/session")
    page = dashboard.browser().get("/auth/signed-out?next=/compare%3Fpool%3Dchat")

    assert (refused.status_code, refused.headers["X-Fleet-Access"]) == (401, "signed-out")
    assert 'href="/auth/login?next=%2Fcompare%3Fpool%3Dchat"' in page.text


def test_without_the_extra_the_server_does_not_start_and_a_reload_is_a_sentence(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "authlib", None)
    for name in [each for each in sys.modules if each.startswith("authlib.") or each == "dashboard.access.oidc"]:
        monkeypatch.delitem(sys.modules, name)
    needed = "access.mode oidc needs Authlib: pip install -r requirements-auth.txt."

    assert start_mistake(AccessOptions.model_validate(dashboard.options), "127.0.0.1") == needed
    refused = dashboard.browser().get("/auth/login")
    assert (refused.status_code, told(refused)) == (503, f"{needed} Try again later.")
    assert dashboard.browser().get("/auth/callback?state=x&code=x").status_code == 400


def test_without_the_database_of_sessions_nobody_new_signs_in(server: OpenIdServer, tmp_path: Path) -> None:
    (tmp_path / "history.db").mkdir()
    dashboard = Dashboard(server.url, configured_sign_ins(Options.model_validate({"data_folder": tmp_path})))
    browser = dashboard.browser()
    refused = browser.get("/auth/callback", params=answered(browser, "ann"))
    assert refused.status_code == 503
    assert told(refused).startswith("The history history.db cannot be used")

    browser.cookies.set(COOKIE, dashboard.auth.keys.sign("an id", "session"))
    assert browser.get("/auth/callback?state=x&code=x").status_code == 503
