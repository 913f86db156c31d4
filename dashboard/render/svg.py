"""Drawings as SVG, made without a browser: charts of bars, and the parts that all drawings share.

Their median and marks of outliers are drawn. Text is cut to its place, and foreign text escaped.
"""

import math
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from typing import NamedTuple

from dashboard.compare.cohorts import colour as cohort_place
from dashboard.fleet.formatting import NOT_KNOWN, count, end_cut, middle_cut, share
from dashboard.views.blocks import Bar, Chart, Tone

WIDTH = 1200  # of a drawing, in its own units; a page scales it
LONGEST = 400  # characters of a text before it is cut to its place
SHORTEST = 3  # characters: one on each side of the dots
NARROW, BROAD = 0.62, 1.05  # em of a character in a wide sans serif; the second is East Asian or a symbol
FONTS = "system-ui,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif"
COHORTS = ("#2f6fc4", "#5b2a86", "#4d5a66", "#1f7d9c", "#1b2a4e", "#2b2f36")
INK, MUTE, LINE, GROUND = "#1f2933", "#5d6975", "#dde2e7", "#ffffff"
TONES = {
    Tone.CRITICAL: "#bf5300",
    Tone.WARNING: "#e69f00",
    Tone.INFO: "#0072b2",
    Tone.GOOD: "#007f5c",
    Tone.UNKNOWN: "#66717c",
}
_SIGNS = {
    Tone.CRITICAL: "M3 0h4l3 3v4l-3 3h-4l-3-3v-4z",
    Tone.WARNING: "M5 0l5 10h-10z",
    Tone.INFO: "M5 0a5 5 0 1 0 .01 0z",
    Tone.GOOD: "M0 6l1.5-1.5 2.5 2.5 4.500-6 1.500 1.200-6 7.800z",
    Tone.UNKNOWN: "M5 1a4 4 0 1 0 .01 0z",
}
_HATCH = 7.0  # between two lines of hatching
LONGEST_LABEL = 320.0
LONGEST_MARK = 200.0
MOST_DESCRIBED = 30  # bars that the description names; the rest is counted
USED_HEIGHT = 0.34  # of the used part, as a share of its bar
FEW = 26  # bars with wide rows; more have narrow ones
MOST_ON_A_PAGE = 40  # bars of a landscape page, with room for a heading
TICKS = 4  # at least, if the axis is long enough
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_EXACT_BELOW, _BEYOND = 1e6, 1e15  # the second: no unit has a name there
_WHOLE_FROM = 100
_STEPS = (1, 2, 2.5, 5, 10)
_GAP = 12.0


def drawing(
    size: str, height: float, font: float, title: str, described: str, parts: Iterable[str], more: str = ""
) -> str:
    """Return a whole drawing with its title and a description for screen readers; `size` and `more` are attributes."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} height="{num(height)}" font-family="{FONTS}" '
        f'font-size="{num(font)}" fill="{INK}"{f" {more}" if more else ""}><title>{cut_text(title)}</title>'
        f"<desc>{cut_text(described, 10 * LONGEST)}</desc>{''.join(parts)}</svg>"
    )


def ground(title: str, height: float, left: float = 0.0) -> str:
    """Return the white ground of a file with its title; the drawing begins at `left`."""
    place = f'x="{num(left)}" ' if left else ""
    return f'<rect {place}width="{WIDTH}" height="{num(height)}" fill="{GROUND}"/>' + label(
        title, left + 8, 22, fit(title, WIDTH - 16, 16), size=16, weight=True, css="ink"
    )


def hatched(left: float, top: float, width: float, height: float, colour: str = GROUND) -> str:
    """Draw hatching, each line cut to the rectangle: a pattern would need a reference."""
    lines = []
    for place in range(1, int((width + height) / _HATCH) + 1):
        at = place * _HATCH
        x1, x2 = max(at - height, 0.0), min(at, width)
        lines.append(f"M{num(left + x1)} {num(top + at - x1)}L{num(left + x2)} {num(top + at - x2)}")
    return f'<path class="hatch" d="{"".join(lines)}" stroke="{colour}" stroke-width="1.5"/>' if lines else ""


def rect(
    css: str, x: float | str, y: float, width: float | str, height: float, more: str = "", inside: str = ""
) -> str:
    box = f'<rect class="{css}" x="{num(x)}" y="{num(y)}" width="{num(width)}" height="{num(height)}" {more}'
    return f"{box}>{inside}</rect>" if inside else f"{box}/>"


def draw_sign(tone: Tone, x: float, y: float) -> str:
    """Draw the shape of a tone, 10 units wide; nothing for a plain one."""
    if tone is Tone.PLAIN:
        return ""
    return f'<path class="{tone}" transform="translate({num(x)} {num(y)})" d="{_SIGNS[tone]}" fill="{TONES[tone]}"/>'


def label(
    whole: str,
    x: float | str,
    y: float,
    words: str,
    *,
    dx: float = 0,
    size: float = 0,
    anchor: str = "",
    weight: bool = False,
    css: str = "mute",
) -> str:
    """Return text at a position; text that was cut has the whole of it as its title."""
    more = f"<title>{cut_text(whole)}</title>" if whole and words != end_cut(whole, LONGEST) else ""
    return (
        f'<text class="{css}" x="{num(x)}" y="{num(y)}"'
        + (f' dx="{num(dx)}"' if dx else "")
        + (f' font-size="{num(size)}"' if size else "")
        + (f' text-anchor="{anchor}"' if anchor else "")
        + (' font-weight="650"' if weight else "")
        + (f' fill="{MUTE}"' if css.startswith("mute") else "")
        + f">{more}{escape(words)}</text>"
    )


def place_of(letter: str) -> int:
    """Return the place of a letter among the cohort colours; the first for what is none."""
    return cohort_place(letter) if letter.isascii() and letter.isupper() and letter.isalpha() else 0


def fit(text: str, room: float, size: float) -> str:
    """Cut a text in the middle until it surely fits."""
    whole = end_cut(text, LONGEST)
    length = max(min(len(whole), int(room / (size * NARROW))), SHORTEST)
    while length > SHORTEST and widest(middle_cut(whole, length), size) > room:
        length -= 1
    return middle_cut(whole, length)


def widest(text: str, size: float) -> float:
    """Return the largest width that a text can have: no font is known here."""
    broad = sum(unicodedata.east_asian_width(char) in "WF" or char in "%@MW…" for char in text[:LONGEST])
    return size * (NARROW * (min(len(text), LONGEST) - broad) + BROAD * broad)


def cut_text(text: str, longest: int = LONGEST) -> str:
    return escape(end_cut(text, longest))


def num(value: float | str) -> str:
    """Return a coordinate with at most one decimal; a text, such as a percentage, as it is."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


class _Frame(NamedTuple):
    """Positions: bars from `left` to `right`, values end at `values`, marks begin at `marks`.

    `row` and `bar` are the heights of one row and of the bar in it, `font` is the size of its text.
    """

    left: float
    right: float
    values: float
    marks: float
    top: float
    longest: float
    row: float
    bar: float
    font: float

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * (value / self.longest)


def to_svg(chart: Chart, *, context: str = "") -> str:
    """Draw a chart as a file: with its title, a white ground, and the line of its context below.

    Foreign text is escaped and cut in the middle.
    """
    return _svg(chart, _frame(chart, 34.0), context)


def to_svgs(chart: Chart) -> tuple[str, ...]:
    """Draw a chart for a page that may be printed: parts of one scale, each of which fits on a sheet.

    Their classes (`ink`, `mute`, `rule`, `f0` to `f5`) let the page set the colours.
    """
    frame = _frame(chart, 4.0)
    pieces = [chart.bars[start : start + MOST_ON_A_PAGE] for start in range(0, len(chart.bars), MOST_ON_A_PAGE)]
    last = len(pieces) - 1
    shown = [replace(chart, bars=bars, more=0 if place < last else chart.more) for place, bars in enumerate(pieces)]
    return tuple(_svg(piece, frame, None) for piece in shown or [chart])


def _svg(chart: Chart, frame: _Frame, context: str | None) -> str:
    """Draw bars in a frame; with a context also the ground, the title, and what is below the axis."""
    bottom = frame.top + len(chart.bars) * frame.row
    more = f"and {count(chart.more, 'more bar')}, not shown" if chart.more else ""
    below = [each for each in (more, context) if each] if context is not None else []
    height = bottom + 26 + 18 * len(below)
    parts = [ground(chart.title, height)] if context is not None else []
    parts += [
        *_axis(chart, frame, bottom),
        *(_bar(bar, frame, frame.top + place * frame.row) for place, bar in enumerate(chart.bars)),
        *_median(chart, frame, bottom),
        *(
            label(each, 8, bottom + 42 + 18 * place, fit(each, WIDTH - 16, 12), size=12)
            for place, each in enumerate(below)
        ),
    ]
    size = f'viewBox="0 0 {WIDTH} {num(height)}" width="{WIDTH}"'
    return drawing(size, height, frame.font, chart.title, described(chart), parts)


def described(chart: Chart) -> str:
    median = _known(chart.median)
    texts = [_described(bar) for bar in chart.bars[:MOST_DESCRIBED]]
    hidden = len(chart.bars) - MOST_DESCRIBED + chart.more if len(chart.bars) > MOST_DESCRIBED else chart.more
    texts += [count(hidden, "more bar")] if hidden else []
    middle = f", median {amount(median)}" if median is not None else ""
    return f"{count(len(chart.bars), 'bar')} in {chart.unit}{middle}. {'; '.join(texts)}"


def amount(value: float) -> str:
    """Return a number of a bar: `1.6 M`, `131,072`, `46.4`."""
    if value >= _BEYOND:
        return f"{value:.3g}"
    if value >= _EXACT_BELOW:
        unit, name = next(each for each in _SCALES if value >= each[0])
        return f"{value / unit:,.2f}".rstrip("0").rstrip(".") + f" {name}"
    if value >= _WHOLE_FROM:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 1 else f"{value:.2g}"


def bar_text(bar: Bar) -> str:
    """Return the value of a bar: `1.6 M`, an upper bound as `≤ 1.6 M`, or that it is unknown."""
    value = _known(bar.value)
    return NOT_KNOWN if value is None else f"{'≤ ' if bar.is_at_most else ''}{amount(value)}"


def _described(bar: Bar) -> str:
    tone = f", {bar.tone}" if bar.tone is not Tone.PLAIN else ""
    letter = f" (cohort {bar.letter})" if bar.letter else ""
    known = _known(bar.used)
    used = f", {share(known)} in use" if known is not None else ""
    return f"{middle_cut(bar.label, 60)}{letter}: {bar_text(bar)}{f', {bar.mark}' if bar.mark else ''}{used}{tone}"


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _frame(chart: Chart, above: float) -> _Frame:
    """Measure a chart; `above` is the space over its bars and over the name of its median."""
    row, bar_height, font = (24.0, 15.0, 13.0) if len(chart.bars) <= FEW else (16.0, 11.0, 11.0)
    labels = min(max((widest(bar.label, font) for bar in chart.bars), default=0), LONGEST_LABEL)
    letters = 26.0 if any(bar.letter for bar in chart.bars) else 0.0
    marks = min(max((widest(bar.mark, font) for bar in chart.bars), default=0), LONGEST_MARK)
    signs = 16.0 if any(bar.tone is not Tone.PLAIN for bar in chart.bars) else 0.0
    values = max((widest(bar_text(bar), font) for bar in chart.bars), default=0)
    begin = WIDTH - 8 - marks - signs
    known = [*(_known(bar.value) for bar in chart.bars), _known(chart.median)]
    return _Frame(
        left=8 + labels + letters + _GAP,
        right=begin - values - 2 * _GAP,
        values=begin - (_GAP if marks or signs else 0),
        marks=begin,
        top=above + (20.0 if _known(chart.median) is not None else 0.0),
        longest=max(filter(None, known), default=1.0),
        row=row,
        bar=bar_height,
        font=font,
    )


def _axis(chart: Chart, frame: _Frame, bottom: float) -> Iterable[str]:
    unit, name = next((each for each in _SCALES if frame.longest >= each[0]), (1.0, ""))
    for value in _ticks(frame.longest):
        x, words = frame.x(value), f"{value / unit:,.10g} {name}".strip() if value else "0"
        yield f'<path class="rule" d="M{num(x)} {num(frame.top)}V{num(bottom + 3)}" stroke="{LINE}"/>'
        yield label("", x, bottom + 17, words, size=12, anchor="middle")
    yield label("", frame.left - _GAP, bottom + 17, fit(chart.unit, frame.left - _GAP, 12), size=12, anchor="end")


def _ticks(longest: float) -> list[float]:
    """Return round values from 0 to the longest bar."""
    rough = longest / TICKS
    if rough < sys.float_info.min:  # its steps have no spelling as a float
        return [0.0]
    scale = 10.0 ** math.floor(math.log10(rough))
    step = max(each * scale for each in _STEPS if each * scale <= rough * (1 + 1e-9))
    return [place * step for place in range(int(longest / step * (1 + 1e-9)) + 1)]


def _bar(bar: Bar, frame: _Frame, y: float) -> str:
    value = _known(bar.value)
    base = y + frame.row / 2 + frame.font * 0.35
    end = frame.left - _GAP - (26 if bar.letter else 0)
    known = "ink" if value is not None else "mute"
    parts = [
        label(bar.label, end, base, fit(bar.label, LONGEST_LABEL, frame.font), anchor="end", css="ink"),
        _letter(bar.letter, frame.left - _GAP - 20, y + (frame.row - frame.bar) / 2, frame.bar) if bar.letter else "",
        _drawn(bar, frame, y, value) if value is not None else "",
        label("", frame.values, base, bar_text(bar), anchor="end", css=known),
        draw_sign(bar.tone, frame.marks, y + frame.row / 2 - 5),
    ]
    if bar.mark:
        x = frame.marks + (16 if bar.tone is not Tone.PLAIN else 0)
        parts.append(label(bar.mark, x, base, fit(bar.mark, LONGEST_MARK, frame.font), weight=True, css="ink"))
    return "".join(parts)


def _drawn(bar: Bar, frame: _Frame, y: float, value: float) -> str:
    left, width = frame.x(0), max(frame.x(value) - frame.left, 0.5)
    top = y + (frame.row - frame.bar) / 2
    place = place_of(bar.letter)
    edge = f' stroke="{TONES[bar.tone]}" stroke-width="2.5"' if bar.tone is not Tone.PLAIN else ""
    faint = ' fill-opacity=".6"' if bar.is_at_most else ""
    drawn = rect(f"f{place}", left, top, width, frame.bar, f'rx="2" fill="{COHORTS[place]}"{faint}{edge}')
    drawn += hatched(left, top, width, frame.bar) if bar.is_at_most else ""
    used = _known(bar.used)
    if used is None:
        return drawn
    height = frame.bar * USED_HEIGHT
    more = f'rx="1" fill="{GROUND}" fill-opacity=".8"'
    return drawn + rect("used", left, top + (frame.bar - height) / 2, width * min(used, 1.0), height, more)


def _median(chart: Chart, frame: _Frame, bottom: float) -> Iterable[str]:
    median = _known(chart.median)
    if median is None:
        return
    x, words = frame.x(median), f"median {amount(median)}"
    half = widest(words, 12) / 2
    yield (
        f'<path class="median" d="M{num(x)} {num(frame.top - 3)}V{num(bottom)}" stroke="{INK}" stroke-width="1.2" '
        'stroke-dasharray="5 3"/>'
    )
    yield label("", min(max(x, half + 8), WIDTH - half - 8), frame.top - 8, words, size=12, anchor="middle", css="ink")


def _letter(letter: str, x: float, y: float, height: float) -> str:
    place = place_of(letter)
    return (
        f'<rect class="c{place}" x="{num(x)}" y="{num(y - 1)}" width="20" height="{num(height + 2)}" rx="3" '
        f'fill="{COHORTS[place]}"/><text x="{num(x + 10)}" y="{num(y + height * 0.8)}" text-anchor="middle" '
        f'font-size="{num(height * 0.75)}" font-weight="700" fill="#ffffff">{cut_text(letter, 3)}</text>'
    )
