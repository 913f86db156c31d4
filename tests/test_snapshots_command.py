"""`snapshots redact` removes secrets from files of earlier versions and names the backup."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashboard.cli import cli
from dashboard.store import Snapshots
from dashboard.store.packing import id_of, packed, unpacked
from tests.builders import NOW
from tests.saved_fleets import built_of_captures
from tests.store.folders import a_fleet, configured_store, in_history
from tests.store.test_redacted_snapshots import written_before

SECRET = "SESAME7QX"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli(list(arguments), prog_name="dashboard")
    return int(str(ended.value.code or 0))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Snapshots:
    monkeypatch.chdir(tmp_path)
    store = Snapshots(tmp_path / "snapshots")
    key = store.freeze(a_fleet(), "x", NOW).id
    notes = store.folder / f"{key}.notes.json"
    notes.write_text(json.dumps({**json.loads(notes.read_bytes()), "name": f"api_key={SECRET}"}))
    return store


def test_redact_removes_secrets_and_names_the_backup(store: Snapshots, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("snapshots", "redact") == 0

    output = capsys.readouterr().err
    assert "Secrets removed from 1 of 1 snapshot in snapshots; backup of the files in snapshots/before-" in output
    (backup,) = store.folder.glob("before-redaction-*")
    assert SECRET in next(backup.iterdir()).read_text()
    assert SECRET not in "".join(each.read_text() for each in store.folder.glob("*.notes.json"))
    assert run("snapshots", "redact") == 0
    assert "Secrets removed from 0 of 1 snapshot in snapshots." in capsys.readouterr().err
    assert len(store.all()) == 1


def test_an_unreadable_file_is_named_and_the_others_are_rewritten(
    store: Snapshots, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store.folder / "0123456789.json.gz").write_bytes(b"damaged")

    assert run("snapshots", "redact", "--backup", str(tmp_path / "kept")) == 1

    output = capsys.readouterr().err
    assert "0123456789" in output
    assert "exit 1: 1 file unreadable." in output
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_a_file_in_place_of_the_folder_fails_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snapshots").write_text("")

    assert run("snapshots", "redact") == 1


def test_redact_removes_secrets_from_the_history_and_from_files_that_were_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pins = configured_store(in_history, tmp_path, "prod")
    content = written_before(built_of_captures())
    key = id_of(content)
    (pins.folder / f"{key}.json.gz").write_bytes(packed(content))
    assert list(pins.import_files()) == [""]

    assert run("snapshots", "redact") == 0

    assert "Secrets removed from 1 of 1 snapshot in snapshots; backup of the files in" in capsys.readouterr().err
    assert SECRET.encode() not in unpacked((pins.folder / f"{key}.json.gz").read_bytes())
    with pins_rows(pins.folder) as digests:
        assert digests != [hashlib.sha256(content).digest()]
    assert run("snapshots", "redact") == 0
    assert "Secrets removed from 0 of 1 snapshot in snapshots." in capsys.readouterr().err


@contextmanager
def pins_rows(folder: Path) -> Iterator[list[bytes]]:
    """The digests of the contents of pins."""
    connection = sqlite3.connect(folder / "history.db")
    yield [digest for (digest,) in connection.execute("SELECT digest FROM pin")]
    connection.close()
