"""The settings of one replica, compared with the majority of its pool."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Document, Pool, Replica, SettingValue, Source, State, formatting
from dashboard.fleet.formatting import count, middle_cut, one_line, setting_text
from dashboard.fleet.frames import settings_frame
from dashboard.fleet.pieces import Kind, Link, plain
from dashboard.views.blocks import Block, Cell, Column, Paragraph, Table, Tone, quiet_paragraph
from dashboard.views.slugs import slug

LONGEST = 300  # characters of a value in a cell; the page shows the whole one of a selected row
TOP = "top"  # the section of settings without one, such as version
STATES = {State.REPORTED: "reported", State.NULL: "not set", **formatting.STATE_WORDS}
DIFFERS, NO_MAJORITY = "≠ ", "≠ no majority"
SAME, NOT_COMPARED = "same", "not compared"
IDENTITY_NOTE = "Identity settings must or may differ per replica. They are never compared."


class MajorityDifference(NamedTuple):
    """A setting that differs from the majority of the pool. `majority` is None where no value has one."""

    path: str
    majority: SettingValue | None


class ReplicaComparison(NamedTuple):
    """A replica's pool, its differences from the pool's majority, and its settings as rows.

    `compared` counts the settings that another replica of the pool reports, `of_pool` those of any replica of it.
    """

    pool: Pool | None
    differences: tuple[MajorityDifference, ...]
    rows: pd.DataFrame
    compared: int
    of_pool: int


class SettingChoice(NamedTuple):
    """The filters of the table: a section (None: all), words of a path or value, and whether equal ones are hidden."""

    section: str | None = None
    search: str = ""
    only_differences: bool = False


EVERY_SETTING = SettingChoice()


def compare_with_pool(fleet: Fleet, replica: Replica) -> ReplicaComparison:
    """Compare the settings of a replica with those of its pool."""
    pool = next((pool for pool in fleet.pools if pool.name == replica.pool), None)
    document = fleet.documents.get(replica.document or "")
    settings = document.settings if document else {}
    differences = majority_differences(pool, document) if pool and document else ()
    ids = {each.document for each in fleet.replicas if each.pool == replica.pool and each.id != replica.id}
    others = [each for key, each in fleet.documents.items() if key in ids]
    reported = {
        path for other in others for path, setting in other.settings.items() if is_comparable(setting.state)
    }.difference(pool.ignored if pool else ())
    rows = setting_rows(document, differences, reported if pool else ())
    compared = int((~rows["majority"].isin([NOT_COMPARED, formatting.NOT_KNOWN])).sum())
    of_pool = {*settings, *(path for other in others for path in other.settings)}
    return ReplicaComparison(pool, differences, rows, compared, len(of_pool))


def majority_differences(pool: Pool, document: Document) -> tuple[MajorityDifference, ...]:
    """Return the differences of a pool in which a document does not have the value of the majority.

    Settings that it does not report are left out. Where no value has a majority, every value is a difference.
    """
    found = []
    for difference in pool.differences:
        setting = lookup_setting(document.settings, difference.path)
        if setting is None or not is_comparable(setting.state):
            continue
        majority = difference.majority
        if majority is None or (setting.value, setting.state) != (majority.value, majority.state):
            found.append(MajorityDifference(difference.path, majority))
    return tuple(found)


def count_differences(differences: Sequence[MajorityDifference]) -> int:
    """Count the differences from a majority; without a majority no side differs."""
    return sum(each.majority is not None for each in differences)


def pool_differences(
    pools: Sequence[Pool], documents: Mapping[str, Document]
) -> Mapping[tuple[str | None, str | None], int]:
    """Return in how many settings each document differs from the majority, by pool and document."""
    return {
        (pool.name, document): count_differences(majority_differences(pool, documents[document]))
        for pool in pools
        for cohort in pool.cohorts
        for document in cohort.documents
    }


def setting_rows(
    document: Document | None, differences: Sequence[MajorityDifference], reported: Collection[str] = ()
) -> pd.DataFrame:
    """Return the frame `settings` of a document, differences first, with section, majority and `text` to search in.

    `reported` are the paths that other replicas of the pool report.
    """
    rows = settings_frame([document] if document else [])
    states = [State(each) for each in rows["state"]]
    texts = [formatting.whole_text(value, state) for value, state in zip(rows["value"], states, strict=True)]
    majority = {each.path: _majority(each.majority) for each in differences}
    others = {
        path: formatting.NOT_KNOWN if not is_comparable(state) else SAME if path in reported else NOT_COMPARED
        for path, state in zip(rows["path"], states, strict=True)
    }
    rows = rows.assign(
        section=rows["path"].str.extract(r"^([^.]*)\.", expand=False).fillna(TOP),
        text=(rows["path"] + " " + pd.Series(texts, dtype="string")).str.lower(),
        value=[_one_line(*each) for each in zip(texts, rows["value"], states, strict=True)],
        majority=rows["path"].map({**others, **majority}).astype("string"),
        state=[STATES[each] for each in states],
        source=[formatting.SOURCE_WORDS[Source(each)] for each in rows["source"]],
        is_equal=~rows["path"].isin(majority.keys()),
    )
    return rows.sort_values(["is_equal", "path"], ignore_index=True).astype({"state": "string", "source": "string"})


def filter_settings(rows: pd.DataFrame, choice: SettingChoice) -> pd.DataFrame:
    """Return the rows of a section whose path or value contains every word of the search."""
    kept = pd.Series(data=True, index=rows.index)
    if choice.section is not None:
        kept &= (rows["section"] == choice.section).astype(bool)
    if choice.only_differences:
        kept &= rows["majority"].str.startswith(DIFFERS).astype(bool)
    for word in choice.search.lower().split():
        kept &= rows["text"].str.contains(word, regex=False).astype(bool)
    return rows[kept]


def settings_blocks(replica: Replica, comparison: ReplicaComparison, choice: SettingChoice) -> tuple[Block, ...]:
    """Return the table of the settings that match the filters."""
    total = len(comparison.rows)
    if not total:
        return (Paragraph(plain("Settings never read. The probes show the reason."), Tone.UNKNOWN),)
    rows = filter_settings(comparison.rows, choice)
    if rows.empty:
        return (Paragraph(plain(f"No matches. {count(total, 'setting')} hidden."), Tone.INFO),)
    columns = (
        Column("Setting", is_code=True),
        Column("Value", is_code=True),
        Column("Pool majority", is_code=True, key="Most of its pool"),
        Column("State"),
        Column("Source", key="Told by"),
    )
    shown = rows[["path", "value", "majority", "state", "source"]].itertuples(index=False)
    cells = tuple(tuple(Cell(one_line(text), link=Link(Kind.SETTING, row[0])) for text in row) for row in shown)
    note = f"{len(rows):,} of {count(total, 'setting')}."
    return (Table(f"settings-{slug(replica.name)}", "Settings", columns, cells, note, is_large=True),)


def identity_blocks(replica: Replica) -> tuple[Block, ...]:
    """Return the labels and the identity settings of a replica."""
    rows = [(f"label {key}", text, "fleet.yaml") for key, text in sorted(replica.labels.items())]
    rows += [
        (path, _one_line(text, setting.value, setting.state), formatting.SOURCE_WORDS[setting.source])
        for path, setting in sorted(replica.identity.items())
        for text in [formatting.whole_text(setting.value, setting.state)]
    ]
    if not rows:
        return (quiet_paragraph("No labels, and no identity settings reported."),)
    columns = (Column("Setting", is_code=True), Column("Value", is_code=True), Column("Source", key="Told by"))
    cells = tuple(tuple(Cell(one_line(text)) for text in row) for row in rows)
    return (Table("identity", "Identity", columns, cells, IDENTITY_NOTE, is_large=True),)


def _one_line(text: str, value: str, state: State) -> str:
    """Return a value on one line; objects as compact JSON."""
    return middle_cut(one_line(value if "\n" in text and state is State.REPORTED else text), LONGEST)


def _majority(majority: SettingValue | None) -> str:
    return f"{DIFFERS}{setting_text(majority.value, majority.state)}" if majority else NO_MAJORITY
