"""Run the steps of action.yml that have a script, as GitHub does: bash in the checked repository, inputs as values."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.serving import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
INSTALL, CHECK, UPLOAD, FAIL = STEPS
_EXPRESSION = re.compile(r"\$\{\{ (inputs|steps\.check\.outputs)\.([\w-]+) \}\}")
SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]  # as GitHub's documentation has it


@dataclass(frozen=True)
class Used:
    """One use of the action."""

    code: int
    printed: str
    outputs: Mapping[str, str]
    summary: str


def use(workspace: Path, runner: Path, inputs: Mapping[str, str], *, is_installed: bool = True) -> Used:
    """Run all `run:` steps; `runner` is the folder of temporary files, where the dashboard may be installed already."""
    assert inputs.keys() <= ACTION["inputs"].keys()
    if is_installed:
        (runner / "vllm-fleet").symlink_to(sys.prefix)
    given = {name: inputs.get(name, each["default"]) for name, each in ACTION["inputs"].items()}
    files = {name: runner / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FLEET_")},
        **{name: str(file) for name, file in files.items()},
        "RUNNER_TEMP": str(runner),
        "GITHUB_ACTION_PATH": str(ROOT),
    }
    outputs: dict[str, str] = {}
    printed = ""
    for step in (INSTALL, CHECK, FAIL):
        variables = {name: _evaluated(text, given, outputs) for name, text in step["env"].items()}
        done = subprocess.run(
            [*SHELL, step["run"]],
            cwd=workspace,
            env={**environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed += done.stdout
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        if done.returncode:
            return Used(done.returncode, printed, outputs, files["GITHUB_STEP_SUMMARY"].read_text())
    return Used(0, printed, outputs, files["GITHUB_STEP_SUMMARY"].read_text())


def _evaluated(text: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    """Replace the expressions that the action uses."""
    return _EXPRESSION.sub(lambda found: inputs[found[2]] if found[1] == "inputs" else outputs.get(found[2], ""), text)
