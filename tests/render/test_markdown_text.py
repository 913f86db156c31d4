"""Foreign text in Markdown: shown as it is, whatever it holds."""

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard.fleet.formatting import end_cut
from dashboard.render.markdown import escaped, fenced, within

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])  # of those that rich brings
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
SEPARATOR = "\N{ZERO WIDTH SPACE}"
PIECES = st.sampled_from(
    [*"\\`*_{}[]()#+-.!|~<>&=:$@\n", " ", "  ", "a", "Z", "1", "é", "²", "www.", "http://h.io", "&lt;"]
)
FOREIGN = st.lists(PIECES | st.characters(), max_size=12).map("".join)


def read(markdown: str) -> tuple[str, set[str]]:
    """What a reader sees of Markdown: its text on one line, and the elements that it became."""
    html = PARSER.render(markdown)
    words = unescape(re.sub(r"<[^>]*>", " " if "<td" in html else "", html)).replace(SEPARATOR, "")
    return " ".join(words.split()), set(re.findall(r"<(\w+)", html))


@pytest.mark.parametrize(
    ("foreign", "written"),
    [
        ("<script>&amp; a&b <5", "&lt;script>&amp;amp; a&b <5"),
        ("[x](y)", "\\[x](y)"),
        ("![x](y)", "!\\[x](y)"),
        ("https://h.io www.h.io", "https\\://h.io www\\.h.io"),
        ("*a* _b_ `c` ~d~ $e$", "\\*a\\* \\_b\\_ \\`c\\` \\~\u200bd\\~ \\$\u200be\\$"),
        ("cache_config.block_size a__b __c", "cache_config.block_size a__b \\_\\_c"),
        ("a|b", "a\\|b"),
        ("\\", "\\\\"),
        ("@all #12 a@b.io", "@\u200ball #\u200b12 a@\u200bb.io"),
        (":smile: :+1: fe80::a:b:1", ":\u200bsmile: :\u200b+1: fe80::\u200ba:\u200bb:1"),
        (":100: 2026-03-02T11:42:05Z", ":\u200b100: 2026-03-02T11:42:05Z"),
        ("- a", "\\- a"),
        ("+ a", "\\+ a"),
        ("---", "\\---"),
        ("===", "\\==="),
        ("> a", "\\> a"),
        ("# a #", "\\# a \\#"),
        ("1. a", "1\\. a"),
        ("1) a", "1\\) a"),
        (":--", "\\:--"),
        ("     a", "a"),
        ("-18 % of 1.5 GiB - so --block-size (a) > b.", "-18 % of 1.5 GiB - so --block-size (a) > b."),
        ("a\nb\x1b\u202e", "a b��"),
        ("plain words", "plain words"),
    ],
)
def test_foreign_text_is_shown_as_it_is(foreign: str, written: str) -> None:
    assert escaped(foreign) == written


@given(FOREIGN)
@example("_a_ [b](c) *d* <b> &lt; # \\")
def test_to_a_reader_of_markdown_any_text_is_only_text(text: str) -> None:
    """At the beginning of a paragraph and of an item, in a heading, a cell, and strong within a line."""
    shown = " ".join(end_cut(text, 1_000).replace(SEPARATOR, "").split())

    assert read(escaped(text)) == (shown, {"p"} if shown else set())
    assert read(f"- {escaped(text)}") == (shown, {"ul", "li"})
    assert read(f"## Title: {within(text)}") == (f"Title: {shown}".strip(), {"h2"})
    assert read(f"a {within(text)} b") == (" ".join(f"a {shown} b".split()), {"p"})
    assert read(f"| a |\n| --- |\n| {within(text)} |") == (f"a {shown}".strip(), TABLE)


@given(FOREIGN)
def test_what_forges_link_by_themselves_is_never_left_whole(text: str) -> None:
    """They look for addresses, names and codes of pictures, before or after they read Markdown."""
    shown = escaped(text)

    assert not re.search(r"[a-z]://|www\.|[@#!~%$]\w|:[a-z+-][\w+-]*:", shown, re.IGNORECASE)


def test_code_cannot_end_its_own_block() -> None:
    text = fenced("a\n```\n````x\x1b")

    assert text == "`````\na\n```\n````x�\n`````"
