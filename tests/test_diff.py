"""`diff`: two fleets, saved or live; exit codes as of diff(1), and the reason in the last line."""

import json
from pathlib import Path

import pytest
import yaml

from dashboard.demo import default_fleet, in_thread
from tests.analysis.changes.sides import LATER, NEW, RESTARTED, chat, fleet
from tests.builders import down
from tests.commands import assert_wrong_usage, demo_targets, last_line, run
from tests.saved_fleets import saved
from tests.store.folders import configured_store

FEW = 4  # the fourth cuts blocks of 32 tokens, the others of 16
THEN = fleet(*chat(4), down("chat-05"))
NOW = fleet(*chat(3), *chat(1, NEW, first=4, **RESTARTED), down("chat-05"), polled_at=LATER)


@pytest.fixture(autouse=True)
def folder(working_folder: Path) -> Path:
    """Save two fleets."""
    (working_folder / "then.json").write_bytes(saved(THEN))
    (working_folder / "now.json").write_bytes(saved(NOW))
    return working_folder


def test_changes_end_with_1_and_are_in_the_last_line() -> None:
    done = run("diff", "then.json", "now.json")

    assert done.exit_code == 1
    assert last_line(done) == (
        "exit 1: 1 new finding; 1 replica changed: block_size 16 -> 32; 1 restarted; 1 replica not compared."
    )
    assert done.stdout.startswith("1 new finding; 1 replica changed")
    assert "1 of 5 replicas of chat: block_size 16 -> 32" in done.stdout
    assert "exit" not in done.stdout


def test_no_changes_end_with_0_and_the_number_of_replicas_not_compared() -> None:
    done = run("diff", "now.json", "now.json")

    assert done.exit_code == 0
    assert last_line(done) == "exit 0: No changes since 11:42 (4 of 5 replicas compared); 1 replica not compared."


def test_a_frozen_snapshot_is_opened_by_its_id_or_first_digits(folder: Path) -> None:
    store = configured_store(folder, "prod")
    key = store.save(THEN, "Monday", LATER).id
    (folder / f"{key}.json.gz").write_bytes(store.export(key))
    (folder / "renamed.json.gz").write_bytes(store.export(key))

    def snapshot(name: str) -> object:
        return json.loads(run("diff", name, "now.json", "--format", "json").stdout)["before"]["snapshot"]

    assert [snapshot(name) for name in (key, key[:4], f"{key}.json.gz", "renamed.json.gz")] == [key, key, key, None]
    assert run("diff", key, "then.json").exit_code == 0


def test_pool_compares_one_pool() -> None:
    done = run("diff", "then.json", "now.json", "--pool", "chat")

    assert done.exit_code == 1
    assert "filters: pool=chat" in done.stdout
    assert last_line(run("diff", "then.json", "now.json", "--pool", "talk")) == (
        "exit 2: wrong usage: --pool: neither side has a pool 'talk'; there are: 'chat'."
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["nowhere.json", "now.json"],
            "nowhere.json: No such file or directory; name a file of `poll --format json --full` or an export, the id ",
        ),
        (
            ["abc", "now.json"],
            "abc: No such file or directory; if it is a snapshot, type at least four digits of its id.",
        ),
        (["then.json", "."], ".: Is a directory; name a file of `poll --format json --full` or an export."),
        (["then.json"], "missing argument 'AFTER'"),
        (["-", "-"], "-: valid for one side only."),
        (["live", "live"], "live: valid for one side only."),
        (["broken.json.gz", "now.json"], "is not a complete gzip file; copy or export it again."),
        (["brief.json", "now.json"], "brief.json: The snapshot was saved without --full"),
        (["x" * 300, "now.json"], "File name too long; name another file."),
    ],
)
def test_wrong_usage_is_one_sentence(folder: Path, arguments: list[str], why: str) -> None:
    (folder / "broken.json.gz").write_bytes(b"\x1f\x8bno")
    brief = json.loads(saved(THEN))
    del brief["documents"]
    (folder / "brief.json").write_text(json.dumps(brief))

    assert_wrong_usage(run("diff", *arguments), why)


def test_live_without_targets_is_the_reason() -> None:
    done = run("diff", "live", "now.json")

    assert (done.exit_code, last_line(done)) == (3, "exit 3: live: no targets.")


def test_live_is_compared_with_a_saved_poll(folder: Path) -> None:
    """One replica of the simulated fleet restarts with a different block size between the two polls."""
    with in_thread(default_fleet(FEW)) as server:
        (folder / "fleet.yaml").write_text(yaml.safe_dump({"name": "mine", "targets": demo_targets(server)}))
        polled = run("poll", "--format", "json", "--full").stdout
        (folder / "monday.json").write_text(polled)
        server.restart(server.fleet[0].address, ["--block-size", "32"])
        done = run("diff", "monday.json", "live", "--format", "json")
    document = json.loads(done.stdout)
    (group,) = document["settings"]["groups"]

    assert done.exit_code == 1
    assert [each["path"] for each in group["changes"]][:2] == [
        "cache_config.block_size",
        "cache_config.hash_block_size",
    ]
    assert (len(group["replicas"]), group["restarted"]) == (1, 1)
    assert [each["after"]["name"] for each in document["replicas"]["changed"]] == ["chat-70b-01"]


def test_a_history_that_cannot_be_opened_is_the_reason_why_an_id_is_missing(folder: Path) -> None:
    store = configured_store(folder, "prod")
    key = store.save(THEN, "Monday", LATER).id
    (folder / "data" / "history.db").write_bytes(b"This is no database. " * 100)
    assert_wrong_usage(
        run("diff", key, "now.json"),
        f"{key}: No such file. Snapshots cannot be read. The history history.db",
    )
