"""Baselines as YAML files: written from what replicas report, and updated in place."""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias, cast

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node

from dashboard.analysis.assembly import Fleet
from dashboard.compare.baseline import is_agreed, is_ignored
from dashboard.compare.encoding import is_comparable
from dashboard.config.document import end_of
from dashboard.fleet import Baseline, Pool, Setting
from dashboard.fleet.formatting import COMMAND_MARK, HIDDEN, count
from dashboard.rules.apply_method import derived_paths
from dashboard.vllm.versions import EARLIEST
from vllm_fleet_provider.shared.spelling import canonical_text

LONGEST_KEY = 1000  # characters as written: readers look for the colon within 1,024 (YAML 1.1, 7.4.2)
DEEPEST = 15  # levels of a value; the options parser allows 20, and values of a baseline start at the second
# Strings that need no quotes: words, paths, releases, except the words that YAML 1.1 reads as other types.
_PLAIN = re.compile(r"[A-Za-z_][\w./+-]*|[0-9]+(\.[0-9]+){2}[\w.+-]*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
# Line breaks, hidden characters (YAML 1.2, 5.1 lacks some of them), and beginnings of commands in a CI log.
_ESCAPED = re.compile(rf'["\\\\\t\n]|{HIDDEN.pattern}|{COMMAND_MARK}')


def yaml_value(value: Any) -> str:
    """Write a JSON value on one line."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(yaml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(yaml_pair(key, each) for key, each in value.items())}}}"
    return canonical_text(value)


def yaml_pair(key: str, value: Any) -> str:
    return f"{_quoted(key)}: {yaml_value(value)}"


def _quoted(text: str) -> str:
    """Write a string, in quotes unless no YAML reader takes it for a different type."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    escaped = _ESCAPED.sub(lambda m: f"\\{m[0]}" if m[0] in '"\\' else f"\\U{ord(m[0]):08x}", text)
    return f'"{escaped}"'


def _comment(text: str) -> str:
    kept = _ESCAPED.sub(lambda match: match[0] if match[0] in {'"', "\\"} else " ", text)
    return f"# {kept}".rstrip()


def _is_writable(value: Any, levels: int) -> bool:
    """Return whether a JSON value has at most so many levels, and no key that is too long for readers."""
    if isinstance(value, dict):
        fits = all(len(_quoted(key)) <= LONGEST_KEY for key in value)
        return fits and levels > 0 and all(_is_writable(each, levels - 1) for each in value.values())
    if isinstance(value, list):
        return levels > 0 and all(_is_writable(each, levels - 1) for each in value)
    return True


# The engine derives these from other settings (vllm/config/cache.py); the last one is derived from its answers.
DERIVED = frozenset(
    {
        "cache_config.effective_attention_block_size",
        "cache_config.cache_hit_alignment_tokens",
        "cache_config.mamba_page_size_padded",
        "cache_config.skip_page_size_padded",
        EARLIEST,
    }
)
BUILD_FACTS = "env.VLLM_BUILD_"  # of a wheel: the version is compared instead
HOW_TO = (
    f"Not included: settings that vLLM derives from others (CUDA graph sizes), and build facts ({BUILD_FACTS}*).",
    "Move a value that may differ to tolerated: {any_of: [128, 256]}, {at_least: 0.9, at_most: 0.95}.",
    "List globs over irrelevant settings under ignored. Comments behind a value are kept and shown.",
)
# Above the expected settings, which are hundreds.
EMPTY_SECTIONS = (
    "tolerated:",
    "  # cache_config.block_size: {any_of: [16, 32]}",
    "ignored:",
    "  # - observability_config.*",
)


def find_settings(fleet: Fleet, pool: Pool, chosen: str) -> tuple[Mapping[str, Setting], str] | None:
    """Return the settings of a cohort (by letter) or a replica (by id or name) of a pool; None without it.

    With them comes their source as text: `cohort A, 15 replicas`.
    """
    for cohort in pool.cohorts:
        if cohort.letter == chosen:
            return cohort.settings, f"cohort {chosen}, {count(len(cohort.replicas), 'replica')}"
    for replica in fleet.replicas:
        if replica.document is not None and replica.id in pool.replicas and chosen in {replica.id, replica.name}:
            return fleet.documents[replica.document].settings, f"replica {replica.name}"
    return None


def baseline_yaml(pool: str, settings: Mapping[str, Setting], *, source: str, context_line: str) -> str:
    """Write a pool's baseline: every configurable setting is expected, without secrets and unknown values.

    `source` names where the settings are from, `context_line` the fleet and its time.
    """
    values = configurable(settings)
    lines = [*_source_lines(pool, source, context_line), *map(_comment, HOW_TO)]
    lines += ["version: 1", f"pool: {_quoted(pool)}", *EMPTY_SECTIONS, "expected:" if values else "expected: {}"]
    for number, (_, paths) in enumerate(groupby(sorted(values, key=_order), key=_section)):
        lines += [""] if number else []
        lines += [f"  {yaml_pair(path, values[path])}" for path in paths]
    return "\n".join(lines) + "\n"


def _source_lines(pool: str, source: str, context_line: str) -> tuple[str, str]:
    return _comment(f"Expected settings of pool {pool}. Source: {source}."), _comment(context_line)


def configurable(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings for a new baseline as native JSON: without derived ones and facts of the build."""
    left = DERIVED | derived_paths(settings)
    values = _known_values(settings)
    return {path: value for path, value in values.items() if path not in left and not path.startswith(BUILD_FACTS)}


def _known_values(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings with a value as native JSON, null included, as far as YAML can hold them."""
    native = {path: json.loads(setting.value) for path, setting in settings.items() if is_comparable(setting.state)}
    return {path: value for path, value in native.items() if _is_writable({path: value}, DEEPEST)}


def _order(path: str) -> tuple[bool, str, str]:
    """Order paths by section; those without a section are first."""
    return "." in path, _section(path), path


def _section(path: str) -> str:
    return path.partition(".")[0] if "." in path else ""


NodePair = tuple[Node, Node]  # a key and its value

INDENT = "  "
_TO_COLON = re.compile(r"\s*:")
# The first two lines that `baseline_yaml` writes, as long as they are those.
_SOURCE_LINES = re.compile(
    rf"# Expected settings of pool [^\r\n]* Source: [^\r\n]*(\r?\n)# [^\r\n]*(?=\r?\n{re.escape(_comment(HOW_TO[0]))})"
)
_REST_OF_LINE = re.compile(r"[^\r\n]*")
# The characters from a position to before another, and their replacement.
_Edit: TypeAlias = tuple[int, int, str]


class BaselineUpdate(NamedTuple):
    """A baseline's new text, and the paths that were changed, were added, and are expected but not reported.

    `commented` are the changed paths with a comment, which may need a change too.
    """

    text: str
    changed: tuple[str, ...]
    added: tuple[str, ...]
    not_reported: tuple[str, ...]
    commented: tuple[str, ...] = ()


def update_baseline(
    text: str, baseline: Baseline, settings: Mapping[str, Setting], *, source: str, context_line: str
) -> BaselineUpdate:
    """Update a baseline file to these settings. `baseline` was read from `text`.

    `source` and `context_line` replace those that `baseline_yaml` wrote, if a value was changed or added.

    Comments, order, tolerated and ignored settings are kept, and the spelling of unchanged values, also of settings
    that are not reported. New settings follow those of their section; derived ones are updated but not added.
    """
    values = _known_values(settings)
    expected = baseline.expected
    changed = tuple(
        path
        for path in expected
        if path in values
        and not is_ignored(baseline, path)
        and not is_agreed(path, expected[path], canonical_text(values[path]))
    )
    known = expected.keys() | baseline.tolerated.keys()
    new = [path for path in configurable(settings) if path not in known and not is_ignored(baseline, path)]
    added = {path: values[path] for path in sorted(new, key=_order)}
    # read_baseline accepted it: a mapping of a bounded depth, without aliases.
    root = cast("MappingNode", yaml.compose(text, Loader=yaml.SafeLoader))
    section = next((entry for entry in root.value if entry[0].value == "expected"), None)
    edits = [_changed(text, *_entry(section, path), values[path]) for path in changed]
    edits += _added(text, root, section, added) if added else []
    if edits and (head := _SOURCE_LINES.match(text)):
        edits.append((0, head.end(), head[1].join(_source_lines(baseline.pool, source, context_line))))
    for _, (start, end, new_text) in sorted(enumerate(edits), key=lambda each: (each[1][:2], each[0]), reverse=True):
        text = text[:start] + new_text + text[end:]
    not_reported = tuple(path for path in expected if path not in values)
    commented = tuple(path for path in changed if baseline.comments.get(path))
    return BaselineUpdate(text, changed, tuple(added), not_reported, commented)


def _entry(expected: NodePair | None, path: str) -> NodePair:
    entries: list[NodePair] = cast("NodePair", expected)[1].value
    return next(entry for entry in entries if entry[0].value == path)


def _changed(text: str, key: Node, value: Node, new: Any) -> _Edit:
    """Write a new value; a list or mapping over several lines becomes one line and keeps the comment of its key."""
    colon = _end_of(_TO_COLON, text, key.end_mark.index)
    start, end = max(value.start_mark.index, colon), max(end_of(text, value), colon)
    if isinstance(value, CollectionNode) and not value.flow_style:
        comment = text[colon : _end_of(_REST_OF_LINE, text, colon)].rstrip()
        return (colon, end, f" {yaml_value(new)}{comment}")
    return (start, end, yaml_value(new) if start > colon else f" {yaml_value(new)}")


def _added(text: str, root: MappingNode, expected: NodePair | None, new: Mapping[str, Any]) -> list[_Edit]:
    """Write new settings into `expected`: over lines, between braces, empty, or missing."""
    block = [f"{INDENT}{yaml_pair(path, value)}" for path, value in new.items()]
    if expected is None:
        last = end_of(text, root.value[-1][1])
        if root.flow_style:
            return [(last, last, f", {yaml_pair('expected', new)}")]
        return [_lines(text, last, ["expected:", *block])]
    key, value = expected
    if isinstance(value, MappingNode) and value.value:
        if not value.flow_style:
            return _among(text, value, new)
        last = end_of(text, value.value[-1][1])
        return [(last, last, "".join(f", {yaml_pair(path, each)}" for path, each in new.items()))]
    if root.flow_style:
        return [_changed(text, key, value, new)]
    start, end = value.start_mark.index, end_of(text, value)
    return [(start, end, ""), _lines(text, end, block)]


def _among(text: str, expected: MappingNode, new: Mapping[str, Any]) -> list[_Edit]:
    """Write new settings after the last one of their section; new sections are last."""
    last = {_section(key.value): value for key, value in expected.value}
    end = expected.value[-1][1]
    indent = " " * expected.value[0][0].start_mark.column
    edits = []
    for name, paths in groupby(new, key=_section):
        rows = [f"{indent}{yaml_pair(path, new[path])}" for path in paths]
        edits.append(_lines(text, end_of(text, last.get(name, end)), rows if name in last else ["", *rows]))
    return edits


def _lines(text: str, position: int, rows: Iterable[str]) -> _Edit:
    """Insert lines after the line of a position, with the file's line ends."""
    end = _end_of(_REST_OF_LINE, text, position)
    newline = "\r\n" if "\r\n" in text else "\n"
    return (end, end, "".join(f"{newline}{row}" for row in rows))


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start
