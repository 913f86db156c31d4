"""The files that GitHub reads: linted, pinned, and with the least permissions. GitHub itself runs none of them here."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.serving import ROOT

BIN = Path(sys.executable).parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
ACTION = ROOT / "action.yml"
USES = re.compile(r"uses: (\S+)@(\S+)(.*)$", re.MULTILINE)
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-actions": [ACTION],
    "dependabot": [GITHUB / "dependabot.yml"],
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "github-issue-forms": [each for each in FORMS if each.stem != "config"],
}


def linted(*arguments: str, name: str) -> tuple[int, str]:
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}  # actionlint starts shellcheck
    done = subprocess.run(
        [BIN / name, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_actionlint_and_shellcheck_have_no_complaint() -> None:
    assert len(WORKFLOWS) >= 2
    assert linted("-no-color", *map(str, WORKFLOWS), name="actionlint") == (0, "")


def test_actionlint_and_shellcheck_find_a_mistake(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("run: make check", "run: echo $GITHUB_REF ${{ inputs.no }}"))

    code, output = linted("-no-color", "-oneline", str(broken), name="actionlint")

    assert code == 1
    assert {"SC2086", "no"} <= set(re.findall(r'SC\d+|property "(\w+)"', output)) | set(re.findall(r"SC\d+", output))


@pytest.mark.long
@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_has_the_form_that_github_expects(schema: str) -> None:
    files = SCHEMAS[schema]

    assert files
    code, output = linted("--builtin-schema", f"vendor.{schema}", *map(str, files), name="check-jsonschema")
    assert (code, output.strip()) == (0, "ok -- validation done")


def test_every_action_of_somebody_else_is_pinned_to_a_commit_with_its_version() -> None:
    used = [each for file in (*WORKFLOWS, ACTION) for each in USES.findall(file.read_text())]

    assert len(used) > 10
    assert [each for each in used if not re.fullmatch(r"[0-9a-f]{40}", each[1])] == []
    assert [each for each in used if not re.fullmatch(r" # v\d+\.\d+\.\d+", each[2])] == []
    assert len({each[0] for each in used}) == len(set(used)), "one commit of each action"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_gives_no_permission_but_to_the_job_that_needs_it(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())

    assert workflow["permissions"] in ({}, {"contents": "read"})
    for job in workflow["jobs"].values():
        assert "write-all" not in str(job.get("permissions"))
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_ci_runs_make_check_on_every_supported_python() -> None:
    check = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text())["jobs"]["check"]

    assert check["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert "make check" in [step.get("run") for step in check["steps"]]


def test_a_release_has_wheels_sbom_and_both_images_with_provenance() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text())["jobs"]
    (build,) = [each["with"] for each in jobs["image"]["steps"] if each.get("id") == "build"]

    assert build["platforms"] == "linux/amd64,linux/arm64"
    assert (ROOT / build["file"]).exists()
    assert "make dist" in [step.get("run") for step in jobs["dist"]["steps"]]
    for name in ("dist", "image"):
        assert any("attest-build-provenance" in step.get("uses", "") for step in jobs[name]["steps"])
        assert jobs[name]["permissions"]["attestations"] == "write"


def test_every_folder_that_dependabot_reads_exists() -> None:
    updates: list[dict[str, Any]] = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]

    assert [each for each in updates if not (ROOT / each["directory"].lstrip("/")).is_dir()] == []
