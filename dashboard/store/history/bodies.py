"""Bodies: JSON that is stored once by its hash, compressed, as the difference to a similar one where there is one."""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, select

from dashboard.store.history.parts import ReplicaParts, StoredReplica
from dashboard.store.history.schema import body

MOST_PARAMETERS = 500  # of one statement; SQLite before 3.32 takes 999
T = TypeVar("T")
LEVEL = 6  # zlib's own default


class Content(NamedTuple):
    """JSON to store, and the group of similar ones; without a group it is stored whole."""

    json: bytes
    group: str = ""

    @property
    def sha(self) -> bytes:
        """Return its SHA-256."""
        return hashlib.sha256(self.json).digest()


class BodyWriter:
    """Stores bodies. The first one of a group is the base of the others."""

    def __init__(self) -> None:
        """Know no base yet."""
        self._bases: dict[str, tuple[int, bytes]] = {}

    def save(self, connection: Connection, contents: Iterable[Content]) -> dict[bytes, int]:
        """Return the id of each body by its hash; new ones are stored."""
        wanted = {each.sha: each for each in contents}
        ids = _known_ids(connection, wanted)
        missing = {sha: each for sha, each in wanted.items() if sha not in ids}
        whole = {sha for sha, each in missing.items() if not each.group}
        firsts = {each.group: sha for sha, each in missing.items() if each.group and each.group not in self._bases}
        for some in (whole | set(firsts.values()), missing.keys() - whole - set(firsts.values())):
            ids |= self._insert(connection, {sha: missing[sha] for sha in missing if sha in some})
            for group, sha in firsts.items():
                self._bases[group] = ids[sha], missing[sha].json
        return ids

    def _insert(self, connection: Connection, contents: Mapping[bytes, Content]) -> dict[bytes, int]:
        rows = []
        for sha, each in contents.items():
            base, zdict = self._bases.get(each.group, (None, b""))
            rows.append({"sha": sha, "base": base, "content": compress(each.json, zdict)})
        if not rows:
            return {}
        added = connection.execute(body.insert().returning(body.c.sha, body.c.id), rows)
        return {bytes(sha): key for sha, key in added}


def read_bodies(connection: Connection, ids: Collection[int]) -> dict[int, bytes]:
    """Return the JSON of bodies by their id."""
    rows = _rows(connection, ids)
    bases = _rows(connection, {base for base, _ in rows.values() if base is not None} - rows.keys())
    whole = {key: decompress(content) for key, (base, content) in {**bases, **rows}.items() if base is None}
    return {
        key: decompress(content, whole[base]) if base is not None else whole[key]
        for key, (base, content) in rows.items()
    }


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


def _rows(connection: Connection, ids: Collection[int]) -> dict[int, tuple[int | None, bytes]]:
    found: dict[int, tuple[int | None, bytes]] = {}
    for some in chunks(ids):
        rows = connection.execute(select(body.c.id, body.c.base, body.c.content).where(body.c.id.in_(some)))
        found |= {key: (base, bytes(content)) for key, base, content in rows}
    return found
