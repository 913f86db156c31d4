"""The command `snapshots`: what is done with the files of frozen snapshots."""

from pathlib import Path
from typing import Annotated

import typer

from dashboard import service
from dashboard.cli.targets import ConfigOption, options_of
from dashboard.cli.terminal import APP, FAILED, fail, say
from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import count
from dashboard.store import Snapshots

snapshots = typer.Typer(**APP, help="Work on the files of frozen snapshots.")


@snapshots.callback()
def about() -> None:
    """Work on the files of frozen snapshots."""


@snapshots.command("redact")
def redact(
    config: ConfigOption = None,
    backup: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the files are copied first [default: a new one beside them]."),
    ] = None,
) -> None:
    """Take secrets out of snapshots and notes that an earlier version wrote. Ids and links stay valid.

    What an earlier version did not know as a secret is in its files, although no page shows it. Change those passwords
    and keys as well, and delete the backup.

    Exit code 1 where a snapshot or its notes cannot be read; the others are rewritten.
    """
    options = options_of(config)
    store = Snapshots(options.snapshots_folder)
    folder = backup or options.snapshots_folder / f"before-redaction-{service.utc_now():%Y%m%dT%H%M%SZ}"
    try:
        changed, listed = store.redact(folder), store.listed()
    except SnapshotError as error:
        fail(f"exit {FAILED}: {error}")
    for problem in listed.damaged:
        say(problem)
    total = count(len(listed.snapshots), "snapshot")
    kept = f"; the files as they were are in {folder}, delete them" if changed else ""
    say(f"Secrets removed from {len(changed):,} of {total} in {options.snapshots_folder}{kept}.")
    if listed.damaged:
        fail(f"exit {FAILED}: {count(len(listed.damaged), 'file')} not read.")
