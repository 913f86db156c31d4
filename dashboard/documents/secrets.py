"""Secrets in documents of others, replaced by shape and by the name of a setting."""

from collections.abc import Callable
from typing import Any

from dashboard.fleet import State
from vllm_fleet_provider.shared.redaction import MAY_HOLD_SECRETS, redact, redact_known, redact_text


def clean_fleet(saved: Any) -> Any:
    """Return the JSON object of a saved fleet without secrets."""
    readers = {
        "documents": lambda part: _clean_parts(part, lambda _, settings: _clean_settings(settings)),
        "replicas": _clean_replicas,
    }
    return redact_known(_clean_parts(saved, lambda name, part: readers.get(name, redact)(part)))


def clean_replica(saved: Any) -> Any:
    """Return the JSON object of a replica without secrets."""
    return redact_known(_clean_parts(saved, _clean_replica_part))


def clean_settings(saved: Any) -> Any:
    """Return the JSON object of settings by path without secrets."""
    return redact_known(_clean_settings(saved))


def clean_text(text: str) -> str:
    """Return a written text without secrets."""
    clean: str = redact_known(redact_text(text))
    return clean


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
