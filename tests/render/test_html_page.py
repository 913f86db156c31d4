"""A report as one HTML file: it stands alone, is read in order, and is the same twice."""

import re
from itertools import pairwise

import pytest
from markupsafe import escape

from dashboard.fleet.pieces import plain
from dashboard.render.html_page import POLICY, to_html
from dashboard.views.blocks import Paragraph, Section
from dashboard.views.context import Context, context_line
from tests.render.html_reader import Reader, harmless, page
from tests.sample_reports import CONTEXT, attack, large, meeting, report


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

    assert f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">' in html
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
    part = Section("deepest", "Deepest", ())
    for depth in range(7):
        part = Section(f"d{depth}", "Deep", (), (part,))

    assert to_html(report(parts=(part,))).count("<h6 ") == 4


def test_an_appendix_begins_a_page() -> None:
    html = to_html(meeting())

    assert '<section class="appendix" aria-labelledby="replicas">' in html
    assert re.search(r"\.appendix { break-before: page; }", html)


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
