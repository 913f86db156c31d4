"""Whatever comes into a piece of HTML is escaped there."""

from __future__ import annotations

import pytest

from dashboard.ui import markup
from tests.builders import HOSTILE


@pytest.mark.parametrize(
    "html",
    [
        markup.text(HOSTILE),
        markup.bold(HOSTILE),
        markup.code(HOSTILE),
        markup.muted(HOSTILE),
        markup.said(HOSTILE),
        markup.letter("A"),
        markup.section(HOSTILE),
        markup.link(HOSTILE, "", title=HOSTILE),
        markup.glyph("unknown", HOSTILE),
        markup.card(HOSTILE, "", ""),
        markup.table(HOSTILE, [(HOSTILE, "")], []),
    ],
)
def test_foreign_text_never_becomes_markup(html: str) -> None:
    """Neither as content nor out of an attribute."""
    assert "<script" not in html
    assert "<img" not in html
    assert "\"'>" not in html


def test_a_table_names_its_columns_and_rows() -> None:
    """Heads have scopes, numbers their class, and the caption is read aloud."""
    html = markup.table("Pools", [("Pool", ""), ("KV tokens", "number")], [["chat", "18.4 M"]])

    assert '<caption class="said">Pools</caption>' in html
    assert '<th scope="col" class="number">KV tokens</th>' in html
    assert '<tr><th scope="row">chat</th><td class="number">18.4 M</td></tr>' in html


def test_a_glyph_is_never_alone() -> None:
    """The shape is hidden from readers that speak; the word is not."""
    assert markup.glyph("critical", "down:") == (
        '<span class="glyph critical" aria-hidden="true">!</span><span class="said">down:</span>'
    )
