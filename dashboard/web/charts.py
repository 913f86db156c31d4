"""Charts as Plotly figures: upright bars in groups, medians, outliers. Pure: a chart in, a figure out."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import plotly.graph_objects as go

from dashboard.compare.cohorts import colour
from dashboard.fleet.pieces import Link
from dashboard.render import svg
from dashboard.render.svg import amount
from dashboard.views.blocks import Bar, Chart, Tone
from dashboard.web import markup
from dashboard.web.markup import text as escape

LABEL_SIZE, TEXT_SIZE = 12, 13  # px
HEIGHT = 340  # px
HEADROOM = 1.14  # of the largest bar, room for a label above it
GROUP_GAP = 0.7  # bars
USED, USED_WIDTH = 0.8, 0.3  # opacity of the used part of a bar, and its width as a share of the bar
FAINT, QUIET = 0.4, 0.88  # opacity of what does not count, and of what is as it should be
CHARTS = 32  # figures that are kept: those of a few pages in both themes
FEW = 14  # bars up to which they need not be as wide as their place
LETTERED = 40  # bars up to which each has room for the letter of its cohort
MANY = 80  # bars from which an outlier's label would hide its neighbours
TICKS = 4
FONT = '"Source Sans", sans-serif'


# A chart is as wide as its page; labels are laid out for the narrowest one that has to be readable (1024 px).
NARROWEST, NARROWEST_ALONE = 640, 900  # px of the plot, next to another block and alone
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


class Palette(NamedTuple):
    """Colours of a theme, the same as in .streamlit/config.toml and look.css."""

    ink: str
    mute: str
    line: str
    ground: str
    chip: str
    critical: str
    unknown: str
    cohorts: tuple[str, ...]


LIGHT = Palette(
    ink=svg.INK,
    mute=svg.MUTE,
    line=svg.LINE,
    ground=svg.GROUND,
    chip="#e3e8ed",
    critical=svg.TONES[Tone.CRITICAL],
    unknown=svg.TONES[Tone.UNKNOWN],
    cohorts=svg.COHORTS,
)
DARK = Palette(
    ink="#e4e9ee",
    mute="#9aa7b3",
    line="#2a323a",
    ground="#12171c",
    chip="#2b343d",
    critical="#ff8a4c",
    unknown="#8a96a2",
    cohorts=("#4f7fe0", "#d9c8f5", "#8496a8", "#7fb2ff", "#7388c2", "#e3e7ec"),
)


@lru_cache(maxsize=CHARTS)
def figure_of(chart: Chart, colours: Palette) -> go.Figure:
    """Draw a chart: bars by cohort, the median dashed, outliers outlined and named, upper bounds hatched.

    `customdata` of a bar is its place in the chart. Figures are kept: Plotly takes 7 ms for one, and Review has eight.
    """
    bars = chart.bars
    places = positions([_owner(bar) for bar in bars])
    letters = sorted({bar.letter for bar in bars}, key=lambda letter: (not letter, len(letter), letter))
    traces = [_wholes(bars, places, colours)] if any(bar.whole is not None for bar in bars) else []
    traces += [_trace(letter, bars, places, colours) for letter in letters]
    traces += [_used(bars, places, colours)] if any(bar.used is not None for bar in bars) else []
    heights = [height or 0 for bar in bars for height in (bar.value, bar.whole)]
    highest = max([*heights, chart.median or 0, 0]) * HEADROOM or 1
    marks = ticks(highest)
    axis = axis_of(bars, places, NARROWEST_ALONE if chart.is_wide else NARROWEST)
    layout = _layout(axis, colours, places[-1] if places else 0)
    tick_texts = chart.ticks(marks) if chart.ticks else [amount(mark) for mark in marks]
    layout["yaxis"] |= {"range": [0, highest], "tickvals": list(marks), "ticktext": list(tick_texts)}
    has_median = chart.median is not None and places
    layout["shapes"] = [_line(chart, places, colours)] if has_median else []
    labels = [_label(chart, places, colours)] if has_median else []
    layout["annotations"] = [*labels, *map(_name, axis.names), *_letters(bars, places, colours)]
    return go.Figure({"data": traces, "layout": layout})


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


def _wholes(bars: Sequence[Bar], places: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        **_common(range(len(bars)), bars, places),
        "y": [bar.whole for bar in bars],
        "marker": {"color": colours.chip, "cornerradius": 2},
        "showlegend": False,
    }


def _used(bars: Sequence[Bar], places: Sequence[float], colours: Palette) -> dict[str, Any]:
    """Return the used part of each bar as a narrow one inside it; a click finds the bar."""
    trace = _common(range(len(bars)), bars, places)
    heights = [None if bar.value is None or bar.used is None else bar.value * bar.used for bar in bars]
    marker = {"color": colours.ground, "opacity": USED, "cornerradius": 1}
    return {**trace, "y": heights, "width": trace["width"] * USED_WIDTH, "marker": marker} | {
        "hoverinfo": "skip",
        "hovertemplate": None,
        "showlegend": False,
    }


def _trace(letter: str, bars: Sequence[Bar], places: Sequence[float], colours: Palette) -> dict[str, Any]:
    indexes = [index for index, bar in enumerate(bars) if bar.letter == letter]
    own = [bars[index] for index in indexes]
    many = len(bars) >= MANY
    without = colours.unknown if any(bar.letter for bar in bars) else colours.cohorts[0]
    return {
        **_common(indexes, bars, places),
        "name": f"{letter} ×{len({_owner(bar) for bar in own}):,}" if letter else "no cohort",
        "y": [bar.value for bar in own],
        "marker": _marker(own, colours, colours.cohorts[colour(letter)] if letter else without, many=many),
        "text": ["" if many or not bar.mark else f"<b>{escape(bar.mark)}</b>" for bar in own],
        "textposition": "outside",
        "textangle": 0,
        "cliponaxis": False,
        "textfont": {"color": colours.critical, "size": LABEL_SIZE},
        "selected": {"textfont": {"color": colours.critical}},  # without it plotly.js fails when a named bar is clicked
        "showlegend": bool(letter),
    }


def _common(indexes: Sequence[int], bars: Sequence[Bar], places: Sequence[float]) -> dict[str, Any]:
    number = len(bars)
    return {
        "type": "bar",
        "x": [places[index] for index in indexes],
        "width": 0.86 if number >= MANY else 0.76 if number >= FEW else 0.56,  # else each trace would choose its own
        "customdata": [[index] for index in indexes],
        "hovertext": ["<br>".join(map(escape, bars[index].hover or (bars[index].label,))) for index in indexes],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _marker(bars: Sequence[Bar], colours: Palette, fill: str, *, many: bool) -> dict[str, Any]:
    outline = 1 if many else 2
    return {
        "color": fill,
        "cornerradius": 2,
        "opacity": [FAINT if bar.is_faint else 1 if bar.tone is not Tone.PLAIN else QUIET for bar in bars],
        "line": {"color": colours.critical, "width": [outline if bar.tone is not Tone.PLAIN else 0 for bar in bars]},
        "pattern": {
            "shape": ["/" if bar.is_at_most else "" for bar in bars],
            "fgcolor": fill,
            "bgcolor": colours.ground,
            "size": 6,
            "solidity": 0.45,
        },
    }


def _line(chart: Chart, places: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        "type": "line",
        "x0": places[0] - 0.5,
        "x1": places[-1] + 0.5,
        "y0": chart.median,
        "y1": chart.median,
        "line": {"color": colours.ink, "width": 1.2, "dash": "5px,4px"},
    }


def _label(chart: Chart, places: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        "x": places[-1] + 0.5,
        "y": chart.median,
        "text": escape(chart.median_label or f"median {amount(chart.median or 0)}"),
        "showarrow": False,
        "xanchor": "right",
        "yanchor": "bottom",
        "font": {"size": LABEL_SIZE, "color": colours.ink},
        "bgcolor": colours.ground,
        "opacity": 0.92,
        "borderpad": 1,
    }


def _name(name: tuple[float, str]) -> dict[str, Any]:
    place, text = name
    below = {"y": 0, "yref": "paper", "yanchor": "top", "yshift": -20}
    return {"x": place, **below, "text": f"<b>{text}</b>", "showarrow": False}


def _letters(bars: Sequence[Bar], places: Sequence[float], colours: Palette) -> Iterator[dict[str, Any]]:
    """Write the letter of its cohort into the foot of each bar where there are several: not all eyes see colours."""
    if len({bar.letter for bar in bars}) < 2 or len(bars) > LETTERED:  # noqa: PLR2004
        return
    for bar, place in zip(bars, places, strict=True):
        if bar.letter and bar.value is not None:
            yield {
                "x": place,
                "y": 0,
                "text": f"<b>{bar.letter}</b>",
                "showarrow": False,
                "yanchor": "bottom",
                "yshift": 4,
                "font": {"size": LABEL_SIZE, "color": colours.ground},
                "bgcolor": colours.cohorts[colour(bar.letter)],
                "borderpad": 1,
            }


def _layout(axis: Axis, colours: Palette, last: float) -> dict[str, Any]:
    below = 46 if axis.names else 92 if axis.angle else 30
    tick_font = {"size": LABEL_SIZE, "color": colours.mute}
    return {
        "height": HEIGHT,
        "margin": {"l": 62, "r": 8, "t": 30, "b": below + 18 * bool(axis.common)},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": TEXT_SIZE, "color": colours.ink},
        "barmode": "overlay",
        "dragmode": False,
        "hoverlabel": {
            "bgcolor": colours.ground,
            "bordercolor": colours.line,
            "font": {"family": FONT, "size": TEXT_SIZE, "color": colours.ink},
            "align": "left",
        },
        "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "font": {"color": colours.mute}},
        "clickmode": "event+select",
        "xaxis": {
            "tickvals": list(axis.places),
            "ticktext": list(axis.texts),
            "title": {
                "text": f"{axis.common}*" if axis.common else "",
                "font": tick_font,
                "standoff": below - 24,
            },
            "tickangle": axis.angle or None,  # a phone has less room than the labels are laid out for
            "automargin": True,
            "tickfont": tick_font,
            "range": [-0.7, last + 0.7],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "linecolor": colours.line,
            "showline": True,
        },
        "yaxis": {"tickfont": tick_font, "gridcolor": colours.line, "zeroline": False, "fixedrange": True},
    }


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


def _thinned(names: Sequence[str], apart: float) -> tuple[int, int]:
    """Return which names to show (every n-th) and at which angle."""
    longest = max(map(len, names), default=0)
    level, tilted = math.ceil(_width("m" * longest) / apart), math.ceil(LINE / apart)
    if level <= 1 or (tilted > 1 and longest <= SHORT_LABEL):
        return max(level, 1), 0
    return tilted, -45


def first_html(figure: go.Figure) -> str:
    """Return the bars at the places that they have in the figure of `charts.figure_of`, without any text.

    They are boxes: Streamlit removes SVG from HTML.
    """
    layout = figure.layout
    bars = "".join(bar for trace in figure.data for bar in _boxes(trace, layout.xaxis.range, layout.yaxis.range[1]))
    margin = layout.margin
    return (
        f'<div class="first-chart" aria-hidden="true" style="height:{layout.height}px;'
        f'padding:{margin.t}px {margin.r}px {margin.b}px {margin.l}px"><div>{bars}</div></div>'
    )


def _boxes(trace: Any, places: tuple[float, float], highest: float) -> Iterator[str]:
    left, width = places[0], places[1] - places[0]
    for place, value, base in zip(trace.x, trace.y, trace.base or [0] * len(trace.x), strict=True):
        if value is not None:
            yield (
                f'<i style="left:{(place - trace.width / 2 - left) / width:.3%};width:{trace.width / width:.3%};'
                f"bottom:{base / highest:.3%};height:{value / highest:.3%};"
                f'background:{markup.text(trace.marker.color)}"></i>'
            )
