"""The command `report`: the review as a file, written whole or not at all, with one sentence on standard error."""

import os
import pty
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dashboard.cli import cli
from dashboard.fleet import Note
from dashboard.store import Snapshots
from tests.builders import alike, document, fleet, story
from tests.saved_fleets import saved
from tests.serving import ROOT

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in a folder of its own, whose options have no target."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEET_CONFIG", raising=False)
    (tmp_path / "fleet.yaml").write_text("name: mine\n")
    return tmp_path


def run(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["report", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A saved fleet."""
    given = tmp_path / "saved.json"
    given.write_bytes(saved(story()))
    return given


def test_a_saved_fleet_becomes_a_report_that_stands_alone(tmp_path: Path, file: Path) -> None:
    """The same file gives the same bytes, over an old report, and nothing else is left in the folder."""
    (tmp_path / "review.html").write_text("old")
    first = run("--snapshot", str(file), "-o", "review.html")
    html = (tmp_path / "review.html").read_text()
    run("--snapshot", str(file), "-o", "again.html")

    assert first.exit_code == 0
    assert first.stdout == ""
    assert first.stderr.startswith("review.html: the review of prod-eu, HTML, ")
    assert html.startswith("<!DOCTYPE html>")
    assert "Review of prod-eu" in html
    assert (tmp_path / "again.html").read_text() == html
    assert {each.name for each in tmp_path.iterdir()} == {"saved.json", "fleet.yaml", "review.html", "again.html"}


def test_nobody_gets_html_into_a_terminal(file: Path) -> None:
    """The sentence says what is missing; Markdown can be read there."""
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "dashboard", "report", "--snapshot", str(file)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    try:
        refused = subprocess.run(
            command, env=environment, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False, timeout=120
        )
    finally:
        os.close(terminal)
        os.close(master)

    assert refused.returncode == 2
    assert refused.stderr == "exit 2: wrong usage: -o is missing: name the output file for HTML.\n"


def test_what_is_new_is_told_since_the_fleet_that_is_named(tmp_path: Path, file: Path) -> None:
    """As a file, or as a frozen snapshot."""
    before = tmp_path / "before.json"
    before.write_bytes(saved(fleet(alike("chat-70b", 2, document()), [document()])))
    done = run("--snapshot", str(file), "--since", str(before), "--format", "markdown")

    assert "This is the first review" not in done.stdout
    assert "Data of the last review: " in done.stdout


def test_notes_and_the_name_of_a_frozen_snapshot_stand_in_its_report(tmp_path: Path) -> None:
    """It is found by the first digits of its id, and the context names it."""
    store = Snapshots(tmp_path / "snapshots")
    kept = store.freeze(story(), "before the upgrade", AT)
    store.note(kept.id, "capacity", Note("two GPUs are ordered", "bob", AT))
    done = run("--snapshot", kept.id[:6], "--format", "markdown")

    assert done.exit_code == 0
    assert "two GPUs are ordered" in done.stdout
    assert f"snapshot {kept.id[:10]} “before the upgrade”" in done.stdout


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A snapshot with a name and a note, exported elsewhere: nothing of it is kept here."""
    store = Snapshots(tmp_path / "elsewhere")
    kept = store.freeze(story(), "before the upgrade", AT)
    store.note(kept.id, "capacity", Note("two GPUs are ordered", "bob", AT))
    file = tmp_path / f"prod-eu-before-the-upgrade-{kept.id}.json.gz"
    file.write_bytes(store.export(kept.id))
    return file


def test_an_export_brings_its_name_and_notes_into_its_report(export: Path) -> None:
    """Its file is called as the browser saved it."""
    done = run("--snapshot", str(export), "--format", "markdown")

    assert done.exit_code == 0
    assert "two GPUs are ordered" in done.stdout
    assert "“before the upgrade”" in done.stdout
    assert f"snapshot {export.name.removesuffix('.json.gz')[-32:][:10]} " in done.stdout


def test_an_export_that_is_piped_in_brings_its_notes_too(tmp_path: Path, export: Path) -> None:
    """Standard input has no name that would bear the id, and a file that is called so is not what is meant."""
    (tmp_path / "-").write_bytes(b"something else")
    piped = CliRunner().invoke(cli, ["report", "--snapshot", "-", "--format", "markdown"], input=export.read_bytes())

    assert piped.exit_code == 0
    assert "two GPUs are ordered" in piped.stdout
    assert "not frozen" in piped.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--snapshot", "nope"), "exit 2: wrong usage: --snapshot nope: No such file or directory"),
        (("--snapshot", "{file}", "--since", "nope"), "exit 2: wrong usage: --since nope: No such file or directory"),
        (("--snapshot", "-", "--since", "-"), "exit 2: wrong usage: -: valid for one of the two fleets only."),
        (
            ("--snapshot", "{file}", "-o", "no/x.html"),
            "exit 2: wrong usage: -o no/x.html: No such file or directory; make ",
        ),
        (
            ("--snapshot", "{file}", "-o", "saved.json/x"),
            "exit 2: wrong usage: -o saved.json/x: Not a directory; name ",
        ),
        (("--snapshot", "{file}", "-o", "."), "exit 2: wrong usage: -o .: Is a directory; name a file in it."),
        (
            ("--snapshot", "{file}", "--format", "docx"),
            "exit 2: wrong usage: --format: 'docx' is not one of",
        ),
        (("--snapshot", "{file}", "host:8000"), "exit 2: wrong usage: --snapshot cannot be combined with addresses"),
        ((), "exit 2: wrong usage: no targets."),
        (("--snapshot", "live"), "exit 2: wrong usage: --snapshot live: no targets."),
    ],
)
def test_wrong_usage_is_one_sentence(tmp_path: Path, file: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """And nothing is written."""
    done = run(*(each.format(file=file) for each in arguments))

    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(sentence)
    assert {each.name for each in tmp_path.iterdir()} == {"saved.json", "fleet.yaml"}
