"""The page Settings: any setting over the whole fleet, found by path or value."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import is_comparable
from dashboard.fleet import State
from dashboard.fleet.formatting import count, end_cut, setting_text
from dashboard.fleet.pieces import page, plain
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.blocks import Cell, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.pool_comparison import setting_severities, suppressed_settings
from dashboard.views.setting import EVERY_SETTING, LONGEST, VALUES, SettingFilter, matches, none_text
from dashboard.views.summary import scoped_title
from dashboard.views.table import Field, sort_names, sort_table, to_table

if TYPE_CHECKING:
    import pandas as pd

MOST_PATHS = 200  # settings that a search lists
SORTS = sort_names(("Setting", "Pools that differ", "Values", "Replicas by value", "Most frequent value", "Replicas"))
MOST_VALUES = 4  # of a small bar


def setting_values(fleet: Fleet, choice: SettingFilter = EVERY_SETTING) -> pd.DataFrame:
    """Return one row per path, kind of pool, value and state, of the replicas that match the filters of the choice.

    Pools with the same documents are one kind: `pools` is their number, `replicas` that of their replicas with it.
    """
    import pandas as pd  # noqa: PLC0415  commands that read no frame do not load it

    chosen = [each for each in fleet.replicas if each.pool and each.document and matches(each, choice)]
    by_pool: dict[str, Counter[str]] = defaultdict(Counter)
    for each in chosen:
        by_pool[each.pool or ""][each.document or ""] += 1
    by_kind: dict[frozenset[str], list[Counter[str]]] = defaultdict(list)
    for documents in by_pool.values():
        by_kind[frozenset(documents)].append(documents)
    numbers = [
        (kind, document, sum(each[document] for each in pools), len(pools))
        for kind, (documents, pools) in enumerate(by_kind.items())
        for document in documents
    ]
    known = {each.document for each in chosen}
    settings = fleet.frames.settings
    settings = settings[settings["document"].isin(known)]
    rows = pd.DataFrame(numbers, columns=["kind", "document", "replicas", "pools"]).merge(settings, on="document")
    grouped = rows.groupby(["path", "kind", "value", "state"])
    values = grouped.agg(replicas=("replicas", "sum"), pools=("pools", "first")).reset_index()
    return values.assign(text=(values["path"] + " " + values["value"]).str.lower())


def settings_report(
    fleet: Fleet,
    choice: SettingFilter = EVERY_SETTING,
    *,
    rows: pd.DataFrame | None = None,
    sort: str = "",
) -> View:
    """Return the settings that match a search, sorted by one of `SORTS`.

    `rows` are those of `setting_values` for the same filters, if known.
    """
    rows = found_settings(setting_values(fleet, choice) if rows is None else rows, choice.search)
    number = rows["path"].nunique()
    differing = int((rows["differing"] > 0).sum())
    return View(
        title="Settings",
        headline=scoped_title(
            f"{count(number, 'setting')}, {f'{differing:,}' if differing else 'none'} with different values in a pool",
            choice.pool,
        ),
        lead="Open a setting for its values on all replicas.",
        context=context_of(fleet, filters=choice.chosen),
        parts=(Section(VALUES, "Settings", (_found_table(fleet, rows, choice, sort),)),),
    )


def found_settings(rows: pd.DataFrame, search: str = "") -> pd.DataFrame:
    """Return one row per setting that matches: differing pools first, then an equal last name, then by path."""
    import pandas as pd  # noqa: PLC0415  commands that read no frame do not load it

    words = search.lower().split()
    for word in words:
        rows = rows[rows["text"].str.contains(word, regex=False)]
    rows = rows.assign(known=rows["value"].where(rows["state"].isin([each for each in State if is_comparable(each)])))
    kinds = rows.groupby(["path", "kind"]).agg(values=("known", "nunique"), pools=("pools", "first"))
    differing = kinds["pools"].where(kinds["values"] > 1, 0).groupby("path").sum()
    numbers = (
        rows.groupby(["path", "known"])["replicas"].sum().sort_values(ascending=False, kind="stable").reset_index()
    )
    spread: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, value, number in zip(numbers["path"], numbers["known"], numbers["replicas"], strict=True):
        spread[path].append((end_cut(value, LONGEST), int(number)))
    most = rows.sort_values(["replicas", "value"], ascending=[False, True])
    most = most.sort_values("known", key=pd.isna, kind="stable").drop_duplicates("path").set_index("path")
    grouped = rows.groupby("path")
    table = pd.DataFrame(
        {
            "differing": differing,
            "number": grouped["known"].nunique(),
            "replicas": grouped["replicas"].sum(),
            "value": most["value"],
            "state": most["state"],
        }
    ).reset_index()
    table["spread"] = pd.Series([tuple(spread[path]) for path in table["path"]], dtype=object)
    exact = table["path"].str.rpartition(".")[2].isin(words) if len(table) else pd.Series(dtype=bool)
    order = pd.DataFrame({"exact": ~exact, "differing": -table["differing"], "path": table["path"]})
    return table.loc[order.sort_values(list(order.columns)).index].reset_index(drop=True)


def _worst_by_setting(fleet: Fleet, choice: SettingFilter) -> dict[str, Severity]:
    """Return the worst severity of each setting in the pools of the choice that differ in it."""
    worst: dict[str, Severity] = {}
    for pool in fleet.pools:
        if choice.pool not in {None, pool.name} and not fnmatchcase(pool.name, choice.pool or ""):
            continue
        severities = setting_severities(fleet, pool)
        for each in pool.differences:
            if (severity := severities.get(each.path)) and (
                each.path not in worst or severity.rank < worst[each.path].rank
            ):
                worst[each.path] = severity
    return worst


def _found_table(fleet: Fleet, rows: pd.DataFrame, choice: SettingFilter, sort: str) -> Table | Paragraph:
    if rows.empty:
        return Paragraph(plain(none_text(fleet, "setting")))
    named = _worst_by_setting(fleet, choice)
    quiet = {path for each in fleet.pools for path in suppressed_settings(fleet, each)}.difference(named)
    if not choice.search:
        ranks = rows["path"].map(lambda path: named[path].rank if path in named else len(Severity))
        rows = rows.loc[ranks.sort_values(kind="stable").index]
    kept = dict(choice._replace(search="").chosen)
    fields = (
        Field("path", "Setting", link=lambda row: page(pages.SETTINGS, path=row.path, **kept), is_code=True),
        Field(
            "differing",
            "Pools that differ",
            lambda row: f"{row.differing:,}{' (suppressed)' * (row.path in quiet)}" if row.differing else "",
            tone=lambda row: Tone(named[row.path]) if row.differing and row.path in named else Tone.PLAIN,
            is_number=True,
        ),
        Field("number", "Values", is_number=True),
        Field("", "Replicas by value", _spread_cell, lambda row: _spread_cell(row).text or None),
        Field(
            "value",
            "Most frequent value",
            lambda row: end_cut(setting_text(row.value, State(row.state)), LONGEST),
            lambda row: row.value if row.number else None,
            is_code=True,
        ),
        Field("replicas", "Replicas", is_number=True),
    )
    hidden = len(rows) - MOST_PATHS
    note = f"{hidden:,} more match; add a word to the search." if hidden > 0 else ""
    table = to_table(rows, fields, "settings", "Settings", note, is_whole=True)
    table = sort_table(table, sort, pages.SETTINGS, dict(choice.chosen))
    return replace(table, rows=table.rows[:MOST_PATHS])


def _spread_cell(row: Any) -> Cell:
    """Return the numbers of replicas by value as a small bar; empty for one value, where a bar says nothing."""
    if row.number <= 1:
        return Cell("")
    shown = row.spread[:MOST_VALUES]
    rest = sum(number for _, number in row.spread[MOST_VALUES:])
    return Cell(
        ", ".join(f"{value}: {number:,}" for value, number in shown) + (f", other: {rest:,}" if rest else ""),
        spread=(*(number for _, number in shown), *([rest] if rest else [])),
    )
