"""The rows of a pin: the parts of its content, and raw answers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, delete, select

from dashboard.errors import HistoryError
from dashboard.store.history.bodies import Content, read_bodies
from dashboard.store.history.schema import pin, pin_answer, pin_document, pin_replica
from dashboard.store.history.split import SplitContent, SplitReplica, split_content

CHUNK = 16 * 1024  # bytes: half of zlib's window, so that a chunk of a similar answer is wholly in it (RFC 1951, 2)
RawAnswers = Mapping[tuple[int, str], bytes]  # by the position of the replica and path


class PinParts(NamedTuple):
    """The bodies of a pin, in the order of its rows."""

    is_whole: bool
    shell: Content
    documents: Sequence[Content]
    replicas: Sequence[tuple[Content, Content]]  # process, answers
    answers: Mapping[tuple[int, str, int], Content]  # by position of the replica, path, and the place of the chunk

    @classmethod
    def of(cls, content: bytes, answers: RawAnswers) -> Self:
        """Return the parts of content, and its raw answers."""
        split = split_content(content)
        pools = dict(enumerate(each.pool for each in split.replicas))
        return cls(
            split.is_whole,
            Content(split.shell),
            [Content(each) for each in split.documents],
            [(Content(each.process, f"process {each.pool}"), Content(each.answers)) for each in split.replicas],
            {
                (row, path, place): Content(raw[place : place + CHUNK], f"{path} {place} of {pools.get(row)}")
                for (row, path), raw in answers.items()
                for place in range(0, len(raw), CHUNK)
            },
        )

    @property
    def every(self) -> Iterator[Content]:
        """Yield all bodies."""
        yield from (self.shell, *self.documents, *self.answers.values())
        for pair in self.replicas:
            yield from pair


def insert_pin(connection: Connection, row: Mapping[str, Any], parts: PinParts, ids: Mapping[bytes, int]) -> None:
    """Insert a pin with the bodies of its parts; `ids` has them by their hash."""
    key = row["key"]
    connection.execute(pin.insert(), {**row, "body": ids[parts.shell.sha]})
    rows = {
        pin_document: [
            {"pin": key, "position": position, "body": ids[each.sha]} for position, each in enumerate(parts.documents)
        ],
        pin_replica: [
            {"pin": key, "position": position, "process": ids[process.sha], "answers": ids[answers.sha]}
            for position, (process, answers) in enumerate(parts.replicas)
        ],
        pin_answer: [
            {"pin": key, "replica": replica, "path": path, "place": place, "body": ids[each.sha]}
            for (replica, path, place), each in parts.answers.items()
        ],
    }
    for table, added in rows.items():
        if added:
            connection.execute(table.insert(), added)


def delete_pin(connection: Connection, key: str) -> None:
    """Delete a pin, if there is one; its bodies stay until they are pruned."""
    for table in (pin_document, pin_replica, pin_answer):
        connection.execute(delete(table).where(table.c.pin == key))
    connection.execute(delete(pin).where(pin.c.key == key))


def read_content(connection: Connection, key: str) -> bytes:
    """Return the content of a pin as it was frozen; raise HistoryError where it is missing or damaged."""
    row = connection.execute(select(pin).where(pin.c.key == key)).one_or_none()
    if row is None:
        raise HistoryError(f"There is no snapshot {key} in the history; it may have been deleted.")
    documents, replicas = (
        connection.execute(select(each).where(each.c.pin == key).order_by(each.c.position)).all()
        for each in (pin_document, pin_replica)
    )
    wanted = {row.body, *(each.body for each in documents)}
    bodies = read_bodies(connection, wanted.union(*((each.process, each.answers) for each in replicas)))
    parts = SplitContent(
        bodies[row.body],
        [bodies[each.body] for each in documents],
        [SplitReplica("", bodies[each.process], bodies[each.answers]) for each in replicas],
        row.is_whole,
    )
    try:
        return parts.join()
    except (ValueError, LookupError, TypeError):
        raise HistoryError(f"Rows of snapshot {key} were changed or deleted; restore a copy of the history.") from None


def read_answers(connection: Connection, key: str, replica: int) -> dict[str, bytes]:
    """Return the raw answers of a replica, at a position, by path; raise HistoryError for damaged ones."""
    query = select(pin_answer).where(pin_answer.c.pin == key, pin_answer.c.replica == replica)
    rows = connection.execute(query.order_by(pin_answer.c.place)).all()
    bodies = read_bodies(connection, {row.body for row in rows})
    chunks: dict[str, list[bytes]] = defaultdict(list)
    for row in rows:
        chunks[row.path].append(bodies[row.body])
    return {path: b"".join(each) for path, each in chunks.items()}
