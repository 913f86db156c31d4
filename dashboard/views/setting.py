"""One setting over the whole fleet: its values per pool, its replicas, and what vLLM declares of it."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, SettingValue, State, cohort_letters
from dashboard.fleet.formatting import FEW, count, end_cut, setting_text, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, join_texts, plain, replica, to_plain
from dashboard.rules.findings import Finding, Severity
from dashboard.views.blocks import Cell, Paragraph, Section, Table, Tone, View
from dashboard.views.context import Context
from dashboard.views.pool_comparison import worst_by_path
from dashboard.views.table import Field, to_data, to_table
from dashboard.vllm.field_reference import Declaration, declarations, known_sentences
from dashboard.vllm.value_origin import ValueOrigin, setting_arguments, value_origin
from dashboard.vllm.versions import is_unsupported

VALUES, REPLICAS, DECLARED = "values", "setting-replicas", "declared"  # anchors of the sections
MOST_ROWS = 1_000
COMMAND_LINE = "command_line"  # the source of an argument that is not named
ORIGIN_NOTE = " Only the configuration API reports which arguments were given (docs/config-api.md)."


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
        """Whether the replicas report a value, null included."""
        return self.value.state not in {State.ABSENT, State.UNSUPPORTED}


def setting_report(
    fleet: Fleet, path: str, known: Sequence[PoolValue], context: Context, *, has_replicas: bool = False
) -> View:
    """Return all values of a setting, by replica too with `has_replicas`."""
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


def _lead(known: Sequence[PoolValue]) -> str:
    reported = [each for each in known if each.is_reported]
    by_pool = Counter(each.pool for each in reported)
    differing = [pool for pool, number in by_pool.items() if number > 1]
    missing = sum(len(each.replicas) for each in known if not each.is_reported)
    values = count(len({each.value for each in reported}), "value")
    parts = [f"{values} in {count(len(by_pool), 'pool')}"] if reported else []
    parts += [f"different in {shortlist(differing, FEW)}"] if differing else []
    parts += [f"{'not' if parts else 'Not'} reported by {count(missing, 'replica')}"] if missing else []
    return f"{'; '.join(parts)}." if parts else ""


def _values_section(fleet: Fleet, path: str, known: Sequence[PoolValue]) -> Section:
    if not known:
        return Section(VALUES, "Values", (Paragraph(plain("No replica matches the filters.")),))
    lacks_arguments = any(
        replica.set_arguments is None for each in known if each.is_reported for replica in each.replicas
    )
    note = "The most frequent value of a pool is last." + (ORIGIN_NOTE if lacks_arguments else "")
    table = to_table(known, _value_fields(path, fleet), "settings", f"Values of {path}", note)
    return Section(VALUES, "Values", (table,))


def values_data(path: str, known: Iterable[PoolValue]) -> Table:
    """Return the values of a setting for programs: canonical JSON, empty where it is not reported."""
    return to_data(known, _value_fields(path), "settings", f"Values of {path}")


def _value_fields(path: str, fleet: Fleet | None = None) -> tuple[Field, ...]:
    """Return the columns of values; a value is marked with the worst finding on the setting in its pool, of a fleet."""

    def severity(row: PoolValue) -> Severity | None:
        return worst_by_path(fleet.inspection, row.pool).get(path) if fleet else None

    def tone(row: PoolValue) -> Tone:
        if row.is_most:
            return Tone.PLAIN
        return Tone(severity(row) or Tone.PLAIN) if row.is_reported else Tone.UNKNOWN

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
