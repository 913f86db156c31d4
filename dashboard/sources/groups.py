"""The file_sd shape: the bytes of a file become groups of addresses with labels, or a sentence says why not."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from dashboard.config import MAX_LABEL_CHARACTERS
from dashboard.config.document import MAX_DOCUMENT_BYTES, read_document
from dashboard.errors import UnreadableError

MAX_TARGETS = 50_000  # of one file: ten times the largest fleet that this program is made for
_META = "__"  # Prometheus drops labels that begin so after relabelling
_SCHEME = "__scheme__"


class Group(NamedTuple):
    """Addresses that share labels. An address that is no text is None; `scheme` is the one of `__scheme__`."""

    addresses: tuple[str | None, ...]
    labels: Mapping[str, str]
    scheme: str | None


def read_groups(raw: bytes, *, is_json: bool) -> list[Group]:
    """Read a whole file. Raise UnreadableError with a sentence when it has another shape."""
    value = _json(raw) if is_json else _yaml(raw)
    if not isinstance(value, list):
        raise UnreadableError("schema", "not a list of groups {targets: [...], labels: {...}}")
    groups = [_group(each, f"group {number}") for number, each in enumerate(value, 1)]
    if sum(len(group.addresses) for group in groups) > MAX_TARGETS:
        raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets")
    return groups


def _yaml(raw: bytes) -> Any:
    document = read_document(raw)
    if document.mistakes:
        line, sentence = document.mistakes[0]
        raise UnreadableError("decode", f"line {line}: {sentence}")
    return document.value


def _json(raw: bytes) -> Any:
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


def _group(value: Any, where: str) -> Group:
    if not isinstance(value, dict) or not isinstance(value.get("targets"), list):
        raise UnreadableError("schema", f"{where} is no mapping with a list of targets")
    labels = _labels(value.get("labels"), where)
    return Group(
        addresses=tuple(each if isinstance(each, str) else None for each in value["targets"]),
        labels={name: text for name, text in labels.items() if not name.startswith(_META)},
        scheme=labels.get(_SCHEME),
    )


def _labels(value: Any, where: str) -> dict[str, str]:
    """Return the labels as text; one without a value counts as not there, as in Prometheus."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableError("schema", f"{where} has labels that are no mapping")
    named = ((_text(name, where), each) for name, each in value.items() if each not in (None, ""))
    return {name: _text(each, f"{where}, label {name!r:.60}") for name, each in named}


def _text(value: Any, where: str) -> str:
    """Return what was written, `true` for a JSON true; half of a surrogate pair, which JSON can hold, becomes `?`."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise UnreadableError("schema", f"{where} is no text")
    if len(value) > MAX_LABEL_CHARACTERS:
        raise UnreadableError("schema", f"{where} is longer than {MAX_LABEL_CHARACTERS} characters")
    return value.encode(errors="replace").decode()
