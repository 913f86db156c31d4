"""A report as one HTML file: it stands alone, nothing foreign becomes markup, and it is the same twice."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.compare import MAJORITY, build_matrix
from dashboard.report.blocks import (
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
    Part,
    Piece,
    Style,
    Table,
    Tone,
    plain,
)
from dashboard.report.context import Context, context_line
from dashboard.report.formats.html_blocks import LONGEST, MOST_AT_EASE
from dashboard.report.formats.html_page import POLICY, css_string, to_html
from dashboard.report.formats.matrix_html import MOST_COLUMNS
from dashboard.report.plain import CONTROL
from tests.builders import document, fleet, replica, story
from tests.report.sample_reports import AT, CONTEXT, attack, differences, large, meeting, ranks, report

if TYPE_CHECKING:
    from dashboard.report.blocks import Block

VOID = {"meta", "br", "col", "wbr", "rect", "path"}
TAGS = (
    "html head meta title style body header nav main footer section h1 h2 h3 h4 h5 h6 p a b code span div br dl dt dd "
    "ul ol li pre table caption colgroup col thead tbody tr th td small wbr figure figcaption svg desc rect path text"
)
ALLOWED = set(TAGS.split())


class Reader(HTMLParser):
    """Reads a page as a browser would: its elements in order, and that each is closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.style = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for each, attributes in self.elements if each == tag]


def page(*blocks: Block) -> str:
    """The HTML of a report with these blocks."""
    return to_html(report(*blocks))


def body(*blocks: Block) -> str:
    """The same, its one part only."""
    return page(*blocks).partition("<main>")[2].partition("</main>")[0]


def harmless(html: str) -> Reader:
    """Whatever was in the report: only elements and attributes of ours, nothing that is run or fetched."""
    reader = Reader(html)
    assert reader.open == []
    assert {tag for tag, _ in reader.elements} <= ALLOWED
    names = [name for _, attributes in reader.elements for name in attributes]
    assert not [
        name for name in names if name.startswith("on") or name in {"src", "srcset", "action", "data", "poster"}
    ]
    assert all(str(each.get("href")).startswith("#") for each in reader.all("a"))
    assert not re.search(r"url\s*\(|@import|expression|javascript:", reader.style)
    assert [each for _, attributes in reader.elements if (each := attributes.get("style") or "")] == [
        each
        for _, attributes in reader.elements
        if re.fullmatch(r"--columns:\d+|--w:\d+\.\d%", each := attributes.get("style") or "")
    ]
    assert not CONTROL.search(html.replace("\n", ""))
    return reader


def test_a_report_of_a_meeting_is_read_in_order() -> None:
    reader = harmless(to_html(meeting()))
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]

    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))
    assert [tag for tag, _ in reader.elements if tag in {"header", "nav", "main", "footer"}] == [
        "header",
        "nav",
        "main",
        "footer",
    ]
    assert reader.all("html") == [{"lang": "en", "dir": "ltr"}]
    assert all(each.get("scope") in {"row", "col"} for each in reader.all("th"))
    assert len(reader.all("caption")) == len(reader.all("table"))


def test_the_headline_stands_first_under_the_name_of_the_report() -> None:
    html = to_html(meeting())

    assert '<p class="eyebrow">Ops review</p><h1>Two pools need attention: ' in html
    assert "<title>Ops review · prod-eu</title>" in html


def test_without_a_headline_the_name_of_the_report_stands_there() -> None:
    html = to_html(report(headline="", lead="x"))

    assert '<h1>Review</h1><p class="lead">x</p>' in html


def test_the_context_stands_in_the_head_and_in_the_foot_and_short_on_every_printed_page() -> None:
    html = to_html(meeting())

    assert html.count(f'<p class="context">{context_line(CONTEXT)}</p>') == 2
    assert '@bottom-left { content: "prod-eu \\b7  snapshot 4f2a91c0de \\201c before the upgrade' in html
    assert "counter(page)" in html


def test_it_says_which_program_wrote_it_and_of_when_the_data_is() -> None:
    assert '<meta name="generator" content="vllm-fleet-dashboard 1.2.3">' in to_html(report())
    assert '<meta name="dcterms.created" content="2026-03-02T11:42:05Z">' in to_html(report())
    assert "dcterms" not in to_html(report(context=Context("x", None, 0, 0)))


def test_nothing_may_be_fetched_or_run() -> None:
    html = to_html(meeting())

    assert f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">' in html
    assert "default-src 'none'" in POLICY
    assert "script" not in POLICY
    assert "http://" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "https://" not in html


def test_the_contents_lead_to_every_part() -> None:
    reader = Reader(to_html(meeting()))
    names = [each["id"] for tag, each in reader.elements if "id" in each and tag.startswith("h")]

    assert [each["href"] for each in reader.all("a")][: len(names)] == [f"#{name}" for name in names]
    assert len(names) == len(set(names)) == 7


def test_one_part_needs_no_contents() -> None:
    assert "<nav" not in to_html(report(Paragraph(plain("x"))))


def test_parts_below_the_sixth_level_keep_the_last_heading() -> None:
    part = Part("deepest", "Deepest", ())
    for depth in range(7):
        part = Part(f"d{depth}", "Deep", (), (part,))

    assert to_html(report(parts=(part,))).count("<h6 ") == 4


def test_an_appendix_begins_a_page() -> None:
    html = to_html(meeting())

    assert '<section class="appendix" aria-labelledby="replicas">' in html
    assert re.search(r"\.appendix { break-before: page; }", html)


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
    line = (Piece("there", anchor="part"), Piece("entry", Style.CODE, "one"), Piece("gone", anchor="other"))
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
    html = body(Figures((Figure("Critical", "3", "in 2 pools", Tone.CRITICAL, "part"), Figure("Pools", "5"))))

    assert (
        '<div><dt>Critical</dt><dd><span class="glyph critical" aria-hidden="true">!</span> <a href="#part">3</a></dd>'
        in html
    )
    assert '<dd class="note">in 2 pools</dd></div>' in html
    assert "<div><dt>Pools</dt><dd>5</dd></div>" in html


def test_the_tone_of_a_number_is_said_where_its_label_does_not() -> None:
    assert '<dt>KV cache<span class="said"> (good)</span></dt>' in body(
        Figures((Figure("KV cache", "5", tone=Tone.GOOD),))
    )


def test_an_entry_has_its_side_its_lines_and_what_can_be_pasted_as_it_is() -> None:
    html = body(Entries((Entry(Tone.PLAIN, plain("head"), "side", (plain("line"),), ("--a 1\n  --b <2>",)),)))

    assert (
        '<li class="plain"><div class="what"><p class="head">head</p><p>line</p>'
        '<pre><code>--a 1\n  --b &lt;2&gt;</code></pre></div><div class="side">side</div></li>' in html
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


def test_many_cohorts_are_set_smaller_and_those_that_are_not_drawn_are_counted() -> None:
    documents = [document({"cache_config.block_size": 16 + number}) for number in range(MOST_COLUMNS + 2)]
    wide = fleet([replica(f"chat-{place}", document=each) for place, each in enumerate(documents)], documents)
    html = body(DifferenceTable("d", "D", build_matrix(wide.pools[0], wide.documents, MAJORITY), {}))

    assert MOST_COLUMNS > MOST_AT_EASE
    assert '<div class="differences dense">' in html
    assert '<p class="note">2 columns more: the CSV of this table holds all of them.</p>' in html


def test_columns_of_a_printed_page_are_shared_by_their_longest_texts() -> None:
    html = body(Table("t", "T", (Column("a"), Column("b")), ((Cell("x" * 500), Cell("y")),)))

    assert '<colgroup><col style="--w:87.5%"><col style="--w:12.5%"></colgroup>' in html


def test_a_long_chart_is_drawn_in_pieces_that_fit_on_a_page() -> None:
    html = body(Chart("c", "C", "tokens", tuple(Bar(f"rank {rank}", 1.0) for rank in range(90))))

    assert html.count("<svg ") == 3


def test_a_chart_is_drawn_inside_and_says_what_it_leaves_out() -> None:
    html = body(ranks())

    assert '<figure class="chart"><figcaption>KV cache tokens per DP rank</figcaption>' in html
    assert html.count("<svg ") == 1
    assert '<p class="note">12 more bars left out.</p>' in html
    assert "left out" not in body(Chart("c", "C", "tokens", ()))


def test_an_attack_stays_text_everywhere() -> None:
    html = to_html(attack())
    reader = harmless(html)

    assert "<script" not in html
    assert "<img" not in html
    assert reader.text.count("<script>alert(1)</script>") > 30, "told, and not run"


def test_a_style_sheet_cannot_be_ended_from_the_foot_of_a_page() -> None:
    html = to_html(report(context=Context('"; } </style><script>\\', AT, 1, 1)))

    assert html.count("</style>") == 1
    assert '@bottom-left { content: "\\22 \\3b  \\7d  \\3c \\2f style\\3e \\3c script\\3e \\5c ' in html


@given(st.text())
def test_text_in_a_style_sheet_is_tame(text: str) -> None:
    inside = css_string(text)[1:-1]

    assert re.fullmatch(r"(?:[A-Za-z0-9 .,-]|\\[0-9a-f]+ )*", inside)
    assert re.sub(r"\\([0-9a-f]+) ", lambda match: chr(int(match[1], 16)), inside) == text


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(st.text(min_size=1, max_size=60))
def test_any_text_in_any_place_is_shown_as_it_is_and_does_nothing(text: str) -> None:
    reader = harmless(to_html(attack(text)))
    shown = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)

    assert shown in reader.texts
    assert all(each.get("aria-label", shown) == shown for each in reader.all("div"))


def test_a_huge_value_is_cut() -> None:
    assert len(page(Paragraph(plain("x" * 1_000_000)))) < len(page()) + LONGEST + 100


def test_the_same_report_is_the_same_bytes() -> None:
    assert to_html(meeting()).encode() == to_html(meeting()).encode()
    assert to_html(attack()).encode() == to_html(attack()).encode()


def test_a_report_of_a_thousand_replicas_is_small() -> None:
    html = to_html(large(1_000))

    assert len(html.encode()) < 2_000_000
    assert html.count("<tr>") > 1_000
    harmless(html)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2, 1.4.3."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_stand_out_from_every_ground(theme: int) -> None:
    roots = re.findall(r":root \{(.*?)\n ? ?\}", Reader(page()).style, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", roots[theme]))
    grounds = ["ground", "panel", "head", "chip", *(f"{tone}-tint" for tone in ("critical", "warning", "info", "good"))]

    assert len(colours) > 15
    for words in ("ink", "mute", "link"):
        for ground in grounds[: None if words == "ink" else 4]:
            assert contrast(colours[words], colours[ground]) >= 4.5, (words, ground)
