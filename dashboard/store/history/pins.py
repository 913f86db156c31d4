"""Snapshots as pinned moments of the history. The files of a folder, where they were before, are imported."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection, Executable, Row, Table, literal, select, union_all, update

from dashboard.errors import HistoryError, SnapshotError
from dashboard.store.folder import Answers, Change, Kept, SnapshotFiles
from dashboard.store.history.bodies import BodyWriter, chunks
from dashboard.store.history.database import Database, NoHistoryError
from dashboard.store.history.pin_rows import PinParts, delete_pin, insert_pin, read_answers, read_content
from dashboard.store.history.schema import pin, snapshot_file
from dashboard.store.notes_file import SnapshotMetadata, clean_metadata, notes_file_bytes
from dashboard.store.packing import id_of, packed

SLOW_SECONDS = 1.0  # a server that is gone is noticed after seconds, and a page asks several times
GONE_SECONDS = 5.0


class Pins:
    """Reads and writes pins, next to the writer of the history. A file that is not imported is read as it is.

    Every error is a SnapshotError with cause and action. Where the history cannot be read, the files still are.
    """

    def __init__(self, files: SnapshotFiles, history: Callable[[], Database]) -> None:
        """Open nothing yet. `history` returns the database, or raises HistoryError."""
        self._files = files
        self._history = history
        self._gone: tuple[float, HistoryError] | None = None  # until when it is not asked again, and why

    def ids(self) -> set[str]:
        """Return the ids of all snapshots: pinned ones, and those of files that are still read."""
        pinned, ignored = self._readable()
        return pinned | (self._files.ids() - ignored)

    def problem(self) -> str:
        """Return why pinned snapshots are missing in `ids`; empty where none are."""
        try:
            self._known()
        except HistoryError as error:
            return f"Snapshots in the history cannot be read. {error}"
        return ""

    def has(self, key: str) -> bool:
        """Return whether there is a snapshot, be it damaged or not."""
        pinned, ignored = self._readable()
        return key in pinned or (key not in ignored and self._files.has(key))

    def kept(self, keys: Iterable[str]) -> dict[str, Kept]:
        """Return what is known of these snapshots without opening them."""
        wanted = set(keys)
        query = select(pin.c.key, pin.c.size_bytes, pin.c.metadata)
        with suppress(HistoryError):
            rows = [row for row in self._rows(query) if row.key in wanted]
            pinned = {row.key: _kept(row) for row in rows}
            return {**self._files.kept(wanted - pinned.keys()), **pinned}
        return self._files.kept(wanted)

    def content(self, key: str) -> bytes:
        """Return the content as it was frozen."""
        if key not in self._readable().pinned:
            return self._files.content(key)
        with self._reported("read"), self._history().read() as connection, connection.begin():
            return read_content(connection, key)

    def answers(self, key: str, replica: int) -> dict[str, bytes]:
        """Return the raw answers of a replica by path; empty for a snapshot that was imported."""
        if key not in self._readable().pinned:
            return {}
        with self._reported("read"), self._history().read() as connection, connection.begin():
            return read_answers(connection, key, replica)

    def save(self, content: bytes, metadata: SnapshotMetadata, answers: Answers = ()) -> str:
        """Pin content and return its id; an existing snapshot keeps its name and notes."""
        with self._reported("written"):
            key = id_of(content)
            pinned, ignored = self._known()
            if key not in pinned:
                known = self._files.kept({key} - ignored).get(key)
                if known is not None and known.problem:
                    return key  # its file stays as it is, and is read
                kept = (known.metadata if known else None) or metadata
                raw = {(row, path): each for row, one in enumerate(answers) for path, each in one.items()}
                self._pin(key, content, kept, raw)
        return key

    def change(self, key: str, changed: Change) -> None:
        """Change name or notes; the snapshot of a file is imported first."""
        with self._reported("written"):
            if key not in self._known().pinned:
                self._import(key)
            with self._history().maintained() as connection, connection.begin():
                row = connection.execute(select(pin).where(pin.c.key == key)).one_or_none()
                if row is None:
                    raise SnapshotError(f"There is no snapshot {key} in the history; it may have been deleted.")
                kept = _kept(row)
                if kept.problem:
                    raise SnapshotError(kept.problem)
                text = _text(key, changed(kept.metadata))
                connection.execute(update(pin).where(pin.c.key == key).values(metadata=text))

    def delete(self, key: str) -> None:
        """Delete a snapshot; its file, if any, stays and is no longer read. Pruning frees what nothing else uses."""
        with self._reported("deleted"), self._history().maintained() as connection, connection.begin():
            delete_pin(connection, key)
            if self._files.has(key):
                _ignore_file(connection, key)

    def import_files(self) -> Iterator[str]:
        """Pin each file that is not pinned yet; yield after each one: why it was left, else nothing.

        Raise SnapshotError where the history cannot be used.
        """
        with self._reported("imported"), self._history().maintained():
            pinned, ignored = self._known()
        for key in sorted(self._files.ids() - pinned - ignored):
            problem = ""
            with self._reported("imported"):
                try:
                    self._import(key)
                except SnapshotError as error:
                    problem = str(error)
            yield problem

    def _import(self, key: str) -> None:
        """Pin the snapshot of a file; raise SnapshotError for a broken one."""
        known = self._files.kept([key]).get(key)
        if known is not None:
            if known.problem:
                raise SnapshotError(known.problem)
            # It may be deleted meanwhile: the file is ignored then.
            self._pin(key, self._files.content(key), known.metadata, taken=(pin, snapshot_file))

    def _pin(
        self,
        key: str,
        content: bytes,
        metadata: SnapshotMetadata | None,
        answers: Mapping[tuple[int, str], bytes] = {},
        *,
        taken: Sequence[Table] = (pin,),
    ) -> None:
        """Pin content, unless one of the tables `taken` has its id.

        Polls that are recorded meanwhile wait for short transactions only: bodies come first, in steps.
        """
        parts = PinParts.of(content, answers)
        row = {
            "key": key,
            "is_whole": parts.is_whole,
            "digest": hashlib.sha256(content).digest(),
            "size_bytes": len(packed(content)),
            "metadata": _text(key, metadata) if metadata else None,
        }
        bodies, database = BodyWriter(), self._history()
        with database.read() as connection, connection.begin():
            bodies.prepare(connection, parts.every)
        with database.maintained() as connection:
            for some in chunks(list(parts.every)):
                with connection.begin():
                    bodies.save(connection, some)
            with connection.begin():
                self._insert(connection, row, parts, bodies, taken=taken)

    def _insert(
        self,
        connection: Connection,
        row: Mapping[str, Any],
        parts: PinParts,
        bodies: BodyWriter,
        *,
        taken: Sequence[Table],
    ) -> None:
        key = row["key"]
        if any(_has(connection, table, key) for table in taken):
            return
        # Pruning may have deleted a body that nothing referred to yet: it is saved once more.
        insert_pin(connection, row, parts, bodies.save(connection, parts.every))
        if self._files.has(key):
            _ignore_file(connection, key)

    def _known(self) -> "_Known":
        """Return the ids of pins and of ignored files; raise HistoryError where the history cannot be read."""
        tables = (pin, snapshot_file)
        rows = self._rows(union_all(*(select(each.c.key, literal(each.name).label("name")) for each in tables)))
        return _Known(*({row.key for row in rows if row.name == each.name} for each in tables))

    def _readable(self) -> "_Known":
        """Return the same; nothing where the history cannot be read."""
        try:
            return self._known()
        except HistoryError:
            return _Known(set(), set())

    def _rows(self, query: Executable) -> Sequence[Row[Any]]:
        """Return rows; none where nothing was recorded yet."""
        began = time.monotonic()
        if self._gone is not None and began < self._gone[0]:
            raise self._gone[1]
        try:
            with self._history().read() as connection, connection.begin():
                return connection.execute(query).all()
        except NoHistoryError:
            return ()
        except HistoryError as error:
            if time.monotonic() - began > SLOW_SECONDS:
                self._gone = time.monotonic() + GONE_SECONDS, error
            raise

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn an error of the history or the disk into a SnapshotError."""
        try:
            yield
        except HistoryError as error:
            raise SnapshotError(f"A snapshot cannot be {what}. {error}") from None
        except OSError as error:
            raise SnapshotError(f"A snapshot cannot be {what}: {error.strerror}.") from None


class _Known(NamedTuple):
    """The ids of pins, and of the files that are no longer read."""

    pinned: set[str]
    ignored: set[str]


def _has(connection: Connection, table: Table, key: str) -> bool:
    return connection.scalar(select(table.c.key).where(table.c.key == key)) is not None


def _ignore_file(connection: Connection, key: str) -> None:
    if not _has(connection, snapshot_file, key):
        connection.execute(snapshot_file.insert().values(key=key))


def _kept(row: Row[Any]) -> Kept:
    if row.metadata is None:
        return Kept(row.size_bytes, None)
    try:
        return Kept(row.size_bytes, SnapshotMetadata.model_validate_json(row.metadata))
    except ValueError:
        problem = f"The name and notes of snapshot {row.key} in the history are damaged. They are never overwritten."
        return Kept(row.size_bytes, None, problem)


def _text(key: str, metadata: SnapshotMetadata) -> str:
    """Return metadata for a row; raise SnapshotError where it is more than is read again."""
    return notes_file_bytes(key, clean_metadata(metadata)).decode()
