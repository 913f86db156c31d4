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


def options(servers: Sequence[Server], folder: Path) -> Path:
    """Write a fleet.yaml of these servers, each under its own name, behind a router that computes block hashes."""
    file = folder / "fleet.yaml"
    targets = [{"url": server.url, "labels": {"name": server.kind.name}} for server in servers]
    file.write_text(json.dumps({"name": "live", "targets": targets, "pools": {"*": {"router": "prefix-hash"}}}))
    return file


def check(config: Path, *more: str) -> Checked:
    command = [sys.executable, "-m", "dashboard", "check", "--config", str(config), "--format", "json", *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return Checked(json.loads(done.stdout)["findings"], done.returncode, done.stderr.splitlines()[-1])


def poll(config: Path, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Poll once, everything of it as JSON."""
    command = [sys.executable, "-m", "dashboard", "poll", "--config", str(config), "--format", "json", "--full"]
    environ = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document
