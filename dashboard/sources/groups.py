"""Groups of targets in Prometheus' shape, as its file_sd and http_sd have them."""

import json
from collections.abc import Mapping
from typing import Any

from dashboard.config import MAX_LABEL_CHARACTERS
from dashboard.config.address import replica_id, shown
from dashboard.config.document import MAX_DOCUMENT_BYTES, read_document
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Failure, FailureKind, Target

MAX_TARGETS = 50_000  # per file: ten times the largest fleet that this program is made for
_META = "__"  # Prometheus drops labels with this prefix after relabelling


def read_targets(
    raw: bytes, place: str, labels: Mapping[str, str], credentials: Credentials | None, *, is_json: bool
) -> tuple[Target, ...]:
    """Return the targets of a whole file; labels of a group win over `labels`. An invalid address is a failed target.

    Raise UnreadableError with a sentence for another shape.
    """
    groups = _read_json(raw) if is_json else _read_yaml(raw)
    if not isinstance(groups, list):
        raise UnreadableError("schema", "not a list of groups {targets: [...], labels: {...}}")
    targets: list[Target] = []
    for number, group in enumerate(groups, 1):
        written = _labels(group, f"group {number}")
        if len(targets) + len(group["targets"]) > MAX_TARGETS:
            raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets")
        scheme = written.get("__scheme__")
        own = {**labels, **{name: text for name, text in written.items() if not name.startswith(_META)}}
        for position, address in enumerate(group["targets"], 1):
            if isinstance(address, str):
                whole = f"{scheme}://{address}" if scheme and "://" not in address else address
                targets.append(make_target(whole, own, credentials))
            else:
                failure = Failure(FailureKind.TARGET, "this entry is no text; write host:port")
                targets.append(Target(f"{place}: group {number}, target {position}", own, failure=failure))
    return tuple(targets)


def make_target(address: str, labels: Mapping[str, str], credentials: Credentials | None) -> Target:
    """Return the target of an address, a failed one where it is invalid."""
    try:
        return Target(replica_id(address), labels, credentials)
    except ValueError as error:
        return Target(shown(address), labels, failure=Failure(FailureKind.TARGET, str(error)))


def _read_yaml(raw: bytes) -> Any:
    document = read_document(raw)
    if document.mistakes:
        line, sentence = document.mistakes[0]
        raise UnreadableError("decode", f"line {line}: {sentence}")
    return document.value


def _read_json(raw: bytes) -> Any:
    """Read JSON; numbers stay text, so that a label 1.10 keeps its zero."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise UnreadableError("decode", f"larger than {MAX_DOCUMENT_BYTES // 2**20} MiB")
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_int=str, parse_float=str, parse_constant=str)
    except UnicodeDecodeError:
        raise UnreadableError("decode", "not UTF-8") from None
    except json.JSONDecodeError as error:
        raise UnreadableError("decode", f"line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise UnreadableError("decode", "not JSON of this shape: nested too deep") from None


def _labels(value: Any, where: str) -> dict[str, str]:
    """Return the labels of a group, also those that Prometheus drops."""
    if not isinstance(value, dict) or not isinstance(value.get("targets"), list):
        raise UnreadableError("schema", f"{where} is not a mapping with a list of targets")
    written = {} if value.get("labels") is None else value["labels"]
    if not isinstance(written, dict):
        raise UnreadableError("schema", f"{where} has labels that are not a mapping")
    named = ((_text(name, where), each) for name, each in written.items() if each not in (None, ""))
    return {name: _text(each, f"{where}, label {name!r:.60}") for name, each in named}


def _text(value: Any, where: str) -> str:
    """Return the written text, `true` for a JSON true; half of a surrogate pair, which JSON can hold, becomes `?`."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise UnreadableError("schema", f"{where} is not a string")
    if len(value) > MAX_LABEL_CHARACTERS:
        raise UnreadableError("schema", f"{where} is longer than {MAX_LABEL_CHARACTERS} characters")
    return value.encode(errors="replace").decode()
