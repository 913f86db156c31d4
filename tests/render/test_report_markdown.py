"""A view as Markdown: every block, foreign text escaped, never longer than a comment may be."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import MAJORITY
from dashboard.compare.matrix import lay_out
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.render.markdown import LONG_LIST, MOST_CHARACTERS, MOST_ITEMS, escaped, to_markdown
from dashboard.views.blocks import (
    MOST_COLUMNS,
    Block,
    Chart,
    DifferenceTable,
    Entries,
    Entry,
    Paragraph,
    Section,
    Tone,
)
from dashboard.views.context import context_line
from tests.builders import document, fleet, replica, story
from tests.sample_reports import CONTEXT, attack, meeting, ranks, replica_table, report

FORGES_LIMIT = 65_536  # characters of a comment on GitHub
FENCED = re.compile(r"^( *)(`{3,})\n.*?\n\1\2$", re.DOTALL | re.MULTILINE)
TAGS = {"<details>", "<summary>", "</summary>", "</details>", "<br>"}
ENTRY = Entry(Tone.CRITICAL, plain("head"), "side", (plain("line"),), ("--a 1\n--b 2",))
NOTED = Entry(
    Tone.CRITICAL, plain("head"), snippets=("--a 1",), notes=((Piece("Note, ann: ", Style.STRONG), Piece("x")),)
)


def written(*blocks: Block) -> str:
    """The Markdown of the blocks without title and context."""
    text = to_markdown(report(*blocks))
    return text.removeprefix("## Review: All is well\n\n### Part\n\n").removesuffix(
        f"\n\n{escaped(context_line(CONTEXT))}\n"
    )


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (Paragraph((Piece("a"), Piece(" b ", Style.STRONG), Piece("c"))), "a **b** c"),
        (Paragraph((Piece("a"), Piece("  ", Style.STRONG), Piece("c"))), "a c"),
        (
            Paragraph(tuple(Piece(each, Style.STRONG) for each in ("A", ", ", "B", " share")) + plain(".")),
            "**A, B share**.",
        ),
        (Paragraph(tuple(Piece(each, Style.CODE) for each in ("a", "b"))), "`ab`"),
        (Paragraph((Piece("is "), Piece("a`b", Style.CODE))), "is a\\`b"),
        (Paragraph((Piece("is "), Piece("a\nb", Style.CODE))), "is a<br>b"),
        (Paragraph((Piece("is "), Piece("$x$", Style.CODE))), "is \\$\u200bx\\$"),
        (Paragraph((Piece("is "), Piece("a|b", Style.CODE))), "is `a|b`"),
        (Paragraph(plain("x"), Tone.WARNING), "▲ warning: x"),
        (Paragraph(plain("A warning"), Tone.WARNING), "▲ A warning"),
        (
            Entries((ENTRY, Entry(Tone.PLAIN, plain("- next")))),
            "- ✖ critical: head (side)<br>line\n\n  ```\n  --a 1\n  --b 2\n  ```\n\n- \\- next",
        ),
        (
            Entries((NOTED, Entry(Tone.PLAIN, plain("next")))),
            "- ✖ critical: head\n\n  ```\n  --a 1\n  ```\n\n  > **Note, ann:** x\n\n- next",
        ),
    ],
)
def test_a_block_is_written_with_its_styles_and_begins_no_other_markup(block: Block, text: str) -> None:
    assert written(block) == text


def test_columns_of_a_matrix_have_names_and_too_many_are_counted() -> None:
    built = story()
    pool = built.pools[0]
    shown = lay_out(pool, built.documents, MAJORITY, as_replicas=pool.replicas[:2]).table()
    documents = [document({"cache_config.block_size": 16 + number}) for number in range(MOST_COLUMNS + 2)]
    wide = fleet([replica(f"chat-{place}", document=each) for place, each in enumerate(documents)], documents)

    text = written(DifferenceTable("d", "Part", shown, {pool.replicas[0]: "first"}))
    assert text.startswith(f"| setting | first | {escaped(pool.replicas[1])} |")
    text = written(DifferenceTable("d", "Part", lay_out(wide.pools[0], wide.documents, MAJORITY).table(), {}))
    assert text.startswith("2 more columns left out.\n\n| setting |")


def test_a_long_list_is_folded_and_its_last_rows_are_counted() -> None:
    folded, cut = written(replica_table(LONG_LIST + 1)), written(replica_table(1_000))

    assert folded.startswith("<details><summary>13 rows</summary>\n\n**All 13 replicas**\n\n| ")
    assert folded.endswith("|\n\n</details>")
    assert "<details>" not in written(replica_table(LONG_LIST))
    assert f"\n\nand {1_000 - MOST_ITEMS} more rows\n\n</details>" in cut
    assert "Left out" not in cut
    assert len(cut) < MOST_CHARACTERS


def test_appendices_and_sections_without_room_are_named() -> None:
    long = Entries(tuple(Entry(Tone.PLAIN, plain("x" * 900)) for _ in range(90)))
    parts = (
        *(Section(f"long-{number}", f"Long {number}", (long,)) for number in range(8)),
        Section("last", "Last", (Paragraph(plain("short")),)),
    )
    text = to_markdown(report(parts=parts))

    assert "All 60 replicas" not in to_markdown(meeting())
    assert "\n\nAppendices, in the HTML, PDF and JSON of this report: All replicas.\n\n" in to_markdown(meeting())
    assert len(text) <= MOST_CHARACTERS < FORGES_LIMIT
    assert re.search(r"\n\nand \d+ more entries\n\n</details>\n\n", text)
    assert "(no room): Long 0, Long 1, Long 2, Long 3, Long 4 and 3 more.**\n\n" in text
    assert "### Long 7\n\n### Last\n\nshort\n\n" in text, "a short section still fits"
    assert text.endswith(f"\n\n{escaped(context_line(CONTEXT))}\n")


def test_a_heading_without_room_is_left_out_with_its_section() -> None:
    parts = tuple(Section(f"p{number}", "y" * 900, (Chart("c", "", "", ranks().bars),)) for number in range(80))
    text = to_markdown(report(parts=parts))

    assert len(text) <= MOST_CHARACTERS
    assert text.count("### y") < 80
    assert "Left out" in text
    assert len(to_markdown(attack("&" * 100_000))) <= FORGES_LIMIT


def test_foreign_text_is_never_markup() -> None:
    outside = FENCED.sub("", to_markdown(attack()))

    assert set(re.findall(r"</?\w+>", outside)) <= TAGS
    assert not re.search(r"(?<!\\)[`\[$~]|@\w", outside.replace("**", ""))
    assert "://" not in outside.replace("\\://", "")


@given(st.text(max_size=80))
def test_no_text_opens_markup_and_the_same_view_is_the_same_text(text: str) -> None:
    """A `<` before a digit, white space or `=` opens no tag (CommonMark 6.6)."""
    markdown = to_markdown(attack(text))
    outside = re.sub(r"(?<![\\`])`[^`\n]+`", "", FENCED.sub("", markdown))

    assert set(re.findall(r"<(?![\s\d=])[^>]*>", outside)) <= TAGS
    assert not re.search(r"(?<!\\)(?:\\\\)*[\[$~]", outside)
    assert len(markdown) <= FORGES_LIMIT
    assert markdown == to_markdown(attack(text))
