"""The proxy configuration of docs/access.md in nginx: sign-in, page, websocket, roles, tokens, and forged headers."""

import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx2
import pytest
import yaml
from playwright.sync_api import expect

from dashboard.web import launch
from tests.access.openid import SECRET, openid_server
from tests.browser import chromium, settle
from tests.docs_pages import code_blocks, docs_page
from tests.e2e.test_sign_in import sign_in
from tests.serving import free_port, started, wait_for, wait_until_healthy
from tests.sources.polling.hostile import CERTIFICATE, Exchange, HostileServer

NAME, OTHER = "fleet.example.com", "other.example.com"
USER = "ann@example.com"
GROUPS = {USER: "sre,ml", "bob@example.com": "ml", "eve@example.com": ""}  # at the provider
COOKIE = "_oauth2_proxy"
TOKEN = "fleet_0123456789"
PATIENCE_SECONDS = 30
SOCKET = "http://unix:/run/fleet/dashboard.sock:"  # in the blocks of nginx
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{server}
}}
"""


def block(language: str, mark: str) -> str:
    """The code block of the page that has a mark."""
    (found,) = [each for each in code_blocks(docs_page("access"), language) if mark in each]
    return found


@contextmanager
def oauth2_proxy() -> Iterator[int]:
    """Answer as oauth2-proxy does: a cookie is a sign-in, and its value the e-mail address; yield the port."""

    async def check(exchange: Exchange) -> None:
        email = exchange.asked.headers.get("cookie", "").partition(f"{COOKIE}=")[2].partition(";")[0]
        if email in GROUPS:
            groups = [f"X-Auth-Request-Groups: {GROUPS[email]}"] if GROUPS[email] else []
            await exchange.reply(b"", 202, [f"X-Auth-Request-Email: {email}", *groups])
        else:
            await exchange.reply(b"Unauthorized", 401)

    async def sign_in(exchange: Exchange) -> None:
        back = exchange.asked.headers["x-auth-request-redirect"]
        await exchange.reply(b"", 302, [f"Location: {back}", f"Set-Cookie: {COOKIE}={USER}; Path=/; HttpOnly"])

    with HostileServer() as server:
        server.routes.update({"/oauth2/auth": check, "/oauth2/start": sign_in})
        yield server.port


@contextmanager
def nginx(folder: Path, upstream: str, sign_in: int) -> Iterator[int]:
    """Start nginx with the server of the page that asks oauth2-proxy, with other ports, and without TLS."""
    server, port = block("nginx", "auth_request"), free_port()
    for ours, tested, times in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};", 1),
        (SOCKET, upstream, 2),
        ("http://127.0.0.1:4180", f"http://127.0.0.1:{sign_in}", 2),
    ):
        assert server.count(ours) == times
        server = server.replace(ours, tested)
    with nginx_of(folder, server, port):
        yield port


@contextmanager
def nginx_of(folder: Path, server: str, port: int) -> Iterator[None]:
    """Start nginx with a server, which listens on a port."""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, server=server))
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "nginx is missing: tests/tools/install installs it"
    with started([program, "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]) as process:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        assert process.poll() is None, (folder / "error.log").read_text()
        yield


def options(**access: Any) -> str:
    """The options of the page, and a token."""
    found = yaml.safe_load(block("yaml", "mode: proxy\n  trusted_proxies: [unix]"))
    found["access"] |= {
        "tokens": [{"name": "ci", "role": "viewer", "sha256": sha256(TOKEN.encode()).hexdigest()}],
        **access,
    }
    return yaml.safe_dump({**found, "targets": ["127.0.0.1:9"]})


@contextmanager
def dashboard(folder: Path, text: str) -> Iterator[int]:
    """Serve an empty fleet with these options; yield the port."""
    (folder / "fleet.yaml").write_text(text)
    port = free_port()
    with started(launch.server_command("127.0.0.1", port), environment=launch.environment(folder / "fleet.yaml")):
        wait_until_healthy(f"http://127.0.0.1:{port}")
        yield port


@contextmanager
def dashboard_on_socket(folder: Path, text: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the command of the page with these options, in other folders; yield the upstream of nginx."""
    (folder / "fleet.yaml").write_text(text)
    (line,) = re.findall("^ExecStart=(.+)$", block("ini", "ExecStart"), re.MULTILINE)
    python, *arguments = line.replace("/etc/fleet", str(folder)).replace("/run/fleet", str(folder)).split()
    assert python.endswith("/python")
    with started([sys.executable, *arguments], environment=environment) as process:
        wait_for((folder / "dashboard.sock").exists)
        yield f"http://unix:{folder}/dashboard.sock:", process
    assert not (folder / "dashboard.sock").exists()


def logged(process: subprocess.Popen[str], mark: str) -> str:
    """Wait for a line on standard error that has a mark."""
    assert process.stderr is not None
    said = ""
    while not (found := [line for line in said.splitlines() if mark in line]):
        assert select.select([process.stderr], [], [], PATIENCE_SECONDS)[0], said
        said += os.read(process.stderr.fileno(), 2**16).decode()
    return found[0]


def session(url: str, headers: dict[str, str], peer: str = "127.0.0.1", path: str = "/auth/session") -> httpx2.Response:
    """Ask for the name and the role of the visitor, from an address of this machine."""
    with httpx2.Client(transport=httpx2.HTTPTransport(local_address=peer), timeout=30) as client:
        return client.get(f"{url}{path}", headers=headers)


@pytest.mark.long
@pytest.mark.browser
def test_the_proxy_of_the_docs_signs_in_serves_the_page_and_refuses_other_names(
    tmp_path: Path,
) -> None:
    option = f"set allowed_hosts: [{NAME}] in fleet.yaml (FLEET_ALLOWED_HOSTS={NAME}) and restart"
    sentence = f"Host {NAME} is not allowed. If {NAME} is a name of this dashboard, {option}."
    assert sentence in " ".join(docs_page("deployment").split())
    with (
        dashboard_on_socket(tmp_path, options()) as (upstream, process),
        oauth2_proxy() as sign_in,
        nginx(tmp_path, upstream, sign_in) as port,
        chromium(f"--host-resolver-rules=MAP {NAME} 127.0.0.1") as browser,
    ):
        url, cookie = f"http://127.0.0.1:{port}", {"Cookie": f"{COOKIE}={USER}"}
        wait_for(lambda: session(url, cookie, path="/readyz").is_success)
        refused = session(url, {"Host": OTHER, **cookie})
        other = sentence.replace(NAME, OTHER)
        plain = "This host name or origin is not allowed. Ask an administrator.\n"
        assert (refused.status_code, refused.text) == (403, plain)
        line = json.loads(logged(process, '"audit": "host"'))
        assert (line["reason"], line["request"]) == (other, "GET /auth/session")
        page = browser.new_page()
        sockets: list[str] = []
        page.on("websocket", lambda opened: sockets.append(opened.url))
        page.goto(f"http://{NAME}:{port}/findings?search=rt&pool=a")
        settle(page)
        assert page.url == f"http://{NAME}:{port}/findings?search=rt&pool=a"
        assert sockets == [f"ws://{NAME}:{port}/_stcore/stream"]
        page.get_by_role("button", name="Share").click()
        page.get_by_role("button", name="Save snapshot").click()
        expect(page.get_by_text("Saved as")).to_be_visible()
        entry = json.loads(logged(process, '"audit": "save"'))
        assert (entry["visitor"], entry["role"], entry["means"]) == (USER, "admin", "proxy")
        assert session(url, {}, path="/_stcore/stream").status_code == 302


@pytest.mark.long
def test_only_what_the_proxy_says_counts(tmp_path: Path) -> None:
    forged = {"X-Forwarded-User": "root", "X-Forwarded-Groups": "sre", "X_Forwarded_User": "root"}
    with (
        dashboard(tmp_path, options(trusted_proxies=["127.0.0.1"])) as upstream,
        oauth2_proxy() as sign_in,
        nginx(tmp_path, f"http://127.0.0.1:{upstream}", sign_in) as port,
    ):
        proxy, direct = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{upstream}"
        assert session(proxy, forged, path="/compare?pool=a&cell=b").headers["location"] == "/compare?pool=a&cell=b"
        found = {each: session(proxy, {**forged, "Cookie": f"{COOKIE}={each}"}).json() for each in GROUPS}
        assert {name: (each["name"], each["role"]) for name, each in found.items()} == {
            USER: (USER, "admin"),
            "bob@example.com": ("bob@example.com", "viewer"),
            "eve@example.com": ("eve@example.com", "viewer"),
        }
        untrusted = session(direct, forged, peer="127.0.0.2")
        assert untrusted.status_code == 401
        assert untrusted.json()["detail"].startswith("Unauthorized: sign in at the proxy.")
        program, document = {"Authorization": f"Bearer {TOKEN}"}, "/api/v1/fleet"
        assert session(proxy, {**program, **forged}, path=document).status_code == 200
        assert session(proxy, forged, path=document).status_code == 401
        assert session(proxy, {**forged, "Cookie": f"{COOKIE}={USER}"}, path="/metrics").status_code == 401


@pytest.mark.long
@pytest.mark.browser
def test_the_openid_example_signs_in_over_https_behind_its_nginx(tmp_path: Path) -> None:
    port, own = free_port(), block("yaml", "mode: oidc")
    url = f"https://{NAME}:{port}"
    server = block("nginx", "imports\n    }\n}")
    certificate = f"ssl_certificate {CERTIFICATE}; ssl_certificate_key {CERTIFICATE};"
    with (
        openid_server(url) as provider,
        dashboard_on_socket(
            tmp_path,
            own.replace("https://login.example.com", provider.url).replace(f"https://{NAME}", url),
            OIDC_SECRET=SECRET,
            SESSION_KEYS=token_hex(32),
        ) as (upstream, _),
        nginx_of(
            tmp_path,
            server.replace("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl; {certificate}").replace(SOCKET, upstream),
            port,
        ),
        chromium(f"--host-resolver-rules=MAP {NAME} 127.0.0.1", "--ignore-certificate-errors") as browser,
    ):
        provider.control(accounts={"ann": {"groups": ["sre"]}})
        page = browser.new_page()
        page.goto(f"{url}/findings?search=rt")
        assert page.url.startswith(provider.url)
        sign_in(page, "ann")
        settle(page)
        assert page.url == f"{url}/findings?search=rt"
        cookies = {each["name"]: each["secure"] for each in page.context.cookies(url)}
        assert cookies["__Host-fleet_session"] is True
