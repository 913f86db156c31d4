"""Files: atomic writes, the lock of a folder that several processes write to, and the file of accepted findings."""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from dashboard.config.rules import (
    add_suppression,
    read_suppressions,
    remove_suppression,
    suppression_yaml,
)
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import iso
from dashboard.rules.findings import Suppression

LOCK = ".lock"
LOCK_SECONDS = 10.0  # the longest wait; a change takes milliseconds
TRY_SECONDS = 0.005
PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


def write_whole(file: Path, content: bytes, mode: int | None = None) -> None:
    """Replace a file atomically and durably. Raise OSError without leaving a partial file.

    The mode is `mode`, else that of the replaced file, else PRIVATE. A device such as /dev/stdout is written to
    directly; a link is followed.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    file = file.resolve()
    if mode is None:
        mode = file.stat().st_mode & 0o777 if file.exists() else PRIVATE
    part = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as stream:  # noqa: PTH123
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder; some network file systems cannot, and need not."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock against other threads and processes; raise OSError where that fails."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        _wait_for(descriptor)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                text = f"another process has locked it for more than {LOCK_SECONDS:.0f} seconds"
                raise OSError(errno.EAGAIN, text) from None
            time.sleep(TRY_SECONDS)
        except OSError as error:
            text = f"this file system has no file locks ({error.strerror}), use a local disk"
            raise OSError(error.errno, text) from None
        else:
            return


SCOPE = ("rule", "pool", "replicas", "labels", "until")  # of an entry: what it covers
ENTRY = (*SCOPE, "owner", "reason", "author")
READABLE = 0o644  # of a new file: `check` may run as another user


def save_acceptance(file: Path, entries: Sequence[Suppression], at: datetime) -> None:
    """Add entries to the file, with the time (UTC); what the file holds stays, with its comments.

    Raise OptionsError where the file is wrong, not writable, or has one of them; nothing is changed then.
    """

    def add(content: bytes) -> bytes:
        for entry in entries:
            if any(_is_equal(each, entry, SCOPE) for each in read_suppressions(content, file)):
                raise OptionsError(f"{file.name}: already has an entry for this scope until {entry.until}")
            added = suppression_yaml([entry], iso(at))
            content = add_suppression(content, file, added)
        return content

    _change(file, add)


def undo_acceptance(file: Path, entries: Sequence[Suppression]) -> None:
    """Remove entries from the file; the rest stays, with its comments.

    Raise OptionsError where the file is wrong, not writable, or lacks one of them; nothing is changed then.
    """

    def remove(content: bytes) -> bytes:
        for entry in entries:
            found = enumerate(read_suppressions(content, file))
            own = (number for number, each in found if _is_equal(each, entry, ENTRY))
            number = next(own, None)
            if number is None:
                raise OptionsError(f"{file.name}: no longer has this entry")
            content = remove_suppression(content, file, number)
        return content

    _change(file, remove)


def _change(file: Path, change: Callable[[bytes], bytes]) -> None:
    """Replace the content of the file by what `change` makes of it, alone among threads and processes."""
    try:
        with locked(file.parent):
            is_new = not file.exists()
            if not is_new and not (file.stat().st_mode & 0o222 and os.access(file, os.W_OK)):
                raise OptionsError(f"{file.name}: read-only; make it writable, or edit it")
            write_whole(file, change(b"" if is_new else file.read_bytes()), READABLE if is_new else None)
    except OSError as error:
        raise OptionsError(f"{file.name}: {error.strerror}; nothing was saved") from error


def _is_equal(known: object, entry: Suppression, names: Iterable[str]) -> bool:
    return all(getattr(known, name) == getattr(entry, name) for name in names)
