"""Snapshots as bytes: packed, identified by their hash, and without secrets."""

import gzip
import hashlib
import zlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic_core import from_json, to_json

from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import fleet_json
from dashboard.documents.load import MAX_BYTES, check_nodes, read_snapshot
from dashboard.errors import SnapshotError
from dashboard.fleet import State
from vllm_fleet_provider.shared.redaction import MAY_HOLD_SECRETS, redact, redact_known, redact_text

ID_DIGITS = 32  # hexadecimal, 128 bits against forged ids; the first ones are enough to type
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


def opened_clean(content: bytes) -> Fleet:
    """Return the saved fleet without secrets; raise SnapshotError when it is unreadable."""
    return read_snapshot(without_secrets(content))


def clean_content(content: bytes) -> bytes:
    """Return a saved fleet without secrets; raise SnapshotError when it is unreadable.

    Content without secrets is unchanged. Otherwise pools and findings, which quote values, are derived again.
    """
    clean = without_secrets(content)
    return content if clean == content else content_of(read_snapshot(clean))


def without_secrets(content: bytes) -> bytes:
    """Replace secrets by shape and by a setting's name. Raise SnapshotError for too many nodes."""
    check_nodes(content)
    try:
        saved = from_json(content)
    except ValueError:  # reported by the reader
        return content
    clean = clean_fleet(saved)
    return content if clean == saved else to_json(clean)


def clean_fleet(saved: Any) -> Any:
    """Return the JSON object of a saved fleet without secrets."""
    readers = {"documents": _clean_documents, "replicas": _clean_replicas}
    return redact_known(_clean_parts(saved, lambda name, part: readers.get(name, redact)(part)))


def clean_settings(saved: Any) -> Any:
    """Return the JSON object of settings by path without secrets."""
    return redact_known(_clean_settings(saved))


def clean_text(text: str) -> str:
    """Return a written text without secrets."""
    clean: str = redact_known(redact_text(text))
    return clean


def _clean_documents(saved: Any) -> Any:
    return _clean_parts(saved, lambda _, settings: _clean_settings(settings))


def _clean_replicas(saved: Any) -> Any:
    return [_clean_parts(each, _clean_replica_part) for each in saved] if isinstance(saved, list) else redact(saved)


def _clean_replica_part(name: str, saved: Any) -> Any:
    if name == "identity":
        return _clean_settings(saved)
    if name == "contradictions" and isinstance(saved, list):
        return [_clean_contradiction(each) for each in saved]
    return redact(saved, name)


def _clean_contradiction(saved: Any) -> Any:
    path = str(saved.get("path")) if isinstance(saved, dict) else ""
    return _clean_parts(
        saved, lambda name, part: _clean_setting(path, part) if name in {"kept", "other"} else redact(part)
    )


def _clean_settings(saved: Any) -> Any:
    return _clean_parts(saved, _clean_setting)


def _clean_setting(path: str, saved: Any) -> Any:
    """Redact the value of a setting, not its state and source."""
    if not isinstance(saved, dict) or "value" not in saved:
        return redact(saved, path)
    value = redact(saved["value"], path) if type(saved["value"]) in MAY_HOLD_SECRETS else saved["value"]
    if value == saved["value"]:
        return saved
    return {**saved, "value": value, "state": str(State.REDACTED)}


def _clean_parts(saved: Any, clean: Callable[[str, Any], Any]) -> Any:
    """Return an object with each part cleaned; a different value is redacted as a whole."""
    if not isinstance(saved, dict):
        return redact(saved)
    return {redact_text(name): clean(name, part) for name, part in saved.items()}
