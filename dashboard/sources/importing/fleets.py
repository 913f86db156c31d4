"""All files of one import: each saved fleet is a fleet, and the answers of replicas together are one.

`import_files` does it in a process with limits: the result comes back as bytes that can be frozen, never as objects.
"""

import json
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, build_fleet
from dashboard.documents.load import read_snapshot
from dashboard.errors import SnapshotError
from dashboard.fleet import Failure, ProbeResult, Snapshot, Target
from dashboard.fleet.replies import FILE_SCHEME
from dashboard.rules.policy import Policy
from dashboard.sources.http.failures import Endpoint
from dashboard.sources.importing.answers import (
    MIB,
    SAVED_FLEET,
    AnswerKey,
    File,
    RefusedFile,
    answer_of,
    opened,
    refusal_of,
    replicas_named,
    shown,
)
from dashboard.sources.polling.probes import BY_PATH, Reader
from dashboard.store import child
from dashboard.store.metadata import ExportMetadata, SnapshotMetadata, describe_fleet, read_export_metadata
from dashboard.store.packing import content_of
from dashboard.vllm.reading import excerpt
from vllm_fleet_provider.shared import redaction

MAX_TOTAL_BYTES = 128 * MIB  # of all files of one import, unpacked
MAX_FILES = 5_000  # 1,000 replicas with an answer each to /metrics, /server_info, /version and /v1/models
SERVED_NAME = "model_config.served_model_name"
_INTERVAL = timedelta(seconds=15)  # between polls; every answer has the age of the import, so all are fresh


class ImportedFleet(NamedTuple):
    """An imported fleet, its file, and the name and notes in that file. The fleet of answers has no file: empty."""

    file: str
    fleet: Fleet
    carried: ExportMetadata


class ImportedFleets(NamedTuple):
    """The imported fleets, and the refused files."""

    fleets: tuple[ImportedFleet, ...]
    refused: tuple[RefusedFile, ...]


class SnapshotDraft(NamedTuple):
    """A fleet that can be frozen: its file, its content, its description, and the name and notes in the file."""

    file: str
    content: bytes
    metadata: SnapshotMetadata
    carried: ExportMetadata


class Import(NamedTuple):
    """The fleets that can be frozen, and the refused files."""

    fleets: tuple[SnapshotDraft, ...]
    refused: tuple[RefusedFile, ...]


def import_files(
    files: Sequence[File],
    at: datetime,
    name: str,
    *,
    policy: Policy | None = None,
    ignore: Sequence[str] = (),
    wait: Callable[[], None] = lambda: None,
) -> Import:
    """Do what `imported` does within limits of memory and time; raise SnapshotError beyond these.

    `wait` is called where another import is being read: one is at a time.
    """
    sent = redaction.in_force(), list(files), at, name, policy, list(ignore)
    answered = child.run_limited(__name__, lambda: pickle.dumps(sent), wait=wait)
    line, _, rest = answered.partition(b"\n")
    head = json.loads(line)
    fleets: list[SnapshotDraft] = []
    for file, size, metadata, export in head["fleets"]:
        content, rest = rest[:size], rest[size:]
        parts = SnapshotMetadata.model_validate_json(metadata), ExportMetadata.model_validate_json(export)
        fleets.append(SnapshotDraft(file, content, *parts))
    return Import(tuple(fleets), tuple(RefusedFile(*each) for each in head["refused"]))


def main() -> None:
    """Read the input of `import_files` and write its output, in the limited process."""
    child.limit()
    redacted, files, at, name, policy, ignore = pickle.loads(sys.stdin.buffer.read())  # noqa: S301  ours wrote it
    redaction.adopt(redacted)
    found = imported(files, at, name, policy=policy, ignore=ignore)
    contents = [content_of(fleet) for _, fleet, _ in found.fleets]
    fleets = [
        (file, len(content), describe_fleet(fleet, "", at).model_dump_json(), carried.model_dump_json(by_alias=True))
        for (file, fleet, carried), content in zip(found.fleets, contents, strict=True)
    ]
    head = json.dumps({"fleets": fleets, "refused": found.refused})
    sys.stdout.buffer.write(b"\n".join((head.encode(), b"".join(contents))))


def imported(
    files: Sequence[File], at: datetime, name: str, *, policy: Policy | None = None, ignore: Sequence[str] = ()
) -> ImportedFleets:
    """Make fleets of files. An unusable file is refused with a sentence; the others are imported.

    A file of answers has no time of its own: their data is as of `at`. Their fleet gets `name`, `policy` and `ignore`.
    A saved fleet has its own time, name and policy.
    """
    answers = _Answers(at)
    named = replicas_named(file.name for file in files)
    fleets: list[ImportedFleet] = []
    refused: list[RefusedFile] = []
    for file, content in _within_limits(files, refused):
        try:
            answer = answer_of(file.name, content, named)
            if answer.path == SAVED_FLEET:
                fleets.append(
                    ImportedFleet(shown(file.name), read_snapshot(content), read_export_metadata(file.content))
                )
            else:
                answers.add(shown(file.name), answer, content)
        except SnapshotError as error:
            refused.append(RefusedFile(shown(file.name), str(error)))
    if snapshots := answers.snapshots():
        built = build_fleet(name, snapshots, polled_at=at, interval=_INTERVAL, ignore=ignore, policy=policy)
        fleets.append(ImportedFleet("", built, ExportMetadata()))
    return ImportedFleets(tuple(fleets), tuple(refused))


def _within_limits(files: Sequence[File], refused: list[RefusedFile]) -> Iterable[tuple[File, bytes]]:
    """Yield readable files with their content, up to the limits; add the others to `refused`."""
    total = 0
    for place, file in enumerate(files):
        if place >= MAX_FILES:
            refused.append(
                RefusedFile(shown(file.name), f"The limit of an import is {MAX_FILES:,} files; import it later.")
            )
            return
        try:
            content = opened(file)
        except SnapshotError as error:
            refused.append(RefusedFile(shown(file.name), str(error)))
            continue
        if total + len(content) > MAX_TOTAL_BYTES:
            limit = f"The limit of an import is {MAX_TOTAL_BYTES // MIB} MiB; import it separately."
            refused.append(RefusedFile(shown(file.name), limit))
            continue
        total += len(content)
        yield file, content


@dataclass(slots=True)
class _Answers:
    """The answers read so far, by replica and path, with the file of each."""

    at: datetime
    reader: Reader = field(default_factory=Reader)
    probes: dict[str, dict[str, ProbeResult]] = field(default_factory=dict)
    files: dict[AnswerKey, str] = field(default_factory=dict)

    def add(self, file: str, answer: AnswerKey, content: bytes) -> None:
        """Read one answer; raise SnapshotError for an unreadable or a duplicate one."""
        if answer in self.files:
            raise SnapshotError(
                f"{self.files[answer]} already has the answer of {answer.replica} to {answer.path}; "
                "name each file after its replica, as in chat-1.server_info.json."
            )
        self.files[answer] = file
        probe = BY_PATH[answer.path]
        read = self.reader.read(probe, Endpoint(f"{FILE_SCHEME}{answer.replica}", answer.path), content)
        result = ProbeResult(answer.path, probe.source, self.at, 0.0, size_bytes=len(content))
        results = self.probes.setdefault(answer.replica, {})
        if isinstance(read, Failure):
            results[answer.path] = replace(result, failure=read, raw=excerpt(content))
            raise SnapshotError(refusal_of(answer.path, read.detail, content))
        results[answer.path] = replace(result, reply=read.reply, raw=read.raw)

    def snapshots(self) -> list[Snapshot]:
        """Return one snapshot per replica with at least one readable answer."""
        return [
            Snapshot(Target(f"{FILE_SCHEME}{name}", {"name": name}), self.at, _with_model(results))
            for name, results in self.probes.items()
            if any(each.reply for each in results.values())
        ]


def _with_model(results: dict[str, ProbeResult]) -> dict[str, ProbeResult]:
    """Use the configuration's served model name, which decides the pool, where no other answer has one."""
    replies = [each.reply for each in results.values() if each.reply]
    if any(reply.served_model_names for reply in replies):
        return results
    served = next((reply.settings[SERVED_NAME] for reply in replies if SERVED_NAME in reply.settings), None)
    name = json.loads(served.value) if served is not None and served.value else None
    if not isinstance(name, str) or not name:
        return results
    return {
        path: replace(each, reply=replace(each.reply, served_model_names=(name,))) if each.reply else each
        for path, each in results.items()
    }


if __name__ == "__main__":
    main()
