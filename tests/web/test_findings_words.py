"""Findings in words: values are seen, numbers of replicas are not taken for them, and how a domain is known is said."""

import re

from dashboard.fleet.pieces import Piece, value
from dashboard.rules.findings import CohortShare
from dashboard.web import findings_words
from tests.report.judged import in_cohorts


def test_values_of_a_text_are_monospace_and_foreign_text_is_escaped() -> None:
    text = (Piece("Name is "), value("<b>"), Piece("; 2 of 3 replicas use <i>."))

    assert findings_words.text_html(text) == "Name is <code>&lt;b&gt;</code>; 2 of 3 replicas use &lt;i&gt;."


def test_cohorts_are_chips_of_a_number_that_can_be_read() -> None:
    """`B` for one, `B ×2` for more; a pool's name only among several; who was never read has no letter."""
    html = findings_words.chips([CohortShare("a<b", "B", ("x",)), CohortShare("c", "", ("x",) * 1_200)], 2)

    assert ">B</span></span> " in html
    assert "a&lt;b" in html
    assert '<span class="mute">not read</span> ×1,200' in html
    assert "c " not in findings_words.chips([CohortShare("c", "B", ("x", "y"))], 1).replace("class", "")

    many = findings_words.chips([CohortShare("c", letter, ("x",)) for letter in "ABCDEFG"], 1)
    assert "and 3 more cohorts" in many


def test_names_stand_beside_the_cohort_that_they_are_in() -> None:
    crossed = in_cohorts(C=(4,), D=(3,))
    names = {f"http://chat-{number}:8000": f"chat-{number}" for number in range(1, 11)}
    shown = findings_words.whose(crossed, names)

    assert _seen(shown) == "C chat-4, D chat-3"
    assert shown.count('class="chip"') == 2
    assert _seen(findings_words.whose(in_cohorts(A=(2, 10), B=(3,)), names)) == "A ×2 chat-2, chat-10, B chat-3"
    assert _seen(findings_words.whose(in_cohorts(A=(1, 2, 3, 5, 6), C=(4,)), names)) == "A ×5 C"


def test_a_line_breaks_between_cohorts_and_not_between_a_letter_and_its_name() -> None:
    names = {f"http://chat-{number}:8000": f"chat-{number}" for number in (3, 4)}
    shown = findings_words.whose(in_cohorts(C=(4,), D=(3,)), names)

    assert len(re.findall(r'<span class="part"><span class="chip">', shown)) == 2
    assert '<span class="part"><span class="chip">' not in findings_words.whose(in_cohorts(C=(3, 4)), names)


def _seen(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)
