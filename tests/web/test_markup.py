"""Every piece of HTML escapes its arguments."""

import pytest

from dashboard.fleet.pieces import Piece, Style
from dashboard.views.glossary import TERMS
from dashboard.web import markup
from tests.builders import HOSTILE


@pytest.mark.parametrize(
    "html",
    [
        markup.text(HOSTILE),
        markup.bold(HOSTILE),
        markup.code(HOSTILE),
        markup.muted(HOSTILE),
        markup.said(HOSTILE),
        markup.parts(HOSTILE),
        markup.letter("A"),
        markup.section(HOSTILE),
        markup.link(HOSTILE, "", title=HOSTILE),
        markup.glyph("unknown", HOSTILE),
        markup.card(HOSTILE, "", ""),
        markup.table(HOSTILE, [(HOSTILE, "")], []),
    ],
)
def test_foreign_text_is_never_markup(html: str) -> None:
    assert "<script" not in html
    assert "<img" not in html
    assert "\"'>" not in html


def test_a_table_names_its_columns_and_rows() -> None:
    html = markup.table("Pools", [("Pool", ""), ("KV tokens", "number")], [["chat", "18.4 M"]])

    assert '<caption class="said">Pools</caption>' in html
    assert '<th scope="col" class="number">KV tokens</th>' in html
    assert '<tr><th scope="row">chat</th><td class="number">18.4 M</td></tr>' in html


def test_a_line_of_parts_wraps_between_them() -> None:
    """The separator stays with the part before it."""
    html = markup.parts("tokens · 100 GPUs")

    assert html == '<span class="part">tokens ·</span> <span class="part">100 GPUs</span>'
    assert markup.parts("a-1, b-2", ",") == '<span class="part">a-1,</span> <span class="part">b-2</span>'
    assert markup.parts("all up") == '<span class="part">all up</span>'


def test_a_glyph_has_a_word_for_screen_readers() -> None:
    assert markup.glyph("critical", "down:") == (
        '<span class="glyph critical" aria-hidden="true">!</span><span class="said">down:</span>'
    )


def test_pieces_of_text_have_their_style_and_are_escaped() -> None:
    text = (Piece("<b>", Style.STRONG), Piece(": "), Piece("x", Style.CODE), Piece("y", Style.MUTED))

    assert markup.pieces(text) == '<b>&lt;b&gt;</b>: <code>x</code><span class="mute">y</span>'


def test_a_term_has_a_tooltip_that_describes_it_and_takes_the_focus() -> None:
    html = markup.term("DP rank", "Ranks")

    assert html.startswith('<dfn class="term" tabindex="0" aria-describedby="term-dp-rank">Ranks<span')
    assert f'role="tooltip" id="term-dp-rank">{markup.text(TERMS["DP rank"])}</span></dfn>' in html


def test_a_table_has_tooltips_for_its_terms_only() -> None:
    html = markup.table("Pools", [("Pool", ""), ("Role", "")], [["chat", "both"]], {"Pool": "pool"})

    assert f'<th scope="col" class="">{markup.term("pool", "Pool")}</th><th scope="col" class="">Role</th>' in html


def test_a_card_that_is_a_link_has_no_tooltip() -> None:
    assert "<dfn" in markup.card("Pool", "chat", "", explained="pool")
    assert "<dfn" not in markup.card("Pool", "chat", "", explained="pool", address="./compare")


def test_an_unknown_term_is_an_error() -> None:
    with pytest.raises(KeyError):
        markup.term("no such word")
