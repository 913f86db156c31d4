"""Foreign text in a report as HTML stays text, in every place and in the style sheet."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet.formatting import one_line, without_commands
from dashboard.render.html import css_string, to_html
from dashboard.views.context import Context
from tests.render.html_reader import harmless
from tests.sample_reports import AT, attack, report


def test_an_attack_stays_text_everywhere() -> None:
    html = to_html(attack())
    reader = harmless(html)

    assert "<script" not in html
    assert "<img" not in html
    assert reader.text.count("<script>alert(1)</script>") > 30, "shown as text"


def test_a_style_sheet_cannot_be_ended_from_the_foot_of_a_page() -> None:
    html = to_html(report(context=Context('"; } </style><script>\\', AT, 1, 1)))

    assert html.count("</style>") == 1
    assert '@bottom-left { content: "\\22 \\3b  \\7d  \\3c \\2f style\\3e \\3c script\\3e \\5c ' in html


@given(st.text())
def test_text_in_a_style_sheet_is_tame(text: str) -> None:
    inside = css_string(text)[1:-1]

    assert re.fullmatch(r"(?:[A-Za-z0-9 .,-]|\\[0-9a-f]+ )*", inside)
    assert re.sub(r"\\([0-9a-f]+) ", lambda match: chr(int(match[1], 16)), inside) == text


@given(st.text(min_size=1, max_size=60))
def test_any_text_in_any_place_is_shown_as_it_is_and_does_nothing(text: str) -> None:
    reader = harmless(to_html(attack(text)))
    shown = without_commands(one_line(text))

    assert shown in reader.texts
    assert all(each.get("aria-label", shown) == shown for each in reader.all("div"))
