"""The command `report`: the review as a file, and one sentence on standard error."""

import os
import pty
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.fleet import Note
from dashboard.store.snapshots import Snapshots
from tests.builders import story
from tests.commands import last_line, run
from tests.saved_fleets import saved
from tests.serving import ROOT
from tests.store.folders import configured_store

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def folder(working_folder: Path) -> Path:
    """Write options without targets."""
    (working_folder / "fleet.yaml").write_text("name: mine\n")
    return working_folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A saved fleet."""
    given = tmp_path / "saved.json"
    given.write_bytes(saved(story()))
    return given


def test_a_report_is_one_file_with_the_same_bytes_each_time(tmp_path: Path, file: Path) -> None:
    (tmp_path / "review.html").write_text("old")
    first = run("report", "--snapshot", str(file), "-o", "review.html")
    html = (tmp_path / "review.html").read_text()
    run("report", "--snapshot", str(file), "-o", "again.html")

    assert first.exit_code == 0
    assert first.stdout == ""
    assert first.stderr.startswith("review.html: the review of prod-eu, HTML, ")
    assert html.startswith("<!DOCTYPE html>")
    assert "Review of prod-eu" in html
    assert (tmp_path / "again.html").read_text() == html
    assert {each.name for each in tmp_path.iterdir()} == {"saved.json", "fleet.yaml", "review.html", "again.html"}


def test_the_name_of_the_file_decides_the_format(tmp_path: Path, file: Path) -> None:
    assert run("report", "--snapshot", str(file), "-o", "x.md").exit_code == 0
    assert (tmp_path / "x.md").read_text().startswith("## Review of ")

    done = run("report", "--snapshot", str(file), "-o", "x.pdf", "--format", "markdown")
    assert last_line(done) == "exit 2: wrong usage: -o x.pdf: the name is that of PDF, and --format is markdown."


def test_html_is_not_printed_to_a_terminal(file: Path) -> None:
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
    assert (
        refused.stderr
        == "exit 2: wrong usage: HTML is not printed to a terminal: use -o report.html, or --format markdown.\n"
    )


def test_a_report_of_a_snapshot_has_its_name_and_notes(tmp_path: Path) -> None:
    store = configured_store(tmp_path, "prod-eu")
    kept = store.save(story(), "before the upgrade", AT)
    store.note(kept.id, "capacity", Note("two GPUs are ordered", "bob", AT))
    done = run("report", "--snapshot", kept.id[:6], "--format", "markdown")

    assert done.exit_code == 0
    assert "two GPUs are ordered" in done.stdout
    assert f"snapshot {kept.id[:10]} “before the upgrade”" in done.stdout


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Export a snapshot with a name and a note from another folder."""
    store = Snapshots(tmp_path / "elsewhere")
    kept = store.save(story(), "before the upgrade", AT)
    store.note(kept.id, "capacity", Note("two GPUs are ordered", "bob", AT))
    file = tmp_path / f"prod-eu-before-the-upgrade-{kept.id}.json.gz"
    file.write_bytes(store.export(kept.id))
    return file


def test_a_report_of_an_export_has_its_name_and_notes(export: Path) -> None:
    done = run("report", "--snapshot", str(export), "--format", "markdown")

    assert done.exit_code == 0
    assert "two GPUs are ordered" in done.stdout
    assert "“before the upgrade”" in done.stdout
    assert f"snapshot {export.name.removesuffix('.json.gz')[-32:][:10]} " in done.stdout


def test_a_report_of_an_export_on_standard_input_has_its_notes(tmp_path: Path, export: Path) -> None:
    (tmp_path / "-").write_bytes(b"something else")
    piped = run("report", "--snapshot", "-", "--format", "markdown", stdin=export.read_bytes())

    assert piped.exit_code == 0
    assert "two GPUs are ordered" in piped.stdout
    assert " · live · " in piped.stdout


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
        (("--snapshot", "{file}", "-o", "."), "exit 2: wrong usage: -o .: Is a directory; name a file in it."),
        (("--snapshot", "{file}", "host:8000"), "exit 2: wrong usage: --snapshot cannot be combined with addresses"),
    ],
)
def test_wrong_usage_is_one_sentence(tmp_path: Path, file: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = run("report", *(each.format(file=file) for each in arguments))

    assert done.exit_code == 2
    assert done.stdout == ""
    assert last_line(done).startswith(sentence)
    assert {each.name for each in tmp_path.iterdir()} == {"saved.json", "fleet.yaml"}
