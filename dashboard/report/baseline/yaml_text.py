"""JSON values as YAML that every reader of YAML takes for the same, each on one line."""

import re
from typing import Any

from dashboard.fleet.formatting import COMMAND_MARK, HIDDEN
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
