"""A folder of frozen snapshots: `ID.json.gz` is the fleet, `ID.notes.json` is its name and notes.

The fleet's file changes only to remove secrets. Opening, exporting and listing remove them too: the file may be of a
version that knew fewer of them.
"""

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.load import MAX_BYTES
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import NUMBER_WORDS, one_line
from dashboard.fleet.pools import Notes
from dashboard.store import child
from dashboard.store.notes_file import (
    ExportMetadata,
    SnapshotMetadata,
    clean_metadata,
    describe_fleet,
    export_bytes,
    notes_file_bytes,
    notes_of,
    part_of,
    read_notes_file,
    with_export_metadata,
    with_name,
)
from dashboard.store.packing import (
    EARLIER_DIGITS,
    ID_DIGITS,
    clean_content,
    content_of,
    id_of,
    is_content_of,
    opened_clean,
    packed,
    rewritten,
    time_of,
    unpacked,
)
from dashboard.store.writing import PRIVATE, PRIVATE_FOLDER, locked, sync_folder, write_whole
from dashboard.vllm.reading import SAVED_FLEET, node_count

SHORTEST = 4  # digits of an id that are enough where they are unique
TYPE_MORE = f"type at least {NUMBER_WORDS[SHORTEST]} digits of its id"
NO_ID = (
    f"names are not looked up. An id has {ID_DIGITS} digits, 0-9 and a-f, and its first ones are enough; "
    "to open a snapshot by its name, click the name in the table of Snapshots"
)
READ_ONLY = "Snapshots are read-only here (option read_only)."
_DIGITS = re.compile(rf"[0-9a-f]{{0,{ID_DIGITS}}}")
_ID = re.compile(rf"[0-9a-f]{{{EARLIER_DIGITS}}}|[0-9a-f]{{{ID_DIGITS}}}")
# 1,000 replicas have 0.9 million nodes; a larger snapshot is opened in a process of its own first. A node takes 120
# bytes there, and 240 in a hostile file.
TRIAL_NODES, NODE_BYTES = 1_200_000, 200
_FLEET, _NOTES = ".json.gz", ".notes.json"
_FILE = re.compile(rf"(?:{_ID.pattern})(?:{re.escape(_FLEET)}|{re.escape(_NOTES)})")
_PART = re.compile(r"\.[0-9a-f]+\.(?:json\.gz|notes\.json)\..*\.part")  # the names of write_whole


class Stored(NamedTuple):
    """One snapshot of the folder, as in a list. `problem` is the error of its notes file."""

    id: str
    metadata: SnapshotMetadata
    size_bytes: int
    problem: str = ""

    @property
    def notes(self) -> Notes:
        """Return its notes by subject."""
        return notes_of(self.metadata.notes)


class Listed(NamedTuple):
    """The snapshots of a folder, and a sentence for each unreadable file."""

    snapshots: tuple[Stored, ...]
    damaged: tuple[str, ...]


class Snapshots:
    """Reads and writes the folder, also in parallel with other threads and processes.

    Every error is a SnapshotError with cause and action.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Touch no file: the first snapshot creates the folder."""
        self.folder = folder
        self.read_only = read_only
        self._described: dict[str, SnapshotMetadata] = {}  # of files without notes: opening one takes seconds

    def freeze(self, fleet: Fleet, name: str, at: datetime, export: ExportMetadata | None = None) -> Stored:
        """Save a polled fleet. An existing snapshot keeps its name and notes.

        `export` is the metadata in its file, for a fleet that was frozen elsewhere and is imported at `at`.
        """
        return self.keep(content_of(fleet), describe_fleet(fleet, name, at), export)

    def keep(self, content: bytes, metadata: SnapshotMetadata, export: ExportMetadata | None = None) -> Stored:
        """Save the content of a fleet as `freeze` does, with its metadata."""
        self._need_writable()
        with self._reported("written"):
            self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            with locked(self.folder):
                key = self._id_of(content)
                if not self._is_whole(key):
                    write_whole(self._file(key, _FLEET), packed(content), PRIVATE)
                if not self._file(key, _NOTES).exists():
                    self._write_notes(key, with_export_metadata(metadata, export) if export else metadata)
        return self._stored(key)

    def all(self) -> tuple[Stored, ...]:
        """Return every readable snapshot, the newest data first."""
        return self.listed().snapshots

    def listed(self) -> Listed:
        """Return every snapshot, the newest data first, and a sentence for each damaged file."""
        found: list[Stored] = []
        damaged: list[str] = []
        for key in self._keys():
            try:
                found.append(stored := self._stored(key))
            except SnapshotError as error:
                damaged += [str(error)] if self._file(key, _FLEET).exists() else []  # else deleted meanwhile
            else:
                damaged += [stored.problem] if stored.problem else []
        found.sort(key=lambda each: (each.metadata.data_as_of, each.id), reverse=True)
        return Listed(tuple(found), tuple(damaged))

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
        return tuple(key for key in self._keys() if key.startswith(typed))

    def get(self, key: str) -> Stored:
        """Return one snapshot; raise SnapshotError without it."""
        self._need(key)
        return self._stored(key)

    def fleet(self, key: str) -> Fleet:
        """Open a snapshot: the fleet with the findings of that time. Its generation is its own."""
        content = self._content(key)
        self._try_large(content)
        return replace(opened_clean(content), snapshot=key, generation=-int(key, 16))

    def export(self, key: str) -> bytes:
        """Return a snapshot with its name and notes as one file for an import elsewhere."""
        content = self._content(key)
        self._try_large(content)
        return export_bytes(clean_content(content), self.get(key).metadata)

    def rename(self, key: str, name: str) -> None:
        """Change a snapshot's name; raise SnapshotError where its notes file is unreadable."""
        self._need_writable()
        self._need(key)
        with self._reported("written"), locked(self.folder):
            self._write_notes(key, with_name(self._metadata(key), name))

    def note(self, key: str, about: str, note: Note | None) -> None:
        """Write or delete one note of a snapshot; the others are kept.

        Raise SnapshotError where the notes file is unreadable or would be too large.
        """
        self._need_writable()
        self._need(key)
        with self._reported("written"), locked(self.folder):
            metadata = self._metadata(key)
            notes = {name: part for name, part in metadata.notes.items() if name != about}
            if note is not None:
                notes[about] = part_of(note)
            self._write_notes(key, metadata.model_copy(update={"notes": notes}))

    def delete(self, key: str) -> None:
        """Delete a snapshot and its notes."""
        self._need_writable()
        self._need(key)
        with self._reported("deleted"), locked(self.folder):
            for kind in (_FLEET, _NOTES):
                self._file(key, kind).unlink(missing_ok=True)
            sync_folder(self.folder)

    def redact(self, backup: Path) -> tuple[str, ...]:
        """Remove secrets from all files, with the same ids; return the ids of changed files.

        Each file is copied into the folder `backup` first. A damaged file is not changed.
        """
        self._need_writable()
        return tuple(key for key in self._keys() if self._redact(key, backup))

    def _redact(self, key: str, backup: Path) -> bool:
        with self._reported("written"), locked(self.folder):
            try:
                content, metadata = self._content(key), read_notes_file(key, self._file(key, _NOTES))
            except SnapshotError:
                return False
            changes = {}
            if (clean := clean_content(content)) != content:
                changes[_FLEET] = rewritten(key, clean)
            if metadata and (redacted := clean_metadata(metadata)) != metadata:
                changes[_NOTES] = notes_file_bytes(key, redacted)
            for kind, changed in changes.items():
                file = self._file(key, kind)
                backup.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
                write_whole(backup / file.name, file.read_bytes(), PRIVATE)
                write_whole(file, changed, PRIVATE)
            return bool(changes)

    def tidy(self) -> None:
        """Make the folder private, and delete partial files of killed processes; called at the program's start."""
        with self._reported("made private"):
            for each in [self.folder, *self._files()] if self.folder.is_dir() else []:
                mode = PRIVATE_FOLDER if each.is_dir() else PRIVATE
                if stat.S_IMODE(each.stat().st_mode) & ~mode:
                    each.chmod(mode)
        with self._reported("written"):
            left = [each for each in self.folder.glob(".*.part") if _PART.fullmatch(each.name)]
            if left:
                with locked(self.folder):  # no process writes now: these files are left over
                    for part in left:
                        part.unlink(missing_ok=True)

    def _keys(self) -> list[str]:
        """Return the ids of all files with a snapshot's name."""
        with self._reported("read"):
            names = [each.name for each in self._files() if each.name.endswith(_FLEET)]
        return sorted(name.removesuffix(_FLEET) for name in names)

    def _files(self) -> list[Path]:
        """Return the files of snapshots and of notes in the folder."""
        try:
            names = [each.name for each in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return [self.folder / name for name in names if _FILE.fullmatch(name)]

    def _id_of(self, content: bytes) -> str:
        """Return the id of content: the shorter one where it was frozen under that."""
        key = id_of(content)
        earlier = key[:EARLIER_DIGITS]
        try:
            return earlier if self._content(earlier) == content else key
        except SnapshotError:
            return key

    def _need_writable(self) -> None:
        if self.read_only:
            raise SnapshotError(READ_ONLY)

    def _need(self, key: str) -> None:
        if not _ID.fullmatch(key) or not self._file(key, _FLEET).exists():
            raise self._not_found(key)

    def _not_found(self, text: str) -> SnapshotError:
        typed = one_line(text.strip())
        if not _DIGITS.fullmatch(_typed(typed)):
            why = NO_ID
        else:
            why = "it may have been deleted" if len(_typed(typed)) >= SHORTEST else TYPE_MORE
        return SnapshotError(f"There is no snapshot “{typed:.40}” here; {why}.")

    def _is_whole(self, key: str) -> bool:
        try:
            return bool(self._content(key))
        except SnapshotError:
            return False

    def _content(self, key: str) -> bytes:
        self._need(key)
        with self._reported("read"), self._file(key, _FLEET).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        try:
            content = unpacked(raw)
        except SnapshotError as error:
            raise SnapshotError(f"Snapshot {key} is damaged. {error}") from None
        if not is_content_of(key, content, raw):
            raise SnapshotError(f"The file of snapshot {key} was changed after freezing; restore or delete it.")
        return content

    def _try_large(self, content: bytes) -> None:
        """Open a large snapshot in a limited process first; raise SnapshotError where that fails."""
        nodes = node_count(content, SAVED_FLEET.max_nodes)
        if TRIAL_NODES < nodes <= SAVED_FLEET.max_nodes:
            memory = max(child.MEMORY_BYTES, NODE_BYTES * nodes)
            child.run_limited("dashboard.store.child", content, memory_bytes=memory)

    def _metadata(self, key: str) -> SnapshotMetadata:
        """Return the metadata for a change: an unreadable file is never overwritten."""
        stored = self.get(key)
        if stored.problem:
            raise SnapshotError(stored.problem)
        return stored.metadata

    def _stored(self, key: str) -> Stored:
        """Describe a snapshot by its notes file; without a readable one, by the fleet itself."""
        with self._reported("read"):
            size = self._file(key, _FLEET).stat().st_size
        problem = ""
        try:
            if metadata := read_notes_file(key, self._file(key, _NOTES)):
                return Stored(key, clean_metadata(metadata), size)
        except SnapshotError as error:
            problem = str(error)
        if key not in self._described:
            frozen = self.fleet(key)
            self._described[key] = describe_fleet(frozen, "", time_of(frozen))
        return Stored(key, self._described[key], size, problem)

    def _write_notes(self, key: str, metadata: SnapshotMetadata) -> None:
        write_whole(self._file(key, _NOTES), notes_file_bytes(key, clean_metadata(metadata)), PRIVATE)

    def _file(self, key: str, kind: str) -> Path:
        return self.folder / f"{key}{kind}"

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn an error of the disk into a SnapshotError."""
        try:
            yield
        except OSError as error:
            raise SnapshotError(
                f"A snapshot cannot be {what} in its folder: {error.strerror}; see snapshots_folder in fleet.yaml."
            ) from None


def _typed(text: str) -> str:
    """Return a typed id without spaces and dashes."""
    return re.sub(r"[\s-]", "", text).lower()
