"""Snapshots as pinned moments of the history."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Executable, Row, select, update

from dashboard.errors import HistoryError, SnapshotError
from dashboard.store.folder import Answers, MetadataChange, SnapshotHead
from dashboard.store.history.bodies import BodyWriter, chunks
from dashboard.store.history.database import Database, NoHistoryError
from dashboard.store.history.pin_rows import PinParts, delete_pin, insert_pin, read_answers, read_content
from dashboard.store.history.schema import pin
from dashboard.store.metadata import SnapshotMetadata, clean_metadata, notes_file_bytes
from dashboard.store.packing import id_of, packed

SLOW_SECONDS = 1.0  # a server that is gone is noticed after seconds, and a page asks several times
GONE_SECONDS = 5.0


class Pins:
    """Reads and writes pins, next to the writer of the history. Every error is a SnapshotError with cause and action.

    Where the history cannot be read there are none; `problem` says why.
    """

    def __init__(self, history: Callable[[], Database]) -> None:
        """Open nothing yet. `history` returns the database, or raises HistoryError."""
        self._history = history
        self._gone: tuple[float, HistoryError] | None = None  # until when it is not asked again, and why

    def ids(self) -> set[str]:
        """Return the ids of all snapshots."""
        try:
            return self._ids()
        except HistoryError:
            return set()

    def problem(self) -> str:
        """Return why pinned snapshots are missing in `ids`; empty where none are."""
        try:
            self._ids()
        except HistoryError as error:
            return f"Snapshots in the history cannot be read. {error}"
        return ""

    def has(self, key: str) -> bool:
        """Return whether there is a snapshot, be it damaged or not."""
        return key in self.ids()

    def kept(self, keys: Iterable[str]) -> dict[str, SnapshotHead]:
        """Return what is known of these snapshots without opening them."""
        wanted = set(keys)
        try:
            rows = self._rows(select(pin.c.key, pin.c.size_bytes, pin.c.metadata))
        except HistoryError:
            return {}
        return {row.key: _kept(row) for row in rows if row.key in wanted}

    def content(self, key: str) -> bytes:
        """Return the content as it was frozen."""
        with self._reported("read"), self._history().read() as connection, connection.begin():
            return read_content(connection, key)

    def answers(self, key: str, replica: int) -> dict[str, bytes]:
        """Return the raw answers of a replica by path; empty for a snapshot that was imported."""
        with self._reported("read"), self._history().read() as connection, connection.begin():
            return read_answers(connection, key, replica)

    def save(self, content: bytes, metadata: SnapshotMetadata, answers: Answers = ()) -> str:
        """Pin content and return its id; an existing snapshot keeps its name and notes."""
        with self._reported("written"):
            key = id_of(content)
            if key not in self._ids():
                raw = {(row, path): each for row, one in enumerate(answers) for path, each in one.items()}
                self._pin(key, content, metadata, raw)
        return key

    def change(self, key: str, changed: MetadataChange) -> None:
        """Change name or notes."""
        with self._reported("written"), self._history().maintained() as connection, connection.begin():
            row = connection.execute(select(pin).where(pin.c.key == key)).one_or_none()
            if row is None:
                raise SnapshotError(f"There is no snapshot {key} in the history; it may have been deleted.")
            kept = _kept(row)
            if kept.problem:
                raise SnapshotError(kept.problem)
            text = _text(key, changed(kept.metadata))
            connection.execute(update(pin).where(pin.c.key == key).values(metadata=text))

    def delete(self, key: str) -> None:
        """Delete a snapshot. Pruning frees what nothing else uses."""
        with self._reported("deleted"), self._history().maintained() as connection, connection.begin():
            delete_pin(connection, key)

    def _pin(
        self, key: str, content: bytes, metadata: SnapshotMetadata, answers: Mapping[tuple[int, str], bytes]
    ) -> None:
        """Pin content, unless it is pinned meanwhile.

        Polls that are recorded meanwhile wait for short transactions only: bodies come first, in steps.
        """
        parts = PinParts.of(content, answers)
        row = {
            "key": key,
            "is_whole": parts.is_whole,
            "size_bytes": len(packed(content)),
            "metadata": _text(key, metadata),
        }
        bodies, database = BodyWriter(), self._history()
        with database.read() as connection, connection.begin():
            bodies.prepare(connection, parts.every)
        with database.maintained() as connection:
            for some in chunks(list(parts.every)):
                with connection.begin():
                    bodies.save(connection, some)
            with connection.begin():
                if not _has(connection, key):
                    # Pruning may have deleted a body that nothing referred to yet: it is saved once more.
                    insert_pin(connection, row, parts, bodies.save(connection, parts.every))

    def _ids(self) -> set[str]:
        """Return the ids of pins; raise HistoryError where the history cannot be read."""
        return {row.key for row in self._rows(select(pin.c.key))}

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


def _has(connection: Connection, key: str) -> bool:
    return connection.scalar(select(pin.c.key).where(pin.c.key == key)) is not None


def _kept(row: Row[Any]) -> SnapshotHead:
    try:
        return SnapshotHead(row.size_bytes, SnapshotMetadata.model_validate_json(row.metadata))
    except ValueError:
        problem = f"The name and notes of snapshot {row.key} in the history are damaged. They are never overwritten."
        return SnapshotHead(row.size_bytes, None, problem)


def _text(key: str, metadata: SnapshotMetadata) -> str:
    """Return metadata for a row; raise SnapshotError where it is more than is read again."""
    return notes_file_bytes(key, clean_metadata(metadata)).decode()
