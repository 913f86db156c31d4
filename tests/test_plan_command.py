"""`plan`: the fix plan of a fleet; its content is a golden file."""

import json
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import fleet_json
from tests.captured import AT
from tests.commands import assert_wrong_usage, run

pytestmark = pytest.mark.usefixtures("working_folder")


@pytest.fixture
def saved(demo_fleet: Fleet, tmp_path: Path) -> str:
    file = tmp_path / "fleet.json"
    file.write_bytes(fleet_json(demo_fleet, AT, full=True))
    return str(file)


def test_a_saved_fleet_has_the_plan_of_a_live_one(saved: str) -> None:
    done = run("plan", "--snapshot", saved, "--format", "json")

    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["causes"][0]["key"] == "cache_config.block_size"


def test_one_pool_has_only_its_causes(saved: str) -> None:
    done = run("plan", "--snapshot", saved, "--format", "json", "--pool", "deepseek-v3/prefill")

    assert {pool for each in json.loads(done.stdout)["causes"] for pool in each["pools"]} == {
        "deepseek-v3/decode",
        "deepseek-v3/prefill",
    }


def test_an_unknown_pool_is_wrong_usage(saved: str) -> None:
    assert_wrong_usage(run("plan", "--snapshot", saved, "--pool", "chat"), "chat")
