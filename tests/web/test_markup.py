"""Every piece of HTML escapes its arguments."""

import re

import pytest

from dashboard.rules.findings import Tally
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


@pytest.mark.parametrize(
    ("value", "markdown"),
    [
        ("cache_config.block_size", "`cache_config.block_size`"),
        ("![](http://evil.example/x)", "`![](http://evil.example/x)`"),
        ("a`b``c", "``` a`b``c ```"),
        (":material/edit:", "`:\N{WORD JOINER}material/edit:`"),
        ("two\nlines", "`two lines`"),
    ],
)
def test_a_title_is_never_markdown(value: str, markdown: str) -> None:
    assert markup.markdown_code(value) == markdown


def test_counts_of_findings_are_read_once() -> None:
    html = markup.tally_glyphs(Tally(critical=3))

    assert re.sub(r'<span aria-hidden="true".*?</b></span>', "", html) == (
        '<a href="findings?search=severity%3Acritical" class="count"><span class="said">3 critical findings</span></a>'
    )


def test_a_glyph_has_a_word_for_screen_readers() -> None:
    assert markup.glyph("critical", "down:") == (
        '<span class="glyph critical" aria-hidden="true">!</span><span class="said">down:</span>'
    )
