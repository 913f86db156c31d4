"""`diff`: two fleets, saved or live; exit codes as diff tools have them, and a last line that says why."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from dashboard.cli import cli
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.store import Snapshots
from tests.analysis.changes.sides import LATER, NEW, RESTARTED, chat, fleet
from tests.builders import down
from tests.saved_fleets import saved

FEW = 4  # the fourth cuts blocks of 32 tokens, the others of 16
THEN = fleet(*chat(4), down("chat-05"))
NOW = fleet(*chat(3), *chat(1, NEW, first=4, **RESTARTED), down("chat-05"), polled_at=LATER)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two saved fleets and no fleet.yaml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEET_CONFIG", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / "then.json").write_bytes(saved(THEN))
    (tmp_path / "now.json").write_bytes(saved(NOW))
    return tmp_path


def run(*arguments: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["diff", *arguments], input=given)


def last(done: Result) -> str:
    return done.stderr.rstrip("\n").splitlines()[-1]


def test_what_changed_ends_with_1_and_the_last_line_says_what() -> None:
    done = run("then.json", "now.json")

    assert done.exit_code == 1
    assert last(done) == (
        "exit 1: 1 new finding; 1 replica changed: block_size 16 -> 32; 1 restarted; 1 replica not compared."
    )
    assert done.stdout.startswith("1 new finding; 1 replica changed")
    assert "1 of 5 replicas of chat: block_size 16 -> 32" in done.stdout
    assert "exit" not in done.stdout


def test_the_same_ends_with_0_and_says_what_that_is_true_of() -> None:
    done = run("now.json", "now.json")

    assert done.exit_code == 0
    assert last(done) == "exit 0: Nothing changed on the replicas read on both sides; 1 replica not compared."


def test_every_format_tells_the_same_and_ends_alike() -> None:
    told = {output: run("then.json", "now.json", "--format", output) for output in ("table", "json", "markdown")}

    assert {done.exit_code for done in told.values()} == {1}
    assert len({last(done) for done in told.values()}) == 1
    document = json.loads(told["json"].stdout)
    assert document["settings"]["groups"][0]["replicas"] == ["http://chat-04:8000"]
    assert document["changed"] is True
    assert told["markdown"].stdout.startswith("## What changed")
    assert "`16` -> `32`" in told["markdown"].stdout


def test_a_frozen_snapshot_is_named_by_its_id_or_the_first_digits_and_is_told_with_it(folder: Path) -> None:
    store = Snapshots(folder / "snapshots")
    key = store.freeze(THEN, "Monday", LATER).id
    (folder / f"{key}.json.gz").write_bytes(store.export(key))
    (folder / "renamed.json.gz").write_bytes(store.export(key))

    def snapshot(name: str) -> object:
        return json.loads(run(name, "now.json", "--format", "json").stdout)["before"]["snapshot"]

    assert [snapshot(name) for name in (key, key[:4], f"{key}.json.gz", "renamed.json.gz")] == [key, key, key, None]
    assert run(key, "then.json").exit_code == 0


def test_one_pool_alone_is_compared() -> None:
    done = run("then.json", "now.json", "--pool", "chat")

    assert done.exit_code == 1
    assert "filters: pool=chat" in done.stdout
    assert last(run("then.json", "now.json", "--pool", "talk")) == (
        "exit 2: wrong usage: --pool: neither side has a pool 'talk'; there are: 'chat'."
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["nowhere.json", "now.json"],
            "nowhere.json: No such file or directory; name a file of `poll --format json --full` or an export, or ",
        ),
        (
            ["abc", "now.json"],
            "abc: No such file or directory; if it is a snapshot, type at least four digits of its id.",
        ),
        (["then.json", "."], ".: Is a directory; name a file of `poll --format json --full` or an export."),
        (["then.json"], "missing argument 'AFTER'"),
        (["-", "-"], "-: valid for one side only."),
        (["live", "live"], "live: valid for one side only."),
        (["live", "now.json"], "live: no targets."),
        (["then.json", "now.json", "--format", "xml"], "'xml' is not one of"),
        (["empty.json", "now.json"], "empty.json: It is empty; save it again."),
        (["broken.json.gz", "now.json"], "is not a complete gzip file; copy or export it again."),
        (["brief.json", "now.json"], "brief.json: The snapshot was saved without --full"),
        (["x" * 300, "now.json"], "File name too long; name another file."),
    ],
)
def test_wrong_usage_ends_with_2_and_one_sentence(folder: Path, arguments: list[str], why: str) -> None:
    (folder / "empty.json").touch()
    (folder / "broken.json.gz").write_bytes(b"\x1f\x8bno")
    brief = json.loads(saved(THEN))
    del brief["documents"]
    (folder / "brief.json").write_text(json.dumps(brief))
    done = run(*arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert last(done).startswith("exit 2: wrong usage: ")
    assert why in last(done)


def test_the_fleet_as_it_is_now_is_compared_with_what_was_saved(folder: Path) -> None:
    """One replica of the simulated fleet restarts with another block size between the two polls."""
    with in_thread(default_fleet(FEW)) as server:
        entries = targets(server.fleet, server.port)
        listed = [{"url": each["targets"][0], "labels": each["labels"]} for each in entries]
        (folder / "fleet.yaml").write_text(yaml.safe_dump({"name": "mine", "targets": listed}))
        polled = CliRunner().invoke(cli, ["poll", "--format", "json", "--full"]).stdout
        (folder / "monday.json").write_text(polled)
        server.restart(server.fleet[0].address, block_size=32)
        done = run("monday.json", "live", "--format", "json")
    told = json.loads(done.stdout)
    (group,) = told["settings"]["groups"]

    assert done.exit_code == 1
    assert [each["path"] for each in group["changes"]][:2] == [
        "cache_config.block_size",
        "cache_config.hash_block_size",
    ]
    assert (len(group["replicas"]), group["restarted"]) == (1, 1)
    assert [each["after"]["name"] for each in told["replicas"]["changed"]] == ["chat-70b-01"]
