"""The command `history`: maintenance of the history of the fleet."""

from pathlib import Path
from typing import Annotated

import typer

from dashboard import service
from dashboard.cli.fleets import time_of
from dashboard.cli.targets import ConfigOption, options_of
from dashboard.cli.terminal import APP, FAILED, fail, put, say, wrong
from dashboard.errors import HistoryError
from dashboard.fleet.formatting import count, iso, size
from dashboard.fleet.times import end_of_second
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.recording import configured_database
from dashboard.store.history.retention import prune, rewind, stats_of
from dashboard.store.packing import content_of, describe_fleet, export_bytes
from dashboard.store.writing import write_whole
from dashboard.views.context import gap_text

# What the tables of the history hold.
TABLES = {
    "poll": "polls",
    "watch": "periods without a gap",
    "replica": "replicas",
    "replica_span": "replica spans",
    "document_span": "settings spans",
    "fleet_span": "options spans",
    "finding_span": "finding spans",
    "cohort_span": "cohort spans",
    "difference_span": "difference spans",
    "traffic": "sums of traffic",
    "body": "documents",
    "snapshot": "snapshots",
    "snapshot_answers": "answers of snapshots",
    "audit": "audit log entries",
    "session": "sign-ins",
    "alert": "announced alerts",
    "notification": "waiting notifications",
    "notified": "notified receivers",
    "meta": "properties",
}
WIDTH = max(map(len, TABLES.values())) + 1

history = typer.Typer(**APP)


@history.callback()
def about() -> None:
    """Maintain the history of the fleet, also next to the dashboard that records it."""


@history.command("stats")
def stats(config: ConfigOption = None) -> None:
    """Print how large the history is: its first and last poll, and rows and bytes of each kind of data."""
    database = _database(config)
    try:
        found = stats_of(database)
    except HistoryError as error:
        fail(f"exit {FAILED}: {error}")
    ends = [iso(each) if each else "none" for each in (found.first, found.last)]
    put(
        f"history     {database.place}\nsize        {size(found.size_bytes)}\n"
        f"first poll  {ends[0]}\nlast poll   {ends[1]}\n\n"
        + "".join(
            f"{words:<{WIDTH}}{found.rows[table]:>12,}{_bytes(found.table_bytes.get(table))}\n"
            for table, words in TABLES.items()
        )
    )


def _bytes(number: int | None) -> str:
    return "" if number is None else f"{size(number):>12}"


@history.command("prune")
def prune_history(
    config: ConfigOption = None,
    after: Annotated[
        str, typer.Option(metavar="TIME", help="Delete instead every poll after it, as of a clock that was ahead.")
    ] = "",
) -> None:
    """Delete ended spans and polls that are older than history.keep_spans_days and history.keep_polls_days.

    The dashboard does so by itself while it records. Rows are deleted in small steps. Snapshots are kept.
    """
    options, database = options_of(config), _database(config)
    deleted, rows = 0, "poll" if after else "row"
    try:
        if after:
            deleted = rewind(database, options.name, time_of(after, "--after"))
        else:
            for number in prune(database, service.utc_now(), options.history):
                deleted += number
    except HistoryError as error:
        fail(f"exit {FAILED}: {count(deleted, rows)} deleted. {error}")
    say(f"{count(deleted, rows)} deleted from the history {database.place}.")


@history.command("export")
def export(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Output file; an existing one is overwritten.")
    ],
    config: ConfigOption = None,
    at: Annotated[
        str, typer.Option(metavar="TIME", help="ISO 8601, such as 2026-11-20T14:00Z [default: the last poll].")
    ] = "",
) -> None:
    """Write the fleet at a time as a snapshot file (JSON, gzip): every command and the page Snapshots open it.

    Times of single answers are those of the beginning of each replica's state. Exit code 1 where nothing was recorded.
    """
    database = _database(config)
    time = time_of(at, "--at") if at else service.utc_now()
    try:
        reader = HistoryReader(database)
        fleet, (_, gap) = reader.fleet_at(end_of_second(time)), reader.poll_at(end_of_second(time))
    except HistoryError as error:
        fail(f"exit {FAILED}: {error}")
    try:
        write_whole(output, export_bytes(content_of(fleet), describe_fleet(fleet, "", service.utc_now())))
    except OSError as error:
        wrong(f"-o {output}: {error.strerror}")
    polled_at = iso(fleet.polled_at) if fleet.polled_at else ""
    if gap is not None and at:
        say(gap_text(gap))
    say(f"{output}: {fleet.name} as polled at {polled_at}, {count(len(fleet.replicas), 'replica')}.")


def _database(config: Path | None) -> Database:
    try:
        return configured_database(options_of(config))
    except HistoryError as error:
        wrong(str(error))
