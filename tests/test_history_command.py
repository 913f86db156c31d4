"""`history` prints the size of the history, deletes what is old, and writes the fleet of a past time as a snapshot."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.cli import COMMANDS, cli
from dashboard.cli.history import TABLES
from dashboard.documents.load import read_snapshot
from dashboard.store.history.schema import METADATA
from dashboard.store.packing import unpacked
from tests.polled_fleets import at, built, unreachable
from tests.serving import ROOT
from tests.store.history.recorded import POLL, Recorded, later, shown

FLEET = built(at(1), at(2), unreachable(3))


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli(["history", *arguments], prog_name="dashboard")
    return int(str(ended.value.code or 0))


@pytest.fixture
def recorded(working_folder: Path) -> Fleet:
    """Three polls in the default place, and a gap before the last one, in which a replica was removed."""
    history = Recorded(working_folder / "data")
    history.record(FLEET)
    history.record(later(FLEET, POLL))
    history.record(later(built(at(1)), 100 * POLL))
    history.writer.close()
    return later(FLEET, POLL)


@pytest.mark.usefixtures("recorded")
def test_stats_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stats") == 0
    output = capsys.readouterr().out
    assert "first poll  2026-03-02T11:42:05Z\nlast poll   2026-03-02T12:32:05Z\n" in output
    lines = output.partition("\n\n")[2].splitlines()
    assert re.fullmatch(r"polls +3 +\d+\.\d KiB", lines[0])
    assert any(re.fullmatch(r"replica spans +\d+ +\d+\.\d KiB", line) for line in lines)
    assert "_" not in output.replace(str(Path.cwd()), ""), "words, not names of tables"


def test_each_table_has_words() -> None:
    assert {*TABLES} == {*METADATA.tables}


def test_the_fleet_at_a_time_is_written_as_a_snapshot_and_the_gap_is_named(
    recorded: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", "-o", "past.json.gz", "--at", "2026-03-02T12:00Z") == 0

    read = read_snapshot(unpacked(Path("past.json.gz").read_bytes()))
    assert shown(read) == shown(recorded)
    assert capsys.readouterr().err == (
        "No poll was recorded between 2026-03-02T11:42:35Z and 2026-03-02T12:32:05Z: the fleet may have changed.\n"
        "past.json.gz: prod as polled at 2026-03-02T11:42:35Z, 3 replicas.\n"
    )


@pytest.mark.usefixtures("recorded")
def test_old_polls_are_deleted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert FLEET.polled_at is not None
    later_on = FLEET.polled_at + timedelta(days=30, seconds=40)
    monkeypatch.setattr(service, "utc_now", lambda: later_on)
    assert run("prune") == 0
    assert capsys.readouterr().err == "2 rows deleted from the history history.db.\n"


@pytest.mark.usefixtures("working_folder")
def test_polls_after_a_time_are_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    history = Recorded(Path("data"))
    fleet = replace(FLEET, name="fleet")
    for number in (0, 1, 100):
        history.record(later(fleet, number * POLL))
    assert run("prune", "--after", "2026-03-02T11:43Z") == 1
    assert "0 polls deleted. Another process records the history history.db; end it" in capsys.readouterr().err

    history.writer.close()
    assert run("prune", "--after", "2026-03-02T11:43Z") == 0
    assert capsys.readouterr().err == "1 poll deleted from the history history.db.\n"
    assert history.rows("poll") == 2


def test_only_commands_that_need_the_history_import_sqlalchemy() -> None:
    modules = [
        *(f"dashboard.cli.{each}" for each in sorted({*COMMANDS.values()} - {"history"})),
        "dashboard.web.server",
    ]
    imports = f"import sys, {', '.join(modules)}; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", imports], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "command", [["stats"], ["prune"], ["prune", "--after", "2026-03-02"], ["export", "-o", "x.json"]]
)
@pytest.mark.usefixtures("working_folder")
def test_a_missing_history_is_one_sentence(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command) == 1
    assert "There is no history history.db: a dashboard records it while it polls." in capsys.readouterr().err


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("time", "code", "sentence"),
    [
        ("yesterday", 2, "--at yesterday: not a time; write 2026-11-22T14:00Z"),
        (
            "2020-01-01",
            1,
            "The history has no poll at 2020-01-01T00:00:00Z or before; the first one is of 2026-03",
        ),
    ],
)
def test_a_time_without_a_poll_is_refused(
    time: str, code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", "-o", "x.json", "--at", time) == code
    assert sentence in capsys.readouterr().err
    assert not Path("x.json").exists()


@pytest.mark.usefixtures("recorded")
def test_a_file_that_cannot_be_written_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", "-o", "none/x.json") == 2
    assert "-o none/x.json: No such file or directory" in capsys.readouterr().err


@pytest.mark.usefixtures("working_folder")
def test_the_variable_of_the_url_has_to_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fleet.yaml").write_text(json.dumps({"history": {"url_env": "HISTORY_URL"}}))
    assert run("stats") == 2
    assert "The variable HISTORY_URL of history.url_env is not set." in capsys.readouterr().err
