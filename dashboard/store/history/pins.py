"""Pinned moments of the history: snapshots with their ids, names and notes, and the import of snapshot files."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.fleet import settings_json
from dashboard.analysis.documents.load import derive_saved
from dashboard.errors import HistoryError, SnapshotError
from dashboard.fleet import Replica
from dashboard.store.history.bodies import BodyWriter, Content, read_bodies, stored_replicas
from dashboard.store.history.database import Database
from dashboard.store.history.parts import (
    BATCH,
    fleet_part,
    read_notes,
    read_parts,
    replica_parts,
)
from dashboard.store.history.schema import pin, pin_document, pin_replica
from dashboard.store.notes_file import SnapshotMetadata, clean_metadata
from dashboard.store.packing import time_of
from dashboard.store.snapshots import Snapshots


class Pinned(NamedTuple):
    """A pinned moment, as in a list."""

    key: str
    metadata: SnapshotMetadata


class Imported(NamedTuple):
    """The ids of snapshots that an import added, and a sentence for each that it left where it is."""

    keys: tuple[str, ...]
    problems: tuple[str, ...]


class Pins:
    """Reads and writes the pinned moments of a history, next to its writer. Every error is a HistoryError."""

    def __init__(self, database: Database) -> None:
        """Open nothing yet."""
        self._database = database

    def keep(self, key: str, fleet: Fleet, metadata: SnapshotMetadata) -> bool:
        """Pin a polled fleet under an id; return whether it is new. A pinned one keeps its name and notes."""
        at = time_of(fleet)
        shell = Content(fleet_part(fleet, at))
        documents = {name: Content(settings_json(each.settings)) for name, each in fleet.documents.items()}
        parts = list(replica_parts(fleet, fleet.replicas, at))
        processes = [
            Content(part.process, group=f"process {one.pool}") for one, part in zip(fleet.replicas, parts, strict=True)
        ]
        answers = [Content(part.answers) for part in parts]
        with self._database.maintained() as connection, connection.begin():
            if _metadata(connection, key) is not None:
                return False
            ids = BodyWriter().save(connection, [shell, *documents.values(), *processes, *answers])
            connection.execute(
                pin.insert().values(
                    key=key, at=at, body=ids[shell.sha], metadata=clean_metadata(metadata).model_dump_json()
                )
            )
            if documents:
                rows = [{"pin": key, "document": name, "body": ids[each.sha]} for name, each in documents.items()]
                connection.execute(pin_document.insert(), rows)
            if parts:
                every = zip(fleet.replicas, parts, processes, answers, strict=True)
                connection.execute(
                    pin_replica.insert(),
                    [
                        {
                            "pin": key,
                            "position": position,
                            "document": one.document,
                            "process": ids[process.sha],
                            "answers": ids[answer.sha],
                            "observed_at": fleet.read_at(one),
                            "times": part.times,
                        }
                        for position, (one, part, process, answer) in enumerate(every)
                    ],
                )
        return True

    def fleet(self, key: str) -> Fleet:
        """Open a pinned moment: the fleet with the findings of that time, as a frozen snapshot opens."""
        with self._database.read() as connection, connection.begin():
            row = connection.execute(select(pin.c.at, pin.c.body).where(pin.c.key == key)).one_or_none()
            if row is None:
                raise _missing(key)
            shell = read_bodies(connection, [row.body])[row.body]
            documents = _documents(connection, key)
            replicas = _replicas(connection, key, shell, row.at)
        saved = read_parts(shell, row.at, documents=documents)._replace(replicas=replicas)
        fleet = derive_saved(saved)
        inspection = replace(fleet.inspection, notes=read_notes(shell))
        return replace(fleet, inspection=inspection, snapshot=key, generation=-int(key, 16))

    def all(self) -> tuple[Pinned, ...]:
        """Return every pinned moment, the newest data first."""
        query = select(pin.c.key, pin.c.metadata).order_by(pin.c.at.desc(), pin.c.key.desc())
        with self._database.read() as connection, connection.begin():
            rows = connection.execute(query).all()
        return tuple(Pinned(key, _read_metadata(key, text)) for key, text in rows)

    def change(self, key: str, changed: Callable[[SnapshotMetadata], SnapshotMetadata]) -> None:
        """Change the name or the notes of a pinned moment."""
        with self._database.maintained() as connection, connection.begin():
            if (text := _metadata(connection, key)) is None:
                raise _missing(key)
            metadata = clean_metadata(changed(_read_metadata(key, text)))
            connection.execute(update(pin).where(pin.c.key == key).values(metadata=metadata.model_dump_json()))

    def delete(self, key: str) -> None:
        """Delete a pinned moment; pruning deletes the bodies that nothing else uses."""
        with self._database.maintained() as connection, connection.begin():
            for table in (pin_replica, pin_document):
                connection.execute(delete(table).where(table.c.pin == key))
            if not connection.execute(delete(pin).where(pin.c.key == key)).rowcount:
                raise _missing(key)

    def import_files(self, snapshots: Snapshots) -> Imported:
        """Pin each snapshot of a folder that is not pinned yet, in a transaction each. The files stay as they are.

        A file that cannot be read is left, with a sentence. An import that was interrupted goes on where it ended.
        """
        known = {each.key for each in self.all()}
        added: list[str] = []
        listed = snapshots.listed()
        problems = list(listed.damaged)
        for stored in listed.snapshots:
            if stored.id in known or stored.problem:
                continue
            try:
                fleet = snapshots.fleet(stored.id)
            except SnapshotError as error:
                problems.append(str(error))
                continue
            if self.keep(stored.id, fleet, stored.metadata):
                added.append(stored.id)
        return Imported(tuple(added), tuple(problems))


def _documents(connection: Connection, key: str) -> dict[str, bytes]:
    query = select(pin_document.c.document, pin_document.c.body).where(pin_document.c.pin == key)
    rows = connection.execute(query.order_by(pin_document.c.document)).all()
    bodies = read_bodies(connection, {body for _, body in rows})
    return {document: bodies[body] for document, body in rows}


def _replicas(connection: Connection, key: str, shell: bytes, at: datetime) -> tuple[Replica, ...]:
    query = select(pin_replica).where(pin_replica.c.pin == key).order_by(pin_replica.c.position)
    rows = connection.execute(query).mappings().all()
    found: list[Replica] = []
    for first in range(0, len(rows), BATCH):
        found += read_parts(shell, at, stored_replicas(connection, rows[first : first + BATCH])).replicas
    return tuple(found)


def _metadata(connection: Connection, key: str) -> str | None:
    found: str | None = connection.scalar(select(pin.c.metadata).where(pin.c.key == key))
    return found


def _read_metadata(key: str, text: str) -> SnapshotMetadata:
    try:
        return SnapshotMetadata.model_validate_json(text)
    except ValueError:
        raise HistoryError(f"The name and notes of snapshot {key} in the history are damaged.") from None


def _missing(key: str) -> HistoryError:
    return HistoryError(f"There is no snapshot {key} in the history; it may have been deleted.")
