"""Targets from files in Prometheus' file_sd shape. A file that fails keeps the targets it had, marked stale."""

from __future__ import annotations

import glob
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dashboard.config import FileSdOptions
from dashboard.config.address import replica_id, shown
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Failure, FailureKind, Target
from dashboard.sources.groups import Group, read_groups

_Stamp = tuple[int, int, int]  # time of change in ns, size in bytes, inode


@dataclass(frozen=True, slots=True)
class _Held:
    """What one file said when it was last read, and why it could not be read since."""

    stamp: _Stamp | None = None
    targets: tuple[Target, ...] = ()
    failure: str | None = None

    def failed(self, path: str, sentence: str, stamp: _Stamp | None = None) -> _Held:
        """Keep the targets, marked stale."""
        kept = f"; its last targets ({len(self.targets)}) stay, marked stale" if self.targets else ""
        told = f"{path}: {sentence}{kept}"
        targets = self.targets if self.failure else tuple(replace(each, stale=True) for each in self.targets)
        return _Held(stamp, targets, told)


class FileSd:
    """One `file_sd` entry of the options: its globs, and what their files said."""

    def __init__(self, options: FileSdOptions, credentials: Credentials | None) -> None:
        """Read nothing yet."""
        self._options = options
        self._credentials = credentials
        self._held: dict[str, dict[str, _Held]] = {pattern: {} for pattern in options.files}

    def read(self) -> tuple[list[Target], list[str]]:
        """Return all targets, by glob and then by path, and a sentence for each file or glob that failed."""
        targets: list[Target] = []
        failures: list[str] = []
        for pattern, held in self._held.items():
            for path in sorted({*_files(pattern), *held}):
                held[path] = self._refreshed(path, held.get(path, _Held()))
                targets += held[path].targets
                failures += filter(None, [held[path].failure])
            if not held:
                failures.append(f"{pattern}: no file matches")
        return targets, failures

    def _refreshed(self, path: str, held: _Held) -> _Held:
        try:
            stamp = _stamp(path)
            if stamp == held.stamp:
                return held
            raw = _read(path)
        except OSError as error:
            return held.failed(path, error.strerror or "cannot be read")
        try:
            groups = read_groups(raw, is_json=path.endswith(".json"))
        except UnreadableError as error:
            return held.failed(path, error.detail, stamp)
        return _Held(stamp, tuple(self._targets(path, groups)))

    def _targets(self, path: str, groups: list[Group]) -> Iterator[Target]:
        for number, group in enumerate(groups, 1):
            labels = {**self._options.labels, **group.labels}
            for position, address in enumerate(group.addresses, 1):
                if address is None:
                    failure = Failure(FailureKind.TARGET, "this entry is no text; write host:port")
                    yield Target(f"{path}: group {number}, target {position}", labels, failure=failure)
                else:
                    yield _target(address, group.scheme, labels, self._credentials)


def _target(address: str, scheme: str | None, labels: dict[str, str], credentials: Credentials | None) -> Target:
    whole = f"{scheme}://{address}" if scheme and "://" not in address else address
    try:
        return Target(replica_id(whole), labels, credentials)
    except ValueError as error:
        return Target(shown(address), labels, failure=Failure(FailureKind.TARGET, str(error)))


def _files(pattern: str) -> list[str]:
    """Return the files that match; a pattern without wildcards is a file that has to be there."""
    literal = glob.escape(pattern) == pattern
    return [pattern] if literal else glob.glob(pattern)  # noqa: PTH207  (absolute patterns)


def _stamp(path: str) -> _Stamp:
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "no regular file")
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: str) -> bytes:
    with Path(path).open("rb") as stream:
        return stream.read(MAX_DOCUMENT_BYTES + 1)
