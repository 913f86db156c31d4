"""Finds sections, blocks and text in a view at any depth."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from dashboard.views.blocks import (
    Block,
    Chart,
    DifferenceTable,
    Entries,
    Entry,
    Figure,
    Figures,
    Section,
    Table,
    View,
    flat_blocks,
)


def parts_of(parts: Iterable[Section]) -> Iterator[Section]:
    """Every part, the inner ones too."""
    for part in parts:
        yield part
        yield from parts_of(part.parts)


def part(report: View, anchor: str) -> Section:
    """The part with this anchor."""
    return next(each for each in parts_of(report.parts) if each.anchor == anchor)


def blocks_of(parts: Iterable[Section]) -> Iterator[Block]:
    """Every block of these parts."""
    for each in parts_of(parts):
        yield from flat_blocks(each.blocks)


def entries_of(parts: Iterable[Section]) -> list[Entry]:
    """Every entry of these parts."""
    return [item for block in blocks_of(parts) if isinstance(block, Entries) for item in block.items]


def figures_of(parts: Iterable[Section]) -> list[Figure]:
    """Every figure of these parts."""
    return [item for block in blocks_of(parts) if isinstance(block, Figures) for item in block.items]


def tables_of(parts: Iterable[Section]) -> list[Table]:
    """Every plain table of these parts."""
    return [block for block in blocks_of(parts) if isinstance(block, Table)]


def files_of(parts: Iterable[Section]) -> list[str]:
    """The names of all that becomes a file of its own."""
    return [block.name for block in blocks_of(parts) if isinstance(block, Table | DifferenceTable | Chart)]


def text_of(content: Any) -> str:
    """All text of a section, a block or a view, in order, a line each."""
    return "\n".join(_lines(content))


def anchors_led_to(content: Any) -> set[str]:
    """Every anchor that a piece or a figure leads to."""
    if is_dataclass(content):
        return {anchor for value in _values(content) for anchor in anchors_led_to(value)}
    if hasattr(content, "_fields"):
        own = {content.anchor} - {""} if hasattr(content, "anchor") else set()
        return own.union(*(anchors_led_to(each) for each in content))
    if isinstance(content, tuple | list):
        return set().union(*map(anchors_led_to, content))
    return set()


def _lines(content: Any) -> Iterator[str]:
    if isinstance(content, Enum) or content is None:
        return
    if isinstance(content, str):
        yield content
    elif isinstance(content, DifferenceTable):
        yield from (content.caption, *(row.label for row in content.matrix.rows), *content.notes)
    elif is_dataclass(content):
        for value in _values(content):
            yield from _lines(value)
    elif isinstance(content, tuple) and content and all(hasattr(each, "style") for each in content):
        yield "".join(each.text for each in content)
    elif isinstance(content, tuple | list):
        for each in content:
            yield from _lines(each)


def _values(content: Any) -> list[Any]:
    """The values of a dataclass; of a section its blocks, also where they are made when they are read."""
    names = [each.name for each in fields(content)]
    return [getattr(content, "blocks" if name == "content" else name) for name in names]


def places_of(report: View) -> set[str]:
    """Where links within a report can lead."""
    return {each.anchor for each in parts_of(report.parts)} | {each.anchor for each in entries_of(report.parts)}
