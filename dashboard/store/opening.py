"""The snapshots that the options name: in the history, or in files where that is disabled."""

from functools import partial

from dashboard.config import Options
from dashboard.store.history.recording import configured_database
from dashboard.store.snapshots import Snapshots


def configured_snapshots(options: Options, *, read_only: bool = False) -> Snapshots:
    """Return the snapshots of the options; open nothing."""
    history = partial(configured_database, options) if options.history.enabled else None
    return Snapshots(options.snapshots_folder, read_only=read_only, history=history)
