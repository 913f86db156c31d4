"""The command `report` finds the last review as the page Review does, so that both write the same bytes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dashboard.analysis.assembly import Fleet
from dashboard.cli import cli
from dashboard.demo import default_fleet, in_thread
from dashboard.fleet import Note
from dashboard.render.export import Format, written
from dashboard.store import Snapshots
from tests.builders import NOW, alike, document, fleet
from tests.page_runner import WEEK, a_finding, earlier, frozen, review
from tests.saved_fleets import saved

FIRST = "First review of this fleet"
NOT_OPENED = "The last review cannot be opened, so what is new since then is unknown."
NOT_COMPARED = "This review is not compared with an earlier one."
LAST = "Data of the last review: "


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Snapshots:
    """The folder of snapshots of the options, which are in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEET_CONFIG", raising=False)
    (tmp_path / "fleet.yaml").write_text("name: prod-eu\n")
    return Snapshots(tmp_path / "snapshots")


@pytest.fixture
def told() -> Fleet:
    """Two replicas agree and a third has another block size."""
    usual, odd = document(), document({"cache_config.block_size": 32})
    return fleet([*alike("chat", 2, usual), *alike("chat", 1, odd, first=3)], [usual, odd])


@pytest.fixture
def last(store: Snapshots, told: Fleet) -> str:
    """The last review: the newest snapshot with notes. A newer one was frozen to prepare the meeting."""
    frozen(store, earlier(told, ago=timedelta(hours=1)), "prepared")
    key = frozen(store, earlier(told), "last week")
    store.note(key, a_finding(told), Note("Ana restarts it.", "ana", NOW - WEEK))
    frozen(store, earlier(told, ago=2 * WEEK), "older")
    return key


def run(*arguments: str, output: str = "markdown") -> Result:
    done = CliRunner().invoke(cli, ["report", "--format", output, *arguments])
    assert done.exit_code == 0, done.stderr
    return done


def downloaded(told: Fleet, store: Snapshots, key: str, **url: str) -> bytes:
    """What the page Review of a snapshot is taken away as."""
    app = review(told, store, snapshot=key, **url)
    return written(app.session_state["offered_view"].view(), Format.HTML)


@pytest.mark.usefixtures("last")
def test_a_snapshot_gives_the_same_bytes_as_on_the_page(store: Snapshots, told: Fleet) -> None:
    """By its id, and by its exported file; the last review with its notes is in all of them."""
    key = frozen(store, told, "Weekly")
    store.note(key, a_finding(told), Note("It is drained.", "bo", NOW))
    (store.folder.parent / f"prod-eu-{key}.json.gz").write_bytes(store.export(key))
    page = downloaded(told, store, key)

    assert f"{LAST}2026-02-23T11:42:05Z" in page.decode()
    assert "Ana restarts it." in page.decode()
    assert run("--snapshot", key, output="html").stdout_bytes == page
    assert run("--snapshot", f"prod-eu-{key}.json.gz", output="html").stdout_bytes == page


def test_another_review_that_is_chosen_gives_the_same_bytes_as_on_the_page(
    store: Snapshots, told: Fleet, last: str
) -> None:
    key = frozen(store, told)
    older = store.all()[-1].id
    assert older != last
    for name in ("z", a_finding(told), "a"):
        store.note(older, name, Note(f"On {name}.", "ana", NOW))

    page = downloaded(told, store, key, **{"from": older})

    assert run("--snapshot", key, "--since", older, output="html").stdout_bytes == page


@pytest.mark.usefixtures("last")
def test_a_file_that_is_no_snapshot_is_held_against_the_last_review(tmp_path: Path, told: Fleet) -> None:
    (tmp_path / "today.json").write_bytes(saved(told))
    done = run("--snapshot", "today.json")

    assert f"{LAST}2026-02-23T11:42:05Z" in done.stdout
    assert "Ana restarts it." in done.stdout


def test_the_fleet_as_it_is_now_is_held_against_the_last_review(tmp_path: Path, store: Snapshots, told: Fleet) -> None:
    """Replicas named by addresses may be a part of it: the rest would seem gone."""
    before = datetime.now(UTC) - timedelta(days=1)
    frozen(store, replace(told, polled_at=before))
    with in_thread(default_fleet(2)) as server:
        addresses = [f"{each.address}:{server.port}" for each in server.fleet]
        targets = "".join(f"- url: http://{each}\n" for each in addresses)
        (tmp_path / "fleet.yaml").write_text(f"name: prod-eu\ntargets:\n{targets}")
        whole, part = run().stdout, run(*addresses).stdout
        chosen = run(*addresses, "--since", store.all()[0].id).stdout

    assert f"{LAST}{before:%Y-%m-%dT%H:%M:%SZ}" in whole
    assert NOT_COMPARED in part
    assert LAST in chosen


def test_a_last_review_that_is_damaged_is_said_and_not_called_none(store: Snapshots, told: Fleet, last: str) -> None:
    """The page says the same."""
    (store.folder / f"{last}.json.gz").write_bytes(b"\x1f\x8b")
    key = frozen(store, told)
    done = run("--snapshot", key, output="html")

    assert done.stderr.startswith(f"No comparison with an earlier review. Snapshot {last} is damaged. ")
    assert NOT_OPENED in done.stdout
    assert FIRST not in done.stdout
    assert done.stdout_bytes == downloaded(told, store, key)
