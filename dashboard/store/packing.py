"""Snapshots as bytes: packed, and identified by their hash."""

import gzip
import hashlib
import zlib
from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import fleet_json
from dashboard.documents.load import MAX_BYTES, check_size, read_snapshot, without_secrets
from dashboard.errors import SnapshotError

ID_DIGITS = 32  # hexadecimal, 128 bits against forged ids; the first ones are enough to type
MOST_BYTES = 96 * 2**20  # of JSON: 1,000 replicas have 16 MB, and each MiB takes 40 ms to open
GZIP_MAGIC = b"\x1f\x8b"
# The header of a gzip file, RFC 1952, 2.3: ten bytes, the fourth has the flags.
_HEADER_BYTES, _FLAGS_AT = 10, 3
_COMMENT = 0x10
_LEVEL = 6  # gzip's own default: 1,000 replicas with all settings take 4 to 5 MB


def content_of(fleet: Fleet) -> bytes:
    """Return a polled fleet as bytes, without a clock: the same fleet always gives the same bytes."""
    return fleet_json(fleet, time_of(fleet), full=True)


def time_of(fleet: Fleet) -> datetime:
    """Return the time of a fleet's data; raise SnapshotError where it was never polled."""
    if fleet.polled_at is None:
        raise SnapshotError("Nothing to freeze yet: the first poll has not finished.")
    return fleet.polled_at


def check_frozen_size(content: bytes) -> None:
    """Raise SnapshotError for a document that is larger than a snapshot that can be opened."""
    if len(content) > MOST_BYTES:
        raise SnapshotError(
            f"The snapshot has more than {MOST_BYTES // 2**20} MiB of JSON, the most that is frozen and opened; "
            "freeze one pool at a time: poll --format json --full --pool NAME, then import the file."
        )
    check_size(content)


def id_of(content: bytes) -> str:
    """Return the id of content."""
    return hashlib.sha256(content).hexdigest()[:ID_DIGITS]


def packed(content: bytes) -> bytes:
    """Compress content; the same content gives the same bytes."""
    return gzip.compress(content, _LEVEL, mtime=0)


def commented(raw: bytes, comment: bytes) -> bytes:
    """Add a comment, without zero bytes, to the result of `packed`: unpacking gives the same content."""
    head = raw[:_FLAGS_AT] + bytes([_COMMENT]) + raw[_FLAGS_AT + 1 : _HEADER_BYTES]
    return head + comment + b"\0" + raw[_HEADER_BYTES:]


def comment_of(raw: bytes, most: int) -> bytes:
    """Return the comment of a file that `commented` wrote; empty for another file, and beyond `most` bytes."""
    if not raw.startswith(GZIP_MAGIC) or raw[_FLAGS_AT : _FLAGS_AT + 1] != bytes([_COMMENT]):
        return b""
    end = raw.find(b"\0", _HEADER_BYTES, _HEADER_BYTES + most + 1)
    return raw[_HEADER_BYTES:end] if end > 0 else b""


def unpacked(raw: bytes, most: int = MAX_BYTES) -> bytes:
    """Return a file's content, compressed or not, up to `most` + 1 bytes. Raise SnapshotError for a damaged file."""
    if not raw.startswith(GZIP_MAGIC):
        return raw[: most + 1]
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = reader.decompress(raw, most + 1)
    except zlib.error:
        raise SnapshotError("The file is not a complete gzip file; copy or export it again.") from None
    if len(content) <= most and not reader.eof:
        raise SnapshotError("The file is cut off; copy or export it again.")
    return content


def clean_content(content: bytes) -> bytes:
    """Return a saved fleet without secrets; raise SnapshotError when it is unreadable.

    Content without secrets is unchanged. Otherwise pools and findings, which quote values, are derived again.
    """
    clean = without_secrets(content)
    return content if clean == content else content_of(read_snapshot(clean))
