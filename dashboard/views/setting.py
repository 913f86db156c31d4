"""The page of one setting: its values on all replicas, where they are from, and what vLLM declares."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Replica, SettingValue, State, cohort_letters
from dashboard.fleet.formatting import FEW, SOME, STATE_WORDS, count, end_cut, setting_text, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, join_texts, page, plain, replica, to_plain
from dashboard.rules.findings import Finding
from dashboard.rules.sentences import capital
from dashboard.views import pages
from dashboard.views.blocks import Bar, Cell, Entries, Entry, Gauges, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.names import brief
from dashboard.views.pool_comparison import setting_severities
from dashboard.views.table import Field, to_data, to_table
from dashboard.vllm.field_reference import Declaration, declarations, known_paths, known_sentences
from dashboard.vllm.value_origin import ValueOrigin, setting_arguments, value_origin
from dashboard.vllm.versions import is_unsupported

VALUES, REPLICAS, DECLARED = "values", "setting-replicas", "declared"  # anchors of the sections
MOST_ROWS = 1_000
COMMAND_LINE = "command_line"  # the source of an argument that is not named
ORIGIN_NOTE = " Only the configuration API reports which arguments were given (docs/config-api.md)."
LONGEST = 60  # characters of a value in a sentence
MOST_BARS = 12  # values of a histogram
ALIKE = 0.8  # of two last names, of which one is misspelled
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

    @property
    def chosen(self) -> list[tuple[str, str]]:
        """The filters that are set, with their names in the URL."""
        return [(key, text) for key, text in self._asdict().items() if text]


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


def setting_report(
    fleet: Fleet, path: str, choice: SettingFilter = EVERY_SETTING, *, has_replicas: bool = False
) -> View:
    """Return all values of a setting, by replica too with `has_replicas`; where there is none, similar settings."""
    lead, parts = NO_SUCH_SETTING, list[Section]()
    if (similar := similar_settings(fleet, path)) is not None:
        parts.append(_similar_section(similar))
    else:
        known = tuple(pool_values(fleet, path, choice))
        lead = _lead(known) or none_text(fleet, "replica")
        parts += [_values_section(fleet, path, known)] if known else []
        parts.append(declared_section(path))
        members = [each for value in known for each in value.replicas]
        if has_replicas and members:
            parts.append(Section(REPLICAS, "Replicas", (_table(fleet, members, path),)))
    context = context_of(fleet, filters=[("path", path), *choice.chosen])
    return View(title="Setting", headline=path, lead=lead, context=context, parts=tuple(parts))


def none_text(fleet: Fleet, what: str) -> str:
    """Return why nothing is listed: no replica answered or reports settings, else no `what` matches the filters."""
    if any(each.document is not None for each in fleet.replicas):
        return f"No {what} matches the filters."
    return "No replica reports its settings." if fleet.coverage.answered else "No replica answered."


def similar_settings(fleet: Fleet, path: str) -> list[str] | None:
    """Return settings that are like a path that no replica reports and no vLLM version has; None for any other path."""
    reported = {each for document in fleet.documents.values() for each in document.settings}
    if path in reported or path in known_paths():
        return None
    every = sorted(reported | set(known_paths()))
    last = path.rpartition(".")[2].lower()
    found = [each for each in every if each.rpartition(".")[2].lower() == last]
    found = found or [each for each in every if path.lower() in each.lower()]
    if "." not in path:
        by_name = {each.rpartition(".")[2]: each for each in reversed(every)}
        found = found or [by_name[each] for each in get_close_matches(path, by_name, SOME, ALIKE)]
    return (found or get_close_matches(path, every, SOME))[:SOME]


def _similar_section(similar: Sequence[str]) -> Section:
    if not similar:
        return Section("similar", "", (Paragraph(plain("Search the list of settings by path or value.")),))
    entries = tuple(
        Entry(Tone.PLAIN, (Piece(each, Style.CODE, page(pages.SETTINGS, **{pages.PATH: each})),)) for each in similar
    )
    return Section("similar", "Similar settings", (Entries(entries),))


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


def other_values(fleet: Fleet, path: str, pool: str) -> str:
    """Return the values of a setting on the replicas of all pools but one, as the lead of its page does."""
    return _lead([each for each in pool_values(fleet, path) if each.pool != pool]).removesuffix(".")


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
    return (Gauges("values", "Replicas by value", "", tuple(bars[:MOST_BARS]), note, HISTOGRAM_HEADS),)


def _values_section(fleet: Fleet, path: str, known: Sequence[PoolValue]) -> Section:
    lacks_arguments = any(
        replica.set_arguments is None for each in known if each.is_reported for replica in each.replicas
    )
    note = "The most frequent value of a pool is last." + (ORIGIN_NOTE if lacks_arguments else "")
    table = to_table(known, _value_fields(path, fleet), "settings", f"Values of {path}", note)
    return Section(VALUES, "Replicas by value", (*_histogram(known), table))


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
            attrgetter("pool"),
            link=lambda row: Link(Kind.POOL, row.pool) if row.pool else None,
            key="pool",
        ),
        Field(
            "value",
            "Value",
            lambda row: end_cut(setting_text(*row.value)),
            lambda row: row.value.value if row.is_reported else "",
            tone=tone,
            link=lambda row: Link(Kind.SETTING, path, row.pool) if row.pool else None,
            key="value",
            is_code=True,
        ),
        Field("value.state", key="state"),
        Field("", "Replicas", value=lambda row: len(row.replicas), key="replicas", is_number=True),
        Field("cohorts"),
        Field("", "Names", _names, lambda row: tuple(each.name for each in row.replicas), key="names"),
        Field(
            "",
            "Origin",
            lambda row: origins_text(row.origins) if row.is_reported else "",
            lambda row: tuple(f"{text}: {number}" for text, number in row.origins),
            key="origins",
        ),
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
    return to_table(replicas, fields, REPLICAS, caption, note, most=MOST_ROWS, is_whole=True)


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
