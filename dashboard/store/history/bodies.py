"""Bodies: JSON that is stored once by its hash, compressed, as the difference to a similar one where there is one."""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, select

from dashboard.errors import HistoryError
from dashboard.store.history.parts import ReplicaParts, StoredReplica
from dashboard.store.history.schema import body

MOST_PARAMETERS = 500  # of one statement; SQLite before 3.32 takes 999
T = TypeVar("T")
LEVEL = 6  # zlib's own default


@dataclass(frozen=True)
class Content:
    """JSON or an answer to store, and the group of similar ones; without a group it is stored whole."""

    json: bytes
    group: str = ""

    @cached_property
    def sha(self) -> bytes:
        """Return its SHA-256."""
        return hashlib.sha256(self.json).digest()


class BodyWriter:
    """Stores bodies. The first one of a group is the base of the others."""

    def __init__(self) -> None:
        """Know no base yet."""
        self._bases: dict[str, tuple[int, Content]] = {}
        self._compressed: dict[tuple[bytes, bytes], bytes] = {}  # by the hashes of body and base

    def prepare(self, connection: Connection, contents: Iterable[Content]) -> None:
        """Compress new bodies ahead of the transaction that saves them: others that write wait for it."""
        missing, firsts = self._missing(connection, {each.sha: each for each in contents}, {})
        for sha, each in missing.items():
            base = missing[firsts[each.group]] if each.group in firsts and firsts[each.group] != sha else None
            self._compressed[sha, base.sha if base else b""] = compress(each.json, base.json if base else b"")

    def save(self, connection: Connection, contents: Iterable[Content]) -> dict[bytes, int]:
        """Return the id of each body by its hash; new ones are stored."""
        ids: dict[bytes, int] = {}
        missing, firsts = self._missing(connection, {each.sha: each for each in contents}, ids)
        whole = {sha for sha, each in missing.items() if not each.group} | set(firsts.values())
        for some in (whole, missing.keys() - whole):
            ids |= self._insert(connection, {sha: missing[sha] for sha in missing if sha in some})
            for group, sha in firsts.items():
                self._bases[group] = ids[sha], missing[sha]
        return ids

    def _missing(
        self, connection: Connection, wanted: Mapping[bytes, Content], ids: dict[bytes, int]
    ) -> tuple[dict[bytes, Content], dict[str, bytes]]:
        """Return the bodies that are not stored, and the hash of the first one of each new group; add known `ids`."""
        ids |= _known_ids(connection, wanted)
        missing = {sha: each for sha, each in wanted.items() if sha not in ids}
        firsts: dict[str, bytes] = {}
        for sha, each in missing.items():
            if each.group and each.group not in self._bases:
                firsts.setdefault(each.group, sha)
        return missing, firsts

    def _insert(self, connection: Connection, contents: Mapping[bytes, Content]) -> dict[bytes, int]:
        rows = []
        for sha, each in contents.items():
            key, base = self._bases.get(each.group, (None, None))
            content = self._compressed.pop((sha, base.sha if base else b""), None)
            if content is None:
                content = compress(each.json, base.json if base else b"")
            rows.append({"sha": sha, "base": key, "content": content})
        if not rows:
            return {}
        added = connection.execute(body.insert().returning(body.c.sha, body.c.id), rows)
        return {bytes(sha): key for sha, key in added}


def read_bodies(connection: Connection, ids: Collection[int]) -> dict[int, bytes]:
    """Return bodies by their id; raise HistoryError for a damaged one."""
    rows = _rows(connection, ids)
    bases = _rows(connection, {row.base for row in rows.values() if row.base is not None} - rows.keys())
    whole = {key: _read(row) for key, row in {**bases, **rows}.items() if row.base is None}
    return {key: whole[key] if row.base is None else _read(row, whole[row.base]) for key, row in rows.items()}


def _read(row: Row[Any], base: bytes = b"") -> bytes:
    with suppress(zlib.error):
        content = decompress(bytes(row.content), base)
        if hashlib.sha256(content).digest() == bytes(row.sha):
            return content
    raise HistoryError(f"The history is damaged: body {row.id} was changed or cut; restore a copy of the history.")


def stored_replicas(connection: Connection, rows: Sequence[Mapping[Any, Any]]) -> list[StoredReplica]:
    """Return the parts of replicas of which spans or pins are the rows."""
    bodies = read_bodies(connection, {row[name] for row in rows for name in ("process", "answers")})
    return [
        StoredReplica(
            ReplicaParts(bodies[row["process"]], bodies[row["answers"]], row["times"]),
            row["document"],
            row["observed_at"],
        )
        for row in rows
    ]


def compress(content: bytes, base: bytes = b"") -> bytes:
    """Compress JSON with the end of a similar one as zlib's dictionary (RFC 1950, 2.2)."""
    compressor = zlib.compressobj(LEVEL, zdict=base[-(1 << zlib.MAX_WBITS) :]) if base else zlib.compressobj(LEVEL)
    return compressor.compress(content) + compressor.flush()


def decompress(content: bytes, base: bytes = b"") -> bytes:
    """Return the JSON that was compressed with a base."""
    reader = zlib.decompressobj(zdict=base[-(1 << zlib.MAX_WBITS) :]) if base else zlib.decompressobj()
    return reader.decompress(content) + reader.flush()


def chunks(items: Collection[T], each: int = 1) -> Iterator[list[T]]:
    """Yield the items in lists that fit in one statement; `each` is the number of parameters of one."""
    every, most = list(items), MOST_PARAMETERS // each
    for first in range(0, len(every), most):
        yield every[first : first + most]


def _known_ids(connection: Connection, shas: Collection[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for some in chunks(shas):
        rows = connection.execute(select(body.c.sha, body.c.id).where(body.c.sha.in_(some)))
        found |= {bytes(sha): key for sha, key in rows}
    return found


def _rows(connection: Connection, ids: Collection[int]) -> dict[int, Row[Any]]:
    found: dict[int, Row[Any]] = {}
    for some in chunks(ids):
        found |= {row.id: row for row in connection.execute(select(body).where(body.c.id.in_(some)))}
    return found
