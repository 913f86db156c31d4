"""Imported files: opened within limits, and identified by name (`chat-1.server_info.json`) or content."""

import codecs
import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.sources.polling.probes import INFERENCE_CONFIG, METRICS, PROBES, SERVER_CONFIG
from dashboard.store.packing import GZIP_MAGIC, unpacked
from dashboard.vllm import reading
from dashboard.vllm.reading import json_fault, node_count
from vllm_fleet_provider.shared.redaction import redact_text

MIB = 2**20
MAX_FILE_BYTES = 64 * MIB  # unpacked; 1,000 replicas take 23 MB in `poll --format json --full`
LONGEST_NAME = 80  # characters of a file's name that are shown
ZIP_MAGIC = b"PK\x03\x04"
SMALLER = "save one pool at a time: poll --format json --full --pool NAME."

SAVED_FLEET = "a saved fleet"  # in place of a path
SERVER_INFO = "/server_info?config_format=json"
PLUGIN = "/plugins/vllm-server-introspection"
# The part of a file's name before its ending, and the path of that answer. The path itself is also accepted, with dots
# for slashes; a dash and an underscore count as a dot.
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
UNNAMED = "replica"  # the replica of a file that is named after its path alone, such as server_info.json
_ENDING = re.compile(r"(?:\.(?:json|txt|prom))?(?:\.gz)?$", re.IGNORECASE)
# Field names that identify an answer: the first set that is present decides.
_MARKS: tuple[tuple[str, frozenset[str]], ...] = (
    (SAVED_FLEET, frozenset({"schema_version", "replicas"})),
    (SERVER_INFO, frozenset({"vllm_config"})),
    (f"{PLUGIN}/config", frozenset({"model", "kv_cache", "features"})),
    (INFERENCE_CONFIG, frozenset({"model", "kv_cache"})),
    (f"{PLUGIN}/kv-cache", frozenset({"num_gpu_blocks"})),  # its tokens are an upper bound: the cautious guess
    ("/v1/models", frozenset({"data"})),
)
# Field names that must be the only ones.
_WHOLE: tuple[tuple[str, frozenset[str]], ...] = (
    (f"{PLUGIN}/devices", frozenset({"devices"})),
    ("/version", frozenset({"version"})),
    ("/version", frozenset({"version", "rust_frontend_version"})),
)
_WHAT_TO_DROP = "drop an exported snapshot, the output of poll --format json --full, or answers saved by curl."


class File(NamedTuple):
    """A file's name, without its folder, and its content."""

    name: str
    content: bytes


class RefusedFile(NamedTuple):
    """A file that is not imported: its name, and one sentence with reason and action."""

    name: str
    why: str


class AnswerKey(NamedTuple):
    """What a file is: the answer of `replica` to `path`, or a saved fleet."""

    replica: str
    path: str


def shown(name: str) -> str:
    """Return a file's name on one line, without secrets: it is foreign text."""
    return middle_cut(one_line(redact_text(name)).strip(), LONGEST_NAME) or "a file without a name"


def opened(file: File) -> bytes:
    """Return the content of an imported file; raise SnapshotError with the reason where it is unreadable."""
    content = unwrapped(file.content, MAX_FILE_BYTES)
    if content.lstrip()[:1] == b"<":
        raise SnapshotError("It is a web page or XML, not an answer of vLLM; query the replica, not a proxy.")
    most = reading.SAVED_FLEET.max_nodes
    if node_count(content, most) > most:
        raise SnapshotError(f"It has more than {most:,} JSON nodes; {SMALLER}")
    return content


def unwrapped(raw: bytes, most: int) -> bytes:
    """Return a file's content, unpacked and in UTF-8; raise SnapshotError with the reason and the action.

    At most `most` bytes are read; content in UTF-16 may have half as many again.
    """
    if raw.startswith(ZIP_MAGIC):
        raise SnapshotError("It is a ZIP archive; unpack it and use the files in it.")
    content = unpacked(raw, most)
    if len(content) > most:
        raise SnapshotError(f"It is larger than {most // MIB} MiB, the limit of a file; {SMALLER}")
    if content.startswith(GZIP_MAGIC):
        raise SnapshotError("It is compressed twice; unpack it once and use the result.")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # PowerShell's `>` writes UTF-16
        try:
            content = content.decode("utf-16").encode()
        except UnicodeDecodeError:
            raise SnapshotError("It is not valid UTF-16; save it again as UTF-8.") from None
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content.strip():
        raise SnapshotError("It is empty; save it again.")
    return content


def replicas_named(names: Iterable[str]) -> frozenset[str]:
    """Return the replicas in file names that also name a path, as `chat-1.metrics.txt` names chat-1."""
    return frozenset(answer.replica for answer in map(_from_name, names) if answer is not None)


def answer_of(name: str, content: bytes, named: Collection[str] = ()) -> AnswerKey:
    """Return what a file is, by name, else by content; raise SnapshotError with the reason where neither decides.

    The part of its name before the path is the replica, with its dots. Without a path, the replica is the longest of
    `named` that the name continues after a dot, else the whole name.
    """
    if answer := _from_name(name):
        return answer
    parts = _parts(name)
    begun = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    replica = next((each for each in begun if each in named), ".".join(parts))
    return AnswerKey(replica or UNNAMED, _from_content(content))


def _from_name(name: str) -> AnswerKey | None:
    """Return the replica and the longest path at the end of a name."""
    parts = _parts(name)
    for start in range(len(parts)):
        if path := _PATHS.get(".".join(parts[start:]).lower().translate(_SPELLED)):
            return AnswerKey(".".join(parts[:start]) or UNNAMED, path)
    return None


def _parts(name: str) -> list[str]:
    return _ENDING.sub("", shown(name)).split(".")


def refusal_of(path: str, why: str, content: bytes) -> str:
    """Return the sentence on an unreadable answer: why, and the action."""
    if path == SERVER_INFO and _is_json(content):
        info = from_json(content)
        if isinstance(info, dict) and isinstance(info.get("vllm_config"), str):  # vLLM's answer without config_format
            return f"It is the text form of /server_info, which is not supported; save that of {SERVER_INFO}."
    return f"{why.rstrip('.')}; save the answer again, unchanged."


def _from_content(content: bytes) -> str:
    """Return the path whose answer this content is."""
    if content.lstrip()[:1] not in {b"{", b"["} and not _is_json(content):
        if b"vllm:" in content:
            return METRICS.path
        raise SnapshotError(f"It is neither JSON nor a /metrics page of vLLM; {_WHAT_TO_DROP}")
    try:
        value = from_json(content)
    except ValueError as error:
        raise SnapshotError(f"It {json_fault(error)}; copy or save it again, unchanged.") from None
    if not isinstance(value, dict):
        raise SnapshotError(
            f"It is JSON, but only {_kind(value)}: neither a saved fleet nor an answer of vLLM; {_WHAT_TO_DROP}"
        )
    fields = frozenset(value)
    found = next((path for path, marks in _MARKS if marks <= fields), None)
    found = found or next((path for path, marks in _WHOLE if marks == fields), None)
    if found is None and fields and all(field.isdecimal() for field in fields):
        found = "/kv_event_sources"
    if found is None:
        raise SnapshotError(
            "It is JSON, but neither a saved fleet nor a known answer; "
            "name an answer after its path, as in chat-1.server_info.json."
        )
    return found


def _is_json(content: bytes) -> bool:
    """Return whether a text is JSON; NaN and Infinity are not (RFC 8259, 6)."""
    try:
        from_json(content, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def _kind(value: Any) -> str:
    """Return the kind of a JSON value that is no object."""
    if value is None or isinstance(value, bool):
        return to_json(value).decode()
    return "a list" if isinstance(value, list) else "a string" if isinstance(value, str) else "a number"
