"""A saved fleet without its secrets: it may be of a version that knew fewer of them, or written by anybody."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.load import check_nodes, read_snapshot
from dashboard.fleet import State
from dashboard.store.packing import content_of
from dashboard.store.sidecar import NotePart, Sidecar
from dashboard.vllm.redaction import redact, redact_known, redact_text


def opened_clean(content: bytes) -> Fleet:
    """Return the fleet that was saved, without secrets; raise SnapshotError when it cannot be read."""
    return read_snapshot(without_secrets(content))


def clean_content(content: bytes) -> bytes:
    """Return a saved fleet without secrets; raise SnapshotError when it cannot be read.

    What holds none comes back byte by byte. Else pools and findings are derived anew: they quote what was replaced.
    """
    clean = without_secrets(content)
    return content if clean == content else content_of(read_snapshot(clean))


def without_secrets(content: bytes) -> bytes:
    """Replace what looks like a secret, and the values of settings that are called so; else nothing changes.

    Raise SnapshotError where it has too many nodes.
    """
    check_nodes(content)
    try:
        saved = from_json(content)
    except ValueError:  # reading it says what is wrong
        return content
    clean = redact_known(_fleet(saved))
    return content if clean == saved else to_json(clean)


def clean_sidecar(beside: Sidecar) -> Sidecar:
    """Return what stands beside a snapshot without the secrets that somebody wrote there."""
    saved = {"name": clean_text(beside.name), "fleet": clean_text(beside.fleet), "notes": clean_notes(beside.notes)}
    return beside.model_copy(update=saved)


def clean_notes(notes: Mapping[str, NotePart]) -> dict[str, NotePart]:
    """Return notes without the secrets that somebody wrote there."""
    return {
        about: note.model_copy(update={"text": clean_text(note.text), "owner": clean_text(note.owner)})
        for about, note in notes.items()
    }


def clean_text(text: str) -> str:
    """Return what somebody wrote without secrets."""
    clean: str = redact_known(redact_text(text))
    return clean


def _fleet(saved: Any) -> Any:
    readers = {"documents": _documents, "replicas": _replicas}
    return _each(saved, lambda name, part: readers.get(name, redact)(part))


def _documents(saved: Any) -> Any:
    return _each(saved, lambda _, settings: _settings(settings))


def _replicas(saved: Any) -> Any:
    return [_each(each, _part_of_replica) for each in saved] if isinstance(saved, list) else redact(saved)


def _part_of_replica(name: str, saved: Any) -> Any:
    if name == "identity":
        return _settings(saved)
    if name == "contradictions" and isinstance(saved, list):
        return [_contradiction(each) for each in saved]
    return redact(saved, name)


def _contradiction(saved: Any) -> Any:
    path = str(saved.get("path")) if isinstance(saved, dict) else ""
    return _each(saved, lambda name, part: _setting(path, part) if name in {"kept", "other"} else redact(part))


def _settings(saved: Any) -> Any:
    return _each(saved, _setting)


def _setting(path: str, saved: Any) -> Any:
    """Redact the value of a setting; its state and source are called otherwise, and stay."""
    if not isinstance(saved, dict) or "value" not in saved:
        return redact(saved, path)
    value = redact(saved["value"], path)
    if value == saved["value"]:
        return saved
    return {**saved, "value": value, "state": str(State.REDACTED)}


def _each(saved: Any, clean: Callable[[str, Any], Any]) -> Any:
    """Return an object with each of its parts made clean; what is no object is redacted as it is."""
    if not isinstance(saved, dict):
        return redact(saved)
    return {redact_text(name): clean(name, part) for name, part in saved.items()}
