"""The labels under the bars of a chart: as many as do not run into each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from dashboard.web.markup import text as escape

if TYPE_CHECKING:
    from dashboard.web.charts import Bar

# A chart is as wide as its page; labels are laid out for the narrowest one that has to be readable (1024 px).
NARROWEST, NARROWEST_ALONE = 640, 900  # px of the plot, where something stands beside it and where nothing does
LETTER = 7.5  # px of one letter of a label
LINE = 15  # px that a label at an angle takes of the axis
LONGEST_LABEL = 20  # characters under a bar
SHORT_LABEL = 6  # characters up to which a label that is shown now and then stays level


class Axis(NamedTuple):
    """The labels under the bars: where, what, and at which angle.

    `names` are a second line under them; `common` is what all names begin with and the labels leave out.
    """

    places: tuple[float, ...]
    texts: tuple[str, ...]
    angle: int
    names: tuple[tuple[float, str], ...] = ()
    common: str = ""


def axis_of(bars: Sequence[Bar], places: Sequence[float], narrowest: int = NARROWEST) -> Axis:
    """Choose labels that do not run into each other: ticks above group names, names alone, or every n-th name."""
    pitch = narrowest / (places[-1] + 1) if places else narrowest
    groups = _groups(bars, places)
    common, names = shortened([name for name, _, _ in groups])
    several = len(groups) < len(bars)
    longest_tick = max((len(bar.tick) for bar in bars), default=0)
    fits = all(_width(name) <= (last - first + 1) * pitch for name, (_, first, last) in zip(names, groups, strict=True))
    centres = [(first + last) / 2 for _, first, last in groups]
    if several and fits and longest_tick * LETTER + 2 <= pitch:
        below = tuple(zip(centres, map(escape, names), strict=True))
        return Axis(tuple(places), tuple(escape(bar.tick) for bar in bars), 0, below, escape(common))
    apart = min((after - before for before, after in pairwise(centres)), default=1.0) * pitch
    every, angle = _thinned(names, apart)
    return Axis(tuple(centres[::every]), tuple(escape(name) for name in names[::every]), angle, (), escape(common))


def shortened(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return what all names begin with, up to a separator, and the names without it, cut where they are still long."""
    common = 0
    if len(names) > 1:
        first, last = min(names), max(names)
        while common < min(len(first), len(last)) and first[common] == last[common]:
            common += 1
        while common and first[common - 1] not in "-_./:":
            common -= 1
    short = [name[common:] or name for name in names]
    cut = [name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…" for name in short]
    return (names[0][:common] if common else ""), cut


def _groups(bars: Sequence[Bar], places: Sequence[float]) -> list[tuple[str, float, float]]:
    """Return name, first and last place of bars that lead to the same target."""
    groups: list[tuple[str, float, float]] = []
    before = None
    for bar, place in zip(bars, places, strict=True):
        own = bar.target or bar.group
        if own == before:
            groups[-1] = (bar.group, groups[-1][1], place)
        else:
            groups.append((bar.group, place, place))
        before = own
    return groups


def _width(text: str) -> float:
    return len(text) * LETTER + 8


def _thinned(names: Sequence[str], apart: float) -> tuple[int, int]:
    """Return which names to show (every n-th) and at which angle."""
    longest = max(map(len, names), default=0)
    level, tilted = math.ceil(_width("m" * longest) / apart), math.ceil(LINE / apart)
    if level <= 1 or (tilted > 1 and longest <= SHORT_LABEL):
        return max(level, 1), 0
    return tilted, -45
