"""Why a rank is short: its memory by part beside the median engine, on Capacity."""

from typing import Any

from dashboard.fleet import Device, Replica
from dashboard.fleet.pieces import to_plain
from dashboard.views.blocks import Block, Columns, Paragraph, Table, Tone
from dashboard.views.capacity_blocks import NO_MEMORY, memory_blocks
from dashboard.views.capacity_text import ranks_of
from tests.builders import GIB, document, engine, fleet, memory, replica

DOCUMENT = document()


def member(name: str, tokens: int, **gib: Any) -> Replica:
    devices = (Device(0, 0, "A", 80 * GIB, memory=memory(**gib)),) if gib else (Device(0, 0, "A", 80 * GIB),)
    return replica(name, document=DOCUMENT, devices=devices, engines=(engine(tokens),))


def blocks(*odd: Replica) -> tuple[Block, ...]:
    built = fleet([*(member(f"chat-{number}", 100, weights=30) for number in range(4)), *odd], [DOCUMENT])
    return memory_blocks(built, "chat", ranks_of(built))


def drawn(*odd: Replica) -> tuple[str, Table]:
    text, columns = blocks(*odd)
    assert isinstance(text, Paragraph)
    assert isinstance(columns, Columns)
    ((table,), _) = columns.columns
    assert isinstance(table, Table)
    return to_plain(text.line), table


def test_the_shortest_rank_names_the_part_that_explains_most_of_its_gap() -> None:
    text, table = drawn(member("short", 60, non_torch=12), member("less", 80, non_torch=8))

    assert text == "Why is short short? Another process probably holds 10.0 GiB of its device (gap: 10.0 GiB)."
    assert [cell.text for cell in table.rows[1]] == ["NCCL and other processes", "10.0", "12.0", "2.0"]
    assert [cell.text for row in table.rows for cell in row if cell.tone is Tone.WARNING] == ["10.0"]
    assert [cell.text for cell in table.rows[6]][1] == "−10.0"
    assert "-0.0" not in str(table.rows)


def test_without_a_part_that_explains_half_of_the_gap_the_text_says_so() -> None:
    text, _ = drawn(member("short", 60, weights=32, activation=5, cuda_graph=3))

    assert text == "Why is short short? No part of the memory explains most of the gap."


def test_a_rank_whose_worker_reports_no_memory_says_what_would_report_it() -> None:
    (note,) = blocks(member("short", 60))

    assert isinstance(note, Paragraph)
    assert to_plain(note.line) == NO_MEMORY


def test_nothing_is_drawn_where_no_rank_is_short() -> None:
    assert blocks() == ()
    assert blocks(member("more", 200, weights=10)) == ()
