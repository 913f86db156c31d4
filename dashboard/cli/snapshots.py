"""The command `snapshots`: maintenance of snapshot files."""

from pathlib import Path
from typing import Annotated

import typer

from dashboard import service
from dashboard.cli.targets import ConfigOption, options_of
from dashboard.cli.terminal import APP, FAILED, fail, say
from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import count
from dashboard.store.opening import configured_snapshots

snapshots = typer.Typer(**APP)


@snapshots.callback()
def about() -> None:
    """Maintain frozen snapshots."""


@snapshots.command("redact")
def redact(
    config: ConfigOption = None,
    backup: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for a backup of the files [default: a new one in their folder]."),
    ] = None,
) -> None:
    """Remove secrets from snapshots and notes of earlier versions. Ids and links stay valid.

    An earlier version knew fewer kinds of secrets; what it stored still has them, although no page shows them. Also
    change those passwords and keys, and delete the backup.

    Exit code 1 for an unreadable snapshot or notes file; the others are rewritten.
    """
    options = options_of(config)
    store = configured_snapshots(options)
    folder = backup or options.snapshots_folder / f"before-redaction-{service.utc_now():%Y%m%dT%H%M%SZ}"
    try:
        changed, listed = store.redact(folder), store.listed()
    except SnapshotError as error:
        fail(f"exit {FAILED}: {error}")
    for problem in listed.damaged:
        say(problem)
    total = count(len(listed.snapshots), "snapshot")
    kept = f"; backup of the files in {folder}: delete it" if changed else ""
    say(f"Secrets removed from {len(changed):,} of {total} in {options.snapshots_folder}{kept}.")
    if listed.damaged:
        fail(f"exit {FAILED}: {count(len(listed.damaged), 'file')} unreadable.")
