"""The matrix as CSV holds what the page shows, and runs in no spreadsheet."""

import csv
import io
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import MAJORITY, lay_out
from dashboard.fleet.formatting import FORMULA_STARTS, csv_cell
from dashboard.fleet.sightings import Sighting
from dashboard.render.csv_table import matrix_csv
from tests.builders import POLLED_AT, hostile, story


def parsed(text: str) -> list[list[str]]:
    """Read it back."""
    return list(csv.reader(io.StringIO(text)))


def test_a_row_per_path_and_a_column_per_cohort_with_values_uncut() -> None:
    """A list is whole; a string has quotes only where it reads as JSON."""
    built = story()
    lines = parsed(
        matrix_csv(
            lay_out(built.pools[0], built.documents, MAJORITY).table(),
            ["39 of 40, as of now"],
            {"http://chat-70b-17:8000": "chat-70b-17"},
        )
    )

    assert lines[0] == ["# 39 of 40", " as of now"]
    assert lines[1] == ["path", "A x15", "B x1 chat-70b-17", "C x1 http://chat-70b-16:8000"]
    assert ["cache_config.block_size", "16", "32", "16"] in lines
    assert ["cache_config.prefix_caching_hash_algo", "sha256_cbor", "sha256_cbor", "xxhash"] in lines


def test_columns_of_replicas_are_named() -> None:
    """A name where there is one, else the address."""
    built = story()
    pool = built.pools[0]
    shown = lay_out(pool, built.documents, MAJORITY, as_replicas=pool.replicas[:2]).table()

    assert parsed(matrix_csv(shown, (), {pool.replicas[0]: "first"}))[0] == ["path", "first", pool.replicas[1]]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@SUM(A1)", "  =1+1", "\t=1+1"])
def test_what_begins_like_a_formula_is_quoted(text: str) -> None:
    """A spreadsheet shows it and does not run it."""
    assert csv_cell(text).startswith("'")


@given(st.text())
def test_no_text_begins_like_a_formula_or_breaks_a_row(text: str) -> None:
    """Law of every cell."""
    cell = csv_cell(text)

    assert not cell.lstrip().startswith(FORMULA_STARTS) or re.fullmatch(r"-[0-9.]+(e[+-]?[0-9]+)?", cell, re.IGNORECASE)
    assert cell.isprintable()


def test_a_hostile_fleet_keeps_its_rows() -> None:
    """As many fields in every row as there are columns."""
    built = hostile()
    lines = parsed(matrix_csv(lay_out(built.pools[0], built.documents, MAJORITY).table(only_differences=False)))

    assert {len(line) for line in lines} == {3}


def test_the_last_columns_have_since_when_a_setting_differs() -> None:
    built = story()
    matrix = lay_out(built.pools[0], built.documents, MAJORITY).table()
    came = Sighting(POLLED_AT, POLLED_AT, POLLED_AT - timedelta(minutes=1))
    (heads, *lines) = parsed(matrix_csv(matrix, sightings={"cache_config.block_size": came}))
    times = {line[0]: line[-3:] for line in lines}

    assert heads[-3:] == ["first_seen", "since", "absent_at"]
    assert times["cache_config.block_size"] == ["2026-03-02T11:42:05Z"] * 2 + ["2026-03-02T11:41:05Z"]
    assert times["cache_config.prefix_caching_hash_algo"] == [""] * 3
    assert "since" not in parsed(matrix_csv(matrix))[0]
