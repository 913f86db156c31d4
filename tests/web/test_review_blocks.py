"""Blocks of a report say on a page what they say in an export, and nothing foreign in them becomes markup."""

import pytest

from dashboard.fleet.pieces import Piece, Style, plain, section
from dashboard.views.blocks import (
    Bar,
    Cell,
    Chart,
    Column,
    Entries,
    Entry,
    Figure,
    Figures,
    Paragraph,
    Section,
    Table,
    Tone,
)
from dashboard.web.review_blocks import Collapse, LinkMap, block_html, drawn, entries_html
from tests.builders import HOSTILE

LEADS = LinkMap({"there": "findings?finding=1", "part": "compare?pool=a"}, {"chat": "capacity?pool=chat"})
CHART = Chart("ranks", "Ranks", "tokens", (Bar(HOSTILE, 3.0),))


def table(rows: int, first: str = "row") -> Table:
    columns = (Column("Name"), Column("Tokens", is_number=True), Column("Value", is_code=True))
    cells = tuple((Cell(f"{first} {number}"), Cell("1", Tone.WARNING), Cell("x", letter="B")) for number in range(rows))
    return Table("t", "Caption", columns, cells, "A note.")


def test_a_sentence_with_a_tone_is_framed_and_says_its_tone() -> None:
    shown = block_html(Paragraph(plain("Late."), Tone.WARNING))

    assert 'class="notice warning"' in shown
    assert '<span class="said">warning:</span> Late.' in shown
    assert block_html(Paragraph(plain("Fine."))) == "<p>Fine.</p>"


def test_pieces_keep_their_style_their_lines_and_where_they_lead() -> None:
    line = (
        Piece("a", Style.STRONG),
        Piece("b", Style.CODE),
        Piece("c", Style.MUTED, section("there")),
        Piece("d\ne", target=section("x")),
    )

    assert block_html(Paragraph(line), LEADS) == (
        '<p><b>a</b><code>b</code><a href="findings?finding=1"><span class="mute">c</span></a>d<br>e</p>'
    )


def test_a_figure_is_a_card_that_leads_to_what_it_counts() -> None:
    shown = block_html(
        Figures((Figure("Critical", "3", "in 2 pools", Tone.CRITICAL, section("there")), Figure("Pools", "5"))), LEADS
    )

    assert '<a href="findings?finding=1" class="card">' in shown
    assert 'class="glyph critical"' in shown
    assert '<div class="card"><div class="label">Pools</div>' in shown


def test_an_entry_shows_its_tone_lines_side_and_what_can_be_pasted() -> None:
    entry = Entry(Tone.CRITICAL, plain("Wrong."), "B ×2", (plain("Because."),), ("--flag a\n--flag b",), "there")

    shown = block_html(Entries((entry,)), LEADS)

    assert '<li class="critical">' in shown
    assert '<a href="findings?finding=1">Wrong.</a><small>Because.</small><pre>--flag a\n--flag b</pre>' in shown
    assert '<div class="whose">B ×2</div>' in shown


def test_a_note_stands_apart_and_last() -> None:
    entry = Entry(Tone.PLAIN, plain("Wrong."), snippets=("--a 1",), notes=(plain("ann: <done>"),))

    shown = entries_html((entry,), fold=Collapse(0, "More"))

    assert '</details><blockquote class="noted">ann: &lt;done&gt;</blockquote>' in shown


def test_a_tone_that_a_cell_says_itself_is_not_read_aloud_twice() -> None:
    cells = (Cell("critical: RT-13 x", Tone.CRITICAL), Cell("RT-13 y", Tone.CRITICAL))
    shown = block_html(Table("t", "T", (Column("a"), Column("b")), (cells,)))

    assert '<span class="said"></span> critical: RT-13 x' in shown
    assert '<span class="said">critical:</span> RT-13 y' in shown


def test_a_table_marks_its_cells_and_aligns_its_columns() -> None:
    shown = block_html(table(1, "chat"), LinkMap({}, {"chat 0": "capacity?pool=chat"}))

    assert '<a href="capacity?pool=chat"><b>chat 0</b></a>' in shown
    assert '<td class="number"><span class="glyph warning"' in shown
    assert '<td class="code"><span class="letter c1">B</span> x</td>' in shown
    assert '<div class="foot">A note.</div>' in shown


@pytest.mark.parametrize(("rows", "folded"), [(18, 0), (19, 4), (119, 104)])
def test_a_long_table_folds_what_few_will_read(rows: int, folded: int) -> None:
    """A few rows more than fit are not worth a click."""
    shown = block_html(table(rows))

    assert shown.count('<th scope="row">') == rows
    assert shown.count("<details>") == bool(folded)
    if folded:
        assert f"<summary>and {folded} more</summary>" in shown


def test_inner_parts_stand_under_headings_of_their_depth_and_charts_stand_apart() -> None:
    deep = Section("x", "Deep", (CHART, Paragraph(plain("After."))))
    part = Section("top", "Never shown", (Paragraph(plain("Before.")),), (Section("part", "Pool a", (), (deep,)),))

    first, chart, last = drawn(part, LEADS)

    assert first.html == '<p>Before.</p><h3><a href="compare?pool=a">Pool a</a></h3><h4>Deep</h4>'
    assert [each.is_chart for each in (first, chart, last)] == [False, True, False]
    assert "<svg" in chart.html
    assert last.html == "<p>After.</p>"


def test_nothing_foreign_becomes_markup() -> None:
    blocks = (
        Paragraph(plain(HOSTILE), Tone.INFO),
        Figures((Figure(HOSTILE, HOSTILE, HOSTILE),)),
        Entries((Entry(Tone.PLAIN, (Piece(HOSTILE, Style.CODE),), HOSTILE, (plain(HOSTILE),), (HOSTILE,)),)),
        Table("t", HOSTILE, (Column(HOSTILE),), ((Cell(HOSTILE),),), HOSTILE),
        CHART,
    )
    shown = "".join(piece.html for piece in drawn(Section("a", "A", blocks, (Section("b", HOSTILE, ()),))))

    assert "<script" not in shown
    assert "<img" not in shown


def test_what_is_read_on_demand_is_folded_and_the_rest_is_not() -> None:
    entry = Entry(Tone.WARNING, plain("It differs."), lines=(plain("RT-01"), plain("Because.")), snippets=("--x 1",))
    folded = entries_html((entry,), fold=Collapse(1, "Why, and what to do"))

    assert "It differs.<small>RT-01</small><details><summary>Why, and what to do</summary>" in folded
    assert "<small>Because.</small><pre>--x 1</pre></details>" in folded
    assert "<details>" not in entries_html((entry,))
    assert "<details>" not in entries_html(
        (Entry(Tone.INFO, plain("Short."), lines=(plain("x"),)),), fold=Collapse(1, "")
    )


def test_a_part_that_few_will_read_is_folded_under_its_title() -> None:
    aside = Section("a", HOSTILE, (Paragraph(plain("All of it.")),), is_aside=True)
    (shown,) = drawn(Section("p", "Whole", (), (aside,)))

    assert shown.html.endswith("</summary><p>All of it.</p></details>")
    assert "<script" not in shown.html


NAMED = LEADS._replace(names={"chat-01": "replica?replica=1", "a&b": "replica?replica=2"})


def test_replicas_are_links_wherever_a_text_names_them() -> None:
    """In sentences, at the right of an entry and in cells; not as a part of another word, and not in values."""
    line = (Piece("chat-01, chat-010 and a&b. "), Piece("chat-01", Style.CODE), Piece("chat-01", Style.STRONG))
    shown = block_html(Paragraph(line), NAMED)

    first, other = '<a href="replica?replica=1">chat-01</a>', '<a href="replica?replica=2">a&amp;b</a>'
    assert shown == f"<p>{first}, chat-010 and {other}. <code>chat-01</code><b>{first}</b></p>"
    assert f'<div class="whose">B {first}</div>' in entries_html((Entry(Tone.PLAIN, plain("x"), "B chat-01"),), NAMED)
    assert f"({first} and {other})" in block_html(Paragraph(plain("Two (chat-01 and a&b).")), NAMED)
    assert "</a></a>" not in entries_html((Entry(Tone.PLAIN, plain("of chat-01"), anchor="there"),), NAMED)
    rows = ((Cell("x"), Cell("at chat-01: late")),)
    assert f"at {first}: late" in block_html(Table("t", "T", (Column("a"), Column("b")), rows), NAMED)


def test_a_date_in_a_table_does_not_break() -> None:
    rows = ((Cell("x"), Cell("2026-04-30")),)

    assert '<span class="day">2026-04-30</span>' in block_html(Table("t", "T", (Column("a"), Column("b")), rows))
