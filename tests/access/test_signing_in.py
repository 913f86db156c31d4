"""Sign-in through the gate: from a page to the provider and back."""

import re
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.access import audit, signing_in
from dashboard.access.gate import start_mistake
from dashboard.access.sessions import COOKIE
from dashboard.config import Options
from dashboard.config.access import AccessOptions
from dashboard.store.sign_ins import configured_sign_ins
from tests.access.oidc_dashboard import HTML, Dashboard, answered, session, signed_in, told, visitor
from tests.access.openid import OpenIdServer, at_provider
from tests.serving import wait_for


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


def test_the_cookies_are_for_this_server_only_and_no_script_reads_them(openid: OpenIdServer) -> None:
    plain, secure = Dashboard(openid.url), Dashboard(openid.url, url="https://fleet.example.com")
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
    monkeypatch.setattr(audit, "refusals", audit.RecentKeys())
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
    sentence = "No role for eve@example.com. Ask an administrator."
    assert told(refused) == sentence
    assert COOKIE not in browser.cookies
    assert 'href="/auth/login?again=1"' in refused.text
    loaded_again = browser.get(refused.url)
    assert (loaded_again.status_code, loaded_again.text) == (403, refused.text)
    other = dashboard.browser().get(refused.url)
    assert told(other) == "It began in another browser, more than 10 minutes ago, or has ended already."

    again = browser.get("/auth/login?again=1")
    assert parse_qs(urlsplit(again.headers["location"]).query)["prompt"] == ["login"]
    browser.get("/auth/callback", params=at_provider(again.headers["location"], "bob"))
    assert browser.get(refused.url).status_code == 303, "the button back of bob"


def test_without_its_client_secret_the_server_does_not_start(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = AccessOptions.model_validate(dashboard.options)
    assert not start_mistake(access, "127.0.0.1")
    monkeypatch.delenv("OIDC_SECRET")

    assert start_mistake(access, "127.0.0.1").startswith("access.oidc has no client secret: the environment variable ")


def test_without_the_extra_the_server_does_not_start_and_a_reload_is_a_sentence(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "authlib", None)
    for name in [each for each in sys.modules if each.startswith("authlib.") or each == "dashboard.access.oidc"]:
        monkeypatch.delitem(sys.modules, name)
    needed = "access.mode oidc needs Authlib: pip install -r requirements-auth.txt."

    assert start_mistake(AccessOptions.model_validate(dashboard.options), "127.0.0.1") == needed
    refused = dashboard.browser().get("/auth/login")
    assert (refused.status_code, told(refused)) == (503, "Try again later, or ask an administrator.")
    assert needed in caplog.text
    assert dashboard.browser().get("/auth/callback?state=x&code=x").status_code == 400


def test_without_the_database_of_sessions_nobody_new_signs_in(
    openid: OpenIdServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "history.db").mkdir()
    dashboard = Dashboard(openid.url, configured_sign_ins(Options.model_validate({"data_folder": tmp_path})))
    browser = dashboard.browser()
    refused = browser.get("/auth/callback", params=answered(browser, "ann"))
    assert refused.status_code == 503
    assert told(refused) == "Try again later, or ask an administrator."
    assert "The history history.db cannot be used" in caplog.text

    browser.cookies.set(COOKIE, dashboard.auth.keys.sign("an id", "session"))
    assert browser.get("/auth/callback?state=x&code=x").status_code == 503
