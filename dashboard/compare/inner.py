"""What differs inside two long values: items of a list, keys of an object."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dashboard.fleet.formatting import middle_cut, shortlist
from dashboard.fleet.replies import JsonText
from vllm_fleet_provider.shared.spelling import canonical_text

MOST_ITEMS = 4  # named on each side, the rest is counted
LONGEST_ITEM = 40  # characters of one of them


def inner_difference(reference: JsonText, value: JsonText) -> str:
    """Write what a value has in place of the reference's: `without 264 and 272; adds 2048`, `tp.size: 2 (4)`.

    Both are canonical JSON. Empty for values that are equal, or not both lists or both objects.
    """
    if reference[:1] not in {"[", "{"} or reference[:1] != value[:1]:
        return ""
    before, after = json.loads(reference), json.loads(value)
    if isinstance(before, list):
        has_common = any(each in after for each in before)
        return _lists(before, after) if has_common else ""  # the values themselves say it
    return shortlist(list(_objects(before, after)), MOST_ITEMS)


def _lists(before: list[Any], after: list[Any]) -> str:
    old, new = Counter(map(_text, before)), Counter(map(_text, after))
    sides = (("without", old - new), ("adds", new - old))
    parts = [f"{word} {shortlist(list(items.elements()), MOST_ITEMS)}" for word, items in sides if items]
    return "; ".join(parts) or ("" if before == after else "different order")


def _objects(before: dict[str, Any], after: dict[str, Any], path: str = "") -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        name = middle_cut(f"{path}{key}", LONGEST_ITEM)
        if key not in after:
            yield f"without {name}"
        elif key not in before:
            yield f"adds {name}: {_text(after[key])}"
        elif isinstance(before[key], dict) and isinstance(after[key], dict):
            yield from _objects(before[key], after[key], f"{path}{key}.")
        elif isinstance(before[key], list) and isinstance(after[key], list):
            if inside := _lists(before[key], after[key]):
                yield f"{name}: {inside}"
        elif before[key] != after[key]:
            yield f"{name}: {_text(after[key])} ({_text(before[key])})"


def _text(value: Any) -> str:
    return middle_cut(value if isinstance(value, str) else canonical_text(value), LONGEST_ITEM)
