"""Blocks as HTML: each element in the form that the style sheets of pages and exports expect."""

import pytest

from dashboard.fleet.pieces import Kind, Link, Piece, Style, plain
from dashboard.render.html import LONGEST, HtmlWriter
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Entries,
    Entry,
    Paragraph,
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


def test_only_the_first_entry_of_an_anchor_has_its_id() -> None:
    entries = Entries((Entry(Tone.PLAIN, plain("a"), anchor="x"), Entry(Tone.PLAIN, plain("b"), anchor="x")))
    writer = HtmlWriter(lambda _: "", is_page=False, anchors=("x",))

    assert str(writer.blocks([entries])).count('id="x"') == 1


def test_a_caption_is_read_aloud_only_where_the_heading_repeats_it() -> None:
    table = Table("t", "Pools", (Column("Pool"),), ((Cell("chat"),),))
    writer = HtmlWriter(lambda _: "", is_page=False)

    assert '<caption class="said">' in str(writer.blocks([table], "Pools"))
    assert "<caption>Pools" in str(writer.blocks([table], "Other"))


def test_a_huge_value_is_cut() -> None:
    assert len(written(Paragraph(plain("x" * 10 * LONGEST)))) < LONGEST + 100
