"""Whatever is written into the rows of a database, reading it is a result or a sentence, never another error."""

import zlib
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, String

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.timeline import Period
from dashboard.errors import DashboardError, HistoryError
from dashboard.store.history import bodies
from dashboard.store.history.database import file_database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.schema import METADATA
from dashboard.store.history.writer import HistoryWriter
from dashboard.store.snapshots import Snapshots
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.store.folders import execute
from tests.store.history.recorded import DUE, POLL, Recorded, later

PERIOD = Period(AT - POLL, AT + 4 * POLL)
COLUMNS = [column for table in METADATA.sorted_tables for column in table.columns]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with three polls and a snapshot."""
    history = Recorded(folder := tmp_path_factory.mktemp("recorded"))
    for number in range(3):
        history.record(later(built(*(at(each) for each in range(number + 2)), polled_at=AT), number * POLL))
    Snapshots(folder).save(built(at(1), polled_at=AT), "x", AT)
    history.writer.close()
    return (folder / "history.db").read_bytes()


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """The fleet of the next poll."""
    return built(at(1), at(2), polled_at=AT + 3 * POLL)


@pytest.mark.few(8)
@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_a_damaged_column_is_a_sentence(recorded: bytes, fleet: Fleet, tmp_path: Path, column: Column[Any]) -> None:
    (tmp_path / "history.db").write_bytes(recorded)
    with suppress(HistoryError):  # two rows with one unique value
        value = b"\xff\xfe" if isinstance(column.type, String) else "text"
        execute(tmp_path, f"UPDATE {column.table.name} SET {column.name} = ?", (value,))  # noqa: S608
    reader, store = HistoryReader(file_database(tmp_path)), Snapshots(tmp_path)

    def open_snapshots() -> None:
        for each in store.all():
            store.answers(each.id, 0)
            store.fleet(each.id)

    for read in (
        lambda: reader.fleet_at(AT + 2 * POLL),
        lambda: reader.events(AT, AT + timedelta(hours=1)),
        lambda: reader.timeline(PERIOD),
        lambda: reader.replica_timeline(PERIOD, fleet.replicas[0].id),
        lambda: reader.setting_timeline(PERIOD, "cache_config.block_size"),
        lambda: reader.rule_set_at(AT),
        open_snapshots,
        lambda: HistoryWriter(file_database(tmp_path)).record(fleet, AT + 3 * POLL + DUE),
    ):
        with suppress(DashboardError):
            read()


def test_a_body_that_unpacks_to_too_much_is_damaged(recorded: bytes, tmp_path: Path) -> None:
    (tmp_path / "history.db").write_bytes(recorded)
    execute(tmp_path, "UPDATE body SET content = ?", (zlib.compress(bytes(bodies.MOST_BYTES + 1)),))

    with pytest.raises(HistoryError, match=r"The history is damaged: body \d+ was changed or cut"):
        HistoryReader(file_database(tmp_path)).fleet_at(AT)
