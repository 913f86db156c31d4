"""What became of all rules: few lines for many pools, each with the reason."""

from dashboard.rules.findings import OutcomeKind
from dashboard.web.findings_exempt import MOST_ROWS, ignored_html, suppressed_html
from dashboard.web.findings_list import known
from dashboard.web.findings_outcomes import NOT_APPLICABLE, PASSED, SKIPPED, errors_html, outcomes_html, places
from tests.builders import alike, document, fleet, story
from tests.findings_builder import finding, outcome, suppression, with_findings


def test_up_to_three_places_are_named_and_more_are_counted() -> None:
    """Pools, pairs, the whole fleet; the names of those that are counted are one hover away."""
    pair = outcome(pool="p + d")._replace(pools=("p", "d"))

    assert (
        places([outcome(pool=name) for name in ("a", "b", "<c>")])
        == '<span title="a, b, &lt;c&gt;">a, b, &lt;c&gt;</span>'
    )
    assert places([outcome(pool=name) for name in "abcd"]) == '<span title="a, b, c, d">4 pools</span>'
    assert ">4 pairs<" in places([pair] * 4)
    assert places([outcome(pool="fleet")._replace(pools=())]) == '<span title="the whole fleet">the whole fleet</span>'


def test_a_rule_is_one_line_however_many_pools_it_was_judged_on() -> None:
    """What was not told is summed over its pools."""
    number, html = outcomes_html(PASSED, [outcome(pool=name, unknown=2, total=8) for name in "abcd"])

    assert number == 1
    assert html.count("<tr>") == 2
    assert ">8 of 32 replicas<" in html
    assert "told by all" in outcomes_html(PASSED, [outcome(total=8)])[1]


def test_reasons_stand_by_what_was_missing_the_most_frequent_first() -> None:
    """Numbers that differ from pool to pool share a line; a reason of all pools needs no number."""
    reasons = ["x.y: told by 0 of 8 replicas."] * 2 + ["x.y: told by 1 of 8 replicas.", "a.b: told by none."]
    told = [outcome(pool=str(number), kind=OutcomeKind.SKIPPED, reason=each) for number, each in enumerate(reasons)]
    html = outcomes_html(SKIPPED, told)[1]

    first = 'x.y: told by 0 of 8 replicas<span class="mute"> (×2)</span>; '
    assert f'{first}told by 1 of 8 replicas<span class="mute"> (×1)</span>.<br>a.b: ' in html
    assert '<td class="">x.y: told by 0 of 8 replicas.</td>' in outcomes_html(SKIPPED, told[:2])[1]


def test_many_different_reasons_are_counted() -> None:
    """A table of reasons is no log."""
    endings = [outcome(pool=str(each), reason=f"x: {each}") for each in range(9)]
    reasons = [outcome(pool=str(each), reason=f"{each}: x") for each in range(9)]

    assert '; <span class="mute">6 more</span>.' in outcomes_html(SKIPPED, endings)[1]
    assert '<span class="mute">and 7 more reasons</span>' in outcomes_html(SKIPPED, reasons)[1]


def test_nothing_of_a_kind_is_said_in_words() -> None:
    """An empty table says nothing."""
    assert outcomes_html(PASSED, []) == (0, '<div class="foot">No rule passed.</div>')
    assert "Every rule applies." in outcomes_html(NOT_APPLICABLE, [])[1]


def test_rules_that_raised_are_one_statement_with_a_line_each() -> None:
    """Without one, there is nothing to say."""
    raised = [outcome("RT-01", pool, OutcomeKind.ERROR, reason="ValueError: <x>") for pool in "abcd"]
    html = errors_html([*raised, outcome("RT-05", "a", OutcomeKind.ERROR, reason="boom"), outcome()])

    assert "<b>2 rules failed to run and judged nothing there.</b>" in html
    assert ">4 pools</span>: ValueError: &lt;x&gt;.</li>" in html
    assert errors_html([outcome()]) == ""


def test_suppressed_findings_are_bounded_and_their_absence_is_said() -> None:
    """Entries without effect are said either way."""
    built = story()
    many = tuple(finding(built, id=str(each), suppression=suppression()) for each in range(MOST_ROWS + 2))
    told = with_findings(built, suppressed=many)
    listed = known(told.generation, told.polled_at, told)

    html = suppressed_html(listed.suppressed, ["a note <1>"], listed.names, {})
    assert html.count("<tr>") == MOST_ROWS + 1
    assert "and 2 more" in html
    assert "a note &lt;1&gt;" in html
    assert "Nothing is suppressed." in suppressed_html([], ["a note"], {}, {})
    assert "a note" in suppressed_html([], ["a note"], {}, {})


def test_what_is_ignored_is_told_apart_from_what_could_be() -> None:
    """No globs; globs that hide no difference; globs that do, with the settings named up to a limit."""
    told = [document({f"x.y{number}": value for number in range(12)}) for value in (1, 2)]
    members = [each for number, one in enumerate(told) for each in alike("chat", 1, one, first=number)]

    assert "fleet.yaml ignores nothing." in ignored_html(story().pools, ())
    assert "No pool differs in any of them." in ignored_html(story().pools, ("<x>*",))
    html = ignored_html(fleet(members, told, ignore=("x.*",)).pools, ("x.*",))
    assert '<td class="number">12</td>' in html
    assert "<code>x.y0</code>" in html
    assert " and 4 more</td>" in html
