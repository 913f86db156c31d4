"""A report as a comment: all kinds of blocks, nothing foreign as markup, never longer than a forge takes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import MAJORITY, build_matrix
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


def written(*blocks: Block) -> str:
    """The Markdown of the blocks, without what stands around them."""
    text = to_markdown(report(*blocks))
    return text.removeprefix("## Review: All is well\n\n### Part\n\n").removesuffix(
        f"\n\n{escaped(context_line(CONTEXT))}\n"
    )


def test_spaces_stay_outside_of_what_is_strong() -> None:
    assert written(Paragraph((Piece("a"), Piece(" b ", Style.STRONG), Piece("c")))) == "a **b** c"
    assert written(Paragraph((Piece("a"), Piece("  ", Style.STRONG), Piece("c")))) == "a c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a`b", "a\\`b"), ("a\nb", "a<br>b"), ("$x$", "\\$\u200bx\\$"), ("a|b", "`a|b`")],
)
def test_code_is_code_only_where_it_cannot_become_anything_else(text: str, shown: str) -> None:
    assert written(Paragraph((Piece("is "), Piece(text, Style.CODE)))) == f"is {shown}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("- a", "\\- a"), ("+ a", "\\+ a"), ("===", "\\==="), ("1) a", "1\\) a"), ("    a", "a"), ("a - b", "a - b")],
)
def test_a_paragraph_begins_no_list_and_no_heading(text: str, shown: str) -> None:
    assert written(Paragraph(plain(text))) == shown


def test_a_tone_is_a_sign_and_a_word_once() -> None:
    assert written(Paragraph(plain("x"), Tone.WARNING)) == "▲ warning: x"
    assert written(Paragraph(plain("A warning"), Tone.WARNING)) == "▲ A warning"


def test_entries_are_a_list_with_what_can_be_pasted_below() -> None:
    full = Entry(Tone.CRITICAL, plain("head"), "side", (plain("line"),), ("--a 1\n--b 2",))

    assert written(Entries((full, Entry(Tone.PLAIN, plain("- next"))))) == (
        "- ✖ critical: head (side)<br>line\n\n  ```\n  --a 1\n  --b 2\n  ```\n\n- \\- next"
    )


def test_a_note_stands_last_as_what_somebody_said() -> None:
    noted = Entry(Tone.CRITICAL, plain("head"), snippets=("--a 1",), notes=((Piece("Note, ann: ", Style.STRONG),),))

    assert written(Entries((noted, Entry(Tone.PLAIN, plain("next"))))) == (
        "- ✖ critical: head\n\n  ```\n  --a 1\n  ```\n\n  > **Note, ann:** \n\n- next"
    )


def test_columns_of_replicas_have_their_names_and_too_many_are_counted() -> None:
    told = story()
    pool = told.pools[0]
    shown = build_matrix(pool, told.documents, MAJORITY, as_replicas=pool.replicas[:2]).table
    documents = [document({"cache_config.block_size": 16 + number}) for number in range(MOST_COLUMNS + 2)]
    wide = fleet([replica(f"chat-{place}", document=each) for place, each in enumerate(documents)], documents)

    text = written(DifferenceTable("d", "Part", shown, {pool.replicas[0]: "first"}))
    assert text.startswith(f"| setting | first | {escaped(pool.replicas[1])} |")
    text = written(DifferenceTable("d", "Part", build_matrix(wide.pools[0], wide.documents, MAJORITY).table, {}))
    assert text.startswith("2 more columns left out.\n\n| setting |")


def test_a_long_list_is_folded_and_a_short_one_is_not() -> None:
    assert written(replica_table(LONG_LIST + 1)).startswith(
        "<details><summary>13 rows</summary>\n\n**All 13 replicas**\n\n| "
    )
    assert written(replica_table(LONG_LIST + 1)).endswith("|\n\n</details>")
    assert "<details>" not in written(replica_table(LONG_LIST))


def test_appendices_are_left_out_and_it_says_where_they_are() -> None:
    """Nobody looks up a replica in a chat."""
    text = to_markdown(meeting())

    assert "All 60 replicas" not in text
    assert "\n\nAppendices, in the HTML, PDF and JSON of this report: All replicas.\n\n" in text
    assert "Appendices" not in written(Paragraph(plain("x")))


def test_rows_beyond_the_first_ones_are_counted() -> None:
    text = written(replica_table(1_000))

    assert f"\n\nand {1_000 - MOST_ITEMS} more rows\n\n</details>" in text
    assert "Left out" not in text
    assert len(text) < MOST_CHARACTERS


def test_what_there_is_no_room_for_is_named() -> None:
    long = Entries(tuple(Entry(Tone.PLAIN, plain("x" * 900)) for _ in range(90)))
    parts = (
        *(Section(f"long-{number}", f"Long {number}", (long,)) for number in range(8)),
        Section("last", "Last", (Paragraph(plain("short")),)),
    )
    text = to_markdown(report(parts=parts))

    assert len(text) <= MOST_CHARACTERS < FORGES_LIMIT
    assert re.search(r"\n\nand \d+ more entries\n\n</details>\n\n", text)
    assert "(no room): Long 0, Long 1, Long 2, Long 3, Long 4 and 3 more.**\n\n" in text
    assert "### Long 7\n\n### Last\n\nshort\n\n" in text, "what is short still finds room"
    assert text.endswith(f"\n\n{escaped(context_line(CONTEXT))}\n")


def test_an_attack_stays_text_everywhere() -> None:
    outside = FENCED.sub("", to_markdown(attack()))

    assert set(re.findall(r"</?\w+>", outside)) <= {"<details>", "<summary>", "</summary>", "</details>", "<br>"}
    assert not re.search(r"(?<!\\)[`\[$~]|@\w", outside.replace("**", ""))
    assert "://" not in outside.replace("\\://", "")


@given(st.text(max_size=80))
def test_no_text_opens_markup_and_the_same_report_is_the_same_text(text: str) -> None:
    told = to_markdown(attack(text))
    outside = re.sub(r"(?<![\\`])`[^`\n]+`", "", FENCED.sub("", told))

    assert set(re.findall(r"<[^>]*>", outside)) <= {"<details>", "<summary>", "</summary>", "</details>", "<br>"}
    assert not re.search(r"(?<!\\)(?:\\\\)*[\[$~]", outside)
    assert len(told) <= FORGES_LIMIT
    assert told == to_markdown(attack(text))


def test_the_longest_texts_there_can_be_still_fit() -> None:
    assert len(to_markdown(attack("&" * 100_000))) <= FORGES_LIMIT


def test_a_heading_without_room_is_left_out_with_its_part() -> None:
    parts = tuple(Section(f"p{number}", "y" * 900, (Chart("c", "", "", ranks().bars),)) for number in range(80))
    text = to_markdown(report(parts=parts))

    assert len(text) <= MOST_CHARACTERS
    assert text.count("### y") < 80
    assert "Left out" in text
