"""The real OpenID provider of the tests, and a browser without windows that signs in at it."""

import asyncio
import re
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2
from playwright._impl._driver import compute_driver_executable

from dashboard.access.visitor import PendingSignIn
from dashboard.config.access import OidcOptions
from tests.serving import free_port, started

T = TypeVar("T")

FOLDER = Path(__file__).parent / "provider"
CLIENT, SECRET = "fleet", "secret-of-tests"
DASHBOARD = "http://127.0.0.1:9"
CALLBACK = f"{DASHBOARD}/auth/callback"
BEGUN = PendingSignIn("the state", "the nonce", "the verifier" * 5, "/")
UNUSED = {"code": "x"}
MOST_REDIRECTS = 10


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def options(issuer: str, **more: Any) -> OidcOptions:
    usual = {"issuer": issuer, "client_id": CLIENT, "client_secret_env": "OIDC_SECRET"}
    return OidcOptions.model_validate({**usual, **more})


class OpenIdServer(NamedTuple):
    """The provider; anybody signs in at it, with the claims that a test sets."""

    url: str

    def control(self, **wanted: Any) -> None:
        """Set `accounts` (claims by login), `rotate` keys, `skew_seconds` of its clock, `userinfo_only`."""
        httpx2.post(f"{self.url}/control", json=wanted, trust_env=False, timeout=30).raise_for_status()


@contextmanager
def openid_server(client_url: str) -> Iterator[OpenIdServer]:
    """Start the provider, whose only client is a dashboard at that URL."""
    assert (FOLDER / "node_modules").exists(), "the provider is missing: tests/tools/install installs it"
    node, _ = compute_driver_executable()
    port = free_port()
    with started([str(node), "provider.mjs", str(port), client_url], cwd=FOLDER) as process:
        assert process.stderr is not None
        said = ""
        while "listening" not in said:
            line = process.stderr.readline()
            said += line
            assert line, said
        yield OpenIdServer(f"http://127.0.0.1:{port}")


def sign_in(browser: httpx2.Client, url: str, login: str, callback: str) -> Mapping[str, str]:
    """Follow a URL to the provider and its forms; return the parameters with which it sends the browser back."""
    answer = browser.get(url)
    for _ in range(MOST_REDIRECTS):
        if answer.is_redirect:
            url = urljoin(url, answer.headers["location"])
            if url.startswith(callback):
                return dict(parse_qsl(urlsplit(url).query))
            answer = browser.get(url)
            continue
        form = re.search(r'<form[^>]* action="([^"]+)"', answer.text)
        assert form, answer.text
        url = urljoin(url, form[1])
        answer = browser.post(url, data={"prompt": "login", "login": login, "password": "any"})
    raise AssertionError(f"the provider never came back to {callback}")


def at_provider(url: str, login: str) -> dict[str, str]:
    """Sign in with a new browser; return the parameters with which it comes back to the dashboard."""
    with httpx2.Client(trust_env=False, timeout=30) as browser:
        return dict(sign_in(browser, url, login, CALLBACK))
