"""A history of an earlier version is copied and migrated; nothing that was recorded is lost."""

import sqlite3
from pathlib import Path

import pytest
from alembic import command, config
from sqlalchemy import create_engine

from dashboard.errors import HistoryError
from dashboard.store import Snapshots
from dashboard.store.history.database import MIGRATIONS
from dashboard.store.history.schema import HEAD
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.store.history.recorded import POLL, Recorded, later

FLEET = built(at(1), at(2, "llama_noprefix"))


def history_of_schema(folder: Path, version: str) -> Recorded:
    """A history that an earlier version made."""
    engine = create_engine(f"sqlite:///{folder / 'history.db'}")
    settings = config.Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.upgrade(settings, version)
        connection.exec_driver_sql("INSERT INTO meta VALUES ('fleet', 'prod')")
    engine.dispose()
    return Recorded(folder)


@pytest.mark.parametrize("version", ["0001", "0002", "0003", "0005"])
def test_an_older_schema_is_copied_and_migrated(tmp_path: Path, version: str) -> None:
    history = history_of_schema(tmp_path, version)
    with pytest.raises(HistoryError, match=rf"has schema {version}, older than {HEAD}: a dashboard migrates it\.$"):
        history.rows("poll")

    history.record(FLEET)

    assert history.rows("poll") == 1
    assert Snapshots(tmp_path, history=lambda: history.database).all() == ()
    copy = sqlite3.connect(tmp_path / f"history.db.before-{HEAD}")
    assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(version,)]
    copy.close()


def test_a_finding_that_was_recorded_before_sightings_is_as_old_as_its_first_span(tmp_path: Path) -> None:
    history = history_of_schema(tmp_path, "0002")
    found = FLEET.inspection.findings[0]
    first, second = (int((AT + number * POLL).timestamp() * 1e6) for number in (0, 2))
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.executemany(
            "INSERT INTO finding_span (from_at, to_at, fingerprint, rule, subject, severity, suppressed, ruleset, "
            "findings, sentence) VALUES (?, ?, ?, 'RT-01', 'chat', ?, 0, 1, 1, '')",
            [
                (first, first + 1, found.fingerprint, "warning"),
                (second, None, found.fingerprint, str(found.severity)),
            ],
        )
    connection.close()

    seen = history.record(later(FLEET, 10 * POLL)).sightings.findings[found.fingerprint]

    assert (seen.first_seen, seen.since, seen.absent_at) == (AT, AT + 2 * POLL, None)
