"""All files of one import: each saved fleet is a fleet, and the answers of replicas together are one."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, build_fleet
from dashboard.errors import SnapshotError
from dashboard.fleet import Failure, ProbeResult, Snapshot, Target
from dashboard.fleet.replies import FILE_SCHEME
from dashboard.rules.policy import Policy
from dashboard.sources.importing.answers import SAVED_FLEET, Answer, answer_of, refusal_of, replicas_named
from dashboard.sources.importing.files import MAX_FILES, MAX_TOTAL_BYTES, MIB, File, Refused, opened, shown
from dashboard.sources.polling.failures import Asked
from dashboard.sources.polling.probes import BY_PATH
from dashboard.sources.polling.reader import Reader
from dashboard.store.carrying import Carried, carried_by
from dashboard.store.redacting import opened_clean
from dashboard.vllm.reading import excerpt

SERVED_NAME = "model_config.served_model_name"
_INTERVAL = timedelta(seconds=15)  # between polls; every answer is as old as the import, so all are fresh


class Brought(NamedTuple):
    """A fleet that was made, the name of the file it came from, and the name and notes that came with it.

    The fleet of answers has no file of its own: that name is empty.
    """

    file: str
    fleet: Fleet
    carried: Carried


class Imported(NamedTuple):
    """The fleets that were made, and what was refused."""

    fleets: tuple[Brought, ...]
    refused: tuple[Refused, ...]


@dataclass(slots=True)
class _Answers:
    """What was read so far: answers by replica and path, with the file that each came from."""

    at: datetime
    reader: Reader = field(default_factory=Reader)
    probes: dict[str, dict[str, ProbeResult]] = field(default_factory=dict)
    files: dict[Answer, str] = field(default_factory=dict)

    def add(self, file: str, answer: Answer, content: bytes) -> None:
        """Read one answer; raise SnapshotError where it says nothing, or where another file said it."""
        if answer in self.files:
            raise SnapshotError(
                f"The answer of {answer.replica} to {answer.path} came from {self.files[answer]} already; "
                "name each file after its replica, as in chat-1.server_info.json."
            )
        self.files[answer] = file
        probe = BY_PATH[answer.path]
        said = self.reader.read(probe, Asked(f"{FILE_SCHEME}{answer.replica}", answer.path), content)
        result = ProbeResult(answer.path, probe.source, self.at, 0.0, size_bytes=len(content))
        results = self.probes.setdefault(answer.replica, {})
        if isinstance(said, Failure):
            results[answer.path] = replace(result, failure=said, raw=excerpt(content))
            raise SnapshotError(refusal_of(answer.path, said.detail, content))
        results[answer.path] = replace(result, reply=said.reply, raw=said.raw)

    def snapshots(self) -> list[Snapshot]:
        """Return what each replica said; one of which nothing can be read is left out, for its file was refused."""
        return [
            Snapshot(Target(f"{FILE_SCHEME}{name}", {"name": name}), self.at, _with_model(results))
            for name, results in self.probes.items()
            if any(each.reply for each in results.values())
        ]


def _with_model(results: dict[str, ProbeResult]) -> dict[str, ProbeResult]:
    """Let the configuration say which model is served where no other answer was brought: that decides the pool."""
    replies = [each.reply for each in results.values() if each.reply]
    if any(reply.served_model_names for reply in replies):
        return results
    told = next((reply.settings[SERVED_NAME] for reply in replies if SERVED_NAME in reply.settings), None)
    name = json.loads(told.value) if told is not None and told.value else None
    if not isinstance(name, str) or not name:
        return results
    return {
        path: replace(each, reply=replace(each.reply, served_model_names=(name,))) if each.reply else each
        for path, each in results.items()
    }


def imported(
    files: Sequence[File], at: datetime, name: str, *, policy: Policy | None = None, ignore: Sequence[str] = ()
) -> Imported:
    """Make fleets of files. One that cannot be used is refused with a sentence, and the others are used.

    A file of answers tells no time of its own: their data is as of `at`. `name` is what their fleet is called;
    `policy` and `ignore` are what it is judged under. A saved fleet brings its own time, name and policy.
    """
    answers = _Answers(at)
    named = replicas_named(file.name for file in files)
    fleets: list[Brought] = []
    refused: list[Refused] = []
    for file, content in _within_limits(files, refused):
        try:
            answer = answer_of(file.name, content, named)
            if answer.path == SAVED_FLEET:
                fleets.append(Brought(shown(file.name), opened_clean(content), carried_by(file.content)))
            else:
                answers.add(shown(file.name), answer, content)
        except SnapshotError as error:
            refused.append(Refused(shown(file.name), str(error)))
    if said := answers.snapshots():
        built = build_fleet(name, said, polled_at=at, interval=_INTERVAL, ignore=ignore, policy=policy)
        fleets.append(Brought("", built, Carried()))
    return Imported(tuple(fleets), tuple(refused))


def _within_limits(files: Sequence[File], refused: list[Refused]) -> Iterable[tuple[File, bytes]]:
    """Yield each file that can be opened with what it holds, until there are too many; add the others to `refused`."""
    total = 0
    for place, file in enumerate(files):
        if place >= MAX_FILES:
            refused.append(Refused(shown(file.name), f"Only {MAX_FILES:,} files are read at once; import it later."))
            return
        try:
            content = opened(file)
        except SnapshotError as error:
            refused.append(Refused(shown(file.name), str(error)))
            continue
        total += len(content)
        if total > MAX_TOTAL_BYTES:
            most = MAX_TOTAL_BYTES // MIB
            refused.append(Refused(shown(file.name), f"Only {most} MiB are read at once; import it by itself."))
            total -= len(content)
            continue
        yield file, content
