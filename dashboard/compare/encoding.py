"""Settings of many documents as one matrix of integers: comparing them compares integers."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dashboard.fleet import CodeTable, Setting, SettingValue, State
from dashboard.vllm.canonical import FILLED_IN_LATER
from dashboard.vllm.lookahead import LOOKAHEAD, lookahead_setting
from dashboard.vllm.versions import is_unsupported

Codes = NDArray[np.int32]

# Codes below NULL are no values and contradict nothing.
# UNSUPPORTED is in no table: MISSING becomes UNSUPPORTED when the version explains it.
MISSING, UNSUPPORTED, UNKNOWN, REDACTED, NULL = range(5)
VALUELESS = (State.ABSENT, State.UNSUPPORTED, State.UNKNOWN, State.REDACTED, State.NULL)  # by code
_CODES = {state: code for code, state in enumerate(VALUELESS)}
_EMPTY = "{}"
_ABOVE_ALL = np.iinfo(np.int32).max


def encode(documents: Sequence[Mapping[str, Setting]]) -> CodeTable:
    """Return a table with a column for every path that any document reports.

    The state of a section applies to the paths below it: a section that is null, empty or one value has no leaves,
    so they are null. A section that other documents have leaves of gets no column if it is only ever null or empty.
    """
    paths = sorted(set().union(*documents))
    column = {path: index for index, path in enumerate(paths)}
    numbers: dict[str, int] = {}
    codes = np.zeros((len(documents), len(paths)), dtype=np.int32)
    for row, settings in zip(codes, documents, strict=True):
        row[[column[path] for path in settings]] = [_code(setting, numbers) for setting in settings.values()]
    sections = _spread(codes, paths, column)
    for path in column.keys() & FILLED_IN_LATER:
        of_path = codes[:, column[path]]
        of_path[of_path == NULL] = UNKNOWN
    empty = numbers.get(_EMPTY, NULL)
    left = {j for j in sections if not np.any((codes[:, j] > NULL) & (codes[:, j] != empty))}
    kept = [j for j in range(len(paths)) if j not in left]
    values = [SettingValue("null", state) for state in VALUELESS]
    values += [SettingValue(text, State.REPORTED) for text in numbers]
    return CodeTable(
        tuple(paths[j] for j in kept), codes[:, kept], tuple(values), {paths[j]: codes[:, j].copy() for j in left}
    )


def codes_of(table: CodeTable, path: str) -> Codes:
    """Return the code of a path in each document: its own, or that of a section above it, as `lookup_setting` does.

    The hash lookahead is not derived.
    """
    section = path
    while section:
        column = bisect_left(table.paths, section)
        codes = table.sections.get(section)
        if column < len(table.paths) and table.paths[column] == section:
            codes = table.codes[:, column]
        if codes is not None:
            break
        section = section.rpartition(".")[0]
    else:
        return np.zeros(len(table.codes), dtype=np.int32)
    if section == path:
        return codes
    below = np.minimum(codes, NULL)
    return np.where(below == NULL, UNKNOWN, below).astype(np.int32) if path in FILLED_IN_LATER else below


def lookup_setting(settings: Mapping[str, Setting], path: str) -> Setting | None:
    """Return the setting of a path, its own or that of a section above it; None if neither is reported.

    The hash lookahead is derived where it is not reported.
    """
    if path == LOOKAHEAD:
        return lookahead_setting(settings)
    best = settings.get(path)
    section = path
    while _rank(best) < NULL and (section := section.rpartition(".")[0]):
        above = settings.get(section)
        if above is not None and _rank(above) > _rank(best):
            best = Setting("null", State.NULL, above.source) if is_comparable(above.state) else above
    if best is not None and best.state is State.NULL and path in FILLED_IN_LATER:
        return best._replace(state=State.UNKNOWN)
    return best


def lookup_value(settings: Mapping[str, Setting], path: str) -> SettingValue | None:
    """Return the value of a path, as `lookup_setting` finds it; None if it has none."""
    setting = lookup_setting(settings, path)
    return SettingValue(setting.value, setting.state) if setting is not None and is_comparable(setting.state) else None


def missing_code(version: str | None, path: str) -> int:
    """Return the code of a path that a document of this vLLM version does not report."""
    return UNSUPPORTED if is_unsupported(version, path) else MISSING


def is_comparable(state: State) -> bool:
    """Return whether a setting in this state has a value that a different value can contradict."""
    return state is State.REPORTED or state is State.NULL


def has_contradiction(codes: Codes) -> NDArray[np.bool_]:
    """Return for every column whether two of its rows have different values."""
    has_value = codes >= NULL
    highest = np.where(has_value, codes, MISSING).max(axis=0, initial=MISSING)
    lowest = np.where(has_value, codes, _ABOVE_ALL).min(axis=0, initial=_ABOVE_ALL)
    return np.asarray(highest > lowest)


def _code(setting: Setting, numbers: dict[str, int]) -> int:
    if setting.state is State.REPORTED:
        return numbers.setdefault(setting.value, len(numbers) + NULL + 1)
    return _CODES[setting.state]


def _spread(codes: Codes, paths: Sequence[str], column: Mapping[str, int]) -> set[int]:
    """Fill leaves with the state of the section above them. Return the columns of such sections.

    A section sorts before its leaves, so it is filled before them.
    """
    sections = set()
    for index, path in enumerate(paths):
        section = path.rpartition(".")[0]
        while section and section not in column:
            section = section.rpartition(".")[0]
        if section:
            above = codes[:, column[section]]
            own = codes[:, index]
            own[:] = np.where(own < NULL, np.maximum(own, np.minimum(above, NULL)), own)
            sections.add(column[section])
    return sections


def _rank(setting: Setting | None) -> int:
    """Return how informative a setting is: the code of its state, NULL for any value."""
    return MISSING if setting is None else _CODES.get(setting.state, NULL)
