"""The page Settings: any setting over the whole fleet, found by path or value, and the page of one setting."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Replica, SettingValue, State, cohort_letters
from dashboard.fleet.formatting import FEW, SOME, STATE_WORDS, count, end_cut, setting_text, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, join_texts, page, plain, replica, to_plain
from dashboard.rules.findings import Finding, Severity
from dashboard.rules.sentences import capital
from dashboard.views import pages
from dashboard.views.blocks import Bar, Cell, Entries, Entry, Gauges, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.names import brief
from dashboard.views.pool_comparison import setting_severities, suppressed_settings
from dashboard.views.table import Field, to_data, to_table
from dashboard.vllm.field_reference import Declaration, declarations, known_paths, known_sentences
from dashboard.vllm.value_origin import ValueOrigin, setting_arguments, value_origin
from dashboard.vllm.versions import is_unsupported

if TYPE_CHECKING:
    import pandas as pd

VALUES, REPLICAS, DECLARED = "values", "setting-replicas", "declared"  # anchors of the sections
MOST_ROWS = 1_000
COMMAND_LINE = "command_line"  # the source of an argument that is not named
ORIGIN_NOTE = " Only the configuration API reports which arguments were given (docs/config-api.md)."
MOST_PATHS = 200  # settings that a search lists
LONGEST = 60  # characters of a value in the list of settings
MOST_VALUES, MOST_BARS = 4, 12  # values of a small bar, and of a histogram
HISTOGRAM_HEADS = ("Value", "Replicas")
NO_SUCH_SETTING = "No such setting: no replica reports it, and no vLLM version has it."


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
    """Replicas of one pool with the same value or state of a setting; `is_most`: a value that most replicas have.

    `origins` counts the replicas by the origin of the value, with the argument that set it, the most frequent first.
    """

    pool: str
    value: SettingValue
    replicas: tuple[Replica, ...]
    cohorts: tuple[str, ...]
    is_most: bool
    origins: tuple[tuple[str, int], ...] = ()

    @property
    def has_value(self) -> bool:
        """Whether the replicas have a value that another value can differ from, null included."""
        return is_comparable(self.value.state)

    @property
    def is_reported(self) -> bool:
        """Whether the replicas report the setting, with or without its value."""
        return self.value.state not in {State.ABSENT, State.UNSUPPORTED}


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
        if (similar := similar_settings(fleet, path)) is not None:
            part = _similar_section(similar)
            return View(title="Setting", headline=path, lead=NO_SUCH_SETTING, context=context, parts=(part,))
        known = tuple(pool_values(fleet, path, choice))
        replicas = [each for value in known for each in value.replicas] if has_replicas else []
        parts = (_values_section(fleet, path, known), *replicas_section(fleet, path, replicas), declared_section(path))
        return View(title="Setting", headline=path, lead=_lead(known), context=context, parts=parts)
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


def similar_settings(fleet: Fleet, path: str) -> list[str] | None:
    """Return settings that are like a path that no replica reports and no vLLM version has; None for any other path."""
    reported = {each for document in fleet.documents.values() for each in document.settings}
    if path in reported or path in known_paths():
        return None
    every = sorted(reported | set(known_paths()))
    last = path.rpartition(".")[2].lower()
    found = [each for each in every if each.rpartition(".")[2].lower() == last]
    found = found or [each for each in every if path.lower() in each.lower()]
    return (found or get_close_matches(path, every, SOME))[:SOME]


def _similar_section(similar: Sequence[str]) -> Section:
    if not similar:
        return Section("similar", "", (Paragraph(plain("Search the list of settings by path or value.")),))
    entries = tuple(
        Entry(Tone.PLAIN, (Piece(each, Style.CODE, page(pages.SETTINGS, **{pages.PATH: each})),)) for each in similar
    )
    return Section("similar", "Similar settings", (Entries(entries),))


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


def _found_table(fleet: Fleet, rows: pd.DataFrame, choice: SettingFilter) -> Table | Paragraph:
    if rows.empty:
        return Paragraph(plain("No setting matches the filters."))
    named = _worst_by_setting(fleet, choice)
    suppressed = {path for each in fleet.pools for path in suppressed_settings(fleet.inspection, each.name)}
    kept = {key: text for key, text in choice._replace(search="")._asdict().items() if text}  # named as in the URL
    fields = (
        Field("path", "Setting", link=lambda row: page(pages.SETTINGS, path=row.path, **kept), is_code=True),
        Field(
            "differing",
            "Pools that differ",
            lambda row: _differing_text(row.differing, is_suppressed=row.path in suppressed and row.path not in named),
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
    return to_table(rows.head(MOST_PATHS), fields, "settings", "Settings", note)


def _differing_text(pools: int, *, is_suppressed: bool) -> str:
    return f"{pools:,}{' (suppressed)' if is_suppressed else ''}" if pools else ""


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


def matches(replica: Replica, choice: SettingFilter) -> bool:
    labels = " ".join(f"{key}={text}" for key, text in replica.labels.items()).lower()
    return (
        (choice.pool in {None, replica.pool} or fnmatchcase(replica.pool or "", choice.pool or ""))
        and choice.version in {None, replica.version}
        and choice.role in {None, str(replica.role)}
        and all(word in labels for word in choice.label.lower().split())
    )


def pool_values(fleet: Fleet, path: str, choice: SettingFilter = EVERY_SETTING) -> Iterator[PoolValue]:
    """Yield the values of a setting: pools that differ first, the rarest value of a pool first."""
    letters = cohort_letters(fleet.pools)
    by_pool: dict[str, dict[SettingValue, list[Replica]]] = defaultdict(lambda: defaultdict(list))
    for each in fleet.replicas:
        if each.document is not None and matches(each, choice):
            by_pool[each.pool or ""][setting_value(fleet, each, path)].append(each)
    sizes = {
        pool: Counter(len(by_value[value]) for value in by_value if is_comparable(value.state))
        for pool, by_value in by_pool.items()
    }
    for pool, by_value in sorted(by_pool.items(), key=lambda item: (sizes[item[0]].total() <= 1, item[0])):
        most = max(sizes[pool], default=0)
        for value in sorted(by_value, key=lambda each: (is_comparable(each.state), len(by_value[each]), each)):
            members = tuple(by_value[value])
            cohorts = tuple(sorted({letters[each.id] for each in members if each.id in letters}))
            origins = Counter(origin_text(path, value, each) for each in members)
            is_most = is_comparable(value.state) and len(members) == most and sizes[pool][most] == 1
            yield PoolValue(pool, value, members, cohorts, is_most, tuple(origins.most_common()))


def origins_text(origins: Sequence[tuple[str, int]]) -> str:
    """Write the origins of one value: with their numbers if there are several."""
    if len(origins) == 1:
        return origins[0][0]
    return "; ".join(f"{text}: {number:,}" for text, number in origins)


def _lead(known: Sequence[PoolValue]) -> str:
    """Return the answer for the fleet: `16 on most replicas, 32 on 24 replicas in 24 pools`, and what is mixed."""
    by_value = _by_value(known)
    total = sum(number for number, _ in by_value.values())
    parts = []
    for place, (value, (number, pools)) in enumerate(list(by_value.items())[:SOME]):
        text = end_cut(setting_text(*value), LONGEST)
        where = brief(pools[0] or "no pool") if len(pools) == 1 else count(len(pools), "pool")
        if len(by_value) == 1:
            parts.append(f"{text} on {f'all {number:,} replicas' if number > 1 else '1 replica'}")
        elif place == 0 and 2 * number > total:
            parts.append(f"{text} on most replicas")
        else:
            parts.append(f"{text} on {count(number, 'replica')} in {where}")
    parts += [count(len(by_value) - SOME, "other value")] if len(by_value) > SOME else []
    mixed = [pool for pool, number in Counter(each.pool for each in known if each.has_value).items() if number > 1]
    without: Counter[str] = Counter()
    for each in known:
        if not each.has_value:
            words = f"{STATE_WORDS[each.value.state]} on" if each.is_reported else "not reported by"
            without[words] += len(each.replicas)
    sentences = [", ".join(parts)] if parts else []
    pools_text = shortlist(map(brief, mixed), FEW) if len(mixed) <= FEW else count(len(mixed), "pool")
    sentences += [f"Mixed in {pools_text}"] if mixed else []
    sentences += [capital(f"{words} {count(number, 'replica')}") for words, number in without.items()]
    return " ".join(f"{each}." for each in sentences)


def _by_value(known: Iterable[PoolValue]) -> dict[SettingValue, tuple[int, list[str]]]:
    """Return the number of replicas and the pools of each value, the most frequent value first."""
    found: dict[SettingValue, tuple[int, list[str]]] = {}
    for each in known:
        if each.has_value:
            number, pools = found.get(each.value, (0, []))
            found[each.value] = number + len(each.replicas), [*pools, each.pool]
    return dict(sorted(found.items(), key=lambda item: (-item[1][0], item[0])))


def _histogram(known: Sequence[PoolValue]) -> tuple[Gauges, ...]:
    """Return how many replicas have each value; nothing for one value."""
    by_value = _by_value(known)
    total = sum(number for number, _ in by_value.values())
    if len(by_value) <= 1:
        return ()
    bars = [
        Bar(end_cut(setting_text(*value), LONGEST), number / total, mark=count(number, "replica"))
        for value, (number, _) in by_value.items()
    ]
    more = len(bars) - MOST_BARS
    note = f"{count(more, 'rarer value')} in the table." if more > 0 else ""
    return (Gauges("values", "Replicas by value", "Replicas by value", tuple(bars[:MOST_BARS]), note, HISTOGRAM_HEADS),)


def _values_section(fleet: Fleet, path: str, known: Sequence[PoolValue]) -> Section:
    if not known:
        return Section(VALUES, "Values", (Paragraph(plain("No replica matches the filters.")),))
    lacks_arguments = any(
        replica.set_arguments is None for each in known if each.is_reported for replica in each.replicas
    )
    note = "The most frequent value of a pool is last." + (ORIGIN_NOTE if lacks_arguments else "")
    table = to_table(known, _value_fields(path, fleet), "settings", f"Values of {path}", note)
    return Section(VALUES, "Values", (*_histogram(known), table))


def values_data(path: str, known: Iterable[PoolValue]) -> Table:
    """Return the values of a setting for programs: canonical JSON, empty where it is not reported."""
    return to_data(known, _value_fields(path), "settings", f"Values of {path}")


def _value_fields(path: str, fleet: Fleet | None = None) -> tuple[Field, ...]:
    """Return the columns of values; of a fleet a rarer value is marked with the severity of the setting in its pool."""
    severities = {each.name: setting_severities(fleet, each).get(path) for each in fleet.pools} if fleet else {}

    def tone(row: PoolValue) -> Tone:
        if row.is_most:
            return Tone.PLAIN
        return Tone(severities.get(row.pool) or Tone.PLAIN) if row.has_value else Tone.UNKNOWN

    return (
        Field("", key="path", value=lambda _: path),
        Field(
            "pool",
            "Pool",
            lambda row: row.pool or "no pool",
            link=lambda row: Link(Kind.POOL, row.pool) if row.pool else None,
            is_shown_only=True,
        ),
        Field("pool"),
        Field(
            "value",
            "Value",
            lambda row: end_cut(setting_text(*row.value)),
            tone=tone,
            link=lambda row: Link(Kind.SETTING, path, row.pool) if row.pool else None,
            is_code=True,
            is_shown_only=True,
        ),
        Field("", key="value", value=lambda row: row.value.value if row.is_reported else None),
        Field("value.state", key="state"),
        Field("", "Replicas", value=lambda row: len(row.replicas), key="replicas", is_number=True),
        Field("cohorts"),
        Field("", "Names", _names, is_shown_only=True),
        Field("", key="names", value=lambda row: tuple(each.name for each in row.replicas)),
        Field("", "Origin", lambda row: origins_text(row.origins) if row.is_reported else "", is_shown_only=True),
        Field("", key="origins", value=lambda row: tuple(f"{text}: {number}" for text, number in row.origins)),
    )


def _names(known: PoolValue) -> Cell:
    first = known.replicas[:FEW]
    more = len(known.replicas) - len(first)
    names = join_texts([(replica(each.name, each.id),) for each in first], last=", " if more else " and ")
    cohorts = f" ({', '.join(known.cohorts)})" if known.cohorts else ""
    pieces = (*names, Piece(f"{f' and {more:,} more' if more else ''}{cohorts}", Style.MUTED))
    return Cell(to_plain(pieces), pieces=pieces)


def origin_text(path: str, value: SettingValue, replica: Replica) -> str:
    """Write the origin of a replica's value: `set by --block-size`, `default`, `derived`."""
    origin = value_origin(path, value, replica.version, replica.set_arguments)
    if origin is not ValueOrigin.SET or replica.set_arguments is None:
        return str(origin)
    argument = setting_arguments(replica.set_arguments, replica.version)[path]
    place = f" ({argument.source.replace('_', ' ')})" if argument.source != COMMAND_LINE else ""
    return f"set by {argument.name}{place}"


def setting_value(fleet: Fleet, replica: Replica, path: str) -> SettingValue:
    """Return the value or the state of a setting of a replica, which must have a document."""
    setting = fleet.documents[str(replica.document)].settings.get(path)
    if setting is not None:
        return SettingValue(setting.value, setting.state)
    return SettingValue("null", State.UNSUPPORTED if is_unsupported(replica.version, path) else State.ABSENT)


def replicas_section(fleet: Fleet, path: str, replicas: Sequence[Replica]) -> tuple[Section, ...]:
    return (Section(REPLICAS, "Replicas", (_table(fleet, replicas, path),)),) if replicas else ()


def affected_section(fleet: Fleet, finding: Finding) -> Section:
    """Return the replicas of a finding, then the others of its pools, with the first setting that it names."""
    affected = set(finding.replicas)
    members = [each for each in fleet.replicas if each.id in affected or each.pool in finding.pools]
    members.sort(key=lambda each: each.id not in affected)
    settings = (path for path in finding.paths if any(path in each.settings for each in fleet.documents.values()))
    marks = {each.id: "yes" if each.id in affected else "no" for each in members}
    return Section(
        "compare-replicas", "Compare replicas", (_table(fleet, members, next(settings, ""), marks),), is_aside=True
    )


def _table(fleet: Fleet, replicas: Sequence[Replica], path: str, affected: Mapping[str, str] | None = None) -> Table:
    """Return a row for each replica. The columns of value and origin are only there with a `path`."""
    letters = cohort_letters(fleet.pools)

    def value(row: Replica) -> str:
        return end_cut(setting_text(*setting_value(fleet, row, path))) if row.document else ""

    def origin(row: Replica) -> str:
        return origin_text(path, setting_value(fleet, row, path), row) if row.document else ""

    fields = [Field("name", "Replica", lambda row: row.name, link=lambda row: Link(Kind.REPLICA, row.id))]
    fields += [Field("", "Affected", lambda row: affected[row.id])] if affected else []
    fields += [Field("pool", "Pool"), Field("", "Cohort", lambda row: letters.get(row.id, ""))]
    fields += [Field("", "Value", value, is_code=True), Field("", "Origin", origin)] if path else []
    note = f"Value of {path}." if path and affected else ""
    caption = f"{path} by replica" if path else "Replicas"
    return to_table(replicas, fields, REPLICAS, caption, note, most=MOST_ROWS, is_large=True)


def declared_section(path: str) -> Section:
    known = declarations(path)
    if not known:
        why = "not a variable of vLLM" if path.startswith("env.") else "no vLLM version declares it"
        return Section(DECLARED, "Field reference", (Paragraph(plain(f"Not in the field reference: {why}.")),))
    variable = path.removeprefix("env.") if path.startswith("env.") else ""
    fields = (
        Field("", "vLLM", lambda row: _span(*row)),
        Field("", "Type", lambda row: row[0].type, is_code=True),
        Field("", "Default", lambda row: default_text(row[0]), is_code=True),
        Field("", "Flag", lambda row: " ".join(row[0].flags) or variable, is_code=True),
    )
    note = "Read from vLLM's source: the newest patch of each minor version since 0.12."
    rows = zip(known, [*known[1:], None], strict=True)
    table = to_table(rows, fields, "field-reference", "Declared by vLLM", note)
    sentence = known_sentences().get(path)
    return Section(DECLARED, "Field reference", (*([Paragraph(plain(sentence))] if sentence else []), table))


def default_text(declared: Declaration) -> str:
    """Write a default: its value, or `computed (SYMBOL)`."""
    if declared.default is None:
        return f"computed ({declared.computed})"
    return setting_text(declared.default, State.NULL if json.loads(declared.default) is None else State.REPORTED)


def _span(declared: Declaration, following: Declaration | None) -> str:
    if declared.until:
        return declared.since if declared.since == declared.until else f"{declared.since} to {declared.until}"
    return f"{declared.since} to before {following.since}" if following else f"{declared.since} and newer"
