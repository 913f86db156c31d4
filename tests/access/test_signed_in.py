"""What becomes of a session at the OpenID provider: refreshes, the provider away, sign-out, reloads."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.access import oidc
from dashboard.access.sessions import COOKIE
from dashboard.store.sign_ins import MemorySignIns
from tests.access.oidc_dashboard import HTML, Dashboard, session, signed_in, told, visitor
from tests.access.openid import DASHBOARD, OpenIdServer, openid_server
from tests.serving import free_port


def test_a_role_that_the_provider_takes_away_is_gone_at_the_next_refresh(
    dashboard: Dashboard, openid: OpenIdServer
) -> None:
    openid.control(accounts={"fay": {"groups": ["sre"]}})
    browser = signed_in(dashboard, "fay")
    openid.control(accounts={"fay": {"groups": ["ml"]}})
    assert visitor(browser).groups == {"sre"}

    dashboard.late += timedelta(seconds=901)
    assert visitor(browser).groups == {"ml"}
    openid.control(accounts={"fay": {"groups": []}})
    dashboard.late += timedelta(seconds=901)
    refused = browser.get("/", headers=HTML)
    assert refused.status_code == 403
    assert told(refused) == "No role for fay@example.com. Ask an administrator."


def test_an_account_that_is_gone_at_the_provider_ends_its_sessions(dashboard: Dashboard, openid: OpenIdServer) -> None:
    openid.control(accounts={"gil": {"groups": ["sre"]}})
    browser = signed_in(dashboard, "gil")
    openid.control(accounts={"gil": None})
    dashboard.late += timedelta(seconds=901)

    gone = browser.get("/", headers=HTML)
    assert gone.headers["location"] == "/auth/login?next=%2F"
    assert browser.get("/").status_code == 401


def test_while_the_provider_is_down_visitors_go_on_and_new_ones_get_a_sentence(
    dashboard: Dashboard, caplog: pytest.LogCaptureFixture
) -> None:
    browser = signed_in(dashboard)
    port = free_port()
    dashboard.options["oidc"]["issuer"] = f"http://127.0.0.1:{port}"
    known = dashboard.auth.oidc._unsealed(only(dashboard))
    assert known is not None
    moved = replace(known, issuer=f"http://127.0.0.1:{port}")
    dashboard.auth.sessions.refresh(only(dashboard), known.groups, dashboard.auth.oidc._sealed(moved))
    new = dashboard.browser().get("/auth/login", headers=HTML)

    assert new.status_code == 503
    assert told(new) == "Try again later, or ask an administrator."
    assert f"127.0.0.1:{port} refused the connection." in caplog.text
    for _ in range(3):
        dashboard.late += timedelta(hours=7)
        assert visitor(browser).groups == {"sre"}
    dashboard.late += timedelta(hours=4)
    assert browser.get("/").status_code == 401, "the absolute end"


def test_a_refresh_that_failed_is_tried_again_after_a_minute_and_by_one_request_only(
    dashboard: Dashboard, openid: OpenIdServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    openid.control(accounts={"jan": {"groups": ["sre"]}, "kim": {"groups": ["sre"]}})
    jan, kim = signed_in(dashboard, "jan"), signed_in(dashboard, "kim")
    openid.control(accounts={"jan": {"groups": ["ml"]}})
    dashboard.late += timedelta(seconds=901)
    with monkeypatch.context() as without_secret:
        without_secret.delenv("OIDC_SECRET")
        for browser in (jan, kim, jan, kim):
            assert visitor(browser).groups == {"sre"}
    assert len([each for each in caplog.records if "are not refreshed" in each.message]) == 1

    monkeypatch.setattr(dashboard.auth.oidc, "_paused_until", 0.0)  # the minute is over
    assert visitor(jan).groups == {"sre"}, "not yet"
    dashboard.late += timedelta(seconds=61)
    assert visitor(jan).groups == {"ml"}, "long before the next 15 minutes"


def only(dashboard: Dashboard) -> Any:
    (found,) = dashboard.auth.sessions._rows._by_id.values()  # type: ignore[union-attr]
    return found


def test_two_dashboards_of_one_store_refresh_a_session_once(openid: OpenIdServer) -> None:
    """A refresh token that is used twice would end the session at the provider."""
    openid.control(accounts={"hal": {"groups": ["sre"]}})
    rows = MemorySignIns()
    one, two = (Dashboard(openid.url, rows) for _ in range(2))
    two.auth.keys._own = one.auth.keys._own = "k" * 64
    browser = signed_in(one, "hal")
    begun = only(one)
    one.late = two.late = timedelta(seconds=901)

    async def both() -> list[Any]:
        return await asyncio.gather(*(each.auth.oidc.current(begun) for each in (one, two) for _ in range(3)))

    assert None not in asyncio.run(both())
    one.late = two.late = timedelta(seconds=1802)
    assert visitor(browser).groups == {"sre"}


def test_sign_out_ends_the_session_here_and_at_the_provider(dashboard: Dashboard, openid: OpenIdServer) -> None:
    browser = signed_in(dashboard)
    kept = session(browser)
    out = browser.post("/auth/logout", headers=HTML)
    assert out.status_code == 200
    (url,) = re.findall('content="0;url=([^"]+)"', out.text)
    asked = parse_qs(urlsplit(url.replace("&amp;", "&")).query)
    assert url.startswith(f"{openid.url}/session/end?")
    assert asked["post_logout_redirect_uri"] == [f"{DASHBOARD}/auth/signed-out"]
    assert asked["id_token_hint"][0].count(".") == 2

    thief = dashboard.browser()
    thief.cookies.set(COOKIE, kept)
    for each in (browser, thief):
        assert each.get("/").status_code == 401
    assert told(browser.get("/auth/signed-out")) == "Close the browser if others use it."


def test_sign_out_while_the_provider_is_away_ends_the_session_and_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The browser would show its own page of errors, at the address of the provider."""
    monkeypatch.setattr(oidc, "REREAD_SECONDS", 0.0)
    with openid_server(DASHBOARD) as provider:
        provider.control(accounts={"ann": {"groups": ["sre"]}})
        dashboard = Dashboard(provider.url)
        browser = signed_in(dashboard)
    out = browser.post("/auth/logout", headers=HTML)

    assert browser.get("/").status_code == 401
    assert dashboard.auth.sessions._rows._by_id == {}  # type: ignore[union-attr]
    (url,) = re.findall('content="0;url=([^"]+)"', out.text)
    left = "The provider did not answer: you may be signed in there. Close the browser if others use it."
    assert told(browser.get(url)) == left


def test_scripts_that_sign_out_get_the_next_url(dashboard: Dashboard, openid: OpenIdServer) -> None:
    out = signed_in(dashboard).post("/auth/logout", headers={"accept": "application/json"})

    assert out.json()["next"].startswith(f"{openid.url}/session/end?")


def test_a_reload_to_another_mode_ends_sign_ins_by_the_provider(dashboard: Dashboard) -> None:
    browser = signed_in(dashboard)
    dashboard.options.update(mode="proxy", trusted_proxies=["10.0.0.0/8"])

    assert browser.get("/").status_code == 401
    assert browser.get("/auth/login").status_code == 404


def test_an_open_page_that_was_signed_out_elsewhere_signs_in_only_when_asked(dashboard: Dashboard) -> None:
    """A page of its own, or the provider signs in silently and undoes the sign-out."""
    refused = dashboard.browser().get("/auth/session")
    page = dashboard.browser().get("/auth/signed-out?next=/compare%3Fpool%3Dchat")

    assert (refused.status_code, refused.headers["X-Fleet-Access"]) == (401, "signed-out")
    assert 'href="/auth/login?next=%2Fcompare%3Fpool%3Dchat"' in page.text
