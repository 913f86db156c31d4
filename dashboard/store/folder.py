"""Snapshots as files: `ID.json.gz` is the fleet, `ID.notes.json` is its name and notes. The fleet's never changes."""

import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dashboard.documents.load import MAX_BYTES
from dashboard.errors import SnapshotError
from dashboard.store.metadata import SnapshotMetadata, clean_metadata, notes_file_bytes, read_notes_file
from dashboard.store.packing import (
    ID_DIGITS,
    id_of,
    packed,
    unpacked,
)
from dashboard.store.writing import PRIVATE, PRIVATE_FOLDER, locked, sync_folder, write_whole

ID = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")
FLEET, NOTES = ".json.gz", ".notes.json"
_FILE = re.compile(rf"{ID.pattern}(?:{re.escape(FLEET)}|{re.escape(NOTES)})")
_PART = re.compile(r"\.[0-9a-f]+\.(?:json\.gz|notes\.json)\..*\.part")  # the names of write_whole

MetadataChange = Callable[[SnapshotMetadata | None], SnapshotMetadata]
Answers = Sequence[Mapping[str, bytes]]  # raw answers of each replica, by path


class SnapshotHead(NamedTuple):
    """A stored snapshot without its content. Without `metadata` there is none, or it is unreadable: see `problem`."""

    size_bytes: int
    metadata: SnapshotMetadata | None
    problem: str = ""


class SnapshotFiles:
    """Reads and writes the files of a folder, also in parallel with other threads and processes.

    Every error is a SnapshotError with cause and action.
    """

    def __init__(self, folder: Path) -> None:
        """Touch no file: the first snapshot creates the folder."""
        self.folder = folder

    def ids(self) -> set[str]:
        """Return the ids of all files with a snapshot's name."""
        with self._reported("read"):
            names = [each.name for each in self._files() if each.name.endswith(FLEET)]
        return {name.removesuffix(FLEET) for name in names}

    def has(self, key: str) -> bool:
        """Return whether there is a snapshot, be it damaged or not."""
        return self._file(key, FLEET).exists()

    def problem(self) -> str:
        """Return why snapshots are missing in `ids`: never here."""
        return ""

    def kept(self, keys: Iterable[str]) -> dict[str, SnapshotHead]:
        """Return what is known of these snapshots without opening them."""
        found: dict[str, SnapshotHead] = {}
        for key in keys:
            try:
                with self._reported("read"):
                    size = self._file(key, FLEET).stat().st_size
            except SnapshotError:
                if self.has(key):
                    raise
                continue  # deleted meanwhile
            try:
                found[key] = SnapshotHead(size, read_notes_file(key, self._file(key, NOTES)))
            except SnapshotError as error:
                found[key] = SnapshotHead(size, None, str(error))
        return found

    def content(self, key: str) -> bytes:
        """Return the content as it was frozen."""
        with self._reported("read"), self._file(key, FLEET).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        try:
            content = unpacked(raw)
        except SnapshotError as error:
            raise SnapshotError(f"Snapshot {key} is damaged. {error}") from None
        if id_of(content) != key:
            raise SnapshotError(f"The file of snapshot {key} was changed after freezing; restore or delete it.")
        return content

    def answers(self, key: str, replica: int) -> dict[str, bytes]:  # noqa: ARG002
        """Return no raw answers: files have none."""
        return {}

    def save(self, content: bytes, metadata: SnapshotMetadata, answers: Answers = ()) -> str:  # noqa: ARG002
        """Save a snapshot and return its id; an existing one keeps its name and notes."""
        with self._reported("written"):
            self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            with locked(self.folder):
                key = id_of(content)
                if not self._is_whole(key):
                    write_whole(self._file(key, FLEET), packed(content), PRIVATE)
                if not self._file(key, NOTES).exists():
                    self._write_notes(key, metadata)
        return key

    def change(self, key: str, changed: MetadataChange) -> None:
        """Change name or notes; an unreadable file is never overwritten."""
        with self._reported("written"), locked(self.folder):
            known = read_notes_file(key, self._file(key, NOTES))
            self._write_notes(key, changed(known))

    def delete(self, key: str) -> None:
        """Delete a snapshot and its notes."""
        with self._reported("deleted"), locked(self.folder):
            for kind in (FLEET, NOTES):
                self._file(key, kind).unlink(missing_ok=True)
            sync_folder(self.folder)

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

    def _files(self) -> list[Path]:
        """Return the files of snapshots and of notes in the folder."""
        try:
            names = [each.name for each in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return [self.folder / name for name in names if _FILE.fullmatch(name)]

    def _is_whole(self, key: str) -> bool:
        try:
            return self.has(key) and bool(self.content(key))
        except SnapshotError:
            return False

    def _write_notes(self, key: str, metadata: SnapshotMetadata) -> None:
        write_whole(self._file(key, NOTES), notes_file_bytes(key, clean_metadata(metadata)), PRIVATE)

    def _file(self, key: str, kind: str) -> Path:
        return self.folder / f"{key}{kind}"

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn an error of the disk into a SnapshotError."""
        try:
            yield
        except OSError as error:
            raise SnapshotError(
                f"A snapshot cannot be {what} in its folder: {error.strerror}; see data_folder in fleet.yaml."
            ) from None
