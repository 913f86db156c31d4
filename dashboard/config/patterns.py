"""Regular expressions that the operator writes: valid, and of a kind that takes time in proportion to the text."""

import re
from itertools import pairwise
from math import prod

LONGEST = 200  # characters of a pattern
MOST_WAYS = 1_000  # in which its repetitions can share a text: each may be tried at each letter
_PART = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<group>\((?:\?(?::|[aims]+\)))?)|(?P<close>\))"
    r"|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}|(?P<endless>[*+])|(?P<maybe>\?)|(?P<either>\|)|.",
    re.DOTALL,
)


def word(name: str) -> str:
    """Return the last words of a name; raise ValueError where they are none."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _-]{1,99}", name):
        raise ValueError("no name of a setting; write its last words, such as license_id")
    return name


def checked(pattern: str) -> str:
    """Return a pattern that may be searched in what replicas say; raise ValueError with what is wrong with it."""
    if len(pattern) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters; shorten it")
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"no regular expression ({error}); write one as Python's re has them") from None
    if any((found := compiled.search(text)) and not found[0].strip() for text in ("", "a 1")):
        raise ValueError("matches an empty text or a blank; write what the secret looks like")
    parts = list(_PART.finditer(pattern))
    ways = prod(_ways(part, before, is_last=part is parts[-1]) for before, part in pairwise([None, *parts]) if part)
    if ways > MOST_WAYS:
        raise ValueError("can match one text in too many ways; narrow its {m,n}")
    return pattern


def _ways(part: re.Match[str], before: re.Match[str] | None, *, is_last: bool) -> int:
    """Return in how many ways one part can match; raise ValueError where that has no bound."""
    if (part["escape"] or "")[1:].isdecimal():
        raise ValueError("refers to a group; write it without \\1")
    if part["group"] == "(" and part.string[part.end() : part.end() + 1] == "?":
        raise ValueError("has a group of a kind that is not read; write (?:...)")
    repeats = part["endless"] or part["maybe"] or part["least"] is not None
    if repeats and before is not None and before["close"]:
        raise ValueError("repeats a group; write {m,n} after single letters or sets only")
    if part["endless"] or (part["comma"] and not part["most"]):
        if not is_last:
            raise ValueError("has * or + before its end; write {1,100} there")
        return 1
    if part["comma"]:
        return int(part["most"]) - int(part["least"] or 0) + 1
    return 2 if part["maybe"] or part["either"] else 1
