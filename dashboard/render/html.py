"""Views as HTML: pages and exports draw the same templates. All text is escaped and made visible.

An export is one self-contained file: no script, no requests, equal bytes for equal views.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from jinja2.runtime import Macro
from markupsafe import Markup, escape

from dashboard.compare import MatrixRow
from dashboard.compare.cohorts import colour
from dashboard.compare.inner import inner_difference
from dashboard.fleet.formatting import HIDDEN, count, end_cut, iso, visible, without_commands
from dashboard.fleet.pieces import Kind, Link, Piece, Text, to_plain
from dashboard.render.svg import to_svgs
from dashboard.render.svg_timeline import draw_times
from dashboard.views.blocks import (
    MOST_COLUMNS,
    Block,
    Chart,
    Column,
    DifferenceTable,
    Entries,
    Section,
    Table,
    Tone,
    View,
    flat_blocks,
)
from dashboard.views.context import context_line, short_parts
from dashboard.views.help import TERMS
from dashboard.views.since import short_pieces, since_text
from dashboard.views.time_chart import TimeChart

BLOCK_STYLES, REPORT_STYLES = (
    Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("blocks.css", "report.css")
)
LONGEST = 4_000  # characters of one text: a foreign value can be a megabyte
LONGEST_SNIPPET = 40_000
SHORT = 40  # characters of a cell that is never broken on a screen
NARROWEST, PADDING = 4, 7  # characters of a column of a printed page; bold ones, and those of code, are wider
DENSE_FROM = 9  # columns of a difference table that are set smaller in print
FEW = 3  # rows of a table on a page that are not worth folding
GLYPHS = {Tone.CRITICAL: "!", Tone.WARNING: "!", Tone.INFO: "i", Tone.GOOD: "✓", Tone.UNKNOWN: "?"}
UNBROKEN = 20  # characters of a value that has no places to break
_MARKS = {
    "tie": ("≠", "no majority"),
    "same": ("=", "all equal"),
    "differs": ("≠", "differs"),
    "unknown": ("?", "unknown on some"),
}
_BREAKS = re.compile(r"(?<=\d) (?=[^\W\d])|(?<=[≤≥~]) (?=\d)")  # between a number and its unit, and after a sign

# Nothing may be fetched or run; style sheets only from the file itself.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
LONGEST_FOOT = 120  # characters of the context at the foot of a printed page
_ASCII = 0x80

AddressOf = Callable[[Link], str]


class HtmlWriter:
    """Writes blocks as HTML. `address_of` returns the address of a link, empty where there is none.

    On a page (`is_page`) long tables and entries fold and terms have tooltips; in an export all is open, and entries
    whose anchor is in `anchors` get an id, the first of each.
    """

    def __init__(self, address_of: AddressOf, *, is_page: bool, anchors: Collection[str] = ()) -> None:
        self._is_page = is_page
        self._address_of = address_of
        self._free = set(anchors)
        self._macros: Any = template("blocks.html").make_module(
            {"address_of": address_of, "is_page": is_page, "anchor_of": self._anchor, "terms": TERMS}
        )

    def blocks(self, blocks: Iterable[Block], under: str = "") -> Markup:
        """Write blocks. A caption equal to the heading above (`under`) is for screen readers only."""
        shown = blocks if self._is_page else flat_blocks(blocks)
        return Markup("\n").join(self._block(block, under) for block in shown)

    def sections(self, sections: Iterable[Section], level: int = 2) -> Markup:
        shown = [each for each in sections if not (self._is_page and each.is_exported_only)]
        return Markup("\n").join(self._section(each, level) for each in shown)

    def heading(self, section: Section, level: int = 2) -> Markup:
        return self._call("heading", min(level, 6), section)

    def _section(self, section: Section, level: int) -> Markup:
        inside = self.blocks(section.blocks, section.title) + self.sections(section.parts, level + 1)
        if section.is_aside and self._is_page:
            return Markup("<details><summary>{}</summary>{}</details>").format(section.title, inside)
        heading = self.heading(section, level)
        if self._is_page:
            return heading + inside
        css = Markup(' class="appendix"') if section.is_appendix else ""
        return Markup('<section{} aria-labelledby="{}">\n{}\n{}</section>').format(css, section.anchor, heading, inside)

    def _block(self, block: Block, under: str) -> Markup:
        if isinstance(block, DifferenceTable):
            return self._differences(block, under)
        if isinstance(block, Chart | TimeChart):
            return _chart(block, under)
        if isinstance(block, Table):
            return self._call("table", block, under)
        return self._call(type(block).__name__.lower(), block)

    def _differences(self, table: DifferenceTable, under: str) -> Markup:
        is_interactive = table.is_interactive and self._is_page  # its rows open by a click, other ones have links
        paths = [row.path for row in table.matrix.rows] if self._is_page and not table.is_interactive else []
        addresses = {path: self._address_of(Link(Kind.SETTING, path, table.matrix.pool.name)) for path in paths}
        inside = self._call("matrix", table, addresses, is_interactive)
        hidden = len(table.matrix.columns) - MOST_COLUMNS
        notes = [*table.notes, *([f"{count(hidden, 'more column')}, in the CSV of this table."] if hidden > 0 else [])]
        below = Markup().join(Markup('<p class="foot">{}</p>').format(_clean(note)) for note in notes)
        if self._is_page:
            return inside + below
        dense = " dense" if len(table.matrix.columns) >= DENSE_FROM else ""
        caption = Markup('<p class="caption" aria-hidden="true">{}</p>').format(table.caption)
        shown = "" if table.caption == under else caption
        return Markup('<div class="differences{}">{}{}</div>{}').format(dense, shown, inside, below)

    def _call(self, macro: str, *arguments: object) -> Markup:
        found: Macro = getattr(self._macros, macro)
        return Markup(found(*arguments).strip())  # noqa: S704  # of a template that escapes

    def _anchor(self, anchor: str) -> Markup:
        if anchor not in self._free:
            return Markup()
        self._free.remove(anchor)
        return Markup(' id="{}"').format(anchor)


def template(name: str) -> Template:
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dashboard.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Clean what a template writes; markup is clean already.
        finalize=lambda value: _clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.globals.update(glyphs=GLYPHS, colour=colour)
    environment.tests["text_only"] = lambda cell: (
        cell == (cell.text, Tone.PLAIN, "", cell.value, None, "", (), "", (), None)
    )
    environment.filters.update(
        breakable=_breakable,
        commas=_commas,
        classes=lambda table: [_class_of(column, place, table) for place, column in enumerate(table.columns)],
        # A key that a script reads back: hidden characters as their number.
        exact=lambda key: Markup(HIDDEN.sub(lambda found: f"&#{ord(found.group())};", str(escape(key)))),  # noqa: S704
        first_rows=lambda table: table.rows if len(table.rows) <= table.first + FEW else table.rows[: table.first],
        first_columns=lambda matrix: matrix.columns[:MOST_COLUMNS],
        lines=lambda text: Markup("<br>").join(_clean(line) for line in text.split("\n")),
        inner=lambda value, reference: inner_difference(reference, value),
        mark=_mark,
        parts=_parts,
        path=_path,
        plain=lambda text: text if isinstance(text, str) else to_plain(text),
        quiet=lambda line: all(piece.style == "muted" for piece in line),
        short_since=short_pieces,
        since=since_text,
        time=iso,
        slug=lambda text: "-".join(text.lower().split()),
        snippet=lambda text: Markup(escape(visible(text[:LONGEST_SNIPPET]))),  # noqa: S704  # its line breaks stay
        together=lambda text: Markup(escape(_BREAKS.sub("\N{NO-BREAK SPACE}", _clean(text)))),  # noqa: S704
        widths=_widths,
    )
    return environment


def _clean(text: str) -> str:
    """Return a text on one line, with nothing hidden in it."""
    return end_cut(text, LONGEST)


def _breakable(text: str) -> Markup:
    """Let a long value break after a comma or an underscore."""
    shown = _clean(text)
    if len(shown) <= UNBROKEN:
        return escape(shown)
    return escape(shown).replace(",", Markup(",<wbr>")).replace("_", Markup("_<wbr>"))


def _path(path: str) -> Markup:
    """Let a path break after its dots, and mute its section."""
    section, dot, name = _clean(path).rpartition(".")
    within = escape(section + dot).replace(".", Markup(".<wbr>"))
    return Markup('<span class="mute">{}</span>{}').format(within, name) if dot else escape(name)


def _mark(row: MatrixRow, severity: str, suppressed: str = "") -> tuple[str, str, str]:
    """Return class, sign and word of a row: those of a severity if a finding is about its difference."""
    mark = row.mark
    sign, word = _MARKS["tie" if row.tie and row.differs else mark]
    if severity and row.differs:
        return severity, GLYPHS[Tone(severity)], f"{word} ({severity} finding)"
    if suppressed and row.differs:
        return mark, sign, f"{word} ({suppressed})"
    return mark, sign, word


def _parts(text: str) -> Markup:
    """Let a line of parts, `1 DP rank · 32 GPUs`, wrap between them."""
    *before, last = _clean(text).split(" · ")
    spans = (Markup('<span class="part">{}</span>').format(part) for part in (*(f"{each} ·" for each in before), last))
    return Markup(" ").join(spans)


def _commas(pieces: Text, is_page: bool) -> Iterator[tuple[Piece, bool]]:  # noqa: FBT001  # an argument of a filter
    """Yield the pieces of a line, and whether a comma belongs to one: on a page a name wraps as a whole, with it."""
    had_comma = False
    for piece, following in zip_longest(pieces, pieces[1:]):
        shown = piece._replace(text=piece.text[1:]) if had_comma else piece
        had_comma = is_page and piece.link is not None and bool(following) and following.text.startswith(",")
        yield shown, had_comma


def _class_of(column: Column, place: int, table: Table) -> Markup:
    """Return the class attribute of a column: numbers, code, or so short that it stays on one line."""
    short = not column.is_number and all(len(row[place].text) <= SHORT and not row[place].pieces for row in table.rows)
    names = [
        name for name, is_so in (("number", column.is_number), ("code", column.is_code), ("short", short)) if is_so
    ]
    return Markup(' class="{}"').format(" ".join(names)) if names else Markup()


def _widths(table: Table) -> Markup:
    """Share a printed page among the columns by their longest texts: to measure every cell there takes minutes."""
    texts = [[column.title, *(row[place].text for row in table.rows)] for place, column in enumerate(table.columns)]
    needs = [min(max(NARROWEST, *map(len, column)), SHORT) + PADDING for column in texts]
    return Markup().join(Markup('<col style="--w:{:.1f}%">').format(100 * need / sum(needs)) for need in needs)


def _chart(chart: Chart | TimeChart, under: str) -> Markup:
    caption = "" if chart.title == under else Markup("<figcaption>{}</figcaption>").format(_clean(chart.title))
    css, drawn, more = "drawing times", "", ""
    if isinstance(chart, TimeChart):
        drawn = draw_times(chart)
    else:
        css, drawn = "drawing", "".join(to_svgs(chart))
        more = Markup('<p class="foot">{} left out.</p>').format(count(chart.more, "more bar")) if chart.more else ""
    inside = Markup(drawn)  # noqa: S704  # every text in it is escaped
    return Markup('<figure class="chart">{}<div class="{}">{}</div>{}</figure>').format(caption, css, inside, more)


def every_section(sections: Iterable[Section]) -> Iterator[Section]:
    """Yield sections and theirs, in reading order."""
    for section in sections:
        yield section
        yield from every_section(section.parts)


def anchors_of(sections: Sequence[Section]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the anchors of sections, and those of entries that no section has."""
    every = list(every_section(sections))
    blocks = (block for section in every for block in flat_blocks(section.blocks))
    entries = {item.anchor for block in blocks if isinstance(block, Entries) for item in block.items}
    named = frozenset(section.anchor for section in every)
    return named, frozenset(entries) - named - {""}


def to_html(view: View) -> str:
    """Write a view as one file of UTF-8. A browser prints it, and `to_pdf` makes pages of it."""
    sections, entries = anchors_of(view.parts)

    def address_of(link: Link) -> str:
        return f"#{link.anchor}" if link.anchor in sections or link.anchor in entries else ""

    writer = HtmlWriter(address_of, is_page=False, anchors=entries)
    foot = (
        f"@page {{ @bottom-left {{ content: {css_string(' · '.join(short_parts(view.context))[:LONGEST_FOOT])}; }} }}\n"
    )
    page = template("report.html").render(
        view=view,
        policy=POLICY,
        created=iso(view.context.data_as_of) if view.context.data_as_of else "",
        context=context_line(view.context),
        style=Markup(BLOCK_STYLES + REPORT_STYLES + foot),  # noqa: S704  # css_string leaves no character that ends a style sheet
        body=writer.sections(view.parts),
    )
    return without_commands(page + "\n")


def css_string(foreign: str) -> str:
    r"""Quote text for a style sheet: all but letters, digits and spaces as `\3c `, so that it can end nothing."""
    tame = (
        char if ord(char) < _ASCII and (char.isalnum() or char in " .,-") else f"\\{ord(char):x} " for char in foreign
    )
    return f'"{"".join(tame)}"'
