"""Baselines as YAML files: written from what replicas report, and updated in place."""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, cast

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from dashboard.analysis.assembly import Fleet
from dashboard.compare.baseline import is_agreed, is_ignored
from dashboard.compare.encoding import is_comparable
from dashboard.compare.reference import settings_of
from dashboard.fleet import Baseline, Pool, Setting
from dashboard.fleet.formatting import COMMAND_MARK, HIDDEN, count
from dashboard.rules.apply_method import derived_paths
from dashboard.vllm.canonical import canonical_text

LONGEST_KEY = 1000  # characters as written: readers look for the colon within 1,024 (YAML 1.1, 7.4.2)
# Texts that are texts without quotes: words, paths, releases; not the words that YAML 1.1 takes for others.
_PLAIN = re.compile(r"[A-Za-z_][\w./+-]*|[0-9]+(\.[0-9]+){2}[\w.+-]*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
# What breaks the line, is hidden (YAML 1.2, 5.1 lacks some of it), or begins a command in a log.
_ESCAPED = re.compile(rf'["\\\\\t\n]|{HIDDEN.pattern}|{COMMAND_MARK}')


def yaml_value(value: Any) -> str:
    """Write a JSON value."""
    if isinstance(value, str):
        return yaml_scalar(value)
    if isinstance(value, list):
        return f"[{', '.join(map(yaml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(yaml_pair(key, each) for key, each in value.items())}}}"
    return canonical_text(value)


def yaml_pair(key: str, value: Any) -> str:
    """Write `key: value`."""
    return f"{yaml_scalar(key)}: {yaml_value(value)}"


def is_writable(value: Any, levels: int) -> bool:
    """Tell whether a JSON value has at most so many levels, and no key that is longer than readers look for a colon."""
    if isinstance(value, dict):
        fits = all(len(yaml_scalar(key)) <= LONGEST_KEY for key in value)
        return fits and levels > 0 and all(is_writable(each, levels - 1) for each in value.values())
    if isinstance(value, list):
        return levels > 0 and all(is_writable(each, levels - 1) for each in value)
    return True


def yaml_scalar(text: str) -> str:
    """Write a text, in quotes unless nobody could take it for anything else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return f'"{_ESCAPED.sub(_escape, text)}"'


def yaml_comment(text: str) -> str:
    """Write a comment on a line of its own, whatever the text holds."""
    return f"# {_ESCAPED.sub(_blank, text)}".rstrip()


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if match[0] in '"\\' else f"\\U{ord(match[0]):08x}"


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0] in '"\\' else " "


DEEPEST = 15  # levels of a value; the reader of options goes 20 deep, and a baseline's values begin two deep
# The engine computes these of other settings (vllm/config/cache.py): nothing sets them, so nobody agrees on them.
FOLLOWING = frozenset(
    {
        "cache_config.effective_attention_block_size",
        "cache_config.cache_hit_alignment_tokens",
        "cache_config.mamba_page_size_padded",
        "cache_config.skip_page_size_padded",
    }
)
BUILD_FACTS = "env.VLLM_BUILD_"  # how a wheel was built: the version says what was
HOW_TO = (
    f"Left out: what vLLM derives from other settings (sizes of CUDA graphs) and facts of a build ({BUILD_FACTS}*).",
    "A value that may differ goes from expected to tolerated: {any_of: [128, 256]}, {at_least: 0.9, at_most: 0.95}.",
    "Globs over settings that do not matter go under ignored. What stands behind a # is kept and shown.",
)
# Above hundreds of expected settings, each with the line to write: nobody finds them below. Empty, they say nothing.
NOT_YET = (
    "tolerated:",
    "  # cache_config.block_size: {any_of: [16, 32]}",
    "ignored:",
    "  # - observability_config.*",
)


def baseline_yaml(pool: str, settings: Mapping[str, Setting], *, made_of: str, context_line: str) -> str:
    """Write the file of a pool's baseline, in which every setting that people agree on is expected.

    Secrets, what is not known and what nobody sets are left out. `made_of` says whose settings they are, `context_line`
    of when.
    """
    told = agreeable(settings)
    head = [f"What the replicas of the pool {pool} should tell. Made of {made_of}.", context_line, *HOW_TO]
    lines = [yaml_comment(line) for line in head]
    lines += ["version: 1", f"pool: {yaml_scalar(pool)}", *NOT_YET, "expected:" if told else "expected: {}"]
    for number, (_, paths) in enumerate(groupby(sorted(told, key=place), key=section)):
        lines += [""] if number else []
        lines += [f"  {yaml_pair(path, told[path])}" for path in paths]
    return "\n".join(lines) + "\n"


def agreeable(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings that people agree on, as native JSON: those of `writable` without what nobody sets.

    That is what follows from other settings, and how vLLM was built.
    """
    left = FOLLOWING | derived_paths(settings)
    told = writable(settings)
    return {path: value for path, value in told.items() if path not in left and not path.startswith(BUILD_FACTS)}


def writable(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings that a baseline can expect, as native JSON: those that have a value, null included."""
    native = {path: json.loads(setting.value) for path, setting in settings.items() if is_comparable(setting.state)}
    return {path: value for path, value in native.items() if is_writable({path: value}, DEEPEST)}


def place(path: str) -> tuple[bool, str, str]:
    """Order paths: what stands in no section first, then section by section."""
    return "." in path, section(path), path


def section(path: str) -> str:
    """Return the section of a path; none of what stands in no section."""
    return path.partition(".")[0] if "." in path else ""


class Taken(NamedTuple):
    """Settings, and in words whose they are: `cohort A, 15 replicas`."""

    settings: Mapping[str, Setting]
    made_of: str


def taken_from(fleet: Fleet, pool: Pool, chosen: str) -> Taken | None:
    """Return what a cohort (its letter) or a replica (its id or its name) of a pool tells; None if there is none."""
    for cohort in pool.cohorts:
        if cohort.letter == chosen:
            return Taken(cohort.settings, f"cohort {chosen}, {count(len(cohort.replicas), 'replica')}")
    held = {member for cohort in pool.cohorts for member in cohort.held}
    for replica in fleet.replicas:
        if replica.id in held and chosen in {replica.id, replica.name}:
            return Taken(settings_of(pool, fleet.documents, replica.id), f"replica {replica.name}")
    return None


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
