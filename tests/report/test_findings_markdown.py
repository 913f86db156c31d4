"""The findings as a comment on a pull request: whole, short enough, and free of foreign markup."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard.report import table
from dashboard.report.findings_markdown import (
    MOST_CHARACTERS,
    PAGES,
    escaped,
    fenced,
    to_findings_markdown,
    with_code,
    within,
)
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Basis
from dashboard.rules.findings import OutcomeKind, Remedy, Snippet
from tests.report.judged import EVIL, domain, evil, finding, fleet, outcome, suppression

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


def without_code(text: str) -> str:
    """What a reader of Markdown looks for markup in: all but blocks of code and code in a line."""
    outside = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![\\`])`[^`\n]+`", "", outside)


def test_a_finding_is_told_whole() -> None:
    text = to_findings_markdown(fleet(finding()))

    assert text.startswith("## vLLM fleet: prod-eu\n\n**1 critical, 0 warning, 0 info** · 4 of 4 answered · ")
    assert f"{len(ALL_RULES)} rules: 1 judged, {len(ALL_RULES) - 1} not applicable anywhere\n\n" in text
    assert "### ✖ critical: RT-01 block-size-differs in chat\n\n**B x2 (chat-3 and chat-4)**: Block size is 32" in text
    assert "Why it matters: The router never finds what these replicas hold.\n\n" in text
    assert "What to do: Give these replicas the same block size.\n\n```sh\n--block-size 16\n```\n" in text


def test_a_finding_without_a_reason_has_no_line_for_it() -> None:
    assert "Why it matters" not in to_findings_markdown(fleet(finding(why="")))


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
        ("a\nb\x1b\u202e", "a�b��"),
        ("plain words", "plain words"),
    ],
)
def test_foreign_text_is_shown_as_it_is(foreign: str, written: str) -> None:
    assert escaped(foreign) == written


@given(FOREIGN)
@example("_a_ [b](c) *d* <b> &lt; # \\")
def test_to_a_reader_of_markdown_any_text_is_only_text(text: str) -> None:
    """At the beginning of a paragraph and of an item, in a heading, a cell, and strong within a line."""
    shown = " ".join(table.plain(text, 1_000).replace(SEPARATOR, "").split())

    assert read(escaped(text)) == (shown, {"p"} if shown else set())
    assert read(f"- {escaped(text)}") == (shown, {"ul", "li"})
    assert read(f"## Title: {within(text)}") == (f"Title: {shown}".strip(), {"h2"})
    assert read(f"a {within(text)} b") == (" ".join(f"a {shown} b".split()), {"p"})
    assert read(f"| a |\n| --- |\n| {within(text)} |") == (f"a {shown}".strip(), TABLE)


@given(FOREIGN)
def test_what_forges_link_by_themselves_is_never_left_whole(text: str) -> None:
    """They look for addresses, names and codes of pictures, before or after they read Markdown."""
    told = escaped(text)

    assert not re.search(r"[a-z]://|www\.|[@#!~%$]\w|:[a-z+-][\w+-]*:", told, re.IGNORECASE)


def test_code_cannot_end_its_own_block() -> None:
    text = fenced("a\n```\n````x\x1b", "sh")

    assert text == "`````sh\na\n```\n````x�\n`````"


def test_code_in_a_sentence_of_ours_is_code() -> None:
    told = finding(why="Say `block_size` *there*.", remedy=Remedy("Set `--block-size` to `16`."))
    text = to_findings_markdown(fleet(told))

    assert "Why it matters: Say `block_size` \\*there\\*.\n" in text
    assert "What to do: Set `--block-size` to `16`.\n" in text


@pytest.mark.parametrize(
    ("foreign", "written"),
    [
        ("a`b", "a\\`b"),
        ("``", "\\`\\`"),
        ("``a`", "\\`\\`a\\`"),
        ("`a``b`", "\\`a\\`\\`b\\`"),
        ("$`x`$", "\\$\\`x\\`\\$"),
        ("`<b>@all`", "`<b>@all`"),
        ("`a\n# b`", "`a�# b`"),
    ],
)
def test_a_foreign_value_in_a_sentence_of_ours_ends_no_code_and_begins_nothing_else(foreign: str, written: str) -> None:
    assert with_code(f"is {foreign} .") == f"is {written} ."


def test_or_stands_between_blocks_of_which_one_is_enough() -> None:
    both = (Snippet("flag", "--a 1"), Snippet("env", "export A=2"))
    text = to_findings_markdown(fleet(finding(remedy=Remedy("Choose.", both, any_of=True))))

    assert "```sh\n--a 1\n```\n\nor\n\n```sh\nexport A=2\n```\n" in text


def test_where_there_are_findings_the_last_line_tells_how_to_read_more() -> None:
    assert to_findings_markdown(fleet(finding())).endswith(f"\n\n{PAGES}\n")
    assert PAGES not in to_findings_markdown(fleet())


def test_an_attack_stays_text_everywhere() -> None:
    text = to_findings_markdown(evil())
    outside = without_code(text)

    assert set(re.findall(r"</?\w+>", outside)) == {"<details>", "<summary>", "</summary>", "</details>"}
    assert not re.search(r"(?<!\\)[`\[|$~]|@\w", outside.replace("**", ""))
    assert "://" not in outside.replace("\\://", "")
    assert text.count(EVIL[:3]) == 1, "only inside the block of code, which holds it as it is"


def test_the_same_advice_is_given_once() -> None:
    text = to_findings_markdown(fleet(finding(), finding(subject="other"), finding("CO-01")))

    assert text.count("--block-size 16") == 2, "of each rule once"
    assert text.count("Why and what to do: as in chat.\n") == 1


def test_what_is_not_a_finding_is_folded() -> None:
    outcomes = [outcome("CO-01", OutcomeKind.SKIPPED, f"{number} of 4.") for number in range(60)]
    text = to_findings_markdown(fleet(suppressed=[finding(suppression=suppression())], outcomes=outcomes, down=1))

    assert "<details><summary>1 suppressed</summary>\n\n- critical RT-01 in chat, B x2" in text
    assert "<details><summary>60 skipped, for it was not told</summary>" in text
    assert "- and 10 more\n\n</details>" in text
    assert "- lost-1: Nothing listens there." in text


def test_a_comment_is_never_longer_than_a_forge_takes_and_the_rest_is_counted() -> None:
    many = [finding(sentence="x" * 900, why=f"{number}") for number in range(200)]
    text = to_findings_markdown(fleet(*many))

    shown = text.count("### ")
    assert len(text) <= MOST_CHARACTERS + 200
    assert f"**and {200 - shown} more, for which there is no room here**" in text
    assert shown > 20


def test_a_finding_that_rests_on_an_assumed_router_says_so_and_where_to_say_what_is_true() -> None:
    assumed = to_findings_markdown(fleet(finding(), inspected={"domains": {"chat": domain()}}))
    told = to_findings_markdown(fleet(finding(), inspected={"domains": {"chat": domain(basis=Basis.DECLARED)}}))

    assert "### ✖ critical: RT-01 block-size-differs in chat (router assumed)\n" in assumed
    assert "<details><summary>1 assumed, for nobody says it</summary>\n\n- chat: a router that" in assumed
    assert "assumed" not in told
