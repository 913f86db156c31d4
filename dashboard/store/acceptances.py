"""Saving an accepted finding in the file of `suppressions_file`."""

import os
from datetime import datetime
from pathlib import Path

from dashboard.config.rules import add_suppression, load_suppressions, suppression_yaml
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import iso
from dashboard.rules.findings import Suppression
from dashboard.store.writing import locked, write_whole

READABLE = 0o644  # of a new file: `check` may run as another user


def save_acceptance(file: Path, entry: Suppression, author: str, at: datetime) -> None:
    """Add an entry to the file, with its author and time (UTC); what the file holds stays, with its comments.

    Raise OptionsError where the file is wrong, not writable, or has this entry; nothing is changed then.
    """
    added = suppression_yaml(entry, {"author": author, "created": iso(at)})
    try:
        with locked(file.parent):
            if any(_covers_same(each, entry) for each in load_suppressions(file)):
                raise OptionsError(f"{file.name}: already has an entry for this scope until {entry.until}")
            is_new = not file.exists()
            if not is_new and not (file.stat().st_mode & 0o222 and os.access(file, os.W_OK)):
                raise OptionsError(f"{file.name}: read-only; make it writable, or copy the entry into it")
            content = add_suppression(b"" if is_new else file.read_bytes(), file, added)
            write_whole(file, content, READABLE if is_new else None)
    except OSError as error:
        raise OptionsError(f"{file.name}: {error.strerror}; nothing was saved") from error


def _covers_same(known: object, entry: Suppression) -> bool:
    return all(getattr(known, name) == getattr(entry, name) for name in ("rule", "pool", "replicas", "labels", "until"))
