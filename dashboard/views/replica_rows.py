"""The replicas of a fleet as a table: what is wrong first."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard.fleet import ReplicaState, formatting
from dashboard.report.replicas import table as replica_table
from dashboard.report.replicas.standing import mark
from dashboard.views.blocks import Cell, Column, Table, Tone, number_cell

Row = Mapping[Any, Any]

MOST_ROWS = 5_000
LONGEST_ADDRESS = 80  # characters
NOTE = (
    f"{replica_table.FINDINGS_NOTE} Differs in: settings that are not what most of its pool have; where no value has "
    "the majority, none counts."
)
_SHORT = (
    Column("Replica"),
    Column("State"),
    Column("Pool"),
    Column("vLLM"),
    Column("Findings"),
    Column("Differs in", is_number=True),
)
_LONG = (*_SHORT, Column("Best answer"), Column("Read"), Column("Started"), Column("Address", is_code=True))


def replicas_table(rows: pd.DataFrame, *, is_short: bool = False) -> Table:
    """Return a row for each row of `replica_table.rows_of`; `is_short` leaves out sources, times and addresses."""
    left = len(rows) - MOST_ROWS
    told = rows.head(MOST_ROWS)
    words = replica_table.shown(told, None).to_dict("records")
    found = told.to_dict("records")
    cells = [_short(row, word) for row, word in zip(found, words, strict=True)]
    if not is_short:
        cells = [(*first, *_rest(row, word)) for first, row, word in zip(cells, found, words, strict=True)]
    return Table(
        name="replicas",
        caption="Replicas",
        columns=_SHORT if is_short else _LONG,
        rows=tuple(cells),
        note=f"{NOTE} {left:,} more are not listed." if left > 0 else NOTE,
    )


def _short(row: Row, words: Row) -> tuple[Cell, ...]:
    standing = mark(ReplicaState(row["state"]))
    return (
        Cell(_text(words["Replica"]), letter=_text(row["cohort"])),
        Cell(_text(words["State"]).removeprefix(replica_table.SIGNS[standing]), standing),
        Cell(_text(words["Pool"])),
        Cell(_text(words["vLLM"])),
        Cell(_unmarked(words["Findings"]), Tone(row["worst"]) if row["worst"] else Tone.PLAIN),
        number_cell(_text(words["Differs in"]), _number(row["differences"])),
    )


def _rest(row: Row, words: Row) -> tuple[Cell, ...]:
    return (
        Cell(_text(row["best_answer"])),
        Cell(_text(words["Read"])),
        Cell(_time(row["started_at"])),
        Cell(formatting.middle_cut(formatting.one_line(row["id"]), LONGEST_ADDRESS)),
    )


def _unmarked(words: Any) -> str:
    """Leave out the glyph that the page puts before a severity: a report draws its own."""
    return _text(words).partition(" ")[2]


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _number(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _time(value: Any) -> str:
    return "" if pd.isna(value) else formatting.iso(value)
