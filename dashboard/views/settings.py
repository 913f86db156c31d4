"""The page Settings: any setting over the whole fleet, its values per pool, and what vLLM declares of it."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, SettingValue, State, cohort_letters
from dashboard.fleet.formatting import count, end_cut, first_of, setting_text
from dashboard.fleet.frames import settings_frame
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, join_texts, page, plain, replica, to_plain
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.blocks import Cell, Column, Paragraph, Section, Table, Tone, View, data_table, number_cell
from dashboard.views.context import context_of
from dashboard.views.declared import declared_section
from dashboard.views.pool_comparison import worst_by_path
from dashboard.views.setting_replicas import origin_text, replicas_section, setting_value
from dashboard.vllm.field_reference import declarations, known_sentences

MOST_PATHS = 200  # settings that a search lists
MOST_NAMES = 3  # replicas that a row names
ORIGIN_NOTE = " Only the configuration API reports which arguments were given (docs/config-api.md)."
LONGEST = 60  # characters of a value in the list of settings
VALUES = "values"  # anchor of the section
CSV_COLUMNS = ("path", "pool", "value", "state", "replicas", "cohorts", "names", "origins")


class SettingFilter(NamedTuple):
    """The filters of a reader, and a search: words of a path or of a value. None and empty: all.

    `pool` is a name or a glob; `label` are words of `key=value`.
    """

    search: str = ""
    pool: str | None = None
    version: str | None = None
    role: str | None = None
    label: str = ""


EVERY_SETTING = SettingFilter()


class PoolValue(NamedTuple):
    """Replicas of one pool with the same value or state of a setting; `is_most`: each other value has fewer.

    `origins` counts the replicas by the origin of the value, with the argument that set it, the most frequent first.
    """

    pool: str
    value: SettingValue
    replicas: tuple[Replica, ...]
    cohorts: tuple[str, ...]
    is_most: bool
    origins: tuple[tuple[str, int], ...] = ()

    @property
    def is_reported(self) -> bool:
        """Return whether the replicas report a value, null included."""
        return self.value.state not in {State.ABSENT, State.UNSUPPORTED}


def setting_values(fleet: Fleet, choice: SettingFilter = EVERY_SETTING) -> pd.DataFrame:
    """Return one row per path, kind of pool, value and state, of the replicas that match the filters of the choice.

    Pools with the same documents are one kind: `pools` is their number, `replicas` that of their replicas with it.
    """
    chosen = [each for each in fleet.replicas if each.pool and each.document and _matches(each, choice)]
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
    settings = settings_frame(each for each in fleet.documents.values() if each.id in known)
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
    context = context_of(fleet, name=name, filters=[(key, text) for key, text in _filters(choice, path) if text])
    if path:
        known = tuple(pool_values(fleet, path, choice))
        replicas = [each for value in known for each in value.replicas] if has_replicas else []
        return View(
            title="Setting",
            headline=path,
            lead=_lead(known),
            context=context,
            parts=(
                _values_section(fleet, path, known),
                *replicas_section(fleet, path, replicas),
                declared_section(path),
            ),
        )
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


def _filters(choice: SettingFilter, path: str) -> Iterator[tuple[str, str]]:
    yield "path", path
    yield from ((key, text or "") for key, text in choice._asdict().items())


def found_settings(rows: pd.DataFrame, search: str = "") -> pd.DataFrame:
    """Return one row per setting that matches: differing pools first, then an equal last name, then by path."""
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


def pool_values(fleet: Fleet, path: str, choice: SettingFilter = EVERY_SETTING) -> Iterator[PoolValue]:
    """Yield the values of a setting: pools that differ first, the rarest value of a pool first."""
    letters = cohort_letters(fleet.pools)
    by_pool: dict[str, dict[SettingValue, list[Replica]]] = defaultdict(lambda: defaultdict(list))
    for each in fleet.replicas:
        if each.document is not None and _matches(each, choice):
            by_pool[each.pool or ""][setting_value(fleet, each, path)].append(each)
    for pool, by_value in sorted(by_pool.items(), key=lambda item: (len(item[1]) == 1, item[0])):
        most = max(by_value, key=lambda value: len(by_value[value]))
        is_tied = sum(len(each) == len(by_value[most]) for each in by_value.values()) > 1
        for value in sorted(by_value, key=lambda value: (len(by_value[value]), value == most, value)):
            members = tuple(by_value[value])
            cohorts = tuple(sorted({letters[each.id] for each in members if each.id in letters}))
            origins = Counter(origin_text(path, value, each) for each in members)
            yield PoolValue(pool, value, members, cohorts, value == most and not is_tied, tuple(origins.most_common()))


def origins_text(origins: Sequence[tuple[str, int]]) -> str:
    """Write the origins of one value: with their numbers if there are several."""
    if len(origins) == 1:
        return origins[0][0]
    return "; ".join(f"{text}: {number:,}" for text, number in origins)


def _matches(replica: Replica, choice: SettingFilter) -> bool:
    labels = " ".join(f"{key}={text}" for key, text in replica.labels.items()).lower()
    return (
        (choice.pool in {None, replica.pool} or fnmatchcase(replica.pool or "", choice.pool or ""))
        and choice.version in {None, replica.version}
        and choice.role in {None, str(replica.role)}
        and all(word in labels for word in choice.label.lower().split())
    )


def _lead(known: Sequence[PoolValue]) -> str:
    reported = [each for each in known if each.is_reported]
    by_pool = Counter(each.pool for each in reported)
    differing = [pool for pool, number in by_pool.items() if number > 1]
    missing = sum(len(each.replicas) for each in known if not each.is_reported)
    values = count(len({each.value for each in reported}), "value")
    parts = [f"{values} in {count(len(by_pool), 'pool')}"] if reported else []
    parts += [f"different in {first_of(differing, MOST_NAMES)}"] if differing else []
    parts += [f"{'not' if parts else 'Not'} reported by {count(missing, 'replica')}"] if missing else []
    return f"{'; '.join(parts)}." if parts else ""


def _values_section(fleet: Fleet, path: str, known: Sequence[PoolValue]) -> Section:
    if not known:
        return Section(VALUES, "Values", (Paragraph(plain("No replica matches the filters.")),))
    columns = (
        Column("Pool"),
        Column("Value", is_code=True),
        Column("Replicas", is_number=True),
        Column("Names"),
        Column("Origin"),
    )
    note = "The most frequent value of a pool is last." + (ORIGIN_NOTE if _lacks_arguments(known) else "")
    named = {pool: worst_by_path(fleet.inspection, pool).get(path) for pool in {each.pool for each in known}}
    rows = tuple(_row(path, each, named[each.pool]) for each in known)
    return Section(
        VALUES,
        "Values",
        (Table("settings", f"Values of {path}", columns, rows, note, lambda: values_data(path, known)),),
    )


def _lacks_arguments(known: Iterable[PoolValue]) -> bool:
    return any(replica.set_arguments is None for each in known if each.is_reported for replica in each.replicas)


def values_data(path: str, known: Iterable[PoolValue]) -> Table:
    """Return the values of a setting for programs: canonical JSON, empty where it is not reported."""
    columns = tuple(Column(each, is_number=each == "replicas") for each in CSV_COLUMNS)
    rows = (
        (
            *(path, each.pool, each.value.value if each.is_reported else None, str(each.value.state)),
            *(len(each.replicas), each.cohorts, tuple(replica.name for replica in each.replicas)),
            tuple(f"{text}: {number}" for text, number in each.origins),
        )
        for each in known
    )
    return data_table("settings", "Values", columns, rows)


def setting_json(path: str, known: Iterable[PoolValue]) -> dict[str, Any]:
    """Return the values of a setting and its declarations as JSON; `value` is null where it is not reported."""
    return {
        "path": path,
        "description": known_sentences().get(path),
        "values": [
            {
                "pool": each.pool or None,
                "value": json.loads(each.value.value) if each.value.state is not State.REDACTED else None,
                "state": str(each.value.state),
                "replicas": [replica.id for replica in each.replicas],
                "cohorts": list(each.cohorts),
                "origins": dict(each.origins),
            }
            for each in known
        ],
        "declared": [
            {
                **each._asdict(),
                "default": None if each.default is None else json.loads(each.default),
                "computed": each.computed or None,
                "flags": list(each.flags),
            }
            for each in declarations(path)
        ],
    }


def _row(path: str, known: PoolValue, severity: Severity | None) -> tuple[Cell, ...]:
    """Return the row of a value; `severity` is the worst of the findings on the setting in its pool."""
    pool, value = known.pool, known.value
    differs = Tone(severity or Tone.PLAIN) if known.is_reported else Tone.UNKNOWN
    return (
        Cell(pool or "no pool", link=Link(Kind.POOL, pool) if pool else None),
        Cell(
            end_cut(setting_text(*value)),
            Tone.PLAIN if known.is_most else differs,
            link=Link(Kind.SETTING, path, pool) if pool else None,
        ),
        number_cell(f"{len(known.replicas):,}", len(known.replicas)),
        Cell(to_plain(names := _names(known)), pieces=names),
        Cell(origins_text(known.origins) if known.is_reported else ""),
    )


def _names(known: PoolValue) -> Text:
    """Return the first replicas as links, the number of the others, and the cohorts of all."""
    first = known.replicas[:MOST_NAMES]
    more = len(known.replicas) - len(first)
    names = join_texts([(replica(each.name, each.id),) for each in first], last=", " if more else " and ")
    cohorts = f" ({', '.join(known.cohorts)})" if known.cohorts else ""
    return (*names, Piece(f"{f' and {more:,} more' if more else ''}{cohorts}", Style.MUTED))


def _found_table(fleet: Fleet, rows: pd.DataFrame, choice: SettingFilter) -> Table | Paragraph:
    if rows.empty:
        return Paragraph(plain("No setting matches the filters."))
    named: dict[str, Severity] = {}
    for finding in fleet.inspection.findings:  # the worst first
        named |= {each: finding.severity for each in finding.paths if each not in named}
    kept = {key: text for key, text in choice._replace(search="")._asdict().items() if text}  # named as in the URL
    columns = {
        Column("Setting", is_code=True): [
            Cell(path, link=page(pages.SETTINGS, path=path, **kept)) for path in rows["path"]
        ],
        Column("Pools that differ", is_number=True): [
            number_cell(f"{number:,}" if number else "", number)._replace(
                tone=Tone(named[path]) if number and path in named else Tone.PLAIN
            )
            for path, number in zip(rows["path"], rows["differing"].tolist(), strict=True)
        ],
        Column("Values", is_number=True): [number_cell(f"{number:,}", number) for number in rows["number"].tolist()],
        Column("Most frequent value", is_code=True): [
            Cell(end_cut(setting_text(value, State(state)), LONGEST), value=value)
            for value, state in zip(rows["value"].tolist(), rows["state"].tolist(), strict=True)
        ],
        Column("Replicas", is_number=True): [
            number_cell(f"{number:,}", number) for number in rows["replicas"].tolist()
        ],
    }
    hidden = len(rows) - MOST_PATHS
    note = f"{hidden:,} more match; add a word to the search." if hidden > 0 else ""
    cells = tuple(zip(*(each[:MOST_PATHS] for each in columns.values()), strict=True))
    return Table("settings", "Settings", tuple(columns), cells, note)
