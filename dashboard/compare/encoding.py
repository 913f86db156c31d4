"""Settings of many documents as one matrix of integers, so that comparing is comparing integers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dashboard.fleet import Setting, SettingValue, State
from dashboard.vllm.canonical import FILLED_IN_LATER
from dashboard.vllm.lookahead import LOOKAHEAD, lookahead_setting

# Whether it is known that a vLLM version (None: not known) has no such path.
Unsupported = Callable[[str | None, str], bool]
Codes = NDArray[np.int32]

# Codes below NULL say nothing that another document could contradict: they never vote.
# UNSUPPORTED stands in no table: it is what MISSING becomes when the version explains it.
MISSING, UNSUPPORTED, UNKNOWN, REDACTED, NULL = range(5)
VALUELESS = (State.ABSENT, State.UNSUPPORTED, State.UNKNOWN, State.REDACTED, State.NULL)  # by code
_CODES = {state: code for code, state in enumerate(VALUELESS)}
_NOTHING_IN_IT = "{}"
_ABOVE_ALL = np.iinfo(np.int32).max


class Table(NamedTuple):
    """`codes[i, j]` is what document i tells of `paths[j]`, and `told[code]` what a code means.

    Paths are sorted. Equal codes are equal values; their order means nothing.
    """

    paths: tuple[str, ...]
    codes: Codes
    told: tuple[SettingValue, ...]


def encode(documents: Sequence[Mapping[str, Setting]], filled_in_later: Collection[str] = FILLED_IN_LATER) -> Table:
    """Put documents into a table with a column for every path that any of them tells.

    What a document tells of a section, it tells of the paths below: a section that is null, empty or
    one value has no leaves, so they are null. A section gets no column of its own when others have leaves
    below it and all that is told of itself is that it is null or empty.
    """
    paths = sorted(set().union(*documents))
    column = {path: index for index, path in enumerate(paths)}
    numbers: dict[str, int] = {}
    codes = np.zeros((len(documents), len(paths)), dtype=np.int32)
    for row, settings in zip(codes, documents, strict=True):
        row[[column[path] for path in settings]] = [_code(setting, numbers) for setting in settings.values()]
    sections = _spread(codes, paths, column)
    for path in column.keys() & set(filled_in_later):
        of_path = codes[:, column[path]]
        of_path[of_path == NULL] = UNKNOWN
    empty = numbers.get(_NOTHING_IN_IT, NULL)
    kept = [j for j in range(len(paths)) if j not in sections or np.any((codes[:, j] > NULL) & (codes[:, j] != empty))]
    told = [SettingValue("null", state) for state in VALUELESS] + [
        SettingValue(text, State.REPORTED) for text in numbers
    ]
    return Table(tuple(paths[j] for j in kept), codes[:, kept], tuple(told))


def tell(
    settings: Mapping[str, Setting], path: str, filled_in_later: Collection[str] = FILLED_IN_LATER
) -> Setting | None:
    """Return what one document reports of a path, itself or by a section above it; None if nothing.

    The hash lookahead is derived where it is not reported.
    """
    if path == LOOKAHEAD:
        return lookahead_setting(settings)
    best = settings.get(path)
    section = path
    while _rank(best) < NULL and (section := section.rpartition(".")[0]):
        above = settings.get(section)
        if above is not None and _rank(above) > _rank(best):
            best = Setting("null", State.NULL, above.source) if votes(above.state) else above
    if best is not None and best.state is State.NULL and path in filled_in_later:
        return best._replace(state=State.UNKNOWN)
    return best


def why_missing(version: str | None, path: str, unsupported: Unsupported) -> int:
    """Return the code of a path that a document of this vLLM version does not tell."""
    return UNSUPPORTED if unsupported(version, path) else MISSING


def votes(state: State) -> bool:
    """Tell whether a setting in this state is a value that another one can contradict."""
    return state is State.REPORTED or state is State.NULL


def split(codes: Codes) -> NDArray[np.bool_]:
    """Tell for every column whether at least two of its rows contradict each other."""
    voting = codes >= NULL
    highest = np.where(voting, codes, MISSING).max(axis=0, initial=MISSING)
    lowest = np.where(voting, codes, _ABOVE_ALL).min(axis=0, initial=_ABOVE_ALL)
    return np.asarray(highest > lowest)


def _code(setting: Setting, numbers: dict[str, int]) -> int:
    if setting.state is State.REPORTED:
        return numbers.setdefault(setting.value, len(numbers) + NULL + 1)
    return _CODES[setting.state]


def _spread(codes: Codes, paths: Sequence[str], column: Mapping[str, int]) -> set[int]:
    """Tell the leaves what is told of the section above them. Return the columns of such sections.

    A section sorts before its leaves, so it has itself been told when its leaves ask.
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
    """Order what may be told by how much it says; a value as much as null."""
    return MISSING if setting is None else _CODES.get(setting.state, NULL)
