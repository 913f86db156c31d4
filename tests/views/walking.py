"""Walks through a report: its parts, blocks and texts, whatever they are nested in."""

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


def text_of(told: Any) -> str:
    """All words of a part, a block or a report, in their order, those of one line together."""
    return "\n".join(_lines(told))


def anchors_led_to(told: Any) -> set[str]:
    """Every anchor that a piece or a figure leads to."""
    if is_dataclass(told):
        return {anchor for each in fields(told) for anchor in anchors_led_to(getattr(told, each.name))}
    if hasattr(told, "_fields"):
        own = {told.anchor} - {""} if hasattr(told, "anchor") else set()
        return own.union(*(anchors_led_to(each) for each in told))
    if isinstance(told, tuple | list):
        return set().union(*map(anchors_led_to, told))
    return set()


def _lines(told: Any) -> Iterator[str]:
    if isinstance(told, Enum) or told is None:
        return
    if isinstance(told, str):
        yield told
    elif isinstance(told, DifferenceTable):
        yield from (told.caption, *(row.label for row in told.matrix.rows), *told.notes)
    elif is_dataclass(told):
        for each in fields(told):
            yield from _lines(getattr(told, each.name))
    elif isinstance(told, tuple) and told and all(hasattr(each, "style") for each in told):
        yield "".join(each.text for each in told)
    elif isinstance(told, tuple | list):
        for each in told:
            yield from _lines(each)


def places_of(report: View) -> set[str]:
    """Where links within a report can lead."""
    return {each.anchor for each in parts_of(report.parts)} | {each.anchor for each in entries_of(report.parts)}
