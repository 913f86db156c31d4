"""The settings of one replica: each with its value, state and source, beside what most of its pool have."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Document, Pool, Setting, SettingValue, State, formatting
from dashboard.report.replicas.differences import Apart
from dashboard.report.replicas.sources import SOURCES

TOP = "top"  # the section of settings that stand in none, such as version
LONGEST = 300  # characters of a value in a cell; the whole one is shown when its row is selected
STATES = {State.REPORTED: "reported", State.NULL: "not set", **formatting.STATE_WORDS}
POOL_HAS = "Most of its pool"
DIFFERS, NO_MAJORITY = "≠ ", "≠ no majority"
SAME, NOT_COMPARED = "same", "not compared"
SHOWN = ("Section", "Setting", "Value", POOL_HAS, "State", "Told by")


class ReadCoverage(NamedTuple):
    """How far the settings of one replica were read: how many, how many beside others, how many its pool tells."""

    read: int
    compared: int
    of_pool: int


def settings_table(
    settings: Mapping[str, Setting], apart: Sequence[Apart], comparable: Collection[str] = ()
) -> pd.DataFrame:
    """Return a row per setting, those that differ from the pool first; `path` and `whole` are uncut and not shown.

    `comparable` are the paths that another replica of the pool tells, too.
    """
    majority = {each.path: each.majority for each in apart}
    rows = [
        (
            *_split(path),
            _one_line(setting),
            _majority(majority[path]) if path in majority else _as_others(setting, known=path in comparable),
            STATES[setting.state],
            SOURCES[setting.source],
            path,
            formatting.whole_text(setting.value, setting.state),
        )
        for path, setting in sorted(settings.items(), key=lambda item: (item[0] not in majority, item[0]))
    ]
    return pd.DataFrame(rows, columns=pd.Index([*SHOWN, "path", "whole"]), dtype="string")


def comparable(pool: Pool, others: Iterable[Document]) -> frozenset[str]:
    """Return the paths that at least one of the other replicas of a pool tells and that are compared."""
    told = {path for other in others for path, setting in other.settings.items() if is_comparable(setting.state)}
    return frozenset(told.difference(pool.ignored))


def reach(rows: pd.DataFrame, of_pool: Collection[str]) -> ReadCoverage:
    """Count a table of settings; `of_pool` are all paths that the replicas of its pool tell."""
    return ReadCoverage(
        len(rows), int((~rows[POOL_HAS].isin([NOT_COMPARED, formatting.NOT_KNOWN])).sum()), len(of_pool)
    )


def filtered(rows: pd.DataFrame, *, section: str | None, search: str, only_differences: bool) -> pd.DataFrame:
    """Return the rows of a section whose path or value holds every word of the search."""
    kept = pd.Series(data=True, index=rows.index)
    if section is not None:
        kept &= (rows["Section"] == section).astype(bool)
    if only_differences:
        kept &= rows[POOL_HAS].str.startswith(DIFFERS).astype(bool)
    hay = (rows["path"] + " " + rows["whole"]).str.lower()
    for word in search.lower().split():
        kept &= hay.str.contains(word, regex=False).astype(bool)
    return rows[kept]


def identity_table(identity: Mapping[str, Setting]) -> pd.DataFrame:
    """Return what identifies the replica and is therefore never compared."""
    rows = [
        (formatting.one_line(path), _one_line(told), SOURCES[told.source]) for path, told in sorted(identity.items())
    ]
    return pd.DataFrame(rows, columns=pd.Index(["Setting", "Value", "Told by"]), dtype="string")


def _split(path: str) -> tuple[str, str]:
    section, dot, leaf = formatting.one_line(path).partition(".")
    return (section, leaf) if dot else (TOP, section)


def _one_line(setting: Setting) -> str:
    text = formatting.whole_text(setting.value, setting.state)
    if "\n" in text and setting.state is State.REPORTED:
        text = setting.value
    return formatting.middle_cut(formatting.one_line(text), LONGEST)


def _as_others(setting: Setting, *, known: bool) -> str:
    if not is_comparable(setting.state):
        return formatting.NOT_KNOWN
    return SAME if known else NOT_COMPARED


def _majority(told: SettingValue | None) -> str:
    return f"{DIFFERS}{formatting.setting_text(told.value, told.state)}" if told else NO_MAJORITY
