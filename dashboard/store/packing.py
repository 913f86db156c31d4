"""Snapshots as bytes: content that names itself by its hash, and files that somebody may have tampered with."""

import gzip
import hashlib
import json
import zlib
from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.fleet import fleet_json
from dashboard.analysis.documents.load import MAX_BYTES
from dashboard.errors import SnapshotError

ID_DIGITS = 32  # hexadecimal, 128 bits: nobody makes another fleet of the same id; the first ones are enough to type
EARLIER_DIGITS = 10  # of a snapshot that was frozen before version 0.2; it keeps its id
GZIP_MAGIC = b"\x1f\x8b"
# The header of a gzip file, RFC 1952, 2.3: ten bytes, of which the fourth says what else follows.
_HEADER_BYTES, _FLAGS_AT = 10, 3
_COMMENT = 0x10
_LEVEL = 6  # gzip's own default: 1,000 replicas that tell everything take 4 to 5 MB


def content_of(fleet: Fleet) -> bytes:
    """Write a polled fleet whole, without a clock: the same fleet gives the same bytes at any time."""
    return fleet_json(fleet, time_of(fleet), full=True)


def time_of(fleet: Fleet) -> datetime:
    """Return the time of a fleet's data; raise SnapshotError where it was never polled."""
    if fleet.polled_at is None:
        raise SnapshotError("There is nothing to freeze yet: the first poll has not ended.")
    return fleet.polled_at


def id_of(content: bytes) -> str:
    """Return the id under which content is known."""
    return hashlib.sha256(content).hexdigest()[:ID_DIGITS]


def rewritten(key: str, content: bytes) -> bytes:
    """Compress content that is no longer what `key` was made of: the file says so, and holds its own digest."""
    comment = {"rewritten": key, "sha256": hashlib.sha256(content).hexdigest()}
    return commented(packed(content), json.dumps(comment).encode())


def is_content_of(key: str, content: bytes, raw: bytes) -> bool:
    """Whether what a file holds, packed as `raw`, is what was frozen or rewritten under an id."""
    digest = hashlib.sha256(content).hexdigest()
    comment = json.dumps({"rewritten": key, "sha256": digest}).encode()
    return digest.startswith(key) or comment_of(raw, len(comment)) == comment


def packed(content: bytes) -> bytes:
    """Compress content; the same content gives the same bytes."""
    return gzip.compress(content, _LEVEL, mtime=0)


def commented(raw: bytes, comment: bytes) -> bytes:
    """Add a comment to what `packed` returned: whoever unpacks the file gets the same content as without it.

    `comment` holds no zero byte, which would end it.
    """
    head = raw[:_FLAGS_AT] + bytes([_COMMENT]) + raw[_FLAGS_AT + 1 : _HEADER_BYTES]
    return head + comment + b"\0" + raw[_HEADER_BYTES:]


def comment_of(raw: bytes, most: int) -> bytes:
    """Return the comment of a file that `commented` wrote; empty for any other file, and where it is over `most`."""
    if not raw.startswith(GZIP_MAGIC) or raw[_FLAGS_AT : _FLAGS_AT + 1] != bytes([_COMMENT]):
        return b""
    end = raw.find(b"\0", _HEADER_BYTES, _HEADER_BYTES + most + 1)
    return raw[_HEADER_BYTES:end] if end > 0 else b""


def unpacked(raw: bytes, most: int = MAX_BYTES) -> bytes:
    """Return what a file holds, compressed or not, but no more than `most` bytes and one.

    Raise SnapshotError where it is damaged.
    """
    if not raw.startswith(GZIP_MAGIC):
        return raw[: most + 1]
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = reader.decompress(raw, most + 1)
    except zlib.error:
        raise SnapshotError("The file is no whole gzip file; copy or export it once more.") from None
    if len(content) <= most and not reader.eof:
        raise SnapshotError("The file ends in the middle; copy or export it once more.")
    return content
