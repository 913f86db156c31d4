"""A folder of frozen snapshots: `ID.json.gz` is the fleet, `ID.notes.json` is its name and notes.

A fleet changes only where secrets are taken out of it. What is opened, exported or listed has none in any case: a
snapshot may be of a version that knew fewer of them.
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
from dashboard.store.beside import read_beside, to_bytes
from dashboard.store.carrying import Carried, brought_beside, exported
from dashboard.store.packing import (
    EARLIER_DIGITS,
    ID_DIGITS,
    content_of,
    id_of,
    is_content_of,
    packed,
    rewritten,
    time_of,
    unpacked,
)
from dashboard.store.redacting import clean_content, clean_sidecar, opened_clean
from dashboard.store.sidecar import Sidecar, note_of, part_of, sidecar_of, with_name
from dashboard.store.writing import PRIVATE, PRIVATE_FOLDER, locked, sync_folder, write_whole
from dashboard.vllm.reading import SAVED_FLEET, node_count

SHORTEST = 4  # digits of an id that are enough, where only one snapshot begins so
TYPE_MORE = f"type at least {NUMBER_WORDS[SHORTEST]} digits of its id"
NO_ID = (
    f"names are not looked up. An id has {ID_DIGITS} digits, 0-9 and a-f, and its first ones are enough; "
    "to open a snapshot by its name, click the name in the table of Snapshots"
)
READ_ONLY = "Snapshots are read-only here (option read_only)."
_DIGITS = re.compile(rf"[0-9a-f]{{0,{ID_DIGITS}}}")
_ID = re.compile(rf"[0-9a-f]{{{EARLIER_DIGITS}}}|[0-9a-f]{{{ID_DIGITS}}}")
# 1,000 replicas have 0.9 million nodes; a larger snapshot is opened by a process of its own first. A node takes 120
# bytes there, and 240 where it was made to be large.
TRIAL_NODES, NODE_BYTES = 1_200_000, 200
_FLEET, _BESIDE = ".json.gz", ".notes.json"
_FILE = re.compile(rf"(?:{_ID.pattern})(?:{re.escape(_FLEET)}|{re.escape(_BESIDE)})")
_PART = re.compile(r"\.[0-9a-f]+\.(?:json\.gz|notes\.json)\..*\.part")  # as write_whole names them


class Stored(NamedTuple):
    """One snapshot of the folder, as a list shows it. `problem` says why its name and notes cannot be read."""

    id: str
    beside: Sidecar
    size_bytes: int
    problem: str = ""

    @property
    def notes(self) -> Notes:
        """Return its notes, by what they speak of."""
        return {key: note_of(part) for key, part in self.beside.notes.items()}


class Listed(NamedTuple):
    """What a folder holds: its snapshots, and a sentence for each file that cannot be read."""

    snapshots: tuple[Stored, ...]
    damaged: tuple[str, ...]


class Snapshots:
    """Reads and writes the folder, which other threads and processes may share.

    Every error is a SnapshotError that says what to do.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Touch nothing yet: the folder is made when the first snapshot is frozen."""
        self.folder = folder
        self.read_only = read_only
        self._described: dict[str, Sidecar] = {}  # of files that came without notes: opening one takes seconds

    def freeze(self, fleet: Fleet, name: str, at: datetime, brought: Carried | None = None) -> Stored:
        """Save a fleet that was polled, whole. One that is there already keeps what stands beside it.

        `brought` is what came with it, where it was frozen elsewhere and is imported at `at`.
        """
        return self.keep(content_of(fleet), sidecar_of(fleet, name, at), brought)

    def keep(self, content: bytes, beside: Sidecar, brought: Carried | None = None) -> Stored:
        """Save the content of a fleet as `freeze` does, with its description."""
        self._need_writable()
        with self._said("written"):
            self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            with locked(self.folder):
                key = self._id_of(content)
                if not self._is_whole(key):
                    write_whole(self._file(key, _FLEET), packed(content), PRIVATE)
                if not self._file(key, _BESIDE).exists():
                    self._keep(key, brought_beside(beside, brought) if brought else beside)
        return self._stored(key)

    def all(self) -> tuple[Stored, ...]:
        """Return every snapshot that can be read, the newest data first."""
        return self.listed().snapshots

    def listed(self) -> Listed:
        """Return every snapshot, the newest data first, and a sentence for each file that is damaged."""
        found: list[Stored] = []
        damaged: list[str] = []
        for key in self._keys():
            try:
                found.append(stored := self._stored(key))
            except SnapshotError as error:
                damaged += [str(error)] if self._file(key, _FLEET).exists() else []  # else deleted meanwhile
            else:
                damaged += [stored.problem] if stored.problem else []
        return Listed(
            tuple(sorted(found, key=lambda each: (each.beside.data_as_of, each.id), reverse=True)), tuple(damaged)
        )

    def named(self, text: str) -> str:
        """Return the id that somebody typed; raise SnapshotError where none or several begin so."""
        found = self.beginning(text)
        if len(found) > 1:
            raise SnapshotError(f"{len(found)} snapshots begin with {one_line(text.strip()):.40}; type more of the id.")
        if not found:
            raise self._none(text)
        return found[0]

    def beginning(self, text: str) -> tuple[str, ...]:
        """Return the ids that begin as somebody typed; spaces, dashes and capital letters do not matter."""
        typed = _typed(text)
        if not SHORTEST <= len(typed) <= ID_DIGITS or not re.fullmatch(r"[0-9a-f]+", typed):
            return ()
        return tuple(key for key in self._keys() if key.startswith(typed))

    def get(self, key: str) -> Stored:
        """Return one snapshot; raise SnapshotError where there is none."""
        self._need(key)
        return self._stored(key)

    def fleet(self, key: str) -> Fleet:
        """Open a snapshot: the fleet as it was, judged as it was. Its generation is its own."""
        content = self._content(key)
        self._try_large(content)
        return replace(opened_clean(content), snapshot=key, generation=-int(key, 16))

    def export(self, key: str) -> bytes:
        """Return a snapshot as one file, with its name and notes, to be imported elsewhere."""
        content = self._content(key)
        self._try_large(content)
        return exported(clean_content(content), self.get(key).beside)

    def rename(self, key: str, name: str) -> None:
        """Call a snapshot something else; raise SnapshotError where what stands beside it cannot be read."""
        self._need_writable()
        self._need(key)
        with self._said("written"), locked(self.folder):
            self._keep(key, with_name(self._beside(key), name))

    def note(self, key: str, about: str, note: Note | None) -> None:
        """Keep a note beside a snapshot, or take it away; the other notes stay.

        Raise SnapshotError where they cannot be read, or would be too many.
        """
        self._need_writable()
        self._need(key)
        with self._said("written"), locked(self.folder):
            beside = self._beside(key)
            notes = {name: told for name, told in beside.notes.items() if name != about}
            if note is not None:
                notes[about] = part_of(note)
            self._keep(key, beside.model_copy(update={"notes": notes}))

    def delete(self, key: str) -> None:
        """Remove a snapshot and its notes."""
        self._need_writable()
        self._need(key)
        with self._said("deleted"), locked(self.folder):
            for kind in (_FLEET, _BESIDE):
                self._file(key, kind).unlink(missing_ok=True)
            sync_folder(self.folder)

    def redact(self, backup: Path) -> tuple[str, ...]:
        """Take secrets out of all files for good, under the same ids; return the ids of those that had some.

        Each file is copied into the folder `backup` first. One that is damaged stays as it is.
        """
        self._need_writable()
        return tuple(key for key in self._keys() if self._redact(key, backup))

    def _redact(self, key: str, backup: Path) -> bool:
        with self._said("written"), locked(self.folder):
            try:
                content, beside = self._content(key), read_beside(key, self._file(key, _BESIDE))
            except SnapshotError:
                return False
            changes = {}
            if (clean := clean_content(content)) != content:
                changes[_FLEET] = rewritten(key, clean)
            if beside and (clean_beside := clean_sidecar(beside)) != beside:
                changes[_BESIDE] = to_bytes(key, clean_beside)
            for kind, changed in changes.items():
                file = self._file(key, kind)
                backup.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
                write_whole(backup / file.name, file.read_bytes(), PRIVATE)
                write_whole(file, changed, PRIVATE)
            return bool(changes)

    def tidy(self) -> None:
        """Make the folder private, and remove what killed processes left half-written; for the start of a program."""
        with self._said("made private"):
            for each in [self.folder, *self._files()] if self.folder.is_dir() else []:
                mode = PRIVATE_FOLDER if each.is_dir() else PRIVATE
                if stat.S_IMODE(each.stat().st_mode) & ~mode:
                    each.chmod(mode)
        with self._said("written"):
            left = [each for each in self.folder.glob(".*.part") if _PART.fullmatch(each.name)]
            if left:
                with locked(self.folder):  # nobody writes now, so whatever was there before belongs to no one
                    for part in left:
                        part.unlink(missing_ok=True)

    def _keys(self) -> list[str]:
        """Return the ids of all files in the folder that are called as snapshots are."""
        with self._said("read"):
            names = [each.name for each in self._files() if each.name.endswith(_FLEET)]
        return sorted(name.removesuffix(_FLEET) for name in names)

    def _files(self) -> list[Path]:
        """Return the files of snapshots in the folder, and of what is beside them."""
        try:
            names = [each.name for each in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return [self.folder / name for name in names if _FILE.fullmatch(name)]

    def _id_of(self, content: bytes) -> str:
        """Return the id of content: the shorter one that it was frozen under before, where it was."""
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
            raise self._none(key)

    def _none(self, text: str) -> SnapshotError:
        told = one_line(text.strip())
        if not _DIGITS.fullmatch(_typed(told)):
            why = NO_ID
        else:
            why = "it may have been deleted" if len(_typed(told)) >= SHORTEST else TYPE_MORE
        return SnapshotError(f"There is no snapshot “{told:.40}” here; {why}.")

    def _is_whole(self, key: str) -> bool:
        try:
            return bool(self._content(key))
        except SnapshotError:
            return False

    def _content(self, key: str) -> bytes:
        self._need(key)
        with self._said("read"), self._file(key, _FLEET).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        try:
            content = unpacked(raw)
        except SnapshotError as error:
            raise SnapshotError(f"Snapshot {key} is damaged. {error}") from None
        if not is_content_of(key, content, raw):
            raise SnapshotError(
                f"The file of snapshot {key} was changed after it was frozen; restore it, or delete it."
            )
        return content

    def _try_large(self, content: bytes) -> None:
        """Open a large snapshot in a limited process; raise SnapshotError where that cannot."""
        nodes = node_count(content, SAVED_FLEET.max_nodes)
        if TRIAL_NODES < nodes <= SAVED_FLEET.max_nodes:
            memory = max(child.MEMORY_BYTES, NODE_BYTES * nodes)
            child.run_limited("dashboard.store.trial", content, memory_bytes=memory)

    def _beside(self, key: str) -> Sidecar:
        """Return what is to be changed beside a snapshot: what cannot be read is not written over."""
        stored = self.get(key)
        if stored.problem:
            raise SnapshotError(stored.problem)
        return stored.beside

    def _stored(self, key: str) -> Stored:
        """Describe a snapshot; where what stands beside it is lost or damaged, from the fleet itself."""
        with self._said("read"):
            size = self._file(key, _FLEET).stat().st_size
        problem = ""
        try:
            if beside := read_beside(key, self._file(key, _BESIDE)):
                return Stored(key, clean_sidecar(beside), size)
        except SnapshotError as error:
            problem = str(error)
        if key not in self._described:
            frozen = self.fleet(key)
            self._described[key] = sidecar_of(frozen, "", time_of(frozen))
        return Stored(key, self._described[key], size, problem)

    def _keep(self, key: str, beside: Sidecar) -> None:
        write_whole(self._file(key, _BESIDE), to_bytes(key, clean_sidecar(beside)), PRIVATE)

    def _file(self, key: str, kind: str) -> Path:
        return self.folder / f"{key}{kind}"

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """Say what hinders the disk in a sentence."""
        try:
            yield
        except OSError as error:
            raise SnapshotError(
                f"A snapshot cannot be {what} in its folder: {error.strerror}; see snapshots_folder in fleet.yaml."
            ) from None


def _typed(text: str) -> str:
    """Return what somebody typed as an id, without what people put between digits."""
    return re.sub(r"[\s-]", "", text).lower()
