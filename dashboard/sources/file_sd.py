"""Targets from files in Prometheus' file_sd shape. A file that fails keeps its last targets, marked stale."""

import glob
import stat
from collections.abc import Iterator
from pathlib import Path

from dashboard.config import FileSdOptions
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials
from dashboard.sources.groups import read_targets
from dashboard.sources.source import Listing, keep_targets

_Stamp = tuple[int, int, int]  # of a file that was read: time of change in ns, size in bytes, inode


class FileSd:
    """One `file_sd` entry of the options: its globs, and the targets of their files."""

    kind = "file_sd"

    def __init__(self, options: FileSdOptions, credentials: Credentials | None) -> None:
        self.name = ", ".join(options.files)
        self._options = options
        self._credentials = credentials
        self._files: dict[str, dict[str, tuple[Listing, _Stamp | None]]] = {pattern: {} for pattern in options.files}

    async def read(self) -> list[Listing]:
        """Return a listing of each file, by glob and then by path. A glob without a file is a failure."""
        return list(self._read())

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    def _read(self) -> Iterator[Listing]:
        for pattern, known in self._files.items():
            literal = glob.escape(pattern) == pattern  # a file that must exist
            found = [pattern] if literal else glob.glob(pattern)  # noqa: PTH207  (absolute patterns)
            for path in sorted({*found, *known}):
                known[path] = self._refresh(path, *known.get(path, (Listing(path, ()), None)))
                yield known[path][0]
            if not known:
                yield Listing(pattern, (), f"{pattern}: no file matches")

    def _refresh(self, path: str, last: Listing, before: _Stamp | None) -> tuple[Listing, _Stamp | None]:
        try:
            status = Path(path).stat()
            if not stat.S_ISREG(status.st_mode):
                return keep_targets(last, "not a regular file"), None
            stamp = status.st_mtime_ns, status.st_size, status.st_ino
            if stamp == before:
                return last, before
            with Path(path).open("rb") as stream:
                raw = stream.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            return keep_targets(last, error.strerror or "unreadable"), None
        try:
            is_json = path.endswith(".json")
            targets = read_targets(raw, path, self._options.labels, self._credentials, is_json=is_json)
        except UnreadableError as error:
            return keep_targets(last, error.detail), stamp
        return Listing(path, targets), stamp
