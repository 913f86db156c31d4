"""The hooks for pre-commit."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run
from tests.docs_pages import code_blocks, docs_page
from tests.serving import ROOT

MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOOKS: dict[str, dict[str, Any]] = {each["id"]: each for each in yaml.safe_load(MANIFEST.read_text())}
OPTIONS = "targets: [127.0.0.1:8000]\nbaselines: [baselines/chat.yaml]\n"
BASELINE = "version: 1\npool: chat\nexpected: {cache_config.block_size: 16}\n"


def pre_commit(*arguments: str, cwd: Path = ROOT, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home)} if home else None
    command = [sys.executable, "-m", "pre_commit", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a git repository with options and a baseline."""
    (tmp_path / "repository" / "baselines").mkdir(parents=True)
    folder = tmp_path / "repository"
    (folder / "fleet.yaml").write_text(OPTIONS)
    (folder / "baselines" / "chat.yaml").write_text(BASELINE)
    for command in (("init", "--quiet"), ("add", ".")):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def test_pre_commit_accepts_the_manifest() -> None:
    done = pre_commit("validate-manifest", str(MANIFEST))

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", HOOKS)
def test_the_entry_is_a_command_that_accepts_what_the_hook_selects(
    name: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    program, *arguments = HOOKS[name]["entry"].split()
    files = [str(each.relative_to(repository)) for each in repository.rglob("*.yaml")]
    selected = [each for each in files if re.search(HOOKS[name]["files"], each)]

    assert program == "vllm-fleet"
    assert len(selected) == 1
    assert run(*arguments, *selected).exit_code == 0
    (repository / selected[0]).write_text("nothing: such\n")
    assert run(*arguments, *selected).exit_code == 1


def test_the_example_has_every_hook() -> None:
    (example,) = [each for each in code_blocks(docs_page("ci"), "yaml") if "hooks:" in each]
    (repo,) = yaml.safe_load(example)["repos"]

    assert [each["id"] for each in repo["hooks"]] == list(HOOKS)


@pytest.mark.long
def test_pre_commit_installs_the_hooks_from_a_clone_and_runs_them(repository: Path, tmp_path: Path) -> None:
    """It downloads every requirement."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    attempt = ("try-repo", str(clone), "--all-files", "--color=never")

    good = pre_commit(*attempt, cwd=repository, home=tmp_path / "home")
    (repository / "fleet.yaml").write_text(OPTIONS.replace("targets", "target"))
    bad = pre_commit(*attempt, cwd=repository, home=tmp_path / "home")

    assert good.returncode == 0, good.stdout + good.stderr
    assert good.stdout.count("Passed") == len(HOOKS)
    assert bad.returncode == 1
    assert "did you mean targets?" in bad.stdout
    assert (bad.stdout.count("Passed"), bad.stdout.count("Failed")) == (1, 1)
