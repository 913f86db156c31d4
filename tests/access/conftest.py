"""Fixtures: the client secret, and the real OpenID provider."""

from collections.abc import Iterator

import pytest

from tests.access.oidc_dashboard import Dashboard
from tests.access.openid import DASHBOARD, SECRET, OpenIdServer, openid_server


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_SECRET", SECRET)


@pytest.fixture(scope="module")
def openid() -> Iterator[OpenIdServer]:
    with openid_server(DASHBOARD) as found:
        found.control(accounts={"ann": {"groups": ["sre"]}, "bob": {"groups": ["ml"]}, "eve": {"groups": ["x"]}})
        yield found


@pytest.fixture
def dashboard(openid: OpenIdServer) -> Dashboard:
    return Dashboard(openid.url)
