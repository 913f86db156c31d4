"""The page Replicas: every replica in one table, the worst first, and its CSV."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, ReplicaState, Source, formatting
from dashboard.fleet.formatting import STALE_TARGET, count, middle_cut, natural, one_line
from dashboard.fleet.history import Sighting
from dashboard.fleet.pieces import Age, Kind, Link, plain
from dashboard.fleet.traffic import summed
from dashboard.rules.findings import Severity
from dashboard.views import traffic
from dashboard.views.blocks import Block, Cell, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.excluded import state_tone, unread_entries
from dashboard.views.filters import EVERYTHING, FilterKey, Search
from dashboard.views.help import glossary
from dashboard.views.pages import COLUMNS, REPLICAS, SEARCH
from dashboard.views.replica_settings import pool_differences
from dashboard.views.since import since_cell
from dashboard.views.summary import incomplete_replicas, replicas_title
from dashboard.views.table import (
    LONGEST,
    REVERSED,
    Field,
    link_head,
    sort_name,
    sort_names,
    to_data,
    to_table,
)
from dashboard.vllm.merging import TRUST

TABLE = "replicas"  # anchor of the section with the table
MOST_ROWS = 5_000
SEVERITIES = tuple(map(str, Severity))
TRAFFIC = (
    traffic.HIT_RATE,
    traffic.PROMPT_TOKENS,
    traffic.REQUESTS,
    traffic.FIRST_TOKEN,
    traffic.PREEMPTIONS,
    traffic.WAITING,
)
USUAL = (
    "Replica",
    "Findings",
    "State",
    "Pool",
    "vLLM",
    "Differs in",
    traffic.HIT_RATE.title,
    "Since",
)  # columns unless others are chosen
NOTE = (
    "Findings: worst severity, number of findings with it (×), number of milder ones (+). "
    "Differs in: settings that differ from the majority of the pool."
)
SEARCHED = ["id", "labels", "pool", "role", "state", "failure", "detail", "version", "cohort", "best_answer", "worst"]
INCOMPLETE = "incomplete"  # as a state: down or partial
COLUMN_OF = {
    "pool": "pool",
    "version": "version",
    "role": "role",
    "cohort": "cohort",
    "source": "best_answer",
}  # filters


class ReplicaChoice(NamedTuple):
    """The choice of a reader: a search (`replica_keys`), the pool of all pages, the sort, and columns after the first.

    Words of a search are in any column or label, its severities are those of findings of a replica, its sources the
    most trusted ones. `sort` is a name of `SORTS`; empty: the worst first.
    """

    search: Search = EVERYTHING
    pool: str | None = None
    sort: str = ""
    columns: tuple[str, ...] = ()


EVERY_REPLICA = ReplicaChoice()


def _cut(text: str | None) -> str:
    return middle_cut(one_line(text or ""), LONGEST)


def _findings_cell(row: Any) -> str | Cell:
    """Return the worst severity, how many findings have it, and how many are milder: `critical ×2 +5`."""
    if not row.worst:
        return ""
    number = getattr(row, row.worst)
    milder = sum(getattr(row, name) for name in SEVERITIES) - number
    text = f"{row.worst}{f' ×{number:,}' if number > 1 else ''}{f' +{milder:,}' if milder else ''}"
    return Cell(text, Tone(row.worst))


FIELDS = (
    Field(
        "name",
        "Replica",
        lambda row: Cell(_cut(row.name), letter=_cut(row.cohort)),
        link=lambda row: Link(Kind.REPLICA, row.id),
        is_shown_only=True,
    ),
    Field("name"),
    Field("worst", "Findings", _findings_cell, attrgetter("worst"), key="worst"),
    Field(
        "state",
        "State",
        lambda row: Cell(f"{row.state}, {row.failure}" if row.failure else row.state, note=_cut(row.detail)),
        attrgetter("state"),
        lambda row: state_tone(ReplicaState(row.state)),
        key="state",
    ),
    Field("pool", "Pool", value=attrgetter("pool"), key="pool"),
    Field("version", "vLLM", value=attrgetter("version"), key="version"),
    *(Field(name, is_number=True) for name in SEVERITIES),
    Field("differences", "Differs in", is_number=True, key="differences"),
    *TRAFFIC,
    traffic.WHY_NO_RATE,
    Field(
        "since",
        "Since",
        lambda row: since_cell(Sighting(row.first_seen, row.since, row.absent_at)),
        is_shown_only=True,
    ),
    Field("reason"),
    Field("best_answer", "Source", value=attrgetter("best_answer"), key="best_answer"),
    Field(
        "observed_at",
        "Read",
        lambda row: Cell(formatting.iso(row.observed_at), age=Age(row.observed_at)),
        missing="never",
        is_shown_only=True,
    ),
    Field("observed_at"),
    Field("role", "Role", key="role"),
    Field("started_at", "Started", key="started_at"),
    Field("id", "Address", value=attrgetter("id"), is_code=True, key="id"),
    *map(Field, ("document", "cohort", "labels", *Sighting._fields)),
)
TITLES = tuple(field.title for field in FIELDS if field.title)
SORTED_BY = {field.title: field.name or field.key for field in FIELDS if field.title}  # to column of the rows
SORTS = sort_names(SORTED_BY)


def replicas_report(fleet: Fleet, choice: ReplicaChoice = EVERY_REPLICA, *, rows: pd.DataFrame | None = None) -> View:
    """Return the replicas that match the filters; `rows` are those of `replica_rows`, where they are known."""
    rows = chosen_rows(replica_rows(fleet) if rows is None else rows, choice)
    shown = set(rows["id"])
    unread = unread_entries(each for each in incomplete_replicas(fleet) if each.id in shown)
    none = Paragraph(plain("No replica matches the filters."))
    members = tuple(each for each in fleet.replicas if choice.pool in {None, each.pool})
    limited, hidden = replace(fleet, replicas=members), len(members) - len(rows)
    lead = f"{len(rows):,} of {count(len(members), 'replica')} shown" if hidden else ""
    lead += "" if choice.pool else f"{', ' if lead else ''}{count(rows['pool'].nunique(), 'pool')}"
    lead = f"{lead}." if lead else ""
    if "traffic" not in rows and len(rows):
        lead = f"{lead} {traffic.why_no_rates(fleet)}".lstrip()
    columns = ", ".join(choice.columns)
    filters = {"search": choice.search.text, "pool": choice.pool, "sort": choice.sort, "columns": columns}
    kept = {SEARCH: choice.search.text, COLUMNS: ",".join(choice.columns)}
    kept = {key: text for key, text in kept.items() if text}
    block: Block = none
    if len(rows):
        table = replicas_table(rows, choice.columns)
        heads = tuple(link_head(each, choice.sort, REPLICAS, kept) for each in table.columns)
        block = replace(table, columns=heads)
    return View(
        title="Replicas",
        headline=replicas_title(limited, choice.pool),
        lead=lead,
        context=context_of(fleet, filters=filters.items()),
        parts=(
            *([Section("not-read", "Incomplete data", unread, is_exported_only=True)] if unread else []),
            Section(TABLE, "Replicas", (block,)),
            glossary(("pool", "cohort")),
        ),
    )


def replica_rows(fleet: Fleet) -> pd.DataFrame:
    """Return the frame `replicas` with findings and differences, and `text` to search in.

    Unreachable replicas are first, then the worst findings, partial replicas, most differences, names.
    """
    replicas = fleet.replicas
    differ = pool_differences(fleet.pools, fleet.documents)
    table = fleet.frames.replicas.rename(columns={"replica": "id"})
    counts = findings_by_replica(fleet)
    failures = table["failure"].map(formatting.FAILURE_WORDS).fillna("")
    table = table.assign(
        failure=failures.mask(table["failure"].isna() & table["target_stale"], "stale target").astype("string"),
        detail=_texts(map(_detail, replicas)),
        best_answer=_texts(best_source(each.sources) for each in replicas),
        differences=pd.Series([differ.get((each.pool, each.document)) for each in replicas], dtype="Int64"),
        worst=_texts(next((name for name in SEVERITIES if getattr(row, name)), "") for row in counts.itertuples()),
        labels=_texts(" ".join(f"{key}={text}" for key, text in sorted(each.labels.items())) for each in replicas),
        **{name: counts[name].array for name in SEVERITIES},
    )
    if not traffic.why_no_rates(fleet):
        used = [summed(fleet.traffic.get(each.id, {}).values()) for each in replicas]
        is_off = table["id"].isin(fleet.without_cache)
        numbers = {field.key: [field.cell(traffic.TrafficRow("", each)).value for each in used] for field in TRAFFIC}
        table = table.assign(
            traffic=pd.Series(used, dtype="object"),
            is_off=is_off,
            is_down=table["state"] == ReplicaState.DOWN,
            **{key: pd.Series(each, dtype="Float64") for key, each in numbers.items()},
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


def findings_by_replica(fleet: Fleet) -> pd.DataFrame:
    """Return the number of active findings of each severity, a row per replica, in the order of the fleet."""
    counts = Counter(
        (replica, finding.severity.value) for finding in fleet.inspection.findings for replica in finding.replicas
    )
    ids = [replica.id for replica in fleet.replicas]
    return pd.DataFrame({each: [counts[id_, each] for id_ in ids] for each in SEVERITIES}, index=ids, dtype="int64")


def replica_keys(rows: pd.DataFrame) -> dict[str, FilterKey]:
    """Return the filters of a search among replicas, with the values of the rows."""
    values = {key: sorted(rows[column].dropna().unique(), key=natural) for key, column in COLUMN_OF.items()}
    values["cohort"].sort(key=lambda letter: (len(letter), letter))
    states = [*ReplicaState, INCOMPLETE]
    return {key: FilterKey(each) for key, each in {"state": states, "severity": SEVERITIES, **values}.items()}


def chosen_rows(rows: pd.DataFrame, choice: ReplicaChoice) -> pd.DataFrame:
    """Return the rows that match all filters, sorted. Each word of a search is in some column, or begins a time."""
    kept = pd.Series(data=True, index=rows.index)
    chosen = choice.search.chosen
    if choice.pool is not None:
        kept &= rows["pool"].isin([choice.pool])
    if states := chosen.get("state"):
        incomplete = [ReplicaState.DOWN, ReplicaState.PARTIAL] if INCOMPLETE in states else []
        kept &= rows["state"].isin([*states, *incomplete])
    for key, column in COLUMN_OF.items():
        if key in chosen:
            kept &= rows[column].isin(chosen[key])
    if severities := chosen.get("severity"):
        kept &= rows[list(severities)].gt(0).any(axis=1)
    for word in choice.search.words:
        times = rows["times"].str.contains(f"\n{word}", regex=False)  # `03` is a name's, not a month
        kept &= (rows["text"].str.contains(word, regex=False) | times).astype(bool)
    return _sorted(rows[kept], choice.sort)


def _sorted(rows: pd.DataFrame, sort: str) -> pd.DataFrame:
    """Sort rows by a column; those without a value are last in both directions. Severities ascend from the mildest."""
    if not sort:
        return rows
    column = next(column for title, column in SORTED_BY.items() if sort_name(title) == sort.removeprefix(REVERSED))
    if column not in rows:
        return rows
    keys: list[Any]
    if column == "worst":
        keys = [each if any(each) else None for each in rows[list(SEVERITIES)].itertuples(index=False, name=None)]
    else:
        filled = rows[column].where(rows[column] != "")
        keys = [None if pd.isna(each) else natural(each) if isinstance(each, str) else each for each in filled]
    known = [place for place, key in enumerate(keys) if key is not None]
    missing = [place for place, key in enumerate(keys) if key is None]
    return rows.iloc[[*sorted(known, key=keys.__getitem__, reverse=sort.startswith(REVERSED)), *missing]]


def replicas_table(rows: pd.DataFrame, chosen: Sequence[str] = (), *, is_whole: bool = True) -> Table:
    """Return the table of these rows, with the `chosen` columns after the first; empty: the usual ones.

    A page shows all of them (`is_whole`). Times since are left out where they tell no replica from another.
    """
    unused = set() if len(set(rows["since"].dropna())) > 1 else {"Since"}
    used = rows.get("traffic", ())
    window = traffic.window_note(used)
    unused |= set() if window else {traffic.HIT_RATE.title}
    known = {field.title for field in _fields_of(rows)}
    titles = known.intersection(chosen) or known.intersection(USUAL) - unused
    fields = [field for field in _fields_of(rows) if field.title in {TITLES[0], *titles}]
    notes = [NOTE, window] if any(field in fields for field in TRAFFIC) else [NOTE]
    table = to_table(rows, fields, "replicas", "Replicas", " ".join(notes), most=MOST_ROWS, is_whole=is_whole)
    return replace(table, for_programs=lambda: replicas_data(rows))


def replicas_data(rows: pd.DataFrame) -> Table:
    """Return these rows for programs, with every column: times in ISO 8601, severities as numbers of findings."""
    return to_data(rows, _fields_of(rows), "replicas", "Replicas")


def _fields_of(rows: pd.DataFrame) -> list[Field]:
    """Return the columns that these rows have: without traffic those of it are left out."""
    return [each for each in FIELDS if "traffic" in rows or each not in {*TRAFFIC, traffic.WHY_NO_RATE}]


def best_source(sources: Sequence[Source]) -> str | None:
    """Return the most trusted source that answered; None without any."""
    best = min(sources, key=TRUST.__getitem__, default=None)
    return formatting.SOURCE_WORDS[best] if best is not None else None


def _detail(replica: Replica) -> str:
    details = [replica.failure.detail] if replica.failure else []
    return " ".join([*details, *([STALE_TARGET] if replica.target_stale else [])])


def _texts(values: Any) -> "pd.Series[Any]":
    return pd.Series(list(values), dtype="string")
