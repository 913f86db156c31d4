"""The page Settings: any setting over the whole fleet, found by path or value, and the page of one setting."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import State
from dashboard.fleet.formatting import count, end_cut, setting_text
from dashboard.fleet.pieces import page, plain
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.blocks import Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.setting import EVERY_SETTING, VALUES, SettingFilter, matches, pool_values, setting_report
from dashboard.views.table import Field, to_table

if TYPE_CHECKING:
    import pandas as pd

MOST_PATHS = 200  # settings that a search lists
LONGEST = 60  # characters of a value in the list of settings


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
    path: str = "",
    rows: pd.DataFrame | None = None,
    name: str = "",
    has_replicas: bool = False,
) -> View:
    """Return the settings that match a search, or all values of one `path`, by replica too with `has_replicas`.

    `rows` are those of `setting_values` for the same filters, where they are known.
    """
    filters = {"path": path, **choice._asdict()}
    context = context_of(fleet, name=name, filters=[(key, text) for key, text in filters.items() if text])
    if path:
        return setting_report(fleet, path, tuple(pool_values(fleet, path, choice)), context, has_replicas=has_replicas)
    rows = found_settings(setting_values(fleet, choice) if rows is None else rows, choice.search)
    number = rows["path"].nunique()
    differing = int((rows["differing"] > 0).sum())
    return View(
        title="Settings",
        headline=f"{count(number, 'setting')}, {differing:,} with different values in a pool",
        lead="Search by path or value. Open a setting for its values on all replicas.",
        context=context,
        parts=(Section(VALUES, "Settings", (_found_table(fleet, rows, choice),)),),
    )


def found_settings(rows: pd.DataFrame, search: str = "") -> pd.DataFrame:
    """Return one row per setting that matches: differing pools first, then an equal last name, then by path."""
    import pandas as pd  # noqa: PLC0415  commands that read no frame do not load it

    words = search.lower().split()
    for word in words:
        rows = rows[rows["text"].str.contains(word, regex=False)]
    kinds = rows.groupby(["path", "kind"]).agg(values=("value", "nunique"), pools=("pools", "first"))
    differing = kinds["pools"].where(kinds["values"] > 1, 0).groupby("path").sum()
    most = rows.sort_values(["replicas", "value"], ascending=[False, True]).drop_duplicates("path").set_index("path")
    grouped = rows.groupby("path")
    table = pd.DataFrame(
        {
            "differing": differing,
            "number": grouped["value"].nunique(),
            "replicas": grouped["replicas"].sum(),
            "value": most["value"],
            "state": most["state"],
        }
    ).reset_index()
    exact = table["path"].str.rpartition(".")[2].isin(words) if len(table) else pd.Series(dtype=bool)
    order = pd.DataFrame({"exact": ~exact, "differing": -table["differing"], "path": table["path"]})
    return table.loc[order.sort_values(list(order.columns)).index].reset_index(drop=True)


def _found_table(fleet: Fleet, rows: pd.DataFrame, choice: SettingFilter) -> Table | Paragraph:
    if rows.empty:
        return Paragraph(plain("No setting matches the filters."))
    named: dict[str, Severity] = {}
    for finding in fleet.inspection.findings:  # the worst first
        named |= {each: finding.severity for each in finding.paths if each not in named}
    kept = {key: text for key, text in choice._replace(search="")._asdict().items() if text}  # named as in the URL
    fields = (
        Field("path", "Setting", link=lambda row: page(pages.SETTINGS, path=row.path, **kept), is_code=True),
        Field(
            "differing",
            "Pools that differ",
            lambda row: f"{row.differing:,}" if row.differing else "",
            tone=lambda row: Tone(named[row.path]) if row.differing and row.path in named else Tone.PLAIN,
            is_number=True,
        ),
        Field("number", "Values", is_number=True),
        Field(
            "value",
            "Most frequent value",
            lambda row: end_cut(setting_text(row.value, State(row.state)), LONGEST),
            lambda row: row.value,
            is_code=True,
        ),
        Field("replicas", "Replicas", is_number=True),
    )
    hidden = len(rows) - MOST_PATHS
    note = f"{hidden:,} more match; add a word to the search." if hidden > 0 else ""
    return to_table(rows.head(MOST_PATHS), fields, "settings", "Settings", note)
