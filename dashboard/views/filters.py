"""The text of a search box: words, and filters that are written `key:value`.

    read_search('state:down pool:"two words" chat-7', {"state": FilterKey(("up", "down")), "pool": FilterKey(pools)})

Values of one key are alternatives; every key and every word has to match. `version:0.32` is every version that begins
so, unless one is equal to it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple

from dashboard.fleet.formatting import MANY, shortlist
from dashboard.views.names import brief

_PART = re.compile(r'(?:(?P<key>[A-Za-z]+):)?(?:"(?P<quoted>(?:[^"\\]|\\.)*)"?|(?P<bare>[^\s"]\S*))')
_PLAIN = re.compile(r'[^\s"\\]+')


class FilterKey(NamedTuple):
    """The values of a key to choose from, and a pattern of others that a text may have."""

    values: Sequence[str] = ()
    others: str = ""


class Search(NamedTuple):
    """What a text selects: everything that has all `words` and, of each key in `chosen`, one of its values.

    `problems` are a sentence for each filter that is ignored.
    """

    text: str = ""
    words: tuple[str, ...] = ()
    chosen: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    problems: tuple[str, ...] = ()

    def allows(self, key: str, *values: str | None) -> bool:
        """Return whether one of the values is chosen, or the key is not in the text."""
        wanted = self.chosen.get(key)
        return wanted is None or any(each in wanted for each in values)

    def is_in(self, searched: str) -> bool:
        """Return whether a text in lower case has every word."""
        return all(word in searched for word in self.words)


EVERYTHING = Search()


def read_search(text: str, keys: Mapping[str, FilterKey]) -> Search:
    """Read the text of a search box. What is no filter of `keys` is ignored, with a sentence."""
    words, problems = [], []
    chosen: dict[str, dict[str, None]] = {}
    for part in _PART.finditer(text):
        key = (part["key"] or "").lower()
        value = part["bare"] or re.sub(r"\\(.)", r"\1", part["quoted"] or "")
        if not key:
            if value.removesuffix(":").lower() not in keys or not value.endswith(":"):  # a filter that is being typed
                words.append(value.lower())
        elif key not in keys:
            if value.isdecimal() or value.startswith("//"):  # a port, an address
                words.append(part.group().lower())
            else:
                problems.append(f"Ignored {_quote(part.group())}: unknown filter. {_suggest(key, list(keys))}")
        elif value:
            found = _values(value, keys[key])
            if found:
                chosen.setdefault(key, {}).update(dict.fromkeys(found))
            else:
                problems.append(f"Ignored {_quote(part.group())}: unknown value. {_suggest(value, keys[key].values)}")
    return Search(text, tuple(words), {key: tuple(values) for key, values in chosen.items()}, tuple(problems))


def write_filter(key: str, value: str) -> str:
    """Return a filter as text: `pool:chat`, `pool:"two words"`."""
    return f"{key}:{value}" if _PLAIN.fullmatch(value) else '{}:"{}"'.format(key, re.sub(r'(["\\])', r"\\\1", value))


def replace_filters(text: str, key: str, values: Iterable[str]) -> str:
    """Return the text with these values of a key, in place of those that it has."""
    rest = [part.group() for part in _PART.finditer(text) if (part["key"] or "").lower() != key]
    return " ".join([*rest, *(write_filter(key, value) for value in values)])


def _values(value: str, key: FilterKey) -> list[str]:
    lower = value.lower()
    if key.others and re.fullmatch(key.others, value):
        return [value]
    equal = [each for each in key.values if each.lower() == lower]
    return equal or [each for each in key.values if each.lower().startswith(lower)]


def _quote(text: str) -> str:
    return f"“{brief(text)}”"


def _suggest(text: str, known: Sequence[str]) -> str:
    close = get_close_matches(text.lower(), known, 1)
    return f"Did you mean {brief(close[0])}?" if close else f"Known: {shortlist(map(brief, known), MANY) or 'none'}."
