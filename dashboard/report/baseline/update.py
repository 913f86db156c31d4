"""A baseline brought up to what replicas tell now: in its text only that changes which is no longer true."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, cast

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from dashboard.compare.baseline import is_agreed, is_ignored
from dashboard.fleet import Baseline, Setting
from dashboard.report.baseline.yaml_file import agreeable, place, section, writable
from dashboard.report.baseline.yaml_text import yaml_pair, yaml_value
from dashboard.vllm.canonical import canonical_text

Entry = tuple[Node, Node]  # a key and its value

INDENT = "  "
_BEHIND_KEY = re.compile(r"\s*:")
_REST_OF_LINE = re.compile(r"[^\r\n]*")


class Update(NamedTuple):
    """A baseline's new text, and the paths that changed, were added, are expected but not told.

    `remarked` are those that changed and have a comment: what people wrote beside them may no longer be true.
    """

    text: str
    changed: tuple[str, ...]
    added: tuple[str, ...]
    not_told: tuple[str, ...]
    remarked: tuple[str, ...] = ()


class _Edit(NamedTuple):
    """What to write in place of the characters from `start` to before `end`."""

    start: int
    end: int
    text: str


def updated(text: str, baseline: Baseline, settings: Mapping[str, Setting]) -> Update:
    """Bring a baseline up to these settings. `baseline` is what was read of `text`.

    Comments, order, tolerated and ignored settings stay, and the spelling of what is still true. What is expected and
    not told stays too, for nobody knows better. New settings come after those of their section; what nobody sets is not
    added, but brought up where it is expected.
    """
    told = writable(settings)
    changed = tuple(path for path in baseline.expected if _is_other(baseline, path, told))
    added = tuple(path for path in sorted(agreeable(settings), key=place) if _is_new(baseline, path))
    # It was read before: a mapping of a bounded depth, without aliases.
    root = cast("MappingNode", yaml.compose(text, Loader=yaml.SafeLoader))
    expected = next((entry for entry in root.value if entry[0].value == "expected"), None)
    edits = [_changed(text, *_entry(expected, path), told[path]) for path in changed]
    if added:
        edits += _added(text, root, expected, {path: told[path] for path in added})
    not_told = tuple(path for path in baseline.expected if path not in told)
    remarked = tuple(path for path in changed if baseline.comments.get(path))
    return Update(_edited(text, edits), changed, added, not_told, remarked)


def _is_other(baseline: Baseline, path: str, told: Mapping[str, Any]) -> bool:
    """Tell whether an expected value is no longer true; of one that is ignored nobody asks."""
    if path not in told or is_ignored(baseline, path):
        return False
    return not is_agreed(path, baseline.expected[path], canonical_text(told[path]))


def _is_new(baseline: Baseline, path: str) -> bool:
    return path not in baseline.expected and path not in baseline.tolerated and not is_ignored(baseline, path)


def _entry(expected: Entry | None, path: str) -> Entry:
    entries: list[Entry] = cast("Entry", expected)[1].value
    return next(entry for entry in entries if entry[0].value == path)


def _changed(text: str, key: Node, value: Node, told: Any) -> _Edit:
    """Write a new value; a list or mapping over several lines becomes one line, behind which its comment stays."""
    colon = _end_of(_BEHIND_KEY, text, key.end_mark.index)
    start, end = max(value.start_mark.index, colon), max(_end(text, value), colon)
    if isinstance(value, CollectionNode) and not value.flow_style:
        behind = text[colon : _end_of(_REST_OF_LINE, text, colon)].rstrip()
        return _Edit(colon, end, f" {yaml_value(told)}{behind}")
    return _Edit(start, end, yaml_value(told) if start > colon else f" {yaml_value(told)}")


def _added(text: str, root: MappingNode, expected: Entry | None, new: Mapping[str, Any]) -> list[_Edit]:
    """Write new settings into whatever the section is: lines, one line between braces, empty, or not there."""
    if expected is None:
        last = _end(text, root.value[-1][1])
        whole = f", {yaml_pair('expected', new)}"
        return [_Edit(last, last, whole) if root.flow_style else _lines(text, last, ["expected:", *_block(new)])]
    key, value = expected
    if isinstance(value, MappingNode) and value.value:
        if not value.flow_style:
            return _among(text, value, new)
        last = _end(text, value.value[-1][1])
        return [_Edit(last, last, "".join(f", {yaml_pair(path, told)}" for path, told in new.items()))]
    if root.flow_style:
        return [_changed(text, key, value, new)]
    start, end = value.start_mark.index, _end(text, value)
    return [_Edit(start, end, ""), _lines(text, end, _block(new))]


def _among(text: str, expected: MappingNode, new: Mapping[str, Any]) -> list[_Edit]:
    """Put new settings behind the last one of their section, those of new sections behind all."""
    last = {section(key.value): value for key, value in expected.value}
    end = expected.value[-1][1]
    indent = " " * expected.value[0][0].start_mark.column
    edits = []
    for name, paths in groupby(new, key=section):
        rows = [f"{indent}{yaml_pair(path, new[path])}" for path in paths]
        edits.append(_lines(text, _end(text, last.get(name, end)), rows if name in last else ["", *rows]))
    return edits


def _block(new: Mapping[str, Any]) -> list[str]:
    return [f"{INDENT}{yaml_pair(path, told)}" for path, told in new.items()]


def _lines(text: str, position: int, rows: Iterable[str]) -> _Edit:
    """Put lines behind the one that a position is on, ended as the others are."""
    end = _end_of(_REST_OF_LINE, text, position)
    newline = "\r\n" if "\r\n" in text else "\n"
    return _Edit(end, end, "".join(f"{newline}{row}" for row in rows))


def _end(text: str, node: Node) -> int:
    """Return where a node's own text ends: the mark of a block stands behind the comments that follow it."""
    end: int = node.end_mark.index
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last if isinstance(node, SequenceNode) else last[1])
    return len(text[:end].rstrip()) if isinstance(node, ScalarNode) and node.style in {"|", ">"} else end


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    for _, edit in sorted(enumerate(edits), key=lambda each: (each[1][:2], each[0]), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
