"""The table of all replicas: its rows, what the filters leave of it, and its CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pandas as pd

from dashboard import wording
from dashboard.report.matrix_csv import safe
from dashboard.ui.replica_differences import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dashboard.fleet import Fleet

GLYPHS = {"up": "✓ up", "partial": "◐ partial", "down": "✕ down"}
WORST_FIRST = {"down": 0, "partial": 1, "up": 2}
SHOWN = ("State", "Replica", "Pool", "Cohort", "vLLM", "Differs in", "Read", "Reason", "Role", "Started")
FROM_FRAME = ("name", "pool", "role", "state", "reason", "version", "started_at", "observed_at", "document", "cohort")
EXPORTED = ("id", *FROM_FRAME, "differences", "labels")
LONGEST = 200  # characters of a foreign text in a cell


def rows_of(fleet: Fleet) -> pd.DataFrame:
    """Return a row per replica with the columns of EXPORTED, all text but `differences`, and `hay` to search in.

    What is wrong stands first: down, read in part, then what differs most from its pool, then the rest by name.
    """
    replicas = fleet.frames.replicas
    differ = numbers(fleet.pools, fleet.documents)
    labels = [" ".join(f"{key}={value}" for key, value in sorted(each.items())) for each in replicas["labels"]]
    table = pd.DataFrame(
        {
            "id": replicas["replica"],
            **{name: replicas[name] for name in FROM_FRAME},
            "differences": pd.Series(
                [differ.get(key) for key in zip(replicas["pool"], replicas["document"], strict=True)], dtype="Int64"
            ),
            "labels": pd.Series(labels, dtype="string"),
        }
    )
    table["hay"] = (table["name"] + " " + table["id"] + " " + table["labels"]).str.lower()
    table["worst"] = table["state"].map(WORST_FIRST).astype("int64")
    table["apart"] = -table["differences"].fillna(0).astype("int64")
    return table.sort_values(["worst", "apart", "name", "id"], ignore_index=True).drop(columns=["worst", "apart"])


def filtered(rows: pd.DataFrame, *, pool: str | None, state: str | None, search: str) -> pd.DataFrame:
    """Return the rows of a pool and a state whose name, address or labels hold every word of the search."""
    kept = pd.Series(data=True, index=rows.index)
    if pool is not None:
        kept &= (rows["pool"] == pool).fillna(value=False).astype(bool)
    if state is not None:
        kept &= (rows["state"] == state).astype(bool)
    for word in search.lower().split():
        kept &= rows["hay"].str.contains(word, regex=False).astype(bool)
    return rows[kept]


def shown(rows: pd.DataFrame, now: datetime) -> pd.DataFrame:
    """Return what the page shows of these rows: words for state and age, foreign text cut to one line."""
    return pd.DataFrame(
        {
            "State": rows["state"].map(GLYPHS),
            "Replica": _plain(rows["name"]),
            "Pool": _plain(rows["pool"]),
            "Role": rows["role"],
            "Cohort": rows["cohort"],
            "vLLM": _plain(rows["version"]),
            "Differs in": rows["differences"],
            "Read": _ages(rows["observed_at"], now),
            "Started": rows["started_at"],
            "Reason": _plain(rows["reason"]),
        },
        columns=pd.Index(SHOWN),
    )


def to_csv(rows: pd.DataFrame, notes: Sequence[str]) -> str:
    """Write these rows as CSV, times in ISO 8601; `notes` stand below, a line each."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EXPORTED)
    for row in rows[list(EXPORTED)].itertuples(index=False):
        writer.writerow([safe(_cell(value)) for value in row])
    writer.writerows([safe(note)] for note in notes)
    return out.getvalue()


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    return pd.Series(
        [None if pd.isna(text) else wording.middle_cut(wording.one_line(text), LONGEST) for text in column],
        index=column.index,
        dtype="string",
    )


def _ages(times: pd.Series[Any], now: datetime) -> pd.Series[Any]:
    seconds = (pd.Timestamp(now) - times).dt.total_seconds()
    told = ["never" if pd.isna(each) else wording.age(each) for each in seconds]
    return pd.Series(told, index=times.index, dtype="string")


def _cell(value: Any) -> str:
    if pd.isna(value):
        return ""
    return wording.iso(value) if isinstance(value, pd.Timestamp) else str(value)
