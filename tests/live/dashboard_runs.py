"""The dashboard's command line on live servers, as an operator runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.servers import Server
from tests.serving import ROOT


class Checked(NamedTuple):
    """What `check` printed, how it ended, and its last line."""

    findings: list[dict[str, Any]]
    code: int
    last: str

    def of(self, rule: str) -> dict[str, Any]:
        """The one finding of a rule."""
        (found,) = self.all_of(rule)
        return found

    def all_of(self, rule: str) -> list[dict[str, Any]]:
        return [each for each in self.findings if each["rule"] == rule]


def options(
    servers: Sequence[Server], folder: Path, router: str | None = "prefix-hash", keys: Mapping[str, str] | None = None
) -> Path:
    """Write a fleet.yaml of these servers, each under its own name, behind a router; None: not declared.

    `keys` names the variable with the API key of a server.
    """
    file = folder / "fleet.yaml"
    targets: list[dict[str, Any]] = []
    for server in servers:
        name = server.kind.name
        credentials = {"credentials": {"token_env": keys[name]}} if keys and name in keys else {}
        targets.append({"url": server.url, "labels": {"name": name}, **credentials})
    pools = {"*": {"router": router}} if router else {}
    file.write_text(json.dumps({"name": "live", "targets": targets, "pools": pools}))
    return file


def check(config: Path, *more: str, environment: Mapping[str, str] | None = None) -> Checked:
    done = run("check", config, "--format", "json", *more, environment=environment)
    return Checked(json.loads(done.stdout)["findings"], done.returncode, done.stderr.splitlines()[-1])


def poll(config: Path, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Poll once, everything of it as JSON."""
    done = run("poll", config, "--format", "json", "--full", environment=environment)
    done.check_returncode()
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def printed(command: str, config: Path, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines of a command's table, which is its standard output."""
    return run(command, config, environment=environment).stdout.splitlines()


def run(
    command: str, config: Path, *more: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of the dashboard from the project's folder."""
    line = [sys.executable, "-m", "dashboard", command, "--config", str(config), *more]
    environ = {**os.environ, **(environment or {})}
    return subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
