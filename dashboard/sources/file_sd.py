"""Targets from files in Prometheus' file_sd shape. A file that fails keeps its last targets, marked stale."""

from __future__ import annotations

import glob
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dashboard.config import FileSdOptions
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials
from dashboard.sources.groups import make_targets, read_groups
from dashboard.sources.source import Listing, keep_targets

_Stamp = tuple[int, int, int]  # time of change in ns, size in bytes, inode


class _LastRead(NamedTuple):
    """What a file listed, and which file that was; no stamp: it could not be read."""

    listing: Listing
    stamp: _Stamp | None = None

    def fail(self, sentence: str, stamp: _Stamp | None = None) -> _LastRead:
        """Keep the targets, marked stale."""
        return _LastRead(keep_targets(self.listing, sentence), stamp)


class FileSd:
    """One `file_sd` entry of the options: its globs, and the targets of their files."""

    kind = "file_sd"

    def __init__(self, options: FileSdOptions, credentials: Credentials | None) -> None:
        self.name = ", ".join(options.files)
        self._options = options
        self._credentials = credentials
        self._files: dict[str, dict[str, _LastRead]] = {pattern: {} for pattern in options.files}

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
                known[path] = self._refresh(path, known.get(path, _LastRead(Listing(path, ()))))
                yield known[path].listing
            if not known:
                yield Listing(pattern, (), f"{pattern}: no file matches")

    def _refresh(self, path: str, last: _LastRead) -> _LastRead:
        try:
            status = Path(path).stat()
            if not stat.S_ISREG(status.st_mode):
                return last.fail("not a regular file")
            stamp = status.st_mtime_ns, status.st_size, status.st_ino
            if stamp == last.stamp:
                return last
            with Path(path).open("rb") as stream:
                raw = stream.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            return last.fail(error.strerror or "unreadable")
        try:
            groups = read_groups(raw, is_json=path.endswith(".json"))
        except UnreadableError as error:
            return last.fail(error.detail, stamp)
        targets = make_targets(path, groups, self._options.labels, self._credentials)
        return _LastRead(Listing(path, tuple(targets)), stamp)
