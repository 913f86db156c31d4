"""Reports of what changed between two small fleets, and what stands in their parts."""

from collections.abc import Iterable
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.fleet import Replica
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Table, View
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from tests.analysis.changes.sides import LATER, NEW, OLD, chat, fleet
from tests.views.walking import part

ODD = [*chat(3), *chat(1, NEW, first=4)]


def report(before: Iterable[Replica], after: Iterable[Replica], *told: Any, **more: Any) -> View:
    documents = (OLD, NEW, *told)
    then, now = fleet(*before, told=documents), fleet(*after, told=documents, polled_at=LATER, **more)
    return of(then, now)


def of(then: Fleet, now: Fleet) -> View:
    return changes_report(changes_between(then, now), context_of(then), context_of(now, name="Monday"))


def blocks(told: View, anchor: str, kind: type[Block]) -> list[Any]:
    return [each for each in part(told, anchor).blocks if isinstance(each, kind)]


def entries(told: View, anchor: str) -> list[Entry]:
    return [item for block in blocks(told, anchor, Entries) for item in block.items]


def text(line: Iterable[Any]) -> str:
    return "".join(piece.text for piece in line)


def lines(entry: Entry) -> list[str]:
    return [text(line) for line in entry.lines]


def paragraphs(told: View, anchor: str) -> list[str]:
    return [text(each.line) for each in blocks(told, anchor, Paragraph)]


def rows(told: View, anchor: str) -> list[list[str]]:
    (table,) = blocks(told, anchor, Table)
    return [[cell.text for cell in row] for row in table.rows]
