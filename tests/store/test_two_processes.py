"""Several processes share a database of snapshots: no acknowledged note is lost."""

import subprocess
import sys
from pathlib import Path

from dashboard.store.snapshots import Snapshots

ROOT = Path(__file__).parents[2]
EACH = 60
WRITER = """
import sys
from pathlib import Path
from dashboard.fleet import Note
from dashboard.store.snapshots import Snapshots


folder, key, name, number = sys.argv[1:]
store = Snapshots(Path(folder))
print("ready", flush=True)
sys.stdin.readline()
for each in range(int(number)):
    store.note(key, f"{name}-{each}", Note(f"note {each} of {name}"))
    print(f"{name}-{each}", flush=True)
"""


def test_two_processes_that_write_120_notes_lose_none(store: Snapshots, key: str) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(store.folder), key, name, str(EACH)],
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
    assert sorted(store.get(key).metadata.notes) == sorted(acknowledged)
