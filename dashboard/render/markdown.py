"""A view as Markdown, for an issue or a chat: foreign text never becomes markup, and the text fits into a comment."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, assert_never

from dashboard.compare.columns import MatrixColumn
from dashboard.compare.matrix import MatrixRow
from dashboard.fleet.formatting import count, end_cut, shortlist, without_commands
from dashboard.fleet.pieces import Piece, Style, Text
from dashboard.render.svg import amount, bar_text
from dashboard.rules.findings import Severity
from dashboard.views import blocks
from dashboard.views.context import context_line
from dashboard.views.since import since_cell
from dashboard.views.time_chart import TimeChart

MOST_CHARACTERS = 60_000  # GitHub refuses comments of more than 65,536
LONGEST = 1000  # characters of one sentence
# Markup within a line of CommonMark or GitHub's dialect, escaped by a backslash. Underscores within a word and closing
# brackets are none; the colon and the dot make links of bare addresses, {+ and {- mark changes at GitLab, and # at the
# end closes a heading.
_ACTS = re.compile(
    r"[\\`*\[|$~]|(?<!\w)_++|(?<!_)_++(?![^\W_])|:(?=//)|(?<=www)\.|\{(?=[-+])|#+(?=\s*$)",
    re.IGNORECASE,
)
_ENTITIES = re.compile(r"<(?![\s\d=])|&(?=#?\w+;)")
# The beginning of a list, a heading, a quotation, a rule or a table.
_BEGINS = re.compile(r"^(?:(?=#|>|[-+](?:\s|$)|=+\s*$|:?-+:?\s*$)|(\d{1,9})(?=[.)](?:\s|$)))")
# Forges read these in the text after Markdown: @name notifies a person, #12 and !12 are links, :name: is an emoji. Only
# two numbers are emoji, so that times of day stay unchanged.
_CALLS = re.compile(r"([@#!~%$](?=\w)|:(?=(?:\w*[a-z+-][\w+-]*|100|1234):))", re.IGNORECASE)
_SEPARATOR = "\N{ZERO WIDTH SPACE}"
_BACKTICKS = re.compile(r"`+")
MOST_ITEMS = 100  # rows of a table, entries of a list; the rest is counted
LONG_LIST = 12  # a longer list is folded
SHARE = 0.75  # of the remaining room that one list may take
MOST_NAMED = 5  # sections that the sentence on missing room names
MOST_APPENDICES = 8
RESERVE = 1_500  # characters for the end of a section, and for the sentence on what is left out
DEEPEST = 6  # Markdown has no headings below that
SEVERITIES = frozenset(map(blocks.Tone, Severity))


class _WrittenBlock(NamedTuple):
    """A block: its head, items of which the last ones may be left out, a line each, and what they are.

    Findings are never folded.
    """

    head: str
    items: Sequence[str] = ()
    noun: str = ""
    plural: str = ""
    is_folded: bool = True  # when it is long


class _Comment:
    """Collects what fits into a comment, and the titles of what does not."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.paragraphs: list[str] = []
        self.left_out: list[str] = []

    def add(self, text: str) -> None:
        """Add a paragraph; call `fits` before."""
        self.paragraphs.append(text)
        self._room -= len(text) + 2

    def fits(self, text: str) -> bool:
        """Return whether there is room for a text and for the end of the comment."""
        return len(text) + RESERVE <= self._room

    def block(self, written: _WrittenBlock) -> bool:
        """Add a block with as many items as there is room for; return whether all fit."""
        shown: list[str] = []
        length = len(written.head)
        for item in written.items[:MOST_ITEMS]:
            length += len(item) + 1
            if length + RESERVE > self._room * SHARE:
                break
            shown.append(item)
        if (written.items and not shown) or not self.fits(written.head):
            return False
        hidden = len(written.items) - len(shown)
        more = [f"and {count(hidden, f'more {written.noun}', f'more {written.plural}')}"] if hidden else []
        body = "\n".join([*([written.head] if written.head else []), *shown])
        folded = written.is_folded and len(written.items) > LONG_LIST
        summary = f"<details><summary>{count(len(written.items), written.noun, written.plural)}</summary>"
        for each in [summary, body, *more, "</details>"] if folded else [body, *more]:
            self.add(each)
        return len(shown) == len(written.items[:MOST_ITEMS])


def to_markdown(report: blocks.View) -> str:
    """Write a report as one comment of at most MOST_CHARACTERS characters; its last line is its context.

    Appendices are left out. A sentence before the last line names them, another one the sections without room.
    """
    title = ": ".join(within(text) for text in (report.title, report.headline) if text)
    head = [f"## {title}", *([escaped(report.lead)] if report.lead else [])]
    context = escaped(context_line(report.context))
    comment = _Comment(MOST_CHARACTERS - sum(map(len, [*head, context])))
    for part in report.parts:
        if not part.is_appendix:
            _part(comment, part, 3)
    appendices = [part.title for part in report.parts if part.is_appendix]
    left_out = [
        *_named("**Left out (no room): {}.**", comment.left_out, MOST_NAMED),
        *_named("Appendices, in the HTML, PDF and JSON of this report: {}.", appendices, MOST_APPENDICES),
    ]
    return without_commands("\n\n".join([*head, *comment.paragraphs, *left_out, context]) + "\n")


def _named(sentence: str, titles: Sequence[str], most: int) -> list[str]:
    """Return a sentence that names sections, if there are any; `{}` in it becomes their titles."""
    names = shortlist((end_cut(title, 40) for title in titles), most)
    return [sentence.format(within(names))] if titles else []


def _part(comment: _Comment, part: blocks.Section, level: int) -> None:
    if part.title:
        heading = f"{'#' * min(level, DEEPEST)} {within(part.title)}"
        if not comment.fits(heading):
            comment.left_out.append(part.title)
            return
        comment.add(heading)
    whole = [comment.block(_block(block, part.title)) for block in blocks.flat_blocks(part.blocks)]
    if not all(whole):
        comment.left_out.append(part.title)
    for inner in part.parts:
        _part(comment, inner, level + 1)


def _block(block: blocks.PlainBlock, under: str) -> _WrittenBlock:
    match block:
        case blocks.Paragraph():
            return _WrittenBlock(_marked(block.tone, _line(block.line)))
        case blocks.Figures():
            return _figures(block)
        case blocks.Entries():
            has_findings = any(entry.tone in SEVERITIES for entry in block.items)
            return _WrittenBlock("", list(map(_entry, block.items)), "entry", "entries", is_folded=not has_findings)
        case blocks.Table() | blocks.FleetMap():
            table = block if isinstance(block, blocks.Table) else block.data
            rows = [
                _row(_mark(each.tone, each.text) + _lettered(each.letter, each.whole_text) for each in row)
                for row in table.rows
            ]
            numbers = [column.is_number for column in table.columns]
            head = _head([within(column.title) for column in table.columns], numbers)
            return _WrittenBlock(_captioned(table.caption, under, head, table.note), rows, "row", "rows")
        case blocks.DifferenceTable():
            return _differences(block, under)
        case blocks.Chart() | TimeChart():
            return (
                _chart(block, under) if isinstance(block, blocks.Chart) else _WrittenBlock("")
            )  # tables have all of a timeline
        case _:
            assert_never(block)


def _captioned(caption: str, under: str, head: str, *notes: str) -> str:
    """Return caption and notes above the head of a table: rows below it may be left out."""
    above = [f"**{within(caption)}**"] if caption.strip() and caption != under else []
    above += [escaped(note) for note in notes if note]
    return "\n\n".join([*above, head])


def _head(titles: Sequence[str], numbers: Sequence[bool]) -> str:
    return f"{_row(titles)}\n{_row('--:' if number else '---' for number in numbers)}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mark(tone: blocks.Tone, text: str) -> str:
    """Return the sign of a tone, with its word unless the text has it."""
    if tone is blocks.Tone.PLAIN:
        return ""
    return f"{blocks.SIGNS[tone]} " if str(tone) in text.lower() else f"{blocks.SIGNS[tone]} {tone}: "


def _marked(tone: blocks.Tone, markdown: str) -> str:
    return _mark(tone, markdown) + markdown if tone is not blocks.Tone.PLAIN else begun(markdown)


def _figures(block: blocks.Figures) -> _WrittenBlock:
    labels = [within(figure.label) for figure in block.items]
    values = [_value(figure) for figure in block.items]
    notes = [within(figure.note) for figure in block.items]
    return _WrittenBlock(
        "\n".join([_head(labels, [False] * len(labels)), _row(values), *([_row(notes)] if any(notes) else [])])
    )


def _value(figure: blocks.Figure) -> str:
    sign = f"{blocks.SIGNS[figure.tone]} " if figure.tone is not blocks.Tone.PLAIN else ""
    return f"{sign}**{within(figure.value)}**" if figure.value.strip() else sign.strip()


def _entry(entry: blocks.Entry) -> str:
    side = f" ({within(entry.side_text)})" if entry.side_text else ""
    lines = "".join(f"<br>{_line(line)}" for line in entry.lines)
    head = f"- {_marked(entry.tone, _line(entry.head))}{side}{lines}"
    pasted = ["\n".join(f"  {line}" for line in fenced(each).split("\n")) for each in entry.snippets]
    noted = [f"  > {_line(line)}" for line in entry.notes]
    return "\n\n".join([head, *pasted, *noted]) + ("\n" if pasted or noted else "")


def _line(line: Text) -> str:
    """Return the pieces of a line, neighbours of one style as one: `**A****,**` would show its asterisks.

    With a dollar sign in it, code could become mathematics: then there is no code.
    """
    safe = not any("$" in piece.text for piece in line)
    runs = groupby(line, key=attrgetter("style"))
    whole = (Piece("".join(piece.text for piece in run), style) for style, run in runs)
    return "".join(_piece(piece, may_be_code=safe) for piece in whole)


def _piece(piece: Piece, *, may_be_code: bool) -> str:
    whole = piece.text.strip()
    before, after = piece.text.partition(whole)[::2] if whole else (piece.text, "")
    lines = whole.split("\n")
    if piece.style is Style.CODE and may_be_code and whole and "`" not in whole and len(lines) == 1:
        inside = f"`{end_cut(whole, LONGEST)}`"
    else:
        inside = "<br>".join(map(within, lines))
        inside = f"**{inside}**" if piece.style is Style.STRONG and whole else inside
    return f"{' ' * bool(before)}{inside}{' ' * bool(after)}"


def _differences(table: blocks.DifferenceTable, under: str) -> _WrittenBlock:
    columns = table.matrix.columns[: blocks.MOST_COLUMNS]
    titles = ["setting", *(_title(column, table) for column in columns), *(["since"] if table.sightings else [])]
    head = _head(titles, [False] * len(titles))
    hidden = len(table.matrix.columns) - blocks.MOST_COLUMNS
    notes = [*table.notes, *([f"{count(hidden, 'more column')} left out."] if hidden > 0 else [])]
    rows = [_difference(row, table) for row in table.matrix.rows]
    return _WrittenBlock(_captioned(table.caption, under, head, *notes), rows, "setting", "settings")


def _title(column: MatrixColumn, table: blocks.DifferenceTable) -> str:
    only = table.names.get(column.only, column.only)
    return within(f"{column.key} ×{column.count:,} {only}".strip() if column.is_cohort else only or column.title)


def _difference(row: MatrixRow, table: blocks.DifferenceTable) -> str:
    kind = table.kinds.get(row.path, "") if row.differs else ""
    sign = f"{blocks.SIGNS[blocks.Tone(kind)]} " if kind else ""
    cells = (
        f"**{within(cell.text)}**" if cell.value and cell.state == "differs" else within(cell.text)
        for cell in row.cells[: blocks.MOST_COLUMNS]
    )
    since = [since_cell(table.sightings.get(row.path)).text] if table.sightings else []
    return _row([f"{sign}{within(row.path)}", *cells, *since])


def _chart(chart: blocks.Chart, under: str) -> _WrittenBlock:
    median = f"Median: {amount(chart.median)} {chart.unit}." if chart.median is not None else ""
    more = f"{count(chart.more, 'more bar')} left out." if chart.more else ""
    rows = [
        _row([_lettered(bar.letter, bar.label), bar_text(bar), _mark(bar.tone, bar.mark) + within(bar.mark)])
        for bar in chart.bars
    ]
    head = _head(["", within(chart.unit), ""], [False, True, False])
    return _WrittenBlock(_captioned(chart.title, under, head, median, more), rows, "bar", "bars")


def _lettered(letter: str, text: str) -> str:
    return (f"**{within(letter)}** " if letter else "") + within(text)


def escaped(text: str) -> str:
    """Return foreign text that Markdown shows as it is, on one line; it may begin a line."""
    return begun(within(text))


def within(text: str) -> str:
    """Return foreign text within a line: markup of the beginning of a line is not escaped."""
    parted = _CALLS.sub(rf"\1{_SEPARATOR}", end_cut(text, LONGEST))
    quiet = _ACTS.sub(lambda found: "".join(f"\\{char}" for char in found.group()), parted)
    return _ENTITIES.sub(lambda found: escape(found.group()), quiet)


def begun(markdown: str) -> str:
    """Escape the beginning of a line that would begin a list, a heading, a quotation, a rule or a table."""
    return _BEGINS.sub(lambda found: f"{found[1] or ''}\\", markdown.lstrip())


def fenced(text: str) -> str:
    """Return text as a block of code; the fence is longer than any run of backticks in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = "\n".join(end_cut(line, LONGEST) for line in text.splitlines())
    return f"{fence}\n{lines}\n{fence}"
