"""Parts of drawings as SVG: text that is cut to its place, signs, hatching. Foreign text is escaped."""

import unicodedata
from collections.abc import Iterable
from html import escape

from dashboard.fleet.formatting import end_cut, middle_cut
from dashboard.render.matrix import colour as cohort_place
from dashboard.views.blocks import Tone

WIDTH = 1200  # of a drawing, in its own units; a page scales it
LONGEST = 400  # characters of a text before it is cut to its place
SHORTEST = 3  # characters: one on each side of the dots
NARROW, BROAD = 0.62, 1.05  # em of a character in a wide sans serif; the second is East Asian or a symbol
FONTS = "system-ui,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif"
COHORTS = ("#3566a8", "#8559b5", "#5f7080", "#2f7599", "#9a5fae", "#2c3f6b")
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
        + (f' fill="{MUTE}"' if css == "mute" else "")
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
