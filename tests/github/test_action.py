"""The composite action: its steps run in bash against a simulated fleet."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard.demo import DemoServer, default_fleet, in_thread
from tests.commands import demo_targets, run
from tests.docs_pages import docs_page
from tests.github.action import ACTION, CHECK, FAIL, INSTALL, UPLOAD, use
from tests.serving import ROOT, free_port

ROUTED = {"*": {"router": "kv-events"}}
FEW = 4  # the fourth cuts blocks of 32 tokens, the others of 16


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with in_thread(default_fleet(FEW)) as server:
        yield server


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """Return the runner's folder of temporary files."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path: Path, demo: DemoServer) -> Path:
    """Return a repository with fleet.yaml, and a folder that is named as the package."""
    folder = tmp_path / "repository"
    (folder / "dashboard").mkdir(parents=True)
    (folder / "dashboard" / "__init__.py").write_text("raise ImportError('this is another dashboard')")
    write_options(folder, targets=demo_targets(demo), pools=ROUTED)
    return folder


def write_options(folder: Path, **options: Any) -> None:
    (folder / "fleet.yaml").write_text(yaml.safe_dump({"name": "mine", **options}))


def sarif_of(outputs: Any) -> Any:
    return json.loads(Path(outputs["sarif"]).read_text())["runs"][0]


def test_a_critical_finding_fails_the_job_after_annotations_summary_and_sarif(workspace: Path, runner: Path) -> None:
    used = use(workspace, runner, {})

    assert used.code == 1
    assert used.outputs["exit-code"] == "1"
    assert used.outputs["reason"].startswith("exit 1: ")
    assert used.printed.rstrip().endswith(used.outputs["reason"])
    assert "::error title=RT-01" in used.printed
    assert "RT-01" in used.summary
    results = sarif_of(used.outputs)["results"]
    assert len(results) == int(used.outputs["findings"]) > 0
    places = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results}
    assert places == {"fleet.yaml"}


@pytest.mark.long
def test_too_few_replicas_give_3_and_suppressed_findings_are_not_uploaded(
    workspace: Path, runner: Path, tmp_path: Path, demo: DemoServer
) -> None:
    accepted = {"rule": "RT-01", "owner": "ann", "reason": "a trial", "until": "2999-12-31"}
    nobody = {"url": f"127.0.0.1:{free_port()}"}
    write_options(workspace, targets=[*demo_targets(demo), nobody], pools=ROUTED, suppress=[accepted])

    used = use(workspace, runner, {})

    assert (used.code, used.outputs["exit-code"]) == (3, "3")
    assert "4 of 5" in used.summary
    assert "RT-01" not in {each["ruleId"] for each in sarif_of(used.outputs)["results"]}

    write_options(workspace)  # no replica: the saved fleet is checked again
    (tmp_path / "again").mkdir()
    inputs = {"snapshot": used.outputs["fleet"], "min-coverage": "80"}
    again = use(workspace, tmp_path / "again", inputs)

    assert (again.code, again.outputs["exit-code"]) == (0, "0")
    assert again.outputs["fleet"] == used.outputs["fleet"]


def test_wrong_options_give_2_with_the_reason_and_no_upload(workspace: Path, runner: Path) -> None:
    write_options(workspace, rules={"RT-1": {"enabled": False}})

    used = use(workspace, runner, {})

    assert (used.code, used.summary) == (2, "")
    assert used.outputs == {"exit-code": "2", "reason": used.printed.splitlines()[-1]}
    assert "unknown rule; did you mean RT-01?" in used.outputs["reason"]
    assert UPLOAD["if"] == "inputs.upload-sarif == 'true' && steps.check.outputs.sarif != ''"


@pytest.mark.long
def test_each_line_of_baseline_is_a_file(workspace: Path, runner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    assert run("baseline", "chat-70b", "-o", "base line.yaml").exit_code == 0
    changed = workspace / "another.yaml"
    text = (workspace / "base line.yaml").read_text()
    changed.write_text(re.sub(r"(cache_config.block_size: )\d+", r"\g<1>64", text).replace("chat-70b", "coder"))

    used = use(workspace, runner, {"baseline": "\nbase line.yaml\nanother.yaml\n"})

    assert used.code == 1
    assert "another.yaml" in used.summary, "no replica is in its pool"
    assert "BL-01" in {each["ruleId"] for each in sarif_of(used.outputs)["results"]}


def test_inputs_are_variables_and_never_part_of_a_script(workspace: Path, runner: Path) -> None:
    attack = '\'; touch "$RUNNER_TEMP/attacked" #$(touch "$RUNNER_TEMP/attacked")'

    used = use(workspace, runner, {"config": attack, "baseline": attack, "fail-on": attack})

    assert used.code == 2
    assert not (runner / "attacked").exists()
    assert [step for step in (INSTALL, CHECK, FAIL) if "${{" in step["run"]] == []


def test_every_input_and_output_is_described_and_used() -> None:
    text = (ROOT / "action.yml").read_text()

    for name, each in ACTION["inputs"].items():
        assert each["description"].endswith(".")
        assert f"inputs.{name}" in text
        assert f"`{name}`" in docs_page("ci"), "document it in docs/ci.md"
    for name, each in ACTION["outputs"].items():
        assert each["description"].endswith(".")
        assert f'"{name}=' in CHECK["run"]
        assert f"`{name}`" in docs_page("ci"), "document it in docs/ci.md"


@pytest.mark.long
def test_it_installs_the_locked_requirements_and_only_once(workspace: Path, runner: Path) -> None:
    """It downloads every requirement."""
    inputs = {"python": f"{sys.base_prefix}/bin/python3", "fail-on": "never"}  # a job can check several fleets

    used = use(workspace, runner, inputs, is_installed=False)
    python = runner / "vllm-fleet" / "bin" / "python"
    made = python.lstat().st_mtime_ns
    again = use(workspace, runner, inputs, is_installed=False)

    assert (used.code, again.code) == (0, 0)
    assert python.lstat().st_mtime_ns == made
    assert used.outputs["fleet"] != again.outputs["fleet"]


def test_an_old_python_is_refused_with_a_sentence(workspace: Path, runner: Path) -> None:
    old = runner / "python3"
    old.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 9); $(printf \'%s\' "$2")"\n'
    )
    old.chmod(0o755)

    used = use(workspace, runner, {"python": str(old)}, is_installed=False)

    assert used.code == 1
    assert used.printed == "Python 3.11 or newer is needed; set the input python\n"
