"""`settings`: the values of one setting as a table, JSON and CSV."""

import csv
import io
import json
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import fleet_json
from tests.builders import NOW
from tests.commands import assert_wrong_usage, run

pytestmark = pytest.mark.usefixtures("working_folder")
SIZE = "cache_config.block_size"


@pytest.fixture(scope="module")
def saved_demo(demo_fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of `poll --format json --full`."""
    file = tmp_path_factory.mktemp("saved") / "fleet.json"
    file.write_bytes(fleet_json(demo_fleet, NOW, full=True))
    return file


def test_the_table_has_values_and_declarations(saved_demo: Path) -> None:
    done = run("settings", SIZE, "--snapshot", str(saved_demo))

    assert done.exit_code == 0
    assert "Mixed in chat-70b." in done.stdout
    assert "--block-size" in done.stdout


def test_a_unique_last_name_is_enough_and_an_ambiguous_one_is_wrong_before_anything_is_polled(saved_demo: Path) -> None:
    done = run("settings", "gpu_memory_utilization", "--snapshot", str(saved_demo), "--format", "json")

    assert json.loads(done.stdout)["path"] == "cache_config.gpu_memory_utilization"
    assert_wrong_usage(
        run("settings", "backend", "127.0.0.1:1"), "backend: 5 settings with this name: attention_config."
    )


@pytest.mark.parametrize(
    ("path", "similar"),
    [
        ("cache_config.blok_size", "cache_config.block_size"),
        ("cache.block_size", "cache_config.block_size"),
        ("blok_size", "cache_config.block_size"),
        ("cache_confg", "cache_config"),
        ("compilation_config.pass_config.fuse_act_paddin", "compilation_config.pass_config.fuse_act_padding"),
    ],
)
def test_a_misspelled_path_is_refused_before_anything_is_polled(path: str, similar: str) -> None:
    assert_wrong_usage(
        run("settings", path, "127.0.0.1:1"), f"{path}: no vLLM version has this setting; similar: {similar}."
    )


@pytest.mark.parametrize("path", [SIZE, "cache_config"])
def test_without_an_answer_the_output_says_so(path: str) -> None:
    """Exit code 0, as `poll` and `plan`; `check` is the command with a code for it."""
    done = run("settings", path, "127.0.0.1:1")

    assert done.exit_code == 0
    assert "No replica answered." in done.stdout
    assert "filters." not in done.stdout


@pytest.mark.parametrize(
    "path", ["env.MY_OWN", "cache_config.of_the_next_version", "components.nixl", "not.invented.yet"]
)
def test_what_a_replica_may_report_is_looked_for_there(path: str) -> None:
    done = run("settings", path, "127.0.0.1:1")

    assert_wrong_usage(done, f"{path}: no replica and no vLLM version has this setting")


def test_a_section_lists_its_settings(saved_demo: Path) -> None:
    done = run("settings", "kv_transfer_config", "--snapshot", str(saved_demo))
    assert "kv_transfer_config.kv_connector " in done.stdout
    assert "cache_config" not in done.stdout

    found = json.loads(run("settings", "cache_config", "--snapshot", str(saved_demo), "--format", "json").stdout)
    (size,) = (each for each in found if each["path"] == SIZE)
    assert size == json.loads(run("settings", SIZE, "--snapshot", str(saved_demo), "--format", "json").stdout)
    lines = run("settings", "cache_config", "--snapshot", str(saved_demo), "--format", "csv").stdout.splitlines()
    paths = {row["path"] for row in csv.DictReader(line for line in lines if not line.startswith("#"))}
    assert paths == {each["path"] for each in found}


def test_a_glob_chooses_pools_and_json_is_for_programs(saved_demo: Path) -> None:
    done = run("settings", SIZE, "--snapshot", str(saved_demo), "--pool", "chat*", "--format", "json")

    values = json.loads(done.stdout)["values"]
    assert {each["pool"] for each in values} == {"chat-70b"}
    assert [each["value"] for each in values] == [32, 16]


@pytest.mark.parametrize(
    ("arguments", "replicas"),
    [
        (("--version", "0.20.2"), 2),
        (("--role", "prefill"), 2),
        (("--label", "role=decode"), 8),
        (("--label", "role=nowhere"), 0),
    ],
)
def test_version_role_and_label_choose_replicas(saved_demo: Path, arguments: tuple[str, ...], replicas: int) -> None:
    done = run("settings", SIZE, "--snapshot", str(saved_demo), *arguments, "--format", "json")

    assert sum(len(each["replicas"]) for each in json.loads(done.stdout)["values"]) == replicas


def test_csv_has_a_row_per_pool_and_value(saved_demo: Path) -> None:
    done = run("settings", SIZE, "--snapshot", str(saved_demo), "--format", "csv")

    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    assert rows[0]["value"] == "32"
    assert sum(int(row["replicas"]) for row in rows) == 39


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("cache.block_size",),
            "cache.block_size: no replica and no vLLM version has this setting; similar: cache_config.block_size",
        ),
        (("cache_config.blok_size",), "similar: cache_config.block_size"),
        ((SIZE, "--pool", "nowhere"), "--pool: no pool matches 'nowhere'; there are: 'chat-70b'"),
        ((SIZE, "--version", "9.9"), "--version: no replica has vLLM 9.9; there are 0."),
        ((SIZE, "--label", "north"), "--label: expected KEY=VALUE, such as site=north"),
    ],
)
def test_what_is_unknown_is_wrong_usage(saved_demo: Path, arguments: tuple[str, ...], sentence: str) -> None:
    assert_wrong_usage(run("settings", *arguments, "--snapshot", str(saved_demo)), sentence)
