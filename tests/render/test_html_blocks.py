"""Blocks of a report as HTML: each is drawn in its place, and what was left out is counted."""

import re

import pytest

from dashboard.compare import MAJORITY, build_matrix
from dashboard.fleet.pieces import Piece, Style, plain, section
from dashboard.render.html_blocks import LONGEST, MOST_AT_EASE
from dashboard.views.blocks import (
    MOST_COLUMNS,
    Bar,
    Cell,
    Chart,
    Column,
    DifferenceTable,
    Entries,
    Entry,
    Figure,
    Figures,
    Paragraph,
    Table,
    Tone,
)
from tests.builders import document, fleet, replica, story
from tests.render.html_reader import body, page
from tests.report.sample_reports import differences, ranks


@pytest.mark.parametrize(
    ("style", "written"),
    [
        (Style.PLAIN, "<p>a</p>"),
        (Style.STRONG, "<p><b>a</b></p>"),
        (Style.CODE, "<p><code>a</code></p>"),
        (Style.MUTED, '<p><span class="mute">a</span></p>'),
    ],
)
def test_a_piece_is_set_in_its_style(style: Style, written: str) -> None:
    assert written in body(Paragraph((Piece("a", style),)))


def test_a_piece_leads_to_what_there_is_and_nowhere_else() -> None:
    line = (
        Piece("there", target=section("part")),
        Piece("entry", Style.CODE, section("one")),
        Piece("gone", target=section("other")),
    )
    html = body(Paragraph(line), Entries((Entry(Tone.PLAIN, plain("x"), anchor="one"),)))

    assert '<a href="#part">there</a><a href="#one"><code>entry</code></a>gone' in html


def test_only_the_first_entry_of_a_name_has_it_and_never_that_of_a_part() -> None:
    twice = Entries(tuple(Entry(Tone.PLAIN, plain("x"), anchor=name) for name in ("one", "one", "part")))

    html = body(twice)
    assert html.count('id="one"') == 1
    assert html.count('id="part"') == 1


def test_lines_of_a_piece_stay_lines() -> None:
    assert "<p>a<br>b</p>" in body(Paragraph(plain("a\nb")))


@pytest.mark.parametrize("tone", [tone for tone in Tone if tone is not Tone.PLAIN])
def test_a_tone_is_a_shape_a_colour_and_a_word(tone: Tone) -> None:
    html = page(Paragraph(plain("x"), tone), Entries((Entry(tone, plain("y")),)))
    shape = rf'<span class="glyph {tone}" aria-hidden="true">[!i✓?]</span>'

    assert re.search(rf'<div class="notice {tone}">{shape}<span class="said">{tone}: </span><p>x</p></div>', html)
    assert re.search(rf'<li class="{tone}"><span class="kind">{shape} {tone}</span>', html)
    assert f"--{tone}: #" in html


def test_a_tone_is_not_said_twice() -> None:
    assert "said" not in body(Paragraph(plain("Critical: all of it"), Tone.CRITICAL))


def test_a_number_says_what_it_counts_and_leads_on() -> None:
    html = body(Figures((Figure("Critical", "3", "in 2 pools", Tone.CRITICAL, section("part")), Figure("Pools", "5"))))

    assert (
        '<div><dt>Critical</dt><dd><span class="glyph critical" aria-hidden="true">!</span> <a href="#part">3</a></dd>'
        in html
    )
    assert '<dd class="note">in 2\N{NO-BREAK SPACE}pools</dd></div>' in html
    assert "<div><dt>Pools</dt><dd>5</dd></div>" in html


def test_the_tone_of_a_number_is_said_where_its_label_does_not() -> None:
    assert '<dt>KV cache<span class="said"> (good)</span></dt>' in body(
        Figures((Figure("KV cache", "5", tone=Tone.GOOD),))
    )


def test_an_entry_has_its_side_its_lines_and_what_can_be_pasted_as_it_is() -> None:
    html = body(Entries((Entry(Tone.PLAIN, plain("head"), "side", (plain("line"),), ("--a 1\n  --b <2>",)),)))

    assert (
        '<li class="plain"><div class="what"><p class="head">head</p><p>line</p>'
        '<pre><code>--a 1\n  --b &lt;2&gt;</code></pre></div><div class="side"><span>side</span></div></li>' in html
    )


def test_a_note_stands_apart_and_last() -> None:
    """After what can be pasted: it is what people said, not the program."""
    html = body(Entries((Entry(Tone.PLAIN, plain("head"), snippets=("--a 1",), notes=(plain("ann: <done>"),)),)))

    assert '<pre><code>--a 1</code></pre><p class="noted">ann: &lt;done&gt;</p></div>' in html


def test_a_table_names_its_rows_and_columns_and_sets_numbers_at_the_right() -> None:
    columns = (Column("pool"), Column("hash", is_code=True), Column("tokens", is_number=True))
    row = (Cell("chat", letter="B"), Cell("9f2a" * 20), Cell("5", Tone.WARNING))
    html = body(Table("pools", "All pools", columns, (row,), "as of now"))

    assert '<div class="scroll" role="region" aria-label="All pools" tabindex="0">' in html
    assert (
        '<th scope="col" class="s">pool</th><th scope="col" class="k">hash</th><th scope="col" class="n">tokens</th>'
        in html
    )
    assert '<tr><th scope="row" class="s"><span class="letter c1">B</span> chat</th><td class="k">9f2a' in html
    assert (
        '<td class="n"><span class="glyph warning" aria-hidden="true">!</span><span class="said">warning: </span> 5'
        in html
    )
    assert '<p class="note">as of now</p>' in html


def test_a_long_cell_may_break_and_a_column_without_rows_is_short() -> None:
    assert "<td>" in body(Table("t", "T", (Column("a"), Column("b")), ((Cell("x"), Cell("y" * 41)),)))
    assert '<th scope="col" class="s">' in body(Table("t", "T", (Column("a"),), ()))


def test_a_caption_that_repeats_its_heading_is_read_aloud_only() -> None:
    told = differences(story())
    same = DifferenceTable(told.name, "Part", told.matrix, told.names)
    html = body(Table("t", "Part", (Column("a"),), ()), Chart("c", "Part", "tokens", ()), same)

    assert '<caption class="said">Part</caption>' in html
    assert "<figcaption>" not in html
    assert '<p class="caption"' not in html
    assert "<figcaption>KV cache tokens per DP rank</figcaption>" in body(ranks())


def test_differences_are_drawn_as_in_the_app_with_their_notes() -> None:
    html = body(differences(story()))

    assert (
        '<p class="caption" aria-hidden="true">Settings that differ in chat-70b</p><div class="scroll matrix">' in html
    )
    assert '<span class="glyph critical" aria-hidden="true">!</span>' in html
    assert '<p class="note">9 equal, 41 identity</p>' in html
    assert "dense" not in html


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("tokens · ≥ 3.6 TiB · ≥ 100 GPUs", "tokens · ≥~3.6~TiB · ≥~100~GPUs"),
        ("2 critical, 4 info", "2~critical, 4~info"),
        ("≤ 16.7 M", "≤~16.7~M"),
        ("1 2 3", "1 2 3"),
    ],
)
def test_a_number_its_sign_and_its_unit_stand_on_one_line_of_a_card(told: str, kept: str) -> None:
    html = body(Figures((Figure("a", told, told),)))

    assert html.count(kept.replace("~", "\N{NO-BREAK SPACE}")) == 2


def test_names_at_the_side_break_after_no_dash_where_a_line_has_room_for_them() -> None:
    long = f"x-{'y' * 30}"
    html = body(Entries((Entry(Tone.INFO, plain("a"), f"B ×2 qwen-05, <qwen>-06, {long}"),)))

    assert f'<div class="side"><span>B ×2 qwen-05</span>, <span>&lt;qwen&gt;-06</span>, {long}</div>' in html


def test_many_cohorts_are_set_smaller_and_those_that_are_not_drawn_are_counted() -> None:
    documents = [document({"cache_config.block_size": 16 + number}) for number in range(MOST_COLUMNS + 2)]
    wide = fleet([replica(f"chat-{place}", document=each) for place, each in enumerate(documents)], documents)
    html = body(DifferenceTable("d", "D", build_matrix(wide.pools[0], wide.documents, MAJORITY), {}))

    assert MOST_COLUMNS > MOST_AT_EASE
    assert '<div class="differences dense">' in html
    assert '<p class="note">2 columns more: the CSV of this table holds all of them.</p>' in html


def test_columns_of_a_printed_page_are_shared_by_their_longest_texts() -> None:
    html = body(Table("t", "T", (Column("a"), Column("b")), ((Cell("x" * 500), Cell("y")),)))

    assert '<colgroup><col style="--w:81.0%"><col style="--w:19.0%"></colgroup>' in html


def test_code_in_a_cell_breaks_after_an_underscore_before_it_breaks_anywhere() -> None:
    path = "cache_config.gpu_memory_utilization"
    columns = (Column("Setting", is_code=True), Column("Before", is_code=True), Column("Who"))
    html = body(Table("t", "T", columns, ((Cell(path), Cell("a_b"), Cell(path)),)))

    assert ">cache_<wbr>config.gpu_<wbr>memory_<wbr>utilization</th>" in html
    assert ">a_b</td>" in html, "a short value needs no break"
    assert f">{path}</td>" in html, "words are no code"


def test_a_long_chart_is_drawn_in_pieces_that_fit_on_a_page() -> None:
    html = body(Chart("c", "C", "tokens", tuple(Bar(f"rank {rank}", 1.0) for rank in range(90))))

    assert html.count("<svg ") == 3


def test_a_chart_is_drawn_inside_and_says_what_it_leaves_out() -> None:
    html = body(ranks())

    assert '<figure class="chart"><figcaption>KV cache tokens per DP rank</figcaption>' in html
    assert html.count("<svg ") == 1
    assert '<p class="note">12 more bars left out.</p>' in html
    assert "left out" not in body(Chart("c", "C", "tokens", ()))


def test_a_huge_value_is_cut() -> None:
    assert len(page(Paragraph(plain("x" * 1_000_000)))) < len(page()) + LONGEST + 100
