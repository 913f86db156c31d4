"""Snapshots, in the database of the history: each is one compressed document, its metadata, and raw answers.

Opening, exporting and listing remove secrets: the options may name more of them than when it was saved.
"""

import hashlib
import lzma
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import Executable, Row, delete, select, update

from dashboard.analysis.assembly import Fleet
from dashboard.documents.load import read_snapshot
from dashboard.documents.secrets import clean_text
from dashboard.errors import HistoryError, SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import one_line
from dashboard.store import packing
from dashboard.store.history.database import Database, NoHistoryError, file_database
from dashboard.store.history.schema import snapshot, snapshot_answers

ID = re.compile(rf"[0-9a-f]{{{packing.ID_DIGITS}}}")
_DIGITS = re.compile(rf"[0-9a-f]{{0,{packing.ID_DIGITS}}}")
SLOW_SECONDS = 1.0  # a server that is gone is noticed after seconds, and a page asks several times
GONE_SECONDS = 5.0
ANSWERS_BYTES = 2 * 2**20  # of raw answers that are compressed together: those of replicas are alike
MOST_ANSWERS_BYTES = 64 * 2**20  # unpacked; more of one replica is not kept
XZ_PRESET, XZ_MEMORY = 1, 2**25  # its window has 1 MiB, where zlib's has 32 KiB and misses a similar answer
Answers = Sequence[Mapping[str, bytes]]  # raw answers of each replica, by path
_HEAD = (snapshot.c.key, snapshot.c.size_bytes, snapshot.c.metadata)


class Snapshots:
    """Reads and writes snapshots, also in parallel with other threads and processes, and next to a recorder.

    Every error is a SnapshotError with cause and action.
    """

    def __init__(
        self, folder: Path, *, read_only: bool = False, database: Callable[[], Database] | None = None
    ) -> None:
        """Open nothing. `database` returns where they are, or raises HistoryError; else it is a file in the folder."""
        self.folder = folder
        self.read_only = read_only
        self._database = database or (lambda: file_database(folder))
        self._gone: tuple[float, HistoryError] | None = None  # until when it is not asked again, and why
        self._described: dict[str, packing.SnapshotMetadata] = {}  # with damaged metadata: opening one takes seconds

    def save(
        self,
        fleet: Fleet,
        name: str,
        at: datetime,
        export: packing.ExportMetadata | None = None,
        author: str = "",
    ) -> packing.StoredSnapshot:
        """Save a polled fleet with its raw answers; an existing snapshot keeps its name, author and notes.

        `export` is the metadata in its file, for a fleet that was saved elsewhere and is imported at `at`.
        """
        answers = [{each.path: each.raw for each in one.probes if each.raw} for one in fleet.replicas]
        return self.keep(packing.content_of(fleet), packing.describe_fleet(fleet, name, at, author), export, answers)

    def keep(
        self,
        content: bytes,
        metadata: packing.SnapshotMetadata,
        export: packing.ExportMetadata | None = None,
        answers: Answers = (),
    ) -> packing.StoredSnapshot:
        """Save the content of a fleet as `save` does, with its metadata."""
        self._need_writable()
        packing.check_snapshot_size(content)
        key = packing.id_of(content)
        if not self._is_whole(key):
            blob = packing.packed(content)
            described = packing.with_export_metadata(metadata, export) if export else metadata
            row = {
                "sha": hashlib.sha256(blob).digest(),
                "content": blob,
                "size_bytes": len(blob),
                "metadata": packing.metadata_bytes(key, packing.clean_metadata(described)),
            }
            self._insert(key, row, list(_packed_answers(answers)))
        return self.get(key)

    def _insert(self, key: str, row: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> None:
        """Insert a snapshot; one that is there, with damaged content, keeps its name, notes and answers."""
        with self._reported("written"), self._database().maintained(creates=True) as connection, connection.begin():
            if connection.scalar(select(snapshot.c.key).where(snapshot.c.key == key)) is not None:
                content = {name: row[name] for name in ("sha", "content", "size_bytes")}
                connection.execute(update(snapshot).where(snapshot.c.key == key).values(content))
                return
            connection.execute(snapshot.insert().values(key=key, **row))
            if answers:
                connection.execute(snapshot_answers.insert(), [{"snapshot": key, **each} for each in answers])

    def all(self) -> tuple[packing.StoredSnapshot, ...]:
        """Return every readable snapshot, the newest data first."""
        return self.listed().snapshots

    def listed(self) -> packing.SnapshotList:
        """Return every snapshot, the newest data first, and a sentence for each damaged one."""
        try:
            rows = self._rows(select(*_HEAD).order_by(snapshot.c.key))
        except HistoryError as error:
            return packing.SnapshotList((), (_unreadable(error),))
        found: list[packing.StoredSnapshot] = []
        damaged: list[str] = []
        for row in rows:
            try:
                found.append(stored := self._stored(row))
            except SnapshotError as error:
                damaged.append(str(error) if row.key in str(error) else f"Snapshot {row.key}: {error}")
            else:
                damaged += [stored.problem] if stored.problem else []
        found.sort(key=lambda each: (each.metadata.data_as_of, each.id), reverse=True)
        return packing.SnapshotList(tuple(found), tuple(damaged))

    def problem(self) -> str:
        """Return why no snapshot can be read; empty where they can."""
        try:
            self._rows(select(snapshot.c.key).limit(1))
        except HistoryError as error:
            return _unreadable(error)
        return ""

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
        if len(typed) < packing.SHORTEST or not _DIGITS.fullmatch(typed):
            return ()
        try:
            rows = self._rows(select(snapshot.c.key).where(snapshot.c.key.startswith(typed)))
        except HistoryError:
            return ()
        return tuple(sorted(row.key for row in rows))

    def get(self, key: str) -> packing.StoredSnapshot:
        """Return one snapshot; raise SnapshotError without it."""
        return self._stored(self._row(key, *_HEAD))

    def fleet(self, key: str) -> Fleet:
        """Open a snapshot: the fleet with the findings of that time. Its generation is its own."""
        content = self._content(key)
        return replace(read_snapshot(content), snapshot=key, generation=-int(key, 16))

    def answers(self, key: str, replica: int) -> dict[str, bytes]:
        """Return the raw answers of the replica at a position of the fleet by path; empty where none were kept."""
        self._row(key, snapshot.c.key)
        c = snapshot_answers.c
        query = select(c.content).where(c.snapshot == key, c.replica <= replica).order_by(c.replica.desc()).limit(1)
        with self._reported("read"):
            found = self._rows(query)
        try:
            by_path = from_json(_unpacked_answers(found[0].content)) if found else {}
            raw = {path: by_replica.get(str(replica), "").encode("latin-1") for path, by_replica in by_path.items()}
        except (lzma.LZMAError, ValueError, LookupError, TypeError, AttributeError):
            raise SnapshotError(f"The raw answers of snapshot {key} are damaged; restore a copy of it.") from None
        return {path: clean_text(each.decode(errors="replace")).encode() for path, each in raw.items() if each}

    def export(self, key: str) -> bytes:
        """Return a snapshot with its name and notes as one file for an import elsewhere; it has no raw answers."""
        return packing.export_bytes(packing.clean_content(self._content(key)), self.get(key).metadata)

    def rename(self, key: str, name: str) -> None:
        """Change a snapshot's name; raise SnapshotError where its notes are unreadable."""
        self._change(key, lambda metadata: packing.with_name(metadata, name))

    def note(self, key: str, about: str, note: Note | None) -> None:
        """Write or delete one note of a snapshot; the others are kept.

        Raise SnapshotError where the notes are unreadable or would be too large.
        """

        def noted(metadata: packing.SnapshotMetadata) -> packing.SnapshotMetadata:
            notes = {name: each for name, each in metadata.notes.items() if name != about}
            return metadata.model_copy(update={"notes": notes if note is None else {**notes, about: note}})

        if note is not None and not packing.fits(note):
            raise SnapshotError(
                f"The note is too long: the limit is {packing.LONGEST_NOTE:,} characters, and {packing.LONGEST_NAME} "
                "for its owner. Shorten it."
            )
        self._change(key, noted)

    def delete(self, key: str) -> None:
        """Delete a snapshot and its notes."""
        self._need_writable()
        self._row(key, snapshot.c.key)
        with self._reported("deleted"), self._database().maintained() as connection, connection.begin():
            connection.execute(delete(snapshot_answers).where(snapshot_answers.c.snapshot == key))
            connection.execute(delete(snapshot).where(snapshot.c.key == key))

    def _change(self, key: str, change: Callable[[packing.SnapshotMetadata], packing.SnapshotMetadata]) -> None:
        """Change name or notes; unreadable ones are never overwritten."""
        self._need_writable()
        self._row(key, snapshot.c.key)
        with self._reported("written"), self._database().maintained() as connection, connection.begin():
            raw = connection.scalar(select(snapshot.c.metadata).where(snapshot.c.key == key))
            if raw is None:
                raise self._not_found(key)
            changed = packing.metadata_bytes(
                key, packing.clean_metadata(change(packing.clean_metadata(packing.read_metadata(key, raw))))
            )
            connection.execute(update(snapshot).where(snapshot.c.key == key).values(metadata=changed))

    def _need_writable(self) -> None:
        if self.read_only:
            raise SnapshotError(packing.READ_ONLY)

    def _not_found(self, text: str) -> SnapshotError:
        typed = one_line(text.strip())
        if not _DIGITS.fullmatch(_typed(typed)):
            why = packing.NO_ID
        elif len(_typed(typed)) < packing.SHORTEST:
            why = packing.TYPE_MORE
        elif problem := self.problem():
            return SnapshotError(problem)
        else:
            why = "it may have been deleted"
        return SnapshotError(f"There is no snapshot “{typed:.40}” here; {why}.")

    def _content(self, key: str) -> bytes:
        """Return the content as it was saved, within the limits of `check_snapshot_size`."""
        row = self._row(key, snapshot.c.sha, snapshot.c.content)
        damaged = f"Snapshot {key} is damaged: its content was changed after saving. Delete it, or restore a copy."
        if not isinstance(row.content, bytes) or hashlib.sha256(row.content).digest() != row.sha:
            raise SnapshotError(damaged)
        content = packing.unpacked(row.content, packing.MOST_BYTES)
        packing.check_snapshot_size(content)
        if packing.id_of(content) != key:
            raise SnapshotError(damaged)
        return content

    def _is_whole(self, key: str) -> bool:
        try:
            return bool(self._content(key))
        except SnapshotError:
            return False

    def _row(self, key: str, *columns: Any) -> Row[Any]:
        """Return columns of one snapshot; raise SnapshotError without it."""
        if not ID.fullmatch(key):
            raise self._not_found(key)
        try:
            rows = self._rows(select(*columns).where(snapshot.c.key == key))
        except HistoryError as error:
            raise SnapshotError(_unreadable(error)) from None
        if not rows:
            raise self._not_found(key)
        return rows[0]

    def _rows(self, query: Executable) -> Sequence[Row[Any]]:
        """Return rows, none where there is no database yet; raise HistoryError where it cannot be read."""
        began = time.monotonic()
        if self._gone is not None and began < self._gone[0]:
            raise self._gone[1]
        try:
            with self._database().read() as connection, connection.begin():
                return connection.execute(query).all()
        except NoHistoryError:
            return ()
        except HistoryError as error:
            if time.monotonic() - began > SLOW_SECONDS:
                self._gone = time.monotonic() + GONE_SECONDS, error
            raise

    def _stored(self, row: Row[Any]) -> packing.StoredSnapshot:
        """Describe a snapshot by its metadata; where these are damaged, by the fleet itself."""
        size = row.size_bytes if isinstance(row.size_bytes, int) else 0
        try:
            return packing.StoredSnapshot(
                row.key, packing.clean_metadata(packing.read_metadata(row.key, row.metadata)), size
            )
        except SnapshotError as error:
            if row.key not in self._described:
                opened = self.fleet(row.key)
                self._described[row.key] = packing.describe_fleet(opened, "", packing.time_of(opened))
            return packing.StoredSnapshot(row.key, self._described[row.key], size, str(error))

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn an error of the database or the disk into a SnapshotError."""
        try:
            yield
        except HistoryError as error:
            raise SnapshotError(f"A snapshot cannot be {what}. {error}") from None
        except OSError as error:
            raise SnapshotError(f"A snapshot cannot be {what}: {error.strerror}.") from None


def _packed_answers(answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield rows of raw answers, each with those of some replicas from the position `replica` on, by path."""
    first, size, by_path = 0, 0, dict[str, dict[str, str]]()
    for position, raw in enumerate(answers):
        more = sum(map(len, raw.values()))
        if more > MOST_ANSWERS_BYTES // 2:  # JSON may double it
            continue
        if by_path and size + more > ANSWERS_BYTES:
            yield {"replica": first, "content": lzma.compress(to_json(by_path), preset=XZ_PRESET)}
            first, size, by_path = position, 0, {}
        size += more
        for path, each in raw.items():
            by_path.setdefault(path, {})[str(position)] = each.decode("latin-1")
    if by_path:
        yield {"replica": first, "content": lzma.compress(to_json(by_path), preset=XZ_PRESET)}


def _unpacked_answers(packed_answers: bytes) -> bytes:
    reader = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
    content = reader.decompress(packed_answers, MOST_ANSWERS_BYTES + 1)
    if len(content) > MOST_ANSWERS_BYTES or not reader.eof:
        raise ValueError("too large, or cut off")
    return content


def _unreadable(error: HistoryError) -> str:
    return f"Snapshots cannot be read. {error}"


def _typed(text: str) -> str:
    """Return a typed id without spaces and dashes."""
    return re.sub(r"[\s-]", "", text).lower()
