"""Several processes share one folder of snapshots: no acknowledged note is lost."""

import fcntl
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.store import writing
from dashboard.store.snapshots import Snapshots

ROOT = Path(__file__).parents[2]
EACH = 60
WRITER = """
import sys
from pathlib import Path
from dashboard.fleet import Note
from dashboard.store.snapshots import Snapshots
from tests.store.folders import in_history

kind, folder, key, name, number = sys.argv[1:]
store = {"files": Snapshots, "history": in_history}[kind](Path(folder))
print("ready", flush=True)
sys.stdin.readline()
for each in range(int(number)):
    store.note(key, f"{name}-{each}", Note(f"note {each} of {name}"))
    print(f"{name}-{each}", flush=True)
"""


def test_two_processes_that_write_120_notes_lose_none(any_store: Snapshots, any_key: str) -> None:
    kind = "history" if (any_store.folder / "history.db").exists() else "files"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, kind, str(any_store.folder), any_key, name, str(EACH)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("first", "second")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    acknowledged = [line for writer in writers for line in writer.communicate()[0].split()]

    assert len(acknowledged) == 2 * EACH
    assert sorted(any_store.get(any_key).notes) == sorted(acknowledged)


def test_the_lock_of_a_killed_process_is_free(store: Snapshots, key: str) -> None:
    holding = f"import fcntl, os; fd = os.open({str(store.folder / writing.LOCK)!r}, os.O_RDWR); "
    holding += "fcntl.flock(fd, fcntl.LOCK_EX); print('held', flush=True); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", holding], check=False, capture_output=True, text=True)

    assert killed.stdout == "held\n"
    store.note(key, "a", Note("written"))
    assert store.get(key).notes == {"a": Note("written")}


def test_a_lock_that_is_never_released_is_an_error(store: Snapshots, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LOCK_SECONDS", 0.0)
    sentence = (
        "A snapshot cannot be written in its folder: another process has locked it for more than 0 seconds; "
        "see data_folder in fleet.yaml."
    )
    with (store.folder / writing.LOCK).open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SnapshotError, match=re.escape(sentence)):
            store.note(key, "a", Note("new"))
    assert store.get(key).notes == {}


@pytest.mark.parametrize("change", ["rename", "note", "delete"])
def test_changing_a_missing_snapshot_makes_no_folder(tmp_path: Path, change: str) -> None:
    store = Snapshots(tmp_path / "none")
    changes = {
        "rename": lambda: store.rename("0123456789abcdef0123456789abcdef", "a"),
        "note": lambda: store.note("0123456789abcdef0123456789abcdef", "a", None),
        "delete": lambda: store.delete("0123456789abcdef0123456789abcdef"),
    }

    with pytest.raises(SnapshotError, match="There is no snapshot"):
        changes[change]()
    assert not store.folder.exists()


def test_partial_files_of_killed_processes_are_removed(store: Snapshots, key: str) -> None:
    left = [store.folder / f".{key}{kind}.4711-1.part" for kind in (".json.gz", ".notes.json")]
    foreign = store.folder / ".report.html.4711-1.part"
    for file in (*left, foreign):
        file.write_bytes(b"half")

    Snapshots(store.folder).tidy()
    assert [file.exists() for file in (*left, foreign)] == [False, False, True]
    assert [each.id for each in store.all()] == [key]
