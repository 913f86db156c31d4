"""Targets from files in Prometheus' file_sd shape. A file that fails keeps its last targets, marked stale."""

from __future__ import annotations

import glob
import json
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dashboard.config import MAX_LABEL_CHARACTERS, FileSdOptions
from dashboard.config.address import replica_id, shown
from dashboard.config.document import MAX_DOCUMENT_BYTES, read_document
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Failure, FailureKind, Target
from dashboard.sources.source import Listing, keep_targets

MAX_TARGETS = 50_000  # per file: ten times the largest fleet that this program is made for
_META = "__"  # Prometheus drops labels with this prefix after relabelling
_Stamp = tuple[int, int, int]  # time of change in ns, size in bytes, inode


class Group(NamedTuple):
    """Addresses with common labels. An address that is not a string is None; `scheme` is that of `__scheme__`."""

    addresses: tuple[str | None, ...]
    labels: Mapping[str, str]
    scheme: str | None


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
        """Read no file yet."""
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
        return _LastRead(Listing(path, tuple(self._targets(path, groups))), stamp)

    def _targets(self, path: str, groups: list[Group]) -> Iterator[Target]:
        for number, group in enumerate(groups, 1):
            labels = {**self._options.labels, **group.labels}
            for position, address in enumerate(group.addresses, 1):
                if address is None:
                    failure = Failure(FailureKind.TARGET, "this entry is no text; write host:port")
                    yield Target(f"{path}: group {number}, target {position}", labels, failure=failure)
                    continue
                whole = f"{group.scheme}://{address}" if group.scheme and "://" not in address else address
                try:
                    yield Target(replica_id(whole), labels, self._credentials)
                except ValueError as error:
                    yield Target(shown(address), labels, failure=Failure(FailureKind.TARGET, str(error)))


def read_groups(raw: bytes, *, is_json: bool) -> list[Group]:
    """Read a whole file. Raise UnreadableError with a sentence for another shape."""
    value = _read_json(raw) if is_json else _read_yaml(raw)
    if not isinstance(value, list):
        raise UnreadableError("schema", "not a list of groups {targets: [...], labels: {...}}")
    groups = [_group(each, f"group {number}") for number, each in enumerate(value, 1)]
    if sum(len(group.addresses) for group in groups) > MAX_TARGETS:
        raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets")
    return groups


def _read_yaml(raw: bytes) -> Any:
    document = read_document(raw)
    if document.mistakes:
        line, sentence = document.mistakes[0]
        raise UnreadableError("decode", f"line {line}: {sentence}")
    return document.value


def _read_json(raw: bytes) -> Any:
    """Read JSON; numbers stay text, so that a label 1.10 keeps its zero."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise UnreadableError("decode", f"larger than {MAX_DOCUMENT_BYTES // 2**20} MiB")
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_int=str, parse_float=str, parse_constant=str)
    except UnicodeDecodeError:
        raise UnreadableError("decode", "not UTF-8") from None
    except json.JSONDecodeError as error:
        raise UnreadableError("decode", f"line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise UnreadableError("decode", "not JSON of this shape: nested too deep") from None


def _group(value: Any, where: str) -> Group:
    if not isinstance(value, dict) or not isinstance(value.get("targets"), list):
        raise UnreadableError("schema", f"{where} is not a mapping with a list of targets")
    written = {} if value.get("labels") is None else value["labels"]
    if not isinstance(written, dict):
        raise UnreadableError("schema", f"{where} has labels that are not a mapping")
    named = ((_text(name, where), each) for name, each in written.items() if each not in (None, ""))
    labels = {name: _text(each, f"{where}, label {name!r:.60}") for name, each in named}
    return Group(
        addresses=tuple(each if isinstance(each, str) else None for each in value["targets"]),
        labels={name: text for name, text in labels.items() if not name.startswith(_META)},
        scheme=labels.get("__scheme__"),
    )


def _text(value: Any, where: str) -> str:
    """Return the written text, `true` for a JSON true; half of a surrogate pair, which JSON can hold, becomes `?`."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise UnreadableError("schema", f"{where} is not a string")
    if len(value) > MAX_LABEL_CHARACTERS:
        raise UnreadableError("schema", f"{where} is longer than {MAX_LABEL_CHARACTERS} characters")
    return value.encode(errors="replace").decode()
