"""The file of accepted findings (`suppressions_file`): entries as under `suppress` in fleet.yaml; pages add to it."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import yaml
from pydantic import ValidationError
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from dashboard.config.document import MAX_DOCUMENT_BYTES, read_document
from dashboard.config.mistakes import describe_error
from dashboard.config.rules import Part, SuppressOptions
from dashboard.errors import OptionsError
from dashboard.rules.findings import Suppression

KEY = "suppress"
_INDENT = 2  # columns of the first entry


class SuppressionsOptions(Part):
    """The content of the file."""

    suppress: tuple[SuppressOptions, ...] = ()


def read_suppressions(raw: bytes, file: Path) -> tuple[SuppressOptions, ...]:
    """Return the entries of a file; raise OptionsError with every mistake."""
    document = read_document(raw)
    mistakes = list(document.mistakes)
    if not mistakes and document.value is not None and not isinstance(document.value, dict):
        raise OptionsError(f"{file}:1: not a mapping; write `{KEY}:` with a list of entries")
    try:
        entries = SuppressionsOptions.model_validate(document.value or {}).suppress
    except ValidationError as error:
        found = ((document.line(each["loc"]), describe_error(each, SuppressionsOptions)) for each in error.errors())
        raise OptionsError(*(f"{file}:{line}: {text}" for line, text in sorted([*mistakes, *found]))) from None
    if mistakes:
        raise OptionsError(*(f"{file}:{line}: {text}" for line, text in mistakes))
    return entries


def load_suppressions(file: Path) -> tuple[SuppressOptions, ...]:
    """Return the entries of the file, none of a missing one. Raise OptionsError where it is unreadable or wrong."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise OptionsError(f"{file}: {error.strerror}; name a file under suppressions_file") from error
    return read_suppressions(raw, file)


def suppression_yaml(entry: Suppression, more: Mapping[str, Any] | None = None) -> str:
    """Return an entry as YAML: a list of one entry under `suppress`. `more` are further keys."""
    fields = {
        "rule": entry.rule,
        "pool": entry.pool,
        "replicas": list(entry.replicas),
        "labels": dict(entry.labels),
        "owner": entry.owner,
        "reason": entry.reason,
        "until": entry.until,
        **(more or {}),
    }
    given = {key: value for key, value in fields.items() if value}
    return str(yaml.safe_dump({KEY: [given]}, sort_keys=False, allow_unicode=True, width=120))


def add_suppression(raw: bytes, file: Path, added: str) -> bytes:
    """Return the content of a file with one more entry, as of `suppression_yaml`; the rest stays, with its comments.

    Raise OptionsError where the file is wrong, or where its form cannot be extended.
    """
    before = read_suppressions(raw, file)
    (entry,) = read_suppressions(added.encode(), file)
    text = raw.decode("utf-8-sig")
    text += "" if not text or text.endswith("\n") else "\n"
    root = cast("MappingNode | None", yaml.compose(text, Loader=yaml.SafeLoader))
    known = root.value[0][1] if isinstance(root, MappingNode) and root.value else None
    head, _, item = added.partition("\n")
    column = _INDENT
    if known is None:
        text += f"{head}\n"
    elif isinstance(known, SequenceNode) and not known.flow_style:
        column = known.start_mark.column
    elif isinstance(known, ScalarNode) or not known.value:  # `suppress:` or `suppress: []`
        text = text[: known.start_mark.index] + text[known.end_mark.index :]
    else:
        raise OptionsError(f"{file}:{known.start_mark.line + 1}: entries in brackets; write one entry per list item")
    extended = (text + indent(item, " " * column)).encode()
    if read_suppressions(extended, file) != (*before, entry):
        raise OptionsError(f"{file}: cannot be extended; write `{KEY}:` with a list of entries")
    return extended
