"""Import of files without a network: saved fleets, or the answers of some replicas.

Each saved fleet is a fleet, and the answers together are one. A file is opened within limits, and identified by its
name (`chat-1.server_info.json`) or content. `import_files` does it in a process with limits: the result comes back as
bytes that can be saved, never as objects.
"""

import codecs
import json
import pickle
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from dashboard.analysis.assembly import Fleet, assemble, read_fleet
from dashboard.documents.load import read_snapshot
from dashboard.errors import SnapshotError
from dashboard.fleet import Failure, ProbeResult, Snapshot, Target
from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.fleet.replies import FILE_SCHEME
from dashboard.rules.policy import Policy
from dashboard.sources import child
from dashboard.sources.http.failures import Endpoint
from dashboard.sources.polling.probes import BY_PATH, INFERENCE_CONFIG, METRICS, SERVER_CONFIG, Reader
from dashboard.store import packing
from dashboard.vllm import control, reading
from dashboard.vllm.reading import excerpt, json_fault, node_count
from vllm_fleet_provider.shared import redaction

MIB = 2**20
MAX_FILE_BYTES = 64 * MIB  # unpacked; 1,000 replicas take 23 MB in `poll --format json --full`
MAX_TOTAL_BYTES = 128 * MIB  # of all files of one import, unpacked
MAX_FILES = 5_000  # 1,000 replicas with an answer each to /metrics, /server_info, /version and /v1/models
SERVED_NAME = "model_config.served_model_name"
_INTERVAL = timedelta(seconds=15)  # between polls; every answer has the age of the import, so all are fresh
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
    "grpc_server_info": control.SERVER_INFO,
    "grpc_model_info": control.MODEL_INFO,
    "grpc_loras": control.LORAS,
    "grpc_kv_event_sources": control.KV_EVENT_SOURCES,
    "kv_cache": "/v1/server/kv-cache",
    "plugin_config": f"{PLUGIN}/config",
    "plugin_devices": f"{PLUGIN}/devices",
    "plugin_kv_cache": f"{PLUGIN}/kv-cache",
}
_SPELLED = str.maketrans("-_/", "...")
_PATHS = {
    **{probe.path.partition("?")[0].strip("/").translate(_SPELLED): probe.path for probe in BY_PATH.values()},
    **{kind.translate(_SPELLED): path for kind, path in KINDS.items()},
}
UNNAMED = "replica"  # the replica of a file that is named after its path alone, such as server_info.json
_ENDING = re.compile(r"(?:\.(?:json|txt|prom))?(?:\.gz)?$", re.IGNORECASE)
# Field names that identify an answer: the first set that is present decides.
_MARKS: tuple[tuple[str, frozenset[str]], ...] = (
    (SAVED_FLEET, frozenset({"schema_version", "replicas"})),
    (SERVER_INFO, frozenset({"vllm_config"})),
    (control.SERVER_INFO, frozenset({"engine_version", "parallelism"})),
    (control.SERVER_INFO, frozenset({"engineVersion", "parallelism"})),  # as grpcurl writes it
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


def shown(name: str) -> str:
    """Return a file's name on one line, without secrets: it is foreign text."""
    return middle_cut(one_line(redaction.redact_text(name)).strip(), LONGEST_NAME) or "a file without a name"


def opened(file: File) -> bytes:
    """Return the content of an imported file; raise SnapshotError with the reason where it is unreadable."""
    content = unwrapped(file.content, MAX_FILE_BYTES)
    if content.lstrip()[:1] == b"<":
        raise SnapshotError("It is a web page or XML, not an answer of vLLM; query the replica, not a proxy.")
    most = reading.SAVED_FLEET_NODES
    if node_count(content, most) > most:
        raise SnapshotError(f"It has more than {most:,} JSON nodes; {SMALLER}")
    return content


def unwrapped(raw: bytes, most: int) -> bytes:
    """Return a file's content, unpacked and in UTF-8; raise SnapshotError with the reason and the action.

    At most `most` bytes are read; content in UTF-16 may have half as many again.
    """
    if raw.startswith(ZIP_MAGIC):
        raise SnapshotError("It is a ZIP archive; unpack it and use the files in it.")
    content = packing.unpacked(raw, most)
    if len(content) > most:
        raise SnapshotError(f"It is larger than {most // MIB} MiB, the limit of a file; {SMALLER}")
    if content.startswith(packing.GZIP_MAGIC):
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


def answer_of(name: str, content: bytes, named: Collection[str] = ()) -> tuple[str, str]:
    """Return the replica and the path that a file answers, by name, else by content; the path may be SAVED_FLEET.

    Raise SnapshotError with the reason where neither decides. The part of its name before the path is the replica, with
    its dots. Without a path, the replica is the longest of `named` that the name continues after a dot, else the whole
    name.
    """
    if answer := _from_name(name):
        return answer
    parts = _parts(name)
    begun = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    replica = next((each for each in begun if each in named), ".".join(parts))
    return replica or UNNAMED, _from_content(content)


def _from_name(name: str) -> tuple[str, str] | None:
    """Return the replica and the longest path at the end of a name."""
    parts = _parts(name)
    for start in range(len(parts)):
        if path := _PATHS.get(".".join(parts[start:]).lower().translate(_SPELLED)):
            return ".".join(parts[:start]) or UNNAMED, path
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
    try:
        from_json(content, allow_inf_nan=False)  # RFC 8259, 6: neither NaN nor Infinity
    except ValueError:
        return False
    return True


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return to_json(value).decode()
    return "a list" if isinstance(value, list) else "a string" if isinstance(value, str) else "a number"


class ImportedFleet(NamedTuple):
    """An imported fleet as bytes that can be saved, its description, its file, and the name and notes in that file.

    The fleet of answers has no file: empty.
    """

    file: str
    content: bytes
    metadata: packing.SnapshotMetadata
    carried: packing.ExportMetadata


def import_files(
    files: Sequence[File],
    at: datetime,
    name: str,
    *,
    policy: Policy | None = None,
    ignore: Sequence[str] = (),
    wait: Callable[[], None] = lambda: None,
) -> tuple[list[ImportedFleet], list[RefusedFile]]:
    """Do what `imported` does within limits of memory and time; raise SnapshotError beyond these.

    `wait` is called where another import is being read: one is at a time.
    """
    sent = redaction.in_force(), list(files), at, name, policy, list(ignore)
    answered = child.run_limited(__name__, lambda: pickle.dumps(sent), wait=wait)
    line, _, rest = answered.partition(b"\n")
    head = json.loads(line)
    fleets: list[ImportedFleet] = []
    for file, size, metadata, export in head["fleets"]:
        content, rest = rest[:size], rest[size:]
        parts = (
            packing.SnapshotMetadata.model_validate_json(metadata),
            packing.ExportMetadata.model_validate_json(export),
        )
        fleets.append(ImportedFleet(file, content, *parts))
    return fleets, [RefusedFile(*each) for each in head["refused"]]


def main() -> None:
    """Read the input of `import_files` and write its output, in the limited process."""
    child.limit()
    redacted, files, at, name, policy, ignore = pickle.loads(sys.stdin.buffer.read())  # noqa: S301  ours wrote it
    redaction.adopt(redacted)
    fleets, refused = imported(files, at, name, policy=policy, ignore=ignore)
    described = [
        (each.file, len(each.content), each.metadata.model_dump_json(), each.carried.model_dump_json())
        for each in fleets
    ]
    head = json.dumps({"fleets": described, "refused": refused})
    sys.stdout.buffer.write(b"\n".join((head.encode(), b"".join(each.content for each in fleets))))


def imported(
    files: Sequence[File], at: datetime, name: str, *, policy: Policy | None = None, ignore: Sequence[str] = ()
) -> tuple[list[ImportedFleet], list[RefusedFile]]:
    """Return the fleets of files, and the unusable files, each refused with a sentence.

    A file of answers has no time of its own: their data is as of `at`. Their fleet gets `name`, `policy` and `ignore`.
    A saved fleet has its own time, name and policy.
    """
    reader = Reader()
    named = {answer[0] for file in files if (answer := _from_name(file.name))}
    file_of: dict[tuple[str, str], str] = {}  # by replica and path
    probes: dict[str, dict[str, ProbeResult]] = defaultdict(dict)  # by replica
    fleets: list[ImportedFleet] = []
    total = 0

    def read_one(file: File) -> str:
        """Read a file; return why it is not used, empty where it is."""
        nonlocal total
        try:
            content = opened(file)
            if total + len(content) > MAX_TOTAL_BYTES:
                return f"The limit of an import is {MAX_TOTAL_BYTES // MIB} MiB; import it separately."
            total += len(content)
            replica, path = answer_of(file.name, content, named)
            if path == SAVED_FLEET:
                carried = packing.read_export_metadata(file.content)
                fleets.append(_as_bytes(shown(file.name), read_snapshot(content), at, carried))
                return ""
        except SnapshotError as error:
            return str(error)
        if path in probes[replica]:
            return (
                f"{file_of[replica, path]} already has the answer of {replica} to {path}; "
                "name each file after its replica, as in chat-1.server_info.json."
            )
        file_of[replica, path] = shown(file.name)
        result = probes[replica][path] = _read_answer(reader, replica, path, content, at)
        return refusal_of(path, result.failure.detail, content) if result.failure else ""

    refused = [RefusedFile(shown(each.name), why) for each in files[:MAX_FILES] if (why := read_one(each))]
    if len(files) > MAX_FILES:
        why = f"The limit of an import is {MAX_FILES:,} files; import it later."
        refused.append(RefusedFile(shown(files[MAX_FILES].name), why))
    snapshots = [
        Snapshot(Target(f"{FILE_SCHEME}{replica}", {"name": replica}), at, _with_model(results))
        for replica, results in probes.items()
        if any(each.reply for each in results.values())
    ]
    if snapshots:
        read = read_fleet(name, snapshots, polled_at=at, interval=_INTERVAL, ignore=ignore, policy=policy)
        fleets.append(_as_bytes("", assemble(read, at), at, packing.ExportMetadata()))
    return fleets, refused


def _as_bytes(file: str, fleet: Fleet, at: datetime, carried: packing.ExportMetadata) -> ImportedFleet:
    return ImportedFleet(file, packing.content_of(fleet), packing.describe_fleet(fleet, "", at), carried)


def _read_answer(reader: Reader, replica: str, path: str, content: bytes, at: datetime) -> ProbeResult:
    probe = BY_PATH[path]
    read = reader.read(probe, Endpoint(f"{FILE_SCHEME}{replica}", path), content)
    result = ProbeResult(path, probe.source, at, 0.0, size_bytes=len(content))
    if isinstance(read, Failure):
        return replace(result, failure=read, raw=excerpt(content))
    return replace(result, reply=read.reply, raw=read.raw)


def _with_model(results: dict[str, ProbeResult]) -> dict[str, ProbeResult]:
    """Use the configuration's served model name, which decides the pool, where no other answer has one."""
    replies = [each.reply for each in results.values() if each.reply]
    if any(reply.served_model_names for reply in replies):
        return results
    served = next((reply.settings[SERVED_NAME] for reply in replies if SERVED_NAME in reply.settings), None)
    name = json.loads(served.value) if served is not None and served.value else None
    if not isinstance(name, str) or not name:
        return results
    return {
        path: replace(each, reply=replace(each.reply, served_model_names=(name,))) if each.reply else each
        for path, each in results.items()
    }


if __name__ == "__main__":
    main()
