"""One report inside another: its parts under a heading, their anchors under a prefix."""

from collections.abc import Iterable
from dataclasses import replace

from dashboard.fleet.pieces import Kind, Target, section
from dashboard.views.blocks import Block, Chart, DifferenceTable, Entries, Figures, Section, Table


def nested(parts: Iterable[Section], prefix: str) -> tuple[Section, ...]:
    """Return these parts as parts of another report: no anchor and no file name is one of its own."""
    return tuple(_part(part, prefix) for part in parts)


def _part(part: Section, prefix: str) -> Section:
    return replace(
        part,
        anchor=f"{prefix}-{part.anchor}",
        blocks=tuple(_block(block, prefix) for block in part.blocks),
        parts=nested(part.parts, prefix),
        is_appendix=False,
    )


def _block(block: Block, prefix: str) -> Block:
    if isinstance(block, Figures):
        return Figures(tuple(each._replace(target=_target(each.target, prefix)) for each in block.items))
    if isinstance(block, Table):
        return _table(block, prefix)
    if isinstance(block, Entries):
        return replace(block, data=block.data and _table(block.data, prefix))
    if isinstance(block, DifferenceTable | Chart):
        return replace(block, name=f"{prefix}-{block.name}")
    return block


def _target(target: Target | None, prefix: str) -> Target | None:
    return section(f"{prefix}-{target.anchor}") if target and target.kind is Kind.SECTION else target


def _table(table: Table, prefix: str) -> Table:
    return replace(table, name=f"{prefix}-{table.name}", data=table.data and _table(table.data, prefix))
