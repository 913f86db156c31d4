"""Sign-in sessions: the cookie of a browser, how long it is valid, and where sessions are kept."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboard.access import sessions
from dashboard.access.auth import Auth
from dashboard.access.gate import Gate
from dashboard.access.sessions import COOKIE, SessionStore
from dashboard.access.visitor import Means
from dashboard.config import Options
from dashboard.config.access import AccessOptions, SessionOptions
from dashboard.errors import HistoryError
from dashboard.store import sign_ins
from dashboard.store.sign_ins import MemorySignIns, SignIns, configured_sign_ins
from tests.access.test_gate import PROXIED, bearer, entry, visitor_of, who

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Clock:
    """A clock that is set by hand."""

    now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(params=["memory", "database"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> SignIns:
    """Where sessions are kept: in this process, or in the database of the history."""
    return configured_sign_ins(options(tmp_path, enabled=request.param == "database"))


def options(folder: Path, *, enabled: bool = True) -> Options:
    return Options.model_validate({"data_folder": folder, "history": {"enabled": enabled}})


def store(rows: SignIns, clock: Clock, **more: float) -> SessionStore:
    lifetimes = {"idle_seconds": 600, "absolute_seconds": 3600, **more}
    return SessionStore(rows, lambda: SessionOptions.model_validate(lifetimes), clock)


def test_a_session_is_found_by_its_id_with_what_the_provider_reported(rows: SignIns) -> None:
    begun = store(rows, Clock()).begin("ann", Means.OIDC, frozenset({"sre", "ü"}), sealed=b"\x00sealed")

    found = store(rows, Clock()).find(begun.id)

    assert found == begun
    assert (begun.name, begun.groups, begun.sealed) == ("ann", frozenset({"sre", "ü"}), b"\x00sealed")
    assert store(rows, Clock()).find("another") is None


def test_each_sign_in_has_a_new_id(rows: SignIns) -> None:
    """Nobody can choose the id of another one's session."""
    sessions = store(rows, Clock())

    assert sessions.begin("ann", Means.OIDC).id != sessions.begin("ann", Means.OIDC).id


def test_an_idle_session_ends_and_an_active_one_goes_on_until_its_absolute_end(rows: SignIns) -> None:
    clock = Clock()
    known = store(rows, clock)
    begun = known.begin("ann", Means.OIDC)
    for minutes in range(5, 60, 5):
        clock.now = NOON + timedelta(minutes=minutes)
        assert known.find(begun.id) is not None

    clock.now = NOON + timedelta(minutes=60)
    assert known.find(begun.id) is None


def test_a_session_without_activity_ends_after_the_idle_time(rows: SignIns) -> None:
    clock = Clock()
    known = store(rows, clock)
    begun = known.begin("ann", Means.OIDC)
    clock.now = NOON + timedelta(minutes=10)

    assert known.find(begun.id) is None


def test_shorter_lifetimes_of_a_reload_count_for_sessions_that_exist(rows: SignIns) -> None:
    clock = Clock()
    begun = store(rows, clock).begin("ann", Means.OIDC)
    clock.now = NOON + timedelta(minutes=5)

    assert store(rows, clock, absolute_seconds=120, idle_seconds=120).find(begun.id) is None


def test_a_session_that_ended_is_gone_for_every_dashboard_of_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one that knows it reads it again after some seconds."""
    monkeypatch.setattr(sessions, "CACHE_SECONDS", 0.0)
    one, other = (store(configured_sign_ins(options(tmp_path)), Clock()) for _ in range(2))
    begun = one.begin("ann", Means.OIDC)
    assert other.find(begun.id) == begun

    one.end(begun.id)

    assert (one.find(begun.id), other.find(begun.id)) == (None, None)


def test_all_sessions_of_somebody_end_at_once_for_every_dashboard_of_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lost laptop: whoever has it must be out, and others stay."""
    monkeypatch.setattr(sessions, "CACHE_SECONDS", 0.0)
    rows = configured_sign_ins(options(tmp_path))
    known, other = (SessionStore(configured_sign_ins(options(tmp_path)), SessionOptions) for _ in range(2))
    with browser(rows, tokens=[entry("admin"), {**entry("viewer", "another"), "name": "bob"}]) as client:
        lost = [known.begin("ann", Means.OIDC), known.begin("ann", Means.OIDC)]
        assert other.find(lost[0].id) == lost[0]
        client.post("/auth/token", headers=bearer())
        kept = client.cookies[COOKIE]
        assert client.post("/auth/revoke?name=ann", headers=bearer("another")).status_code == 403
        answer = client.post("/auth/revoke?name=ann", headers=bearer())

        assert answer.json() == {"ended": 2}
        assert client.post("/auth/revoke", headers=bearer()).status_code == 400
        nobody = client.post("/auth/revoke?name=Ann", headers=bearer())
        assert (nobody.status_code, nobody.json()) == (404, {"detail": "Not found: no session of Ann, spelled so."})
        assert client.get("/", headers={"cookie": f"{COOKIE}={kept}"}).status_code == 200
    assert [each.find(sign_in.id) for each in (known, other) for sign_in in lost] == [None] * 4
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if '"revoke"' in line]
    assert [(each["visitor"], each["name"], each["ended"]) for each in lines if each["ended"]] == [("ci", "ann", 2)]


def test_an_ended_session_does_not_come_back_with_a_late_refresh(rows: SignIns) -> None:
    known = store(rows, Clock())
    begun = known.begin("ann", Means.OIDC)
    known.end(begun.id)

    known.refresh(begun, frozenset({"sre"}), b"")

    assert known.find(begun.id) is None


def test_a_refresh_changes_the_groups(rows: SignIns) -> None:
    known = store(rows, Clock())
    begun = known.begin("ann", Means.OIDC, frozenset({"sre"}))

    known.refresh(begun, frozenset({"guests"}), b"next")

    found = known.find(begun.id)
    assert found is not None
    assert (found.groups, found.sealed) == (frozenset({"guests"}), b"next")


class GoneRows(MemorySignIns):
    """A database that is gone."""

    def find(self, key: str) -> Any:
        raise HistoryError(f"The history cannot be used: connection refused ({len(key)}).")


def test_while_the_database_is_gone_known_sessions_go_on_and_others_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "CACHE_SECONDS", 0.0)
    known = store(GoneRows(), Clock())
    begun = known.begin("ann", Means.OIDC)

    assert known.find(begun.id) == begun
    with pytest.raises(HistoryError):
        known.find("another")


def test_ended_sessions_are_deleted_and_their_number_is_bounded(rows: SignIns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_ins, "MOST", 3)
    monkeypatch.setattr("dashboard.store.history.sign_ins.MOST", 3)
    clock = Clock()
    known = store(rows, clock)
    old = known.begin("old", Means.OIDC)
    clock.now = NOON + timedelta(hours=2)
    begun = []
    for number in range(4):
        clock.now += timedelta(seconds=1)
        begun.append(known.begin(str(number), Means.OIDC))

    assert rows.find(old.id) is None
    assert [rows.find(each.id) is not None for each in begun] == [False, True, True, True]


# Tokens that become sessions.


@contextmanager
def browser(rows: SignIns | None = None, scheme: str = "http", **access: Any) -> Iterator[TestClient]:
    """A browser, and a dashboard behind the gate that has one token."""
    found: Mapping[str, Any] = {**PROXIED, "tokens": [entry("editor")], **access}

    def in_force() -> AccessOptions:
        return AccessOptions.model_validate(found)

    guard = Middleware(Gate, in_force, "0.0.0.0", Auth(in_force, rows))
    app = Starlette(routes=[Route("/{path:path}", who)], middleware=[guard])
    with TestClient(app, base_url=f"{scheme}://fleet.example.com", follow_redirects=False) as client:
        yield client


def test_a_token_becomes_a_session_of_its_role(rows: SignIns) -> None:
    with browser(rows) as client:
        assert client.get("/").status_code == 401
        begun = client.post("/auth/token", headers=bearer())
        visitor = visitor_of(client.get("/"))

        assert (begun.json()["name"], begun.json()["role"]) == ("ci", "editor")
        assert (visitor.name, visitor.means, visitor.fixed and visitor.fixed.word) == ("ci", "token", "editor")
        assert client.get("/auth/session").json() == {**begun.json(), "means": "token"}


def test_the_cookie_is_unreadable_for_scripts_and_not_sent_by_other_sites() -> None:
    with browser() as client:
        cookie = client.post("/auth/token", headers=bearer()).headers["set-cookie"]

    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert "ci" not in cookie.partition(";")[0]


def test_over_https_the_cookie_is_bound_to_this_host_and_another_name_does_not_count() -> None:
    """A sibling domain, or a page over http, can set a cookie of another name."""
    with browser(scheme="https") as client:
        cookie = client.post("/auth/token", headers=bearer()).headers["set-cookie"]
        value = cookie.partition("=")[2].partition(";")[0]
        assert cookie.startswith(f"__Host-{COOKIE}=")
        assert "Secure" in cookie
        assert client.get("/").status_code == 200

        client.cookies.clear()
        assert client.get("/", headers={"cookie": f"{COOKIE}={value}"}).status_code == 401


def test_signing_out_ends_the_session_also_for_a_copy_of_the_cookie(rows: SignIns) -> None:
    with browser(rows) as client:
        client.post("/auth/token", headers=bearer())
        copied = client.cookies[COOKIE]
        answer = client.post("/auth/logout")

        assert (answer.status_code, answer.headers["location"]) == (303, "../")
        assert COOKIE not in client.cookies
        assert client.get("/", headers={"cookie": f"{COOKIE}={copied}"}).status_code == 401


def test_under_server_base_url_path_pages_renew_and_end_their_session() -> None:
    """Streamlit's own routes are below it then, and so is what a page asks for."""
    with browser() as client:
        client.post("/auth/token", headers=bearer())
        assert client.get("/dash/auth/session").json()["name"] == "ci"
        assert client.post("/dash/auth/logout").headers["location"] == "../"
        refused = client.get("/dash/auth/session")

    assert (refused.status_code, refused.headers["X-Fleet-Access"]) == (401, "refused")


def test_a_sign_in_replaces_the_session_before() -> None:
    """So a session that somebody else began in this browser ends (session fixation)."""
    with browser() as client:
        client.post("/auth/token", headers=bearer())
        before = client.cookies[COOKIE]
        client.post("/auth/token", headers=bearer())

        assert client.cookies[COOKIE] != before
        client.cookies.clear()
        assert client.get("/", headers={"cookie": f"{COOKIE}={before}"}).status_code == 401


def test_a_session_ends_with_its_token_and_follows_its_role() -> None:
    tokens = [entry("editor")]
    with browser(tokens=tokens) as client:
        client.post("/auth/token", headers=bearer())
        tokens[:] = [entry("admin")]
        fixed = visitor_of(client.get("/")).fixed
        assert fixed is not None
        assert fixed.word == "admin"

        tokens[:] = [entry("admin", "another")]
        assert client.get("/").status_code == 401


@pytest.mark.parametrize("headers", [{}, bearer("wrong")])
def test_without_a_right_token_no_session_begins(headers: Mapping[str, str]) -> None:
    with browser(mode="none", roles={}, trusted_proxies=[], allow_anonymous="viewer") as client:
        answer = client.post("/auth/token", headers=headers)

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_database_has_nothing_that_makes_a_cookie_and_no_token(tmp_path: Path) -> None:
    rows = configured_sign_ins(options(tmp_path))
    with browser(rows) as client:
        client.post("/auth/token", headers=bearer())
        value = client.cookies[COOKIE]
    with create_engine(f"sqlite:///{tmp_path / 'history.db'}").connect() as connection:
        (row,) = connection.execute(text("SELECT * FROM session")).all()

    assert value not in str(row)
    assert bearer()["authorization"].removeprefix("Bearer ") not in str(row)


def test_of_the_dashboards_that_share_sessions_one_refreshes_the_groups_of_a_visitor(rows: SignIns) -> None:
    clock = Clock()
    one, two = store(rows, clock), store(rows, clock)
    begun = one.begin("ann", Means.OIDC, frozenset({"sre"}), sealed=b"old")
    known = two.find(begun.id)
    assert known is not None
    clock.now += timedelta(minutes=5)
    one.find(begun.id)

    assert one.claim(begun)
    assert not two.claim(known)
    assert one.age(begun) == timedelta(minutes=5)
    one.refresh(begun, frozenset({"ml"}), b"new")
    later = store(rows, clock).find(begun.id)
    assert later == one.find(begun.id)
    assert later is not None
    assert (later.groups, later.sealed, later.active_at, one.age(later)) == (
        frozenset({"ml"}),
        b"new",
        clock.now,
        timedelta(),
    )
    one.end(begun.id)
    assert not one.claim(later)
