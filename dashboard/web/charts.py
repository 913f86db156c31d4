"""Plotly figures of capacity: bars beside each other, grouped by who they belong to. Pure: values in, figure out."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from dashboard.render.matrix_html import colour
from dashboard.web.chart_axis import NARROWEST, Axis, axis_of
from dashboard.web.markup import text as escape

LABEL_SIZE, TEXT_SIZE = 12, 13  # px
HEIGHT = 340  # px
HEADROOM = 1.14  # of the largest bar, so that a label stands above it
GROUP_GAP = 0.7  # bars
FAINT, QUIET = 0.4, 0.88  # opacity of what does not count, and of what is as it should be
FEW = 14  # bars up to which they need not be as wide as their place
LETTERED = 40  # bars up to which each has room for the letter of its cohort
MANY = 80  # bars from which an outlier's label would hide its neighbours
TICKS = 4
FONT = '"Source Sans", sans-serif'


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
    ink="#1f2933",
    mute="#5d6975",
    line="#dde2e7",
    ground="#ffffff",
    chip="#e3e8ed",
    critical="#bf5300",
    unknown="#66717c",
    cohorts=("#3566a8", "#8559b5", "#5f7080", "#2f7599", "#9a5fae", "#2c3f6b"),
)
DARK = Palette(
    ink="#e4e9ee",
    mute="#9aa7b3",
    line="#2a323a",
    ground="#12171c",
    chip="#2b343d",
    critical="#ff8a4c",
    unknown="#8a96a2",
    cohorts=("#5b8fd6", "#a885d6", "#8496a8", "#5fb0d4", "#c3a2e0", "#7388c2"),
)


class Bar(NamedTuple):
    """One bar. Bars of one `group` stand together, above its name; `tick` tells them apart.

    `letter` is a cohort's, empty for none: grey, unless no bar has one. `note` stands above the bar and outlines it.
    `hover` is plain text, a line each. `whole` is drawn behind the bar: what it is a part of, or what it is taken for.
    `target` is told on a click.
    """

    group: str
    tick: str
    value: float | None
    letter: str = ""
    at_most: bool = False
    faint: bool = False
    note: str = ""
    hover: tuple[str, ...] = ()
    whole: float | None = None
    target: str = ""


class Level(NamedTuple):
    """A dashed line over the bars from place `first` to place `last`, with its label."""

    value: float
    label: str
    first: int
    last: int


def palette(theme: str | None) -> Palette:
    """Return the colours of a theme; what is not dark is light."""
    return DARK if theme == "dark" else LIGHT


def bar_chart(
    bars: Sequence[Bar],
    colours: Palette,
    *,
    tick_texts: Callable[[Sequence[float]], Sequence[str]],
    levels: Sequence[Level] = (),
    height: int = HEIGHT,
    narrowest: int = NARROWEST,
) -> go.Figure:
    """Draw bars by cohort, medians as dashed lines, outliers outlined and named, upper bounds hatched."""
    places = positions([bar.target or bar.group for bar in bars])
    letters = sorted({bar.letter for bar in bars}, key=lambda letter: (not letter, len(letter), letter))
    traces = [_wholes(bars, places, colours)] if any(bar.whole is not None for bar in bars) else []
    traces += [_trace(letter, bars, places, colours) for letter in letters]
    highest = max([*_heights(bars), *(level.value for level in levels), 0]) * HEADROOM or 1
    marks = ticks(highest)
    axis = axis_of(bars, places, narrowest)
    layout = _layout(axis, colours, height, places[-1] if places else 0)
    layout["yaxis"] |= {"range": [0, highest], "tickvals": list(marks), "ticktext": list(tick_texts(marks))}
    layout["shapes"] = [_line(level, places, colours) for level in levels]
    labels = (_label(level, places, colours) for level in levels)
    layout["annotations"] = [*labels, *map(_name, axis.names), *_letters(bars, places, colours)]
    return go.Figure({"data": traces, "layout": layout})


def positions(groups: Sequence[str]) -> tuple[float, ...]:
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


def _heights(bars: Sequence[Bar]) -> list[float]:
    return [height for bar in bars for height in (bar.value, bar.whole) if height is not None]


def _wholes(bars: Sequence[Bar], places: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        **_common(bars, places, len(bars)),
        "y": [bar.whole for bar in bars],
        "marker": {"color": colours.chip, "cornerradius": 2},
        "showlegend": False,
    }


def _trace(letter: str, bars: Sequence[Bar], places: Sequence[float], colours: Palette) -> dict[str, Any]:
    own = [bar for bar in bars if bar.letter == letter]
    many = len(bars) >= MANY
    without = colours.unknown if any(bar.letter for bar in bars) else colours.cohorts[0]
    return {
        **_common(own, [place for bar, place in zip(bars, places, strict=True) if bar.letter == letter], len(bars)),
        "name": f"{letter} ×{len({bar.target for bar in own}):,}" if letter else "no cohort",
        "y": [bar.value for bar in own],
        "marker": _marker(own, colours, colours.cohorts[colour(letter)] if letter else without, many=many),
        "text": ["" if many or not bar.note else f"<b>{escape(bar.note)}</b>" for bar in own],
        "textposition": "outside",
        "textangle": 0,
        "cliponaxis": False,
        "textfont": {"color": colours.critical, "size": LABEL_SIZE},
        "selected": {"textfont": {"color": colours.critical}},  # without it plotly.js fails when a named bar is clicked
        "showlegend": bool(letter),
    }


def _common(bars: Sequence[Bar], places: Sequence[float], number: int) -> dict[str, Any]:
    return {
        "type": "bar",
        "x": list(places),
        "width": 0.86 if number >= MANY else 0.76 if number >= FEW else 0.56,  # else each trace would choose its own
        "customdata": [[bar.target] for bar in bars],
        "hovertext": ["<br>".join(map(escape, bar.hover)) for bar in bars],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _marker(bars: Sequence[Bar], colours: Palette, fill: str, *, many: bool) -> dict[str, Any]:
    outline = 1 if many else 2
    return {
        "color": fill,
        "cornerradius": 2,
        "opacity": [FAINT if bar.faint else 1 if bar.note else QUIET for bar in bars],
        "line": {"color": colours.critical, "width": [outline if bar.note else 0 for bar in bars]},
        "pattern": {
            "shape": ["/" if bar.at_most else "" for bar in bars],
            "fgcolor": fill,
            "bgcolor": colours.ground,
            "size": 6,
            "solidity": 0.45,
        },
    }


def _line(level: Level, places: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        "type": "line",
        "x0": places[level.first] - 0.5,
        "x1": places[level.last] + 0.5,
        "y0": level.value,
        "y1": level.value,
        "line": {"color": colours.ink, "width": 1.2, "dash": "5px,4px"},
    }


def _label(level: Level, places: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        "x": places[level.last] + 0.5,
        "y": level.value,
        "text": escape(level.label),
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


def _layout(axis: Axis, colours: Palette, height: int, last: float) -> dict[str, Any]:
    below = 46 if axis.names else 92 if axis.angle else 30
    return {
        "height": height,
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
                "text": f"{axis.common}…" if axis.common else "",
                "font": {"size": LABEL_SIZE, "color": colours.mute},
                "standoff": below - 24,
            },
            "tickangle": axis.angle,
            "tickfont": {"size": LABEL_SIZE, "color": colours.mute},
            "range": [-0.7, last + 0.7],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "linecolor": colours.line,
            "showline": True,
        },
        "yaxis": {
            "tickfont": {"size": LABEL_SIZE, "color": colours.mute},
            "gridcolor": colours.line,
            "zeroline": False,
            "fixedrange": True,
        },
    }
