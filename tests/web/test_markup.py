"""Every piece of HTML escapes its arguments."""

import pytest

from dashboard.web import markup
from tests.builders import HOSTILE


@pytest.mark.parametrize(
    "html",
    [
        markup.text(HOSTILE),
        markup.bold(HOSTILE),
        markup.code(HOSTILE),
        markup.said(HOSTILE),
        markup.section(HOSTILE),
        markup.link(HOSTILE, "", title=HOSTILE),
        markup.glyph("unknown", HOSTILE),
    ],
)
def test_foreign_text_is_never_markup(html: str) -> None:
    assert "<script" not in html
    assert "<img" not in html
    assert "\"'>" not in html


def test_a_glyph_has_a_word_for_screen_readers() -> None:
    assert markup.glyph("critical", "down:") == (
        '<span class="glyph critical" aria-hidden="true">!</span><span class="said">down:</span>'
    )
