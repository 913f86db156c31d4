"""A view as one HTML file: headings in order, context, nothing fetched, the same bytes, enough contrast."""

import re
from itertools import pairwise

import pytest
from markupsafe import escape

from dashboard.render.html import POLICY, to_html
from dashboard.views.blocks import Section
from tests.render.html_reader import Reader, harmless, page
from tests.sample_reports import attack, large, meeting, report


def test_headings_have_an_order_and_the_contents_have_every_section() -> None:
    reader = harmless(to_html(meeting()))
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    names = [each["id"] for tag, each in reader.elements if "id" in each and tag.startswith("h")]
    landmarks = [tag for tag, _ in reader.elements if tag in {"header", "nav", "main", "footer"}]

    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(below <= above + 1 for above, below in pairwise(levels))
    assert landmarks == ["header", "nav", "main", "footer"]
    assert reader.all("html") == [{"lang": "en", "dir": "ltr"}]
    assert all(each.get("scope") in {"row", "col"} for each in reader.all("th"))
    assert len(reader.all("caption")) == len(reader.all("table"))
    assert [each["href"] for each in reader.all("a")][: len(names)] == [f"#{name}" for name in names]
    assert len(names) == len(set(names)) == 7


def test_nothing_is_fetched_or_run() -> None:
    html = to_html(meeting())

    assert f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">' in html
    assert "default-src 'none'" in POLICY
    assert "script" not in POLICY
    assert not re.search("https?://", html.replace('xmlns="http://www.w3.org/2000/svg"', ""))


def test_deeper_sections_have_the_last_heading() -> None:
    part = Section("deepest", "Deepest", ())
    for depth in range(7):
        part = Section(f"d{depth}", "Deep", (), (part,))

    assert to_html(report(parts=(part,))).count("<h6 ") == 4


def test_the_same_view_is_the_same_bytes_and_a_thousand_replicas_are_small() -> None:
    html = to_html(large(1_000))

    assert to_html(meeting()) == to_html(meeting())
    assert to_html(attack()) == to_html(attack())
    assert len(html.encode()) < 2_000_000
    assert html.count("<tr>") > 1_000
    harmless(html)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast_on_every_ground(theme: int) -> None:
    """WCAG 2.2, 1.4.3."""
    roots = re.findall(r":root \{(.*?)\n ? ?\}", Reader(page()).style, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", roots[theme]))
    grounds = ["ground", "panel", "head", "chip", *(f"{tone}-tint" for tone in ("critical", "warning", "info", "good"))]

    assert len(colours) > 15
    for text in ("ink", "mute", "link"):
        for ground in grounds[: None if text == "ink" else 4]:
            dark, light = sorted((luminance(colours[text]), luminance(colours[ground])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)
