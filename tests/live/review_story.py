"""An ops review on two live servers: browser, terminal, and restarts of servers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Page, expect

from tests.browser import settle, visit
from tests.live.dashboard_runs import run
from tests.live.servers import Kind, Server

NAMES = ("chat-1", "chat-2")
ODD = ("--block-size", "32", "--prefix-caching-hash-algo", "sha256_cbor")
DEVELOPMENT = {"VLLM_SERVER_DEV_MODE": "1"}
SERVER_INFO = "/server_info?config_format=json"
MEETING, OWNER, AGREED = "Ops review", "ana", "The odd one goes back by Thursday."
# Polls follow each other soon, and a busy machine is waited for.
POLL = {
    "interval_seconds": 2,
    "probe_timeout_seconds": 30,
    "replica_timeout_seconds": 60,
    "poll_timeout_seconds": 60,
}
# The dashboard has read both servers in full, and their pool has this many cohorts.
READ = """cohorts => fetch('/api/v1/fleet').then(answer => answer.json()).then(fleet =>
  fleet.coverage.up === 2 && fleet.pools.length === 1 && fleet.pools[0].cohorts.length === cohorts)"""

# Of each row of a difference matrix its path and the values of its cells, without the words for a screen reader.
VALUES = """rows => rows.map(row => [row.dataset.path,
  [...row.querySelectorAll('td:not(.mark, .since)')].map(cell => cell.firstChild.textContent.trim())])"""


class Ran(NamedTuple):
    """Exit code, standard output and last line of standard error of a command."""

    code: int
    out: str
    last: str


class Desk:
    """The workplace of an operator: one configuration file, a folder for saved files, a dashboard in the browser."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.folder, self.ports = folder, ports
        self.config = folder / "fleet.yaml"
        targets = [
            {"url": f"http://127.0.0.1:{port}", "labels": {"name": name}}
            for name, port in zip(NAMES, ports, strict=True)
        ]
        options = {"name": "live", "targets": targets, "data_folder": "kept", "poll": POLL}
        self.config.write_text(json.dumps(options))

    def kind(self, name: str, *more: str) -> Kind:
        """How a server is started: `more` is what somebody typed behind the options of all."""
        port = self.ports[NAMES.index(name)]
        return Kind(name, "llama", ("--served-model-name", "chat", *more), DEVELOPMENT, port=port)

    def run(self, command: str, *arguments: str) -> Ran:
        """Run a command of the dashboard."""
        done = run(command, self.config, *arguments)
        errors = done.stderr.splitlines() or [""]
        return Ran(done.returncode, done.stdout, errors[-1])

    def reported(self, key: str, output: str) -> bytes:
        """Return the report of a snapshot, as a file."""
        file = self.folder / f"review.{output}"
        done = self.run("report", "--snapshot", key, "--format", output, "-o", str(file))
        assert done.code == 0, done.last
        return file.read_bytes()


def await_poll(page: Page, url: str, *, cohorts: int) -> None:
    """Wait until the dashboard has read both servers in full."""
    visit(page, url)
    page.wait_for_function(READ, arg=cohorts, polling=500, timeout=90_000)


def shown(page: Page, address: str) -> str:
    """Return the text of a page once it has come to rest."""
    visit(page, address)
    return page.locator("[data-testid=stMain]").inner_text()


def freeze(page: Page, url: str) -> str:
    """Freeze the fleet on Compare; return the link that Share shows."""
    visit(page, f"{url}/compare?pool=chat")
    page.get_by_role("button", name="Share").click()
    page.get_by_label("Name").fill(MEETING)
    page.get_by_role("button", name="Save snapshot", exact=True).click()
    expect(page.get_by_role("link", name="open it")).to_be_visible()
    link: str = page.locator("[data-testid=stPopoverBody] .paste code").inner_text()
    return link


def take_note(page: Page, review: str) -> tuple[str, str]:
    """Write owner and note of the first finding; return both after a reload."""
    visit(page, review)
    topic = page.locator("[class*=st-key-topic_]").first
    topic.get_by_placeholder("Owner").fill(OWNER)
    topic.locator("textarea").click()
    page.keyboard.type(AGREED)
    page.keyboard.press("Control+Enter")
    expect(topic.get_by_text("saved")).to_be_visible()
    page.reload()
    settle(page)
    return topic.get_by_placeholder("Owner").input_value(), topic.locator("textarea").input_value()


def read_plan(page: Page, url: str, odd: str) -> tuple[str, tuple[str, ...]]:
    """Return the causes that Compare lists, and the flags with which the odd replica is as the other one."""
    fleet = page.request.get(f"{url}/api/v1/fleet").json()
    (key,) = (each["id"] for each in fleet["replicas"] if each["name"] == odd)
    causes = page.request.get(f"{url}/api/v1/plan").json()["causes"]
    changes = [change for cause in causes for fix in cause["fixes"] for change in fix["changes"]]
    flags = [
        flag
        for change in changes
        if [each["replica"] for each in change["replicas"]] == [key]
        for flag in change["flags"]
    ]
    visit(page, f"{url}/compare?pool=chat")
    return page.locator(".st-key-first").inner_text(), tuple(shlex.split(" ".join(flags)))


def differing(page: Page, address: str) -> dict[str, set[str]]:
    """Return what Compare lists at an address: the values of each setting that differs."""
    visit(page, address)
    rows = {path: set(values) for path, values in page.locator("tr[data-path]").evaluate_all(VALUES)}
    return {path: values for path, values in rows.items() if len(values) > 1}


def drop_answers(page: Page, url: str, servers: Sequence[Server]) -> str:
    """Drop the /server_info answers of servers onto Snapshots, as curl saves them; return the id of their fleet."""
    visit(page, f"{url}/snapshots")
    files: list[Any] = [
        {
            "name": f"{server.kind.name}.json",
            "mimeType": "application/json",
            "buffer": server.get(SERVER_INFO).content,
        }
        for server in servers
    ]
    page.locator("input[type=file]").set_input_files(files)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.locator(".snapshot-banner")).to_contain_text("imported")
    return key_of(page.url)


def key_of(link: str) -> str:
    """Return the id of the snapshot that an address names."""
    found = re.search(r"[?&]snapshot=(\w+)", link)
    assert found, link
    return found[1]
