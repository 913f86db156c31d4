"""Target groups in Prometheus' form, from files (`file_sd`) and from URLs (`http_sd`).

A file or a URL that fails keeps its last targets, marked stale.
https://prometheus.io/docs/prometheus/latest/http_sd/
"""

import glob
import json
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dashboard.config import MAX_LABEL_CHARACTERS, FileSdOptions, HttpSdOptions, PollOptions
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Failure, FailureKind, Target
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, find
from dashboard.sources.http.failures import endpoint_of, plain
from dashboard.sources.source import MAX_TARGETS, Listing, keep_targets, make_target, read_yaml

_Stamp = tuple[int, int, int]  # of a file that was read: time of change in ns, size in bytes, inode

NO_KEY = ApiKey(missing="none is given; set authorization of this http_sd entry in fleet.yaml")
# What Prometheus accepts: prometheus/prometheus, discovery/http/http.go, matchContentType.
_JSON = re.compile(r'application/json(;\s*charset=("utf-8"|utf-8))?', re.IGNORECASE)
_META = "__"  # Prometheus drops labels with this prefix after relabelling


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


class HttpSd:
    """One `http_sd` entry of the options."""

    kind = "http_sd"

    def __init__(
        self,
        options: HttpSdOptions,
        authorization: Credentials | None,
        credentials: Credentials | None,
        limits: PollOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet. `credentials` are for the targets; `clock` is monotonic, in seconds."""
        self._options = options
        self._authorization = authorization
        self._credentials = credentials
        self._limits = limits
        self._clock = clock
        self._due = clock()
        self._endpoint = endpoint_of(options.url)
        self.name = options.url.partition("?")[0]
        self._listing = Listing(self.name, ())

    async def read(self) -> list[Listing]:
        """Return the listing of the URL, which is asked again after `refresh_seconds`."""
        if self._clock() >= self._due:
            self._due = self._clock() + self._options.refresh_seconds
            self._listing = await self._ask()
        return [self._listing]

    async def _ask(self) -> Listing:
        interval = f"{self._options.refresh_seconds:.0f}".encode()
        limits = self._limits
        async with Client(connections=1, max_answer_bytes=MAX_DOCUMENT_BYTES, max_headers=limits.max_headers) as client:
            answer = await client.fetch(
                self._endpoint,
                limits.probe_timeout_seconds,
                limit=MAX_DOCUMENT_BYTES,
                key=find(self._authorization) if self._authorization else NO_KEY,
                ca_file=self._authorization.ca_file if self._authorization else None,
                headers=[(b"X-Prometheus-Refresh-Interval-Seconds", interval)],
            )
        if answer.failure:
            return keep_targets(self._listing, answer.failure.detail)
        if not _JSON.fullmatch(answer.content_type or ""):
            sent = f"Content-Type {plain(answer.content_type)}" if answer.content_type else "no Content-Type"
            said = f"{self._endpoint.where} answered {self._endpoint.path} with {sent}"
            return keep_targets(self._listing, f"{said}; serve application/json, as Prometheus requires")
        try:
            targets = read_targets(answer.body, self.name, self._options.labels, self._credentials, is_json=True)
        except UnreadableError as error:
            return keep_targets(self._listing, error.detail)
        return Listing(self.name, targets)


def read_targets(
    raw: bytes, place: str, labels: Mapping[str, str], credentials: Credentials | None, *, is_json: bool
) -> tuple[Target, ...]:
    """Return the targets of a whole file; labels of a group win over `labels`. An invalid address is a failed target.

    Raise UnreadableError with a sentence for another shape.
    """
    groups = _read_json(raw) if is_json else read_yaml(raw)
    if not isinstance(groups, list):
        raise UnreadableError("schema", "not a list of groups {targets: [...], labels: {...}}")
    targets: list[Target] = []
    for number, group in enumerate(groups, 1):
        written = _labels(group, f"group {number}")
        if len(targets) + len(group["targets"]) > MAX_TARGETS:
            raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets")
        scheme = written.get("__scheme__")
        own = {**labels, **{name: text for name, text in written.items() if not name.startswith(_META)}}
        for position, address in enumerate(group["targets"], 1):
            if isinstance(address, str):
                whole = f"{scheme}://{address}" if scheme and "://" not in address else address
                targets.append(make_target(whole, own, credentials))
            else:
                failure = Failure(FailureKind.TARGET, "this entry is no text; write host:port")
                targets.append(Target(f"{place}: group {number}, target {position}", own, failure=failure))
    return tuple(targets)


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


def _labels(value: Any, where: str) -> dict[str, str]:
    """Return the labels of a group, also those that Prometheus drops."""
    if not isinstance(value, dict) or not isinstance(value.get("targets"), list):
        raise UnreadableError("schema", f"{where} is not a mapping with a list of targets")
    written = {} if value.get("labels") is None else value["labels"]
    if not isinstance(written, dict):
        raise UnreadableError("schema", f"{where} has labels that are not a mapping")
    named = ((_text(name, where), each) for name, each in written.items() if each not in (None, ""))
    return {name: _text(each, f"{where}, label {name!r:.60}") for name, each in named}


def _text(value: Any, where: str) -> str:
    """Return the written text, `true` for a JSON true; half of a surrogate pair, which JSON can hold, becomes `?`."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise UnreadableError("schema", f"{where} is not a string")
    if len(value) > MAX_LABEL_CHARACTERS:
        raise UnreadableError("schema", f"{where} is longer than {MAX_LABEL_CHARACTERS} characters")
    return value.encode(errors="replace").decode()
