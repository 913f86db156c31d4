"""A dashboard with sign-in at the real OpenID provider, and browsers without windows."""

import re
from datetime import timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboard import service
from dashboard.access.auth import Auth
from dashboard.access.gate import Gate
from dashboard.access.sessions import COOKIE
from dashboard.access.visitor import VISITOR_HEADER, Visitor
from dashboard.config.access import AccessOptions
from dashboard.store.sign_ins import SignIns
from tests.access.openid import CLIENT, DASHBOARD, at_provider

HTML = {"accept": "text/html"}
ROLES = {"admin": ["sre"], "viewer": ["ml"]}


class Dashboard:
    """The gate, and its options, which may change while it runs."""

    def __init__(self, issuer: str, rows: SignIns | None = None, **more: Any) -> None:
        oidc = {"issuer": issuer, "client_id": CLIENT, "client_secret_env": "OIDC_SECRET", **more}
        self.options: dict[str, Any] = {"mode": "oidc", "oidc": oidc, "roles": ROLES}
        self.late = timedelta()
        self.auth = Auth(lambda: AccessOptions.model_validate(self.options), rows)
        self.auth.sessions._clock = lambda: service.utc_now() + self.late
        guard = Middleware(Gate, lambda: AccessOptions.model_validate(self.options), "127.0.0.1", self.auth)
        self.app = Starlette(routes=[Route("/{path:path}", who)], middleware=[guard])

    def browser(self) -> TestClient:
        return TestClient(self.app, DASHBOARD, follow_redirects=False)


async def who(request: Request) -> Response:
    """The visitor that pages get."""
    return PlainTextResponse(request.headers[VISITOR_HEADER])


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
