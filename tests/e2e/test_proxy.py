"""The proxy configuration of docs/deployment.md in nginx: page, websocket, audit log, errors for other host names."""

import json
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from dashboard.web import launch
from tests.browser import chromium, settle
from tests.docs_pages import code_blocks, docs_page
from tests.serving import free_port, started, wait_until_healthy

NAME, OTHER = "fleet.example.com", "other.example.com"
USER, WORD = "ann", "word"
PATIENCE_SECONDS = 30
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
{location}
    }}
}}
"""


def block(language: str) -> str:
    """The code block of a language on the page."""
    (found,) = code_blocks(docs_page("deployment"), language)
    return found


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[int]:
    """Start nginx with the location of the page, with a different port and another password file."""
    location = block("nginx")
    for ours, tested in (("127.0.0.1:8501", f"127.0.0.1:{upstream}"), ("/etc/nginx/", f"{folder}/")):
        assert location.count(ours) == 1
        location = location.replace(ours, tested)
    port = free_port()
    (folder / "fleet.htpasswd").write_text(f"{USER}:{{PLAIN}}{WORD}\n")
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, location=location))
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "nginx is missing: tests/tools/install-debian nginx=nginx-light installs it"
    with started([program, "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]) as process:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        assert process.poll() is None, (folder / "error.log").read_text()
        yield port


@contextmanager
def dashboard(folder: Path, options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Serve an empty fleet with these options."""
    (folder / "fleet.yaml").write_text(options)
    port = free_port()
    environment = launch.environment(folder / "fleet.yaml")
    with started(launch.server_command("127.0.0.1", port), environment=environment) as process:
        wait_until_healthy(f"http://127.0.0.1:{port}")
        yield port, process


def logged(process: subprocess.Popen[str], mark: str) -> str:
    """Wait for a line on standard error that has a mark."""
    assert process.stderr is not None
    said = ""
    while not (found := [line for line in said.splitlines() if mark in line]):
        assert select.select([process.stderr], [], [], PATIENCE_SECONDS)[0], said
        said += os.read(process.stderr.fileno(), 2**16).decode()
    return found[0]


@pytest.mark.browser
def test_the_proxy_of_the_docs_serves_the_page_logs_the_user_and_refuses_other_names(tmp_path: Path) -> None:
    option = f"set {block('yaml').partition('  ')[0]} in fleet.yaml (FLEET_ALLOWED_HOSTS={NAME}) and restart"
    sentence = f"Host {NAME} is not allowed. If {NAME} is a name of this dashboard, {option}."
    assert sentence in " ".join(docs_page("deployment").split())
    with (
        dashboard(tmp_path, block("yaml") + "targets: ['127.0.0.1:9']\n") as (upstream, process),
        nginx(tmp_path, upstream) as port,
        chromium(f"--host-resolver-rules=MAP {NAME} 127.0.0.1") as browser,
    ):
        url = f"http://{NAME}:{port}"
        local = f"http://127.0.0.1:{port}"
        assert httpx2.get(local, trust_env=False).status_code == 401
        refused = httpx2.get(local, headers={"Host": OTHER}, auth=(USER, WORD), trust_env=False, timeout=30)
        other = sentence.replace(NAME, OTHER)
        assert (refused.status_code, refused.text) == (403, f"{other}\n")
        assert logged(process, "403") == f"403: {other}"
        page = browser.new_page(http_credentials={"username": USER, "password": WORD})
        sockets: list[str] = []
        page.on("websocket", lambda opened: sockets.append(opened.url))
        page.goto(url)
        settle(page)
        assert sockets == [f"ws://{NAME}:{port}/_stcore/stream"]
        page.get_by_role("button", name="Share").click()
        page.get_by_role("button", name="Save snapshot").click()
        expect(page.get_by_text("Saved as")).to_be_visible()
        entry: dict[str, Any] = json.loads(logged(process, '"audit"'))

    line = (entry["audit"], entry["remote"], entry["forwarded_for"], entry["user"])
    assert line == ("save", "127.0.0.1", "127.0.0.1", USER)
