"""The settings of one replica: each with its value, state and source, beside what most of its pool have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from dashboard.models import State
from dashboard.report import values
from dashboard.ui.value_dialog import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboard.models import Setting, Told
    from dashboard.ui.replica_differences import Apart

TOP = "top"  # the section of settings that stand in none, such as version
LONGEST = 300  # characters of a value in a cell; the whole one is shown when its row is selected
STATES = {State.REPORTED: "reported", State.NULL: "not set", **values.STATE_WORDS}
POOL_HAS = "Most of its pool"
NO_MAJORITY = "≠ no majority"
SHOWN = ("Section", "Setting", "Value", POOL_HAS, "State", "Said by")


def settings_table(settings: Mapping[str, Setting], apart: Sequence[Apart]) -> pd.DataFrame:
    """Return a row per setting, those that differ from the pool first; `path` and `whole` are uncut and not shown."""
    majority = {each.path: each.majority for each in apart}
    rows = [
        (
            *_split(path),
            _one_line(setting),
            _majority(majority[path]) if path in majority else "",
            STATES[setting.state],
            SOURCES[setting.source],
            path,
            values.whole_text(setting.value, setting.state),
        )
        for path, setting in sorted(settings.items(), key=lambda item: (item[0] not in majority, item[0]))
    ]
    return pd.DataFrame(rows, columns=pd.Index([*SHOWN, "path", "whole"]), dtype="string")


def filtered(rows: pd.DataFrame, *, section: str | None, search: str, only_differences: bool) -> pd.DataFrame:
    """Return the rows of a section whose path or value holds every word of the search."""
    kept = pd.Series(data=True, index=rows.index)
    if section is not None:
        kept &= (rows["Section"] == section).astype(bool)
    if only_differences:
        kept &= (rows[POOL_HAS] != "").astype(bool)
    hay = (rows["path"] + " " + rows["whole"]).str.lower()
    for word in search.lower().split():
        kept &= hay.str.contains(word, regex=False).astype(bool)
    return rows[kept]


def identity_table(identity: Mapping[str, Setting]) -> pd.DataFrame:
    """Return what identifies the replica and is therefore never compared."""
    rows = [(path, _one_line(told), SOURCES[told.source]) for path, told in sorted(identity.items())]
    return pd.DataFrame(rows, columns=pd.Index(["Setting", "Value", "Said by"]), dtype="string")


def _split(path: str) -> tuple[str, str]:
    section, dot, leaf = path.partition(".")
    return (section, leaf) if dot else (TOP, path)


def _one_line(setting: Setting) -> str:
    text = values.whole_text(setting.value, setting.state)
    if "\n" in text and setting.state is State.REPORTED:
        text = setting.value
    return values.middle_cut(values.one_line(text), LONGEST)


def _majority(told: Told | None) -> str:
    return f"≠ {values.told_text(told.value, told.state)}" if told else NO_MAJORITY
