"""The command `report` and the page Review find the same last review and write the same bytes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import Result

from dashboard.analysis.assembly import Fleet
from dashboard.demo import default_fleet, in_thread
from dashboard.fleet import Note
from dashboard.render.export import Format, written
from dashboard.store.snapshots import Snapshots
from tests.builders import NOW, alike, document, fleet
from tests.commands import run
from tests.page_runner import WEEK, a_finding, earlier, frozen, review
from tests.saved_fleets import saved
from tests.store.folders import configured_store, damage

FIRST = "First review of this fleet"
NOT_OPENED = "The last review cannot be opened, so what is new since then is unknown."
NOT_COMPARED = "This review is not compared with an earlier one."
LAST = "Data of the last review: "


@pytest.fixture(autouse=True)
def store(working_folder: Path) -> Snapshots:
    """Return the snapshots of the options in the working folder."""
    return configured_store(working_folder, "prod-eu")


@pytest.fixture
def current() -> Fleet:
    """Two replicas agree and a third has a different block size."""
    usual, odd = document(), document({"cache_config.block_size": 32})
    return fleet([*alike("chat", 2, usual), *alike("chat", 1, odd, first=3)], [usual, odd])


@pytest.fixture
def last(store: Snapshots, current: Fleet) -> str:
    """The last review: the newest snapshot with notes. A newer one was frozen to prepare the meeting."""
    frozen(store, earlier(current, ago=timedelta(hours=1)), "prepared")
    key = frozen(store, earlier(current), "last week")
    store.note(key, a_finding(current), Note("Ana restarts it.", "ana", NOW - WEEK))
    frozen(store, earlier(current, ago=2 * WEEK), "older")
    return key


def report(*arguments: str, output: str = "markdown") -> Result:
    done = run("report", "--format", output, *arguments)
    assert done.exit_code == 0, done.stderr
    return done


def downloaded(current: Fleet, store: Snapshots, key: str, **url: str) -> bytes:
    """Return the HTML export of the page Review of a snapshot."""
    app = review(current, store, snapshot=key, **url)
    return written(app.session_state["offered_view"](), Format.HTML)


@pytest.mark.usefixtures("last")
def test_a_snapshot_gives_the_same_bytes_as_on_the_page(store: Snapshots, current: Fleet) -> None:
    """By its id, and by its exported file."""
    key = frozen(store, current, "Weekly")
    store.note(key, a_finding(current), Note("It is drained.", "bo", NOW))
    (store.folder.parent / f"prod-eu-{key}.json.gz").write_bytes(store.export(key))
    page = downloaded(current, store, key)

    assert f"{LAST}2026-02-23T11:42:05Z" in page.decode()
    assert "Ana restarts it." in page.decode()
    assert report("--snapshot", key, output="html").stdout_bytes == page
    assert report("--snapshot", f"prod-eu-{key}.json.gz", output="html").stdout_bytes == page


def test_another_chosen_review_gives_the_same_bytes_as_on_the_page(store: Snapshots, current: Fleet, last: str) -> None:
    key = frozen(store, current)
    older = store.all()[-1].id
    assert older != last
    for name in ("z", a_finding(current), "a"):
        store.note(older, name, Note(f"On {name}.", "ana", NOW))

    page = downloaded(current, store, key, **{"from": older})

    assert report("--snapshot", key, "--since", older, output="html").stdout_bytes == page


@pytest.mark.usefixtures("last")
def test_a_saved_fleet_is_compared_with_the_last_review(tmp_path: Path, current: Fleet) -> None:
    (tmp_path / "today.json").write_bytes(saved(current))
    done = report("--snapshot", "today.json")

    assert f"{LAST}2026-02-23T11:42:05Z" in done.stdout
    assert "Ana restarts it." in done.stdout


def test_a_live_fleet_is_compared_with_the_last_review(tmp_path: Path, store: Snapshots, current: Fleet) -> None:
    """Replicas given by address may be a part of the fleet: the rest would look removed."""
    before = datetime.now(UTC) - timedelta(days=1)
    frozen(store, replace(current, polled_at=before))
    with in_thread(default_fleet(2)) as server:
        addresses = [f"{each.address}:{server.port}" for each in server.fleet]
        targets = "".join(f"- url: http://{each}\n" for each in addresses)
        with (tmp_path / "fleet.yaml").open("a") as options:
            options.write(f"targets:\n{targets}")
        whole, part = report().stdout, report(*addresses).stdout
        chosen = report(*addresses, "--since", store.all()[0].id).stdout

    assert f"{LAST}{before:%Y-%m-%dT%H:%M:%SZ}" in whole
    assert NOT_COMPARED in part
    assert LAST in chosen


def test_a_damaged_last_review_is_reported_and_not_a_first_review(store: Snapshots, current: Fleet, last: str) -> None:
    damage(store, last, content=b"\x1f\x8b")
    key = frozen(store, current)
    done = report("--snapshot", key, output="html")

    assert done.stderr.startswith(f"No comparison with an earlier review. Snapshot {last} is damaged: ")
    assert NOT_OPENED in done.stdout
    assert FIRST not in done.stdout
    assert done.stdout_bytes == downloaded(current, store, key)
