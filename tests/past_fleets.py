"""A history of four polls: one replica restarts with another block size and back, another one is added, then a gap."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.documents.load import read_snapshot
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.packing import content_of
from tests.analysis.changes.sides import NEW, chat, fleet
from tests.builders import NOW, POLLED_AT
from tests.store.history.recorded import Recorded

HOUR = timedelta(hours=1)
# Polls. At three hours ago all are alike; at two chat-04 differs; at one it does not, and chat-05 is there.
FIRST, ODD, MENDED, LAST = (POLLED_AT - ago * HOUR for ago in (3, 2, 1, 0))
DUE = {FIRST: 2 * HOUR, ODD: 2 * HOUR, MENDED: timedelta(minutes=5), LAST: timedelta(minutes=5)}
GAP_ENDS = "2026-03-02T10:42:05Z", "2026-03-02T11:42:05Z"


def fleet_at(time: datetime) -> Fleet:
    """The fleet of one of the polls, spelled as it is read back."""
    return replace(_fleet_at(time))


@cache  # with the rules evaluated
def _fleet_at(time: datetime) -> Fleet:
    fourth = {
        FIRST: chat(1, first=4),
        ODD: chat(1, NEW, first=4, started_at=ODD - timedelta(minutes=4)),
        MENDED: [*chat(1, first=4, started_at=MENDED - timedelta(minutes=4)), *chat(1, first=5, started_at=MENDED)],
    }
    fourth[LAST] = fourth[MENDED]
    return read_snapshot(content_of(fleet(*chat(3), *fourth[time], polled_at=time)))


def recorded(folder: Path) -> Database:
    """The polls, recorded in a folder."""
    (folder / "history.db").write_bytes(_recorded())
    return Database(f"sqlite:///{folder / 'history.db'}")


@cache  # it takes longer than most tests that read it
def _recorded() -> bytes:
    with TemporaryDirectory() as folder:
        history = Recorded(Path(folder))
        for time, due in DUE.items():
            history.record(fleet_at(time), due)
        history.writer.close()
        with closing(sqlite3.connect(f"{folder}/history.db")) as connection:
            return connection.serialize()


def show_with_history(folder: Path) -> Database:
    """Make the last fleet the live one, with a history and no snapshots."""
    database = recorded(folder)
    service.put(fleet_at(LAST), NOW, folder / "kept", history=HistoryReader(database))
    return database
