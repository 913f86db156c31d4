"""Sign-in at a real OpenID provider in Chromium: to a page and back, sign-out, and a role that is taken away."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, Route, WebSocketRoute, expect

from dashboard.web import launch
from tests.access.openid import CLIENT, SECRET, OpenIdServer, openid_server
from tests.browser import settle, tab
from tests.serving import free_port, started, wait_until_healthy

pytestmark = pytest.mark.browser

OPTIONS = """
targets: ['127.0.0.1:9']
access:
  mode: oidc
  oidc: {{issuer: {issuer}, client_id: {client}, client_secret_env: OIDC_SECRET}}
  roles: {{admin: [sre], viewer: [{viewers}]}}
"""

# Reports each dialog that is ever visible.
WATCH_DIALOGS = """
const look = () => {
  const dialog = document.querySelector("[data-testid=stDialog]");
  if (dialog && getComputedStyle(dialog).visibility !== "hidden") dialogShown(dialog.textContent);
  requestAnimationFrame(look);
};
look();
"""


class Served(NamedTuple):
    """A dashboard, its provider, and its file of options."""

    url: str
    provider: OpenIdServer
    file: Path
    process: subprocess.Popen[str]

    def write_options(self, viewers: str) -> None:
        text = OPTIONS.format(issuer=self.provider.url, client=CLIENT, viewers=viewers)
        self.file.write_text(text)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    port, file = free_port(), tmp_path_factory.mktemp("sign-in") / "fleet.yaml"
    url = f"http://127.0.0.1:{port}"
    environment = {**launch.environment(file), "OIDC_SECRET": SECRET}
    with openid_server(url) as provider:
        provider.control(accounts={"ann": {"groups": ["sre"]}, "bob": {"groups": ["ml"]}, "eve": {"groups": ["x"]}})
        file.write_text(OPTIONS.format(issuer=provider.url, client=CLIENT, viewers="ml"))
        with started(launch.server_command("127.0.0.1", port), environment=environment) as process:
            wait_until_healthy(url)
            yield Served(url, provider, file, process)


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with tab(browser) as found:
        yield found
        found.goto(f"{served.provider.url}/jwks")
        found.context.clear_cookies()


def sign_in(page: Page, login: str) -> None:
    """Fill in the form of the provider."""
    page.get_by_placeholder("Enter any login").fill(login)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()


@pytest.mark.long
def test_a_page_asks_for_a_sign_in_opens_and_closes_with_sign_out(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/findings?severity=warning")
    assert page.url.startswith(served.provider.url)
    sign_in(page, "ann")
    settle(page)
    assert page.url == f"{served.url}/findings?severity=warning"
    expect(page.get_by_text("ann@example.com").first).to_be_visible()

    sign_out(page)
    page.get_by_role("button", name="Yes, sign me out").click()
    expect(page.get_by_role("heading", name="Signed out")).to_be_visible()
    assert page.url.startswith(f"{served.url}/auth/signed-out")
    expect(page.get_by_role("banner")).to_have_text("fleet")
    page.wait_for_function("document.fonts.status === 'loaded'")
    assert page.evaluate("[...document.fonts].map(each => `${each.family} ${each.status}`)") == ["Source Sans loaded"]
    page.evaluate("history.go(-2)")  # the button back: browsers show the page from their cache
    page.wait_for_url(f"{served.url}/auth/signed-out?next=%2Ffindings*", timeout=10_000)
    page.goto(f"{served.url}/findings")
    assert page.url.startswith(served.provider.url), "no page without another sign-in"


@pytest.mark.long
def test_a_sign_out_in_one_tab_is_not_undone_by_another(page: Page, served: Served) -> None:
    """The other one leaves as soon as its websocket ends, without Streamlit's dialog on a lost connection."""
    sockets: list[WebSocketRoute] = []

    def connect(opened: WebSocketRoute) -> None:
        opened.connect_to_server()
        sockets.append(opened)

    page.route_web_socket("**/_stcore/stream", connect)
    dialogs: list[str] = []
    page.expose_function("dialogShown", lambda said: dialogs.append(said))  # noqa: PLW0108  as below
    page.add_init_script(WATCH_DIALOGS)
    page.goto(f"{served.url}/compare?pool=chat")
    sign_in(page, "ann")
    settle(page)
    page.request.post(f"{served.url}/auth/logout", headers={"origin": served.url, "accept": "application/json"})
    slow: list[Route] = []  # Streamlit's dialog is there before the answer
    page.route("**/auth/session", lambda asked: slow.append(asked))  # noqa: PLW0108  it keeps a mark there
    sockets[-1].close(code=1008, reason="sign-in ended")
    page.get_by_test_id("stDialog").wait_for(state="attached")
    for each in slow:
        each.continue_()
    expect(page.get_by_role("heading", name="Signed out")).to_be_visible()
    assert dialogs == []

    page.get_by_role("link", name="Sign in").click()
    settle(page)
    assert page.url == f"{served.url}/compare?pool=chat", "the provider knows ann still"


@pytest.mark.long
def test_while_the_server_is_gone_the_page_says_so(page: Page, served: Served) -> None:
    page.goto(served.url)
    sign_in(page, "ann")
    settle(page)
    page.route("**/auth/session", lambda asked: asked.abort())
    page.route("**/_stcore/*", lambda asked: asked.abort())
    page.route_web_socket("**/_stcore/stream", lambda opened: opened.close())
    page.reload()
    expect(page.get_by_role("dialog", name="Connection error")).to_be_visible()


def sign_out(page: Page) -> None:
    page.get_by_role("button", name="Status and help").click()
    page.get_by_role("button", name="Sign out").click()


@pytest.mark.long
def test_somebody_without_a_role_signs_in_as_somebody_else(page: Page, served: Served) -> None:
    page.goto(served.url)
    sign_in(page, "eve")
    expect(page.get_by_text("No role for eve@example.com")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No role for eve@example.com")).to_be_visible()
    page.get_by_role("link", name="Sign in as somebody else").click()
    sign_in(page, "bob")
    settle(page)

    assert page.url == f"{served.url}/"


@pytest.mark.long
def test_an_open_page_leaves_when_its_role_is_taken_away_and_comes_back_with_it(page: Page, served: Served) -> None:
    page.clock.install()
    page.goto(served.url)
    sign_in(page, "bob")
    settle(page)
    served.write_options("nobody")
    served.process.send_signal(signal.SIGHUP)
    wait_for_status(page, 403)
    page.clock.fast_forward(31_000)
    expect(page.get_by_text("No role for bob@example.com")).to_be_visible()

    served.write_options("ml")
    served.process.send_signal(signal.SIGHUP)
    wait_for_status(page, 200)
    page.reload()
    settle(page)


def wait_for_status(page: Page, status: int) -> None:
    """Wait until a reload of the options counts."""
    for _ in range(100):
        if page.evaluate("fetch('/auth/session').then((answer) => answer.status)") == status:
            return
        page.wait_for_timeout(100)
    pytest.fail(f"/auth/session never answered {status}")
