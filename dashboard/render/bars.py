"""Charts of pages: upright bars in groups as HTML, in the colours of the theme. Exports draw the same charts as SVG."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from dashboard.compare.cohorts import colour
from dashboard.fleet.formatting import end_cut
from dashboard.fleet.pieces import Link
from dashboard.render.svg import amount, described
from dashboard.views.blocks import Bar, Chart, Tone

HEADROOM = 1.14  # of the largest bar, room for a label above it
GROUP_GAP = 0.7  # bars
EDGE = 0.7  # bars, from the middle of the first and the last one to the end of the axis
FEW = 14  # bars up to which they need not be as wide as their place
LETTERED = 40  # bars up to which each has room for the letter of its cohort
MANY = 80  # bars from which an outlier's label would hide its neighbours
TICKS = 4

# A chart is as wide as its page; labels are laid out for the narrowest one that has to be readable (1024 px).
NARROWEST, NARROWEST_ALONE = 640, 900  # px of the plot, next to another block and alone
LETTER = 7.5  # px of one letter of a label
LINE = 15  # px that a label at an angle takes of the axis
LONGEST_LABEL = 20  # characters under a bar
LONGEST_TEXT = 200  # characters of a line of a tooltip
SHORT_LABEL = 6  # characters up to which a label that is shown now and then stays level

AddressOf = Callable[[Link], str]


class Axis(NamedTuple):
    """The labels under the bars: where, what, and whether they are tilted.

    `names` are a second line under them; `common` is what all names begin with and the labels leave out.
    """

    places: tuple[float, ...]
    texts: tuple[str, ...]
    is_tilted: bool = False
    names: tuple[tuple[float, str], ...] = ()
    common: str = ""


class _Plot(NamedTuple):
    """The last place, and the value at the top: places and values as shares of the drawing."""

    last: float
    highest: float

    def left(self, place: float) -> str:
        return f"left:{self.width(place + EDGE)}"

    def width(self, places: float) -> str:
        return f"{places / (self.last + 2 * EDGE):.3%}"

    def height(self, value: float) -> str:
        return f"{value / self.highest:.3%}"


def draw_bars(chart: Chart, address_of: AddressOf) -> Markup:
    """Draw a chart: bars by cohort, the median dashed, outliers outlined and named, upper bounds hatched.

    A screen reader reads the description of the chart; the bars are no stops of Tab, for tables have their links.
    """
    bars = chart.bars
    places = positions([_owner(bar) for bar in bars])
    heights = [bar.start + (height or 0) for bar in bars for height in (bar.value, bar.whole)]
    highest = max([*heights, chart.median or 0, 0]) * HEADROOM or 1
    plot = _Plot(places[-1] if places else 0.0, highest)
    axis = axis_of(bars, places, NARROWEST_ALONE if chart.is_wide else NARROWEST)
    marks = ticks(highest)
    drawn = [
        *_scale(plot, marks, chart.ticks(marks) if chart.ticks else [amount(mark) for mark in marks]),
        *_bars(plot, bars, places, address_of),
        *_median(plot, chart),
        *_labels(plot, axis),
    ]
    kind = " named" if axis.names else " tilted" if axis.is_tilted else ""
    return Markup(
        '<figure class="upright{}" aria-label="{}"><p class="said">{}</p><div aria-hidden="true">{}'
        '<div class="plot">{}</div>{}</div></figure>'
    ).format(
        kind,
        _clean(chart.title),
        _clean(described(chart), 2_000),
        _legend(bars),
        Markup().join(drawn),
        Markup('<p class="common">{}…</p>').format(_clean(axis.common)) if axis.common else "",
    )


def _clean(text: str, longest: int = LONGEST_TEXT) -> str:
    return end_cut(text, longest)


def _scale(plot: _Plot, marks: Sequence[float], texts: Sequence[str]) -> Iterator[Markup]:
    for mark, text in zip(marks, texts, strict=True):
        yield Markup('<i class="rule" style="bottom:{}"><b>{}</b></i>').format(plot.height(mark), _clean(text))


def _bars(plot: _Plot, bars: Sequence[Bar], places: Sequence[float], address_of: AddressOf) -> Iterator[Markup]:
    number = len(bars)
    width = 0.86 if number >= MANY else 0.76 if number >= FEW else 0.56
    letters = {bar.letter for bar in bars}
    has_letters = len(letters) > 1 and number <= LETTERED
    for bar, place in zip(bars, places, strict=True):
        box = f"{plot.left(place - width / 2)};width:{plot.width(width)}"
        if bar.whole is not None:
            yield Markup('<i class="whole" style="{};height:{}"></i>').format(box, plot.height(bar.whole))
        if bar.value is None:
            continue
        inside = Markup()
        if bar.mark and number < MANY:
            inside += Markup('<b class="mark">{}</b>').format(_clean(bar.mark))
        if bar.letter and has_letters:
            inside += Markup('<b class="of">{}</b>').format(bar.letter)
        tip = Markup("&#10;").join(escape(_clean(line)) for line in bar.hover or (bar.label,))
        classes = {
            f"c{colour(bar.letter)}" if bar.letter else "no-cohort" if any(letters) else "c0": True,
            "off": bar.tone is not Tone.PLAIN,
            "bound": bar.is_at_most,
            "faint": bar.is_faint,
            "late": place > plot.last / 2,
        }
        css = " ".join(name for name, is_so in classes.items() if is_so)
        style = f"{box};bottom:{plot.height(bar.start)};height:{plot.height(bar.value)}"
        address = address_of(bar.link) if bar.link else ""
        name, href = ("a", Markup(' tabindex="-1" href="{}"').format(address)) if address else ("i", "")
        yield Markup('<{0}{1} class="column {2}" style="{3}" data-tip="{4}">{5}</{0}>').format(
            name, href, css, style, tip, inside
        )


def _median(plot: _Plot, chart: Chart) -> Iterator[Markup]:
    if chart.median is not None and chart.bars:
        edges = f"{plot.left(-0.5)};width:{plot.width(plot.last + 1)};bottom:{plot.height(chart.median)}"
        text = _clean(chart.median_label or f"median {amount(chart.median)}")
        yield Markup('<i class="median" style="{}"><b>{}</b></i>').format(edges, text)


def _labels(plot: _Plot, axis: Axis) -> Iterator[Markup]:
    for place, text in zip(axis.places, axis.texts, strict=True):
        yield Markup('<span class="label" style="{}">{}</span>').format(plot.left(place), _clean(text))
    for place, text in axis.names:
        yield Markup('<span class="label name" style="{}">{}</span>').format(plot.left(place), _clean(text))


def _legend(bars: Sequence[Bar]) -> Markup:
    """Return the cohorts with the number of their replicas, where there are several."""
    letters = sorted({bar.letter for bar in bars if bar.letter}, key=lambda letter: (len(letter), letter))
    if len(letters) < 2:  # noqa: PLR2004
        return Markup()
    sizes = {letter: len({_owner(bar) for bar in bars if bar.letter == letter}) for letter in letters}
    shown = (
        Markup('<span class="part"><i class="c{}"></i> {} ×{:,}</span>').format(colour(letter), letter, size)
        for letter, size in sizes.items()
    )
    return Markup('<p class="cohorts">{}</p>').format(Markup(" ").join(shown))


def positions(groups: Sequence[Link | str]) -> tuple[float, ...]:
    """Place the bars: one apart, and a gap more between groups where any group has several."""
    gap = GROUP_GAP if len(set(groups)) < len(groups) else 0.0
    places: list[float] = []
    for index, group in enumerate(groups):
        before = places[-1] + 1 + (gap if group != groups[index - 1] else 0) if places else 0.0
        places.append(before)
    return tuple(places)


def ticks(highest: float) -> tuple[float, ...]:
    """Return round values from 0 to below `highest`, about TICKS of them above 0."""
    rough = highest / TICKS
    power: float = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return tuple(index * step for index in range(int(highest / step) + 1))


def _owner(bar: Bar) -> Link | str:
    """Return what bars of one group share: names of replicas can be equal, links cannot."""
    return bar.link or bar.group or bar.label


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
        below = tuple(zip(centres, names, strict=True))
        return Axis(tuple(places), tuple(bar.tick for bar in bars), names=below, common=common)
    apart = min((after - before for before, after in pairwise(centres)), default=1.0) * pitch
    every, is_tilted = _thinned(names, apart)
    return Axis(tuple(centres[::every]), tuple(names[::every]), is_tilted, common=common)


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
    """Return name, first and last place of bars that have the same link."""
    groups: list[tuple[str, float, float]] = []
    before = None
    for bar, place in zip(bars, places, strict=True):
        own = _owner(bar)
        if own == before:
            groups[-1] = (groups[-1][0], groups[-1][1], place)
        else:
            groups.append((bar.group or bar.label, place, place))
        before = own
    return groups


def _width(text: str) -> float:
    return len(text) * LETTER + 8


def _thinned(names: Sequence[str], apart: float) -> tuple[int, bool]:
    """Return which names to show (every n-th) and whether they are tilted."""
    longest = max(map(len, names), default=0)
    level, tilted = math.ceil(_width("m" * longest) / apart), math.ceil(LINE / apart)
    if level <= 1 or (tilted > 1 and longest <= SHORT_LABEL):
        return max(level, 1), False
    return tilted, True
