"""A saved fleet that somebody brings: its secrets go before it is read, for anybody may have written the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from dashboard.redaction import is_secret, redact, redact_text
from dashboard.report.fleet.load import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.fleet import Fleet


def saved_fleet(content: bytes) -> Fleet:
    """Return the fleet that was saved; raise SnapshotError when it cannot be read."""
    return read_snapshot(without_secrets(content))


def without_secrets(content: bytes) -> bytes:
    """Replace what looks like a secret, and the values of settings that are called so; else nothing changes.

    What `poll --full` and the export write is free of secrets already, and comes back byte by byte.
    """
    clean = redact_text(content.decode(errors="replace")).encode()
    try:
        told = from_json(clean)
    except ValueError:  # reading it says what is wrong
        return clean
    named = [(path, part) for path, part in _settings(told) if is_secret(path) and isinstance(part, dict)]
    changed = False
    for path, part in named:
        before, part["value"] = part.get("value"), redact(part.get("value"), path)
        changed = changed or before != part["value"]
    return to_json(told) if changed else clean


def _settings(told: Any) -> Iterator[tuple[str, Any]]:
    """Yield every setting of every document and of every replica's identity, by path."""
    if not isinstance(told, dict):
        return
    documents, replicas = told.get("documents"), told.get("replicas")
    for document in documents.values() if isinstance(documents, dict) else ():
        yield from document.items() if isinstance(document, dict) else ()
    for replica in replicas if isinstance(replicas, list) else ():
        if not isinstance(replica, dict):
            continue
        identity, contradictions = replica.get("identity"), replica.get("contradictions")
        yield from identity.items() if isinstance(identity, dict) else ()
        for each in contradictions if isinstance(contradictions, list) else ():
            if isinstance(each, dict):
                yield from ((str(each.get("path")), each.get(side)) for side in ("kept", "other"))
