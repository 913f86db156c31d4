"""Which replica and which path a file is the answer of: told by its name, `chat-1.server_info.json`, or its content."""

import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from dashboard.errors import SnapshotError
from dashboard.sources.importing.files import shown
from dashboard.sources.polling.probes import INFERENCE_CONFIG, METRICS, PROBES, SERVER_CONFIG
from dashboard.vllm.reading import json_fault

SAVED_FLEET = "a saved fleet"  # in place of a path
SERVER_INFO = "/server_info?config_format=json"
PLUGIN = "/plugins/vllm-server-introspection"
# What may stand before the ending of a file's name, and the path whose answer it then is. The path itself may stand
# there too, with dots for slashes; a dash and an underscore count as a dot.
KINDS = {
    "metrics": METRICS.path,
    "version": "/version",
    "models": "/v1/models",
    "kv_event_sources": "/kv_event_sources",
    "server_info": SERVER_INFO,
    "inference_config": INFERENCE_CONFIG,
    "config": "/v1/config",
    "server_config": SERVER_CONFIG,
    "kv_cache": "/v1/server/kv-cache",
    "plugin_config": f"{PLUGIN}/config",
    "plugin_devices": f"{PLUGIN}/devices",
    "plugin_kv_cache": f"{PLUGIN}/kv-cache",
}
_SPELLED = str.maketrans("-_/", "...")
_PATHS = {
    **{probe.path.partition("?")[0].strip("/").translate(_SPELLED): probe.path for probe in PROBES},
    **{kind.translate(_SPELLED): path for kind, path in KINDS.items()},
}
UNNAMED = "replica"  # what a file that is called only after its path, such as server_info.json, is the answer of
_ENDING = re.compile(r"(?:\.(?:json|txt|prom))?(?:\.gz)?$", re.IGNORECASE)
# Names of fields that only the answer of one path has. The first that are all there decide.
_MARKS: tuple[tuple[str, frozenset[str]], ...] = (
    (SAVED_FLEET, frozenset({"schema_version", "replicas"})),
    (SERVER_INFO, frozenset({"vllm_config"})),
    (f"{PLUGIN}/config", frozenset({"model", "kv_cache", "features"})),
    (INFERENCE_CONFIG, frozenset({"model", "kv_cache"})),
    (f"{PLUGIN}/kv-cache", frozenset({"num_gpu_blocks"})),  # its tokens are an upper bound: the more careful guess
    ("/v1/models", frozenset({"data"})),
)
# And those that say too little to be looked for within another answer.
_WHOLE: tuple[tuple[str, frozenset[str]], ...] = (
    (f"{PLUGIN}/devices", frozenset({"devices"})),
    ("/version", frozenset({"version"})),
    ("/version", frozenset({"version", "rust_frontend_version"})),
)
_WHAT_TO_DROP = "drop an exported snapshot, what poll --format json --full printed, or answers as curl saved them."


class Answer(NamedTuple):
    """What a file is: the answer of `replica` to `path`, or a saved fleet."""

    replica: str
    path: str


def replicas_named(names: Iterable[str]) -> frozenset[str]:
    """Return the replicas that files name together with a path, as `chat-1.metrics.txt` names chat-1."""
    return frozenset(told.replica for told in map(_told, names) if told is not None)


def answer_of(name: str, content: bytes, named: Collection[str] = ()) -> Answer:
    """Return what a file is; raise SnapshotError with the reason where neither its name nor its content tells.

    What stands before the path in its name is the replica, dots and all. Without a path there, it is the one of `named`
    that the name continues after a dot, the longest of several; else the whole name is the replica.
    """
    if told := _told(name):
        return told
    parts = _parts(name)
    begun = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    replica = next((each for each in begun if each in named), ".".join(parts))
    return Answer(replica or UNNAMED, _recognised(content))


def _told(name: str) -> Answer | None:
    """Return what the name alone says: the longest path that it ends with, and the replica before that."""
    parts = _parts(name)
    for start in range(len(parts)):
        if path := _PATHS.get(".".join(parts[start:]).lower().translate(_SPELLED)):
            return Answer(".".join(parts[:start]) or UNNAMED, path)
    return None


def _parts(name: str) -> list[str]:
    return _ENDING.sub("", shown(name)).split(".")


def refusal_of(path: str, why: str, content: bytes) -> str:
    """Return the sentence on an answer that says nothing: why, and what to save instead."""
    if path == SERVER_INFO and _is_text_form(content):
        return f"It is the text form of /server_info, which cannot be read; save that of {SERVER_INFO}."
    return f"{why.rstrip('.')}; save the answer once more, as it comes."


def _is_text_form(content: bytes) -> bool:
    """Tell whether somebody asked for /server_info without saying in which form: then vLLM writes one long text."""
    try:
        told = from_json(content)
    except ValueError:
        return False
    return isinstance(told, dict) and isinstance(told.get("vllm_config"), str)


def _recognised(content: bytes) -> str:
    if content.lstrip()[:1] not in {b"{", b"["} and not _is_json(content):
        if b"vllm:" in content:
            return METRICS.path
        raise SnapshotError(f"It is neither JSON nor a page of /metrics of vLLM; {_WHAT_TO_DROP}")
    told = _parsed(content)
    if not isinstance(told, dict):
        raise SnapshotError(
            f"It is JSON, but only {_kind(told)}, which is neither a saved fleet nor an answer of vLLM; {_WHAT_TO_DROP}"
        )
    fields = frozenset(told)
    found = next((path for path, marks in _MARKS if marks <= fields), None)
    found = found or next((path for path, marks in _WHOLE if marks == fields), None)
    if found is None and fields and all(field.isdecimal() for field in fields):
        found = "/kv_event_sources"
    if found is None:
        raise SnapshotError(
            "It is JSON, but neither a saved fleet nor an answer that is known here; "
            "if it is one, name it after its path, as in chat-1.server_info.json."
        )
    return found


def _is_json(content: bytes) -> bool:
    """Tell whether text that is no object and no list is JSON at all; NaN and Infinity are not (RFC 8259, 6)."""
    try:
        from_json(content, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def _kind(told: Any) -> str:
    """Name what JSON holds in place of an object."""
    if told is None or isinstance(told, bool):
        return to_json(told).decode()
    return "a list" if isinstance(told, list) else "a string" if isinstance(told, str) else "a number"


def _parsed(content: bytes) -> Any:
    try:
        return from_json(content)
    except ValueError as error:
        raise SnapshotError(f"It {json_fault(error)}; copy or save it once more, as it comes.") from None
