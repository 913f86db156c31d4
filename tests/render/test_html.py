"""Blocks as HTML: each element in the form that the style sheets of pages and exports expect."""

import pytest

from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain, section
from dashboard.render.html import LONGEST, HtmlWriter
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Columns,
    Entries,
    Entry,
    Figure,
    Figures,
    Gauge,
    Gauges,
    Paragraph,
    Section,
    Table,
    Tone,
)

REPLICA = Link(Kind.REPLICA, "http://a:8000")


def written(*blocks: Block, is_page: bool = True) -> str:
    """These blocks as HTML; every link leads to its key."""
    return str(HtmlWriter(lambda link: f"/{link.key}", is_page=is_page).blocks(blocks))


@pytest.mark.parametrize(
    ("style", "html"),
    [
        (Style.PLAIN, "a &lt;b&gt;"),
        (Style.STRONG, "<b>a &lt;b&gt;</b>"),
        (Style.CODE, "<code>a &lt;b&gt;</code>"),
        (Style.MUTED, '<span class="mute">a &lt;b&gt;</span>'),
    ],
)
def test_a_piece_is_escaped_in_its_style(style: Style, html: str) -> None:
    assert html in written(Paragraph((Piece("a <b>", style), Piece("."))))


def test_a_piece_links_to_its_target_and_nowhere_without_an_address() -> None:
    line = (Piece("a", link=REPLICA),)

    assert written(Paragraph(line)) == '<p><a href="/http://a:8000">a</a></p>'
    assert str(HtmlWriter(lambda _: "", is_page=True).blocks([Paragraph(line)])) == "<p>a</p>"


@pytest.mark.parametrize("tone", [tone for tone in Tone if tone is not Tone.PLAIN])
def test_a_tone_is_a_shape_and_a_word(tone: Tone) -> None:
    html = written(Paragraph(plain("It is so."), tone))

    assert f'<div class="notice {tone}"><span class="glyph {tone}" aria-hidden="true">' in html
    assert f'<span class="said">{tone}: </span>' in html
    assert f"{tone}: " not in written(Paragraph(plain(f"A {tone} state."), tone))


def test_a_figure_with_a_target_is_a_link() -> None:
    html = written(Figures((Figure("Critical", "≤ 3 GiB", "in 2 pools · all", Tone.CRITICAL, page("findings")),)))

    assert '<a class="card" href="/findings">' in html
    assert "≤\u00a03\u00a0GiB" in html
    assert '<span class="part">in 2 pools ·</span> <span class="part">all</span>' in html


def test_an_entry_folds_on_a_page_and_is_open_in_an_export() -> None:
    entry = Entry(Tone.INFO, plain("Head"), "side", (plain("first"), plain("second")), ("--flag",), fold="Why")

    folded = '<details><summary>Why</summary><small>second</small><div class="paste"><pre><code>--flag'
    assert folded in written(Entries((entry,)))
    assert "<details>" not in written(Entries((entry,)), is_page=False)
    assert '<div class="whose">side</div>' in written(Entries((entry,)))


def test_only_the_first_entry_of_an_anchor_has_its_id() -> None:
    entries = Entries((Entry(Tone.PLAIN, plain("a"), anchor="x"), Entry(Tone.PLAIN, plain("b"), anchor="x")))
    writer = HtmlWriter(lambda _: "", is_page=False, anchors=("x",))

    assert str(writer.blocks([entries])).count('id="x"') == 1


def test_a_table_has_a_header_for_each_row_and_column() -> None:
    columns = (Column("Pool"), Column("Ranks", is_number=True, term="DP rank"), Column("Path", is_code=True))
    rows = ((Cell("chat", letter="A", link=REPLICA), Cell("8", note="of 9"), Cell("a_long_name_of_a_setting")),)
    html = written(Table("t", "Caption", columns, rows, "A note"))

    assert '<caption class="said">Caption</caption>' in html
    assert (
        '<th scope="row" class="short"><span class="letter c0">A</span> <a href="/http://a:8000">chat</a></th>' in html
    )
    assert '<td class="number">8<small class="mute">of 9</small></td>' in html
    assert "a_<wbr>long_<wbr>name_<wbr>of_<wbr>a_<wbr>setting" in html
    assert 'role="tooltip"' in html
    assert '<p class="foot">A note</p>' in html


def test_a_caption_is_read_aloud_only_where_the_heading_repeats_it() -> None:
    table = Table("t", "Pools", (Column("Pool"),), ((Cell("chat"),),))
    writer = HtmlWriter(lambda _: "", is_page=False)

    assert '<caption class="said">' in str(writer.blocks([table], "Pools"))
    assert "<caption>Pools" in str(writer.blocks([table], "Other"))


def test_a_long_table_folds_on_a_page_only() -> None:
    table = Table("t", "T", (Column("Pool"),), tuple((Cell(f"pool-{number}"),) for number in range(30)))

    assert "<summary>and 15 more</summary>" in written(table)
    assert "<summary>" not in written(table, is_page=False)


def test_shares_of_cohorts_are_a_bar() -> None:
    cell = Cell("A ×3, B", shares=(("A", 3), ("B", 1), ("not reported", 1)))
    html = written(Table("t", "T", (Column("C"),), ((cell,),)))

    assert '<span class="c1" style="flex:1" title="cohort B: 1 replica"><span aria-hidden="true">B</span>' in html
    assert '<span class="rest" style="flex:1">1 not reported</span>' in html


def test_gauges_are_a_table_and_columns_follow_each_other_in_an_export() -> None:
    gauges = Gauges("g", "Memory", "Memory", (Gauge("H100", "46 of 80 GiB", 0.575),))
    columns = Columns(((Paragraph(plain("left")),), (gauges,)), (1, 1))

    assert 'style="width:57.50%"' in written(columns)
    assert "<p>left</p>" in written(columns, is_page=False)
    assert "<td" in written(columns, is_page=False)


def test_a_section_is_headed_and_an_aside_folds_on_a_page() -> None:
    inner = Section("b", "Inner", (Paragraph(plain("x")),), is_aside=True, link=section("b"))
    outer = Section("a", "Outer", (), (inner,), is_appendix=True)

    page_html = str(HtmlWriter(lambda _: "", is_page=True).sections([outer]))
    export = str(HtmlWriter(lambda _: "", is_page=False).sections([outer]))
    assert "<details><summary>Inner</summary><p>x</p></details>" in page_html
    assert '<section class="appendix" aria-labelledby="a">\n<h2 id="a">Outer</h2>' in export
    assert '<h3 id="b">Inner</h3>' in export


def test_a_huge_value_is_cut() -> None:
    assert len(written(Paragraph(plain("x" * 10 * LONGEST)))) < LONGEST + 100
