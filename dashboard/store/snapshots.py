"""Frozen snapshots: pinned moments of the history, or files of a folder where there is no history.

Opening, exporting and listing remove secrets: the options may name more of them than when it was frozen.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.analysis.assembly import Fleet
from dashboard.documents.load import read_snapshot
from dashboard.documents.secrets import clean_text
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import one_line
from dashboard.store import child
from dashboard.store.folder import ID, Answers, SnapshotFiles, SnapshotHead
from dashboard.store.metadata import (
    NO_ID,
    READ_ONLY,
    SHORTEST,
    TYPE_MORE,
    ExportMetadata,
    SnapshotList,
    SnapshotMetadata,
    StoredSnapshot,
    clean_metadata,
    describe_fleet,
    export_bytes,
    part_of,
    with_export_metadata,
    with_name,
)
from dashboard.store.packing import ID_DIGITS, clean_content, content_of, time_of
from dashboard.vllm.reading import SAVED_FLEET, node_count

if TYPE_CHECKING:
    from dashboard.store.history.database import Database
    from dashboard.store.history.pins import Pins

_DIGITS = re.compile(rf"[0-9a-f]{{0,{ID_DIGITS}}}")
# 1,000 replicas have 0.9 million nodes; a larger snapshot is opened in a process of its own first. A node takes 120
# bytes there, and 240 in a hostile file.
TRIAL_NODES, NODE_BYTES = 1_200_000, 200


def _pins(history: "Callable[[], Database]") -> "Pins":
    from dashboard.store.history.pins import Pins  # noqa: PLC0415  it imports SQLAlchemy, 0.2 s that few commands need

    return Pins(history)


class Snapshots:
    """Reads and writes snapshots, also in parallel with other threads and processes.

    Every error is a SnapshotError with cause and action.
    """

    def __init__(
        self, folder: Path, *, read_only: bool = False, history: "Callable[[], Database] | None" = None
    ) -> None:
        """Touch no file. With a `history` they are pinned there, else they are files of the folder."""
        self.folder = folder
        self.read_only = read_only
        self._files = SnapshotFiles(folder)
        self._storage: Pins | SnapshotFiles = _pins(history) if history else self._files
        self._described: dict[str, SnapshotMetadata] = {}  # of files without notes file: opening one takes seconds

    def freeze(self, fleet: Fleet, name: str, at: datetime, export: ExportMetadata | None = None) -> StoredSnapshot:
        """Save a polled fleet, with its raw answers where there is a history.

        An existing snapshot keeps its name and notes. `export` is the metadata in its file, for a fleet that was frozen
        elsewhere and is imported at `at`.
        """
        answers = [{each.path: each.raw for each in one.probes if each.raw} for one in fleet.replicas]
        return self.keep(content_of(fleet), describe_fleet(fleet, name, at), export, answers)

    def keep(
        self,
        content: bytes,
        metadata: SnapshotMetadata,
        export: ExportMetadata | None = None,
        answers: Answers = (),
    ) -> StoredSnapshot:
        """Save the content of a fleet as `freeze` does, with its metadata."""
        self._need_writable()
        return self.get(
            self._storage.save(content, with_export_metadata(metadata, export) if export else metadata, answers)
        )

    def all(self) -> tuple[StoredSnapshot, ...]:
        """Return every readable snapshot, the newest data first."""
        return self.listed().snapshots

    def listed(self) -> SnapshotList:
        """Return every snapshot, the newest data first, and a sentence for each damaged one."""
        found: list[StoredSnapshot] = []
        problem = self.problem()
        damaged = [problem] if problem else []
        for key, kept in sorted(self._storage.kept(self._storage.ids()).items()):
            try:
                found.append(stored := self._stored(key, kept))
            except SnapshotError as error:
                damaged += [str(error)] if self._storage.has(key) else []  # else deleted meanwhile
            else:
                damaged += [stored.problem] if stored.problem else []
        found.sort(key=lambda each: (each.metadata.data_as_of, each.id), reverse=True)
        return SnapshotList(tuple(found), tuple(damaged))

    def problem(self) -> str:
        """Return why snapshots are missing in the list; empty where none are."""
        return self._storage.problem()

    def named(self, text: str) -> str:
        """Return the id that begins with a typed text; raise SnapshotError for none or several."""
        found = self.beginning(text)
        if len(found) > 1:
            raise SnapshotError(f"{len(found)} snapshots begin with {one_line(text.strip()):.40}; type more of the id.")
        if not found:
            raise self._not_found(text)
        return found[0]

    def beginning(self, text: str) -> tuple[str, ...]:
        """Return the ids that begin with a typed text, without regard to spaces, dashes and capital letters."""
        typed = _typed(text)
        if not SHORTEST <= len(typed) <= ID_DIGITS or not re.fullmatch(r"[0-9a-f]+", typed):
            return ()
        return tuple(sorted(key for key in self._storage.ids() if key.startswith(typed)))

    def get(self, key: str) -> StoredSnapshot:
        """Return one snapshot; raise SnapshotError without it."""
        self._need(key)
        kept = self._storage.kept([key]).get(key)
        if kept is None:
            raise self._not_found(key)
        return self._stored(key, kept)

    def fleet(self, key: str) -> Fleet:
        """Open a snapshot: the fleet with the findings of that time. Its generation is its own."""
        content = self._content(key)
        return replace(read_snapshot(content), snapshot=key, generation=-int(key, 16))

    def answers(self, key: str, replica: int) -> dict[str, bytes]:
        """Return the raw answers of the replica at a position of the fleet by path; empty where none were kept."""
        self._need(key)
        found = self._storage.answers(key, replica)
        return {path: clean_text(raw.decode(errors="replace")).encode() for path, raw in found.items()}

    def export(self, key: str) -> bytes:
        """Return a snapshot with its name and notes as one file for an import elsewhere; it has no raw answers."""
        return export_bytes(clean_content(self._content(key)), self.get(key).metadata)

    def rename(self, key: str, name: str) -> None:
        """Change a snapshot's name; raise SnapshotError where its notes are unreadable."""
        self._change(key, lambda metadata: with_name(metadata, name))

    def note(self, key: str, about: str, note: Note | None) -> None:
        """Write or delete one note of a snapshot; the others are kept.

        Raise SnapshotError where the notes are unreadable or would be too large.
        """

        def noted(metadata: SnapshotMetadata) -> SnapshotMetadata:
            notes = {name: part for name, part in metadata.notes.items() if name != about}
            if note is not None:
                notes[about] = part_of(note)
            return metadata.model_copy(update={"notes": notes})

        self._change(key, noted)

    def delete(self, key: str) -> None:
        """Delete a snapshot and its notes."""
        self._need_writable()
        self._need(key)
        self._storage.delete(key)

    def tidy(self) -> None:
        """Make the folder private, and delete partial files of killed processes; called at the program's start."""
        self._files.tidy()

    def _change(self, key: str, changed: Callable[[SnapshotMetadata], SnapshotMetadata]) -> None:
        self._need_writable()
        self.get(key)  # describes it where it has no metadata: that takes seconds, and others that write wait
        self._storage.change(key, lambda known: changed(clean_metadata(known) if known else self._describe(key)))

    def _need_writable(self) -> None:
        if self.read_only:
            raise SnapshotError(READ_ONLY)

    def _need(self, key: str) -> None:
        if not ID.fullmatch(key) or not self._storage.has(key):
            raise self._not_found(key)

    def _not_found(self, text: str) -> SnapshotError:
        typed = one_line(text.strip())
        if not _DIGITS.fullmatch(_typed(typed)):
            why = NO_ID
        elif len(_typed(typed)) < SHORTEST:
            why = TYPE_MORE
        elif problem := self.problem():
            return SnapshotError(problem)
        else:
            why = "it may have been deleted"
        return SnapshotError(f"There is no snapshot “{typed:.40}” here; {why}.")

    def _content(self, key: str) -> bytes:
        """Return the content; a large one was opened in a limited process first."""
        self._need(key)
        content = self._storage.content(key)
        nodes = node_count(content, SAVED_FLEET.max_nodes)
        if TRIAL_NODES < nodes <= SAVED_FLEET.max_nodes:
            memory = max(child.MEMORY_BYTES, NODE_BYTES * nodes)
            child.run_limited("dashboard.store.child", lambda: content, memory_bytes=memory)
        return content

    def _stored(self, key: str, kept: SnapshotHead) -> StoredSnapshot:
        """Describe a snapshot by its metadata; without any, by the fleet itself."""
        metadata = clean_metadata(kept.metadata) if kept.metadata else self._describe(key)
        return StoredSnapshot(key, metadata, kept.size_bytes, kept.problem)

    def _describe(self, key: str) -> SnapshotMetadata:
        if key not in self._described:
            frozen = self.fleet(key)
            self._described[key] = describe_fleet(frozen, "", time_of(frozen))
        return self._described[key]


def _typed(text: str) -> str:
    """Return a typed id without spaces and dashes."""
    return re.sub(r"[\s-]", "", text).lower()
