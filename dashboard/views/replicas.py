"""The page Replicas: every replica in one table, the worst first, and its CSV."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, ReplicaState, Role, Source, formatting
from dashboard.fleet.formatting import STALE_TARGET, count, middle_cut, natural, one_line
from dashboard.fleet.frames import replicas_frame
from dashboard.fleet.pieces import Kind, Link, plain
from dashboard.fleet.sightings import Sighting
from dashboard.rules.findings import Severity, tally_replicas
from dashboard.views.blocks import Block, Cell, Column, Paragraph, Section, Table, Tone, View, data_table, number_cell
from dashboard.views.context import context_of
from dashboard.views.excluded import state_tone, unread_entries
from dashboard.views.glossary import COHORT, POOL, glossary
from dashboard.views.pages import REPLICAS
from dashboard.views.replica_settings import pool_differences
from dashboard.views.since import SINCE, since_cell
from dashboard.views.sorting import REVERSED, link_head, sort_name, sort_names
from dashboard.views.summary import replicas_title, summarize
from dashboard.vllm.merging import TRUST

TABLE = "replicas"  # anchor of the section with the table
MOST_ROWS = 5_000
LONGEST = 200  # characters of a foreign text in a cell
SEVERITIES = tuple(map(str, Severity))
TITLES = (
    *("Replica", "State", "Pool", "vLLM", "Findings", "Differs in", "Since", "Reason", "Source", "Read", "Role"),
    *("Started", "Address"),
)
SHORT = ("Replica", "State", "Pool", "vLLM", "Findings", "Differs in", "Since")  # columns of the short table
NOTE = (
    "Findings: worst severity, number of findings with it (×), number of milder ones (+). "
    "Differs in: settings that differ from the majority of the pool."
)
SEARCHED = (
    "id",
    "labels",
    "pool",
    "role",
    "state",
    "failure",
    "detail",
    "version",
    "cohort",
    "best_answer",
    "worst",
)
CSV_COLUMNS = (
    *("id", "name", "pool", "role", "state", "reason", "version", "started_at", "observed_at", "document", "cohort"),
    *("best_answer", "differences", "worst", *SEVERITIES, "labels", *Sighting._fields),
)


INCOMPLETE = "incomplete"  # as a state: down or partial
SORTED_BY = {
    "Replica": "name",
    "State": "state",
    "Pool": "pool",
    "vLLM": "version",
    "Findings": "worst",
    "Differs in": "differences",
    "Since": "since",
    "Source": "best_answer",
    "Read": "observed_at",
    "Role": "role",
    "Started": "started_at",
    "Address": "id",
}  # title -> column of the rows


class ReplicaChoice(NamedTuple):
    """The choice of a reader: filters (None and empty: all), the sort, and the columns after the first.

    `search` are words of any column or label, `severities` those of findings of a replica, `cohorts` letters, `sources`
    words for the most trusted source. `sort` is a name of `SORTS`; empty: the worst first.
    """

    pool: str | None = None
    state: str | None = None
    search: str = ""
    versions: tuple[str, ...] = ()
    cohorts: tuple[str, ...] = ()
    severities: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    sort: str = ""
    columns: tuple[str, ...] = ()


EVERY_REPLICA = ReplicaChoice()
SORTS = sort_names(SORTED_BY)


def replicas_report(
    fleet: Fleet,
    choice: ReplicaChoice = EVERY_REPLICA,
    *,
    rows: pd.DataFrame | None = None,
    now: datetime | None = None,
    name: str = "",
) -> View:
    """Return the replicas that match the filters.

    `rows` are those of `replica_rows`, where they are known. Ages count from `now`; without it times are shown.
    """
    summary = summarize(fleet)
    rows = chosen_rows(replica_rows(fleet) if rows is None else rows, choice)
    shown = set(rows["id"])
    unread = unread_entries(each for each in summary.unread if each.id in shown)
    none = Paragraph(plain("No replica matches the filters."))
    table: Block = replicas_table(rows, now, choice.columns, choice.sort) if len(rows) else none
    return View(
        title="Replicas",
        headline=replicas_title(summary),
        lead=f"{len(rows):,} of {count(summary.replicas, 'replica')} shown, {count(summary.pools, 'pool')}.",
        context=context_of(fleet, name=name, filters=_filters(choice)),
        parts=(
            *([Section("not-read", "Unreachable or partial", unread, is_exported_only=True)] if unread else []),
            Section(TABLE, "Replicas", (table,)),
            glossary((POOL, COHORT)),
        ),
    )


def _filters(choice: ReplicaChoice) -> list[tuple[str, str]]:
    texts = {key: each if isinstance(each, str) else ", ".join(each or ()) for key, each in choice._asdict().items()}
    return [(key, text) for key, text in texts.items() if text]


def replica_rows(fleet: Fleet) -> pd.DataFrame:
    """Return the frame `replicas` with findings and differences, and `text` to search in.

    Unreachable replicas are first, then the worst findings, partial replicas, most differences, names.
    """
    replicas = fleet.replicas
    tallies = tally_replicas(fleet.inspection, replicas)
    differ = pool_differences(fleet.pools, fleet.documents)
    table = replicas_frame(replicas, fleet.pools, fleet.read_at).rename(columns={"replica": "id"})
    table = table.assign(
        failure=_texts(map(_failure, replicas)),
        detail=_texts(map(_detail, replicas)),
        best_answer=_texts(best_source(each.sources) for each in replicas),
        differences=pd.Series([differ.get((each.pool, each.document)) for each in replicas], dtype="Int64"),
        worst=_texts(tallies[each.id].worst or "" for each in replicas),
        labels=_texts(" ".join(f"{key}={text}" for key, text in sorted(each.labels.items())) for each in replicas),
        **{
            name: pd.Series([getattr(tallies[each.id], name) for each in replicas], dtype="int64")
            for name in SEVERITIES
        },
        **_sightings(fleet),
    )
    table["text"] = table["name"].str.cat(table[list(SEARCHED)], sep=" ", na_rep="").str.lower()
    times = (table[each].dt.strftime("%Y-%m-%dT%H:%M:%SZ").str.lower() for each in ("observed_at", "started_at"))
    table["times"] = _texts([""] * len(table)).str.cat(list(times), sep="\n", na_rep="")
    order = pd.DataFrame(
        {
            "up": table["state"] != "down",
            "rank": table["worst"].map({name: rank for rank, name in enumerate(SEVERITIES)}).fillna(len(SEVERITIES)),
            "whole": table["state"] != "partial",
            "differ": -table["differences"].fillna(0).astype("int64"),
            "name": table["name"],
            "id": table["id"],
        }
    )
    return table.loc[order.sort_values(list(order.columns)).index].reset_index(drop=True)


def chosen_rows(rows: pd.DataFrame, choice: ReplicaChoice) -> pd.DataFrame:
    """Return the rows that match all filters, sorted. Each word of a search is in some column, or begins a time."""
    kept = pd.Series(data=True, index=rows.index)
    one = {"pool": choice.pool, "state": None if choice.state == INCOMPLETE else choice.state}
    several = {"version": choice.versions, "cohort": choice.cohorts, "best_answer": choice.sources}
    if choice.state == INCOMPLETE:
        kept &= rows["state"].ne(ReplicaState.UP)
    for column, value in one.items():
        if value is not None:
            kept &= rows[column].isin([value])
    for column, values in several.items():
        if values:
            kept &= rows[column].isin(values)
    if choice.severities:
        kept &= rows[list(choice.severities)].gt(0).any(axis=1)
    for word in choice.search.lower().split():
        times = rows["times"].str.contains(f"\n{word}", regex=False)  # `03` is a name's, not a month
        kept &= (rows["text"].str.contains(word, regex=False) | times).astype(bool)
    return _sorted(rows[kept], choice.sort)


def _sorted(rows: pd.DataFrame, sort: str) -> pd.DataFrame:
    """Sort rows by a column; those without a value are last in both directions. Severities ascend from the mildest."""
    if not sort:
        return rows
    column = next(column for title, column in SORTED_BY.items() if sort_name(title) == sort.removeprefix(REVERSED))
    keys: list[Any]
    if column == "worst":
        keys = [each if any(each) else None for each in rows[list(SEVERITIES)].itertuples(index=False, name=None)]
    else:
        filled = rows[column].where(rows[column] != "")
        keys = [None if pd.isna(each) else natural(each) if isinstance(each, str) else each for each in filled]
    known = [place for place, key in enumerate(keys) if key is not None]
    missing = [place for place, key in enumerate(keys) if key is None]
    return rows.iloc[[*sorted(known, key=keys.__getitem__, reverse=sort.startswith(REVERSED)), *missing]]


def replicas_table(
    rows: pd.DataFrame,
    now: datetime | None = None,
    chosen: Sequence[str] = (),
    sort: str | None = None,
    *,
    is_short: bool = False,
) -> Table:
    """Return the table of these rows, with the `chosen` columns after the first; empty: all.

    With the `sort` of the rows the heads sort them otherwise. `is_short` leaves out reasons, sources, times and
    addresses.
    """
    hidden = len(rows) - MOST_ROWS
    first = rows.head(MOST_ROWS)
    columns = _columns(first, now)
    if is_short:
        chosen = SHORT
    if chosen:
        columns = {column: cells for column, cells in columns.items() if column.title in {TITLES[0], *chosen}}
    return Table(
        name="replicas",
        caption="Replicas",
        columns=tuple(
            each if sort is None or each.title not in SORTED_BY else link_head(each, sort, REPLICAS) for each in columns
        ),
        rows=tuple(zip(*columns.values(), strict=True)),
        note=f"{NOTE} {hidden:,} more are not listed." if hidden > 0 else NOTE,
        is_large=not is_short,
    )


def replicas_data(rows: pd.DataFrame) -> Table:
    """Return these rows for programs: times in ISO 8601, severities as numbers of findings."""
    values = rows[list(CSV_COLUMNS)].astype(object)
    columns = tuple(Column(name, is_number=name in {"differences", *SEVERITIES}) for name in CSV_COLUMNS)
    return data_table("replicas", "Replicas", columns, (map(_plain, row) for row in values.itertuples(index=False)))


def best_source(sources: Sequence[Source]) -> str | None:
    """Return the most trusted source that answered; None without any."""
    best = min(sources, key=TRUST.__getitem__, default=None)
    return formatting.SOURCE_WORDS[best] if best is not None else None


def _columns(rows: pd.DataFrame, now: datetime | None) -> dict[Column, list[Cell]]:
    """Return the cells by column. Reasons, roles and times since are left out where no replica has one to show."""
    columns = {
        Column("Replica"): [
            Cell(_cut(name), letter=_cut(letter), link=Link(Kind.REPLICA, key))
            for name, letter, key in zip(rows["name"], rows["cohort"], rows["id"], strict=True)
        ],
        Column("State"): [
            Cell(f"{state}, {failure}" if failure else state, state_tone(ReplicaState(state)))
            for state, failure in zip(rows["state"], rows["failure"], strict=True)
        ],
        Column("Pool"): _cells(rows["pool"]),
        Column("vLLM"): _cells(rows["version"]),
        Column("Findings"): [
            _findings(worst, counts) for worst, *counts in rows[["worst", *SEVERITIES]].itertuples(index=False)
        ],
        Column("Differs in", is_number=True): [
            Cell("") if pd.isna(number) else number_cell(f"{number:,}", int(number)) for number in rows["differences"]
        ],
        SINCE: [since_cell(each, now) for each in rows["sighting"]],
        Column("Reason"): _cells(rows["detail"]),
        Column("Source", key="Best answer"): _cells(rows["best_answer"]),
        Column("Read"): [
            Cell("never" if pd.isna(each) else formatting.when(each, now)) for each in rows["observed_at"]
        ],
        Column("Role"): _cells(rows["role"]),
        Column("Started"): [Cell("" if pd.isna(each) else formatting.iso(each)) for each in rows["started_at"]],
        Column("Address", is_code=True): _cells(rows["id"]),
    }
    unused = {"Role"} if rows["role"].eq(Role.BOTH).all() else set()
    unused |= set() if rows["detail"].ne("").any() else {"Reason"}
    unused |= set() if rows["since"].notna().any() else {SINCE.title}
    return {column: cells for column, cells in columns.items() if column.title not in unused}


def _findings(worst: str, counts: Sequence[int]) -> Cell:
    """Return the worst severity, how many findings have it, and how many are milder: `critical ×2 +5`."""
    if not worst:
        return Cell("")
    number = counts[SEVERITIES.index(worst)]
    milder = sum(counts) - number
    return Cell(f"{worst}{f' ×{number:,}' if number > 1 else ''}{f' +{milder:,}' if milder else ''}", Tone(worst))


def _sightings(fleet: Fleet) -> dict[str, "pd.Series[Any]"]:
    """Return the columns of the sightings; empty without a history."""
    found = [fleet.sightings.replicas.get(each.id) for each in fleet.replicas]
    times = {
        name: pd.Series([each and getattr(each, name) for each in found], dtype="datetime64[ns, UTC]")
        for name in Sighting._fields
    }
    return {"sighting": pd.Series(found, dtype=object), **times}


def _failure(replica: Replica) -> str:
    if replica.failure:
        return formatting.FAILURE_WORDS[replica.failure.kind]
    return "stale target" if replica.target_stale else ""


def _detail(replica: Replica) -> str:
    details = [replica.failure.detail] if replica.failure else []
    return " ".join([*details, *([STALE_TARGET] if replica.target_stale else [])])


def _texts(values: Any) -> "pd.Series[Any]":
    return pd.Series(list(values), dtype="string")


def _cells(texts: "pd.Series[Any]") -> list[Cell]:
    return [Cell(_cut(text)) for text in texts]


def _cut(text: Any) -> str:
    return "" if pd.isna(text) else middle_cut(one_line(text), LONGEST)


def _plain(value: Any) -> str | int | None:
    if pd.isna(value):
        return None
    return formatting.iso(value) if isinstance(value, pd.Timestamp) else value
