"""The table of all replicas: its rows, what the filters leave of it, and its CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState, Role, Source, formatting
from dashboard.fleet.formatting import csv_cell
from dashboard.fleet.frames import replicas_frame
from dashboard.report.replicas.differences import numbers
from dashboard.report.replicas.sources import best_answer
from dashboard.report.replicas.standing import mark
from dashboard.rules.findings import Severity, tally_replicas
from dashboard.views.blocks import Tone

SIGNS = {Tone.PLAIN: "", Tone.UNKNOWN: "? "}  # before the word of a state
WORST = {"critical": "! critical", "warning": "▲ warning", "info": "i info"}
SHOWN = (
    "State",
    "Replica",
    "Findings",
    "Pool",
    "Cohort",
    "Differs in",
    "vLLM",
    "Reason",
    "Best answer",
    "Read",
    "Role",
    "Started",
)
FINDINGS_NOTE = "Findings: the worst, how many of these (×), and how many milder ones (+)."
_KINDS: Mapping[str, str] = {str(kind): words for kind, words in formatting.FAILURE_WORDS.items()}
FROM_FRAME = ("name", "pool", "role", "state", "reason", "version", "started_at", "observed_at", "document", "cohort")
SEVERITIES = tuple(map(str, Severity))
EXPORTED = ("id", *FROM_FRAME, "best_answer", "differences", "worst", *SEVERITIES, "labels")
LONGEST = 200  # characters of a foreign text in a cell


def rows_of(fleet: Fleet) -> pd.DataFrame:
    """Return a row per replica with the columns of EXPORTED, all text but `differences`, and `hay` to search in.

    What is wrong stands first: down, then by findings, read in part, what differs most from its pool, the rest by name.
    `worst` is the worst severity of the replica's findings, empty without one; their numbers stand beside it.
    """
    replicas = replicas_frame(fleet.replicas, fleet.pools)
    differ = numbers(fleet.pools, fleet.documents)
    tallies = tally_replicas(fleet.inspection, fleet.replicas)
    found = [tallies[each] for each in replicas["replica"]]
    labels = [" ".join(f"{key}={value}" for key, value in sorted(each.items())) for each in replicas["labels"]]
    table = pd.DataFrame(
        {
            "id": replicas["replica"],
            **{name: replicas[name] for name in FROM_FRAME},
            "best_answer": pd.Series([best_answer(map(Source, each)) for each in replicas["sources"]], dtype="string"),
            "differences": pd.Series(
                [differ.get(key) for key in zip(replicas["pool"], replicas["document"], strict=True)], dtype="Int64"
            ),
            "worst": pd.Series([each.worst or "" for each in found], dtype="string"),
            **{name: pd.Series([getattr(each, name) for each in found], dtype="int64") for name in SEVERITIES},
            "labels": pd.Series(labels, dtype="string"),
        }
    )
    table["hay"] = (table["name"] + " " + table["id"] + " " + table["labels"]).str.lower()
    table["up"] = table["state"] != "down"
    table["whole"] = table["state"] != "partial"
    table["rank"] = table["worst"].map({name: rank for rank, name in enumerate(SEVERITIES)}).fillna(len(SEVERITIES))
    table["apart"] = -table["differences"].fillna(0).astype("int64")
    order = ["up", "rank", "whole", "apart", "name", "id"]
    return table.sort_values(order, ignore_index=True).drop(columns=["up", "rank", "whole", "apart"])


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


def shown(rows: pd.DataFrame, now: datetime | None) -> pd.DataFrame:
    """Return what the page shows of these rows: words for state and age, foreign text cut to one line.

    Without `now` times are told instead of ages, for an age is misread as soon as the clock it is told by stands. What
    a narrow page does not hold stands last, and is left out where it says nothing.
    """
    silent = {"Role"} if rows["role"].eq(Role.BOTH).all() else set()
    silent |= set() if rows["reason"].notna().any() else {"Reason"}
    return pd.DataFrame(
        {
            "State": _states(rows),
            "Findings": _findings(rows),
            "Replica": _plain(rows["name"]),
            "Pool": _plain(rows["pool"]),
            "Role": rows["role"],
            "Cohort": rows["cohort"],
            "vLLM": _plain(rows["version"]),
            "Best answer": rows["best_answer"],
            "Differs in": rows["differences"],
            "Read": _read(rows["observed_at"], now),
            "Started": rows["started_at"],
            "Reason": _plain(_reasons(rows)["sentence"]),
        },
        columns=pd.Index([name for name in SHOWN if name not in silent]),
    )


def _reasons(rows: pd.DataFrame) -> pd.DataFrame:
    """Part the frame's `decode: ...` into the kind of failure as people call it, `unreadable answer`, and the rest."""
    parts = [("", "", None) if pd.isna(reason) else str(reason).partition(": ") for reason in rows["reason"]]
    told = [(_KINDS.get(kind, kind), sentence) for kind, _, sentence in parts]
    return pd.DataFrame(told, index=rows.index, columns=["kind", "sentence"], dtype="string")


def _states(rows: pd.DataFrame) -> pd.Series[Any]:
    """Write how each replica stands and the kind of what is wrong: `? down, timeout`; the sentence stands beside."""
    kinds = _reasons(rows)["kind"]
    signs = [SIGNS[mark(ReplicaState(state))] for state in rows["state"]]
    told = [
        f"{sign}{state}{f', {kind}' if kind else ''}"
        for sign, state, kind in zip(signs, rows["state"], kinds, strict=True)
    ]
    return pd.Series(told, index=rows.index, dtype="string")


def _findings(rows: pd.DataFrame) -> pd.Series[Any]:
    """Write the worst severity, how many findings there are of it, and how many others: `! critical ×2 +5`."""
    numbers_of = zip(rows["worst"], *(rows[name] for name in SEVERITIES), strict=True)
    told = [_worst(worst, dict(zip(SEVERITIES, counts, strict=True))) for worst, *counts in numbers_of]
    return pd.Series(told, index=rows.index, dtype="string")


def _worst(worst: str, counts: Mapping[str, int]) -> str | None:
    if not worst:
        return None
    number, others = counts[worst], sum(counts.values()) - counts[worst]
    return f"{WORST[worst]}{f' ×{number:,}' if number > 1 else ''}{f' +{others:,}' if others else ''}"


def to_csv(rows: pd.DataFrame, notes: Sequence[str]) -> str:
    """Write these rows as CSV, times in ISO 8601; `notes` stand below, a line each."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EXPORTED)
    for row in rows[list(EXPORTED)].itertuples(index=False):
        writer.writerow([csv_cell(_cell(value)) for value in row])
    writer.writerows([csv_cell(note)] for note in notes)
    return out.getvalue()


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    return pd.Series(
        [None if pd.isna(text) else formatting.middle_cut(formatting.one_line(text), LONGEST) for text in column],
        index=column.index,
        dtype="string",
    )


def _read(times: pd.Series[Any], now: datetime | None) -> pd.Series[Any]:
    """Write when each replica was read: how long ago, or, without `now`, the time."""
    told = ["never" if pd.isna(each) else formatting.when(each, now) for each in times]
    return pd.Series(told, index=times.index, dtype="string")


def _cell(value: Any) -> str:
    if pd.isna(value):
        return ""
    return formatting.iso(value) if isinstance(value, pd.Timestamp) else str(value)
