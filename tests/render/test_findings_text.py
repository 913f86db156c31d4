"""The findings in a terminal: what is wrong, where, why, what to type; foreign text cannot move the cursor."""

from dashboard.fleet.formatting import HIDDEN
from dashboard.render.findings_text import to_findings_table
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Basis, Router
from dashboard.rules.findings import CohortShare, OutcomeKind, Remedy, Severity, Snippet
from tests.report.judged import domain, evil, finding, fleet, outcome, suppression


def lines(*found: object, width: int = 200, **more: object) -> list[str]:
    return to_findings_table(fleet(*found, **more), width=width, colour=False).splitlines()  # type: ignore[arg-type]


def test_a_finding_is_told_whole() -> None:
    assert lines(finding())[:6] == [
        "✖ critical  RT-01 block-size-differs  chat  B x2 (chat-3 and chat-4)",
        "    Block size is 32 instead of 16, which 2 of 4 replicas have.",
        "    why: The router never finds what these replicas hold.",
        "    do:  Give these replicas the same block size.",
        "           --block-size 16",
        "",
    ]


def test_the_same_advice_is_given_once() -> None:
    told = lines(finding(), finding(subject="other"), finding("CO-01"))

    assert told.count("    do:  Give these replicas the same block size.") == 2, "of each rule once"
    assert told.count("    Why and what to do: as in chat.") == 1


def test_advice_is_never_said_to_stand_in_the_pool_itself() -> None:
    other = finding(replicas=("http://chat-1:8000",), cohorts=(CohortShare("chat", "A", ("http://chat-1:8000",)),))

    assert "    Why and what to do: as in RT-01 on B x2 (chat-3 and chat-4)." in lines(finding(), other)


def test_a_finding_of_a_rule_on_the_whole_fleet_names_its_pools() -> None:
    assert lines(finding("ID-05", subject="fleet", pools=("a", "b")))[0].startswith(
        "✖ critical  ID-05 replicas-not-read  a and b  "
    )


def test_or_stands_between_what_can_be_typed_where_one_is_enough() -> None:
    both = (Snippet("flag", "--a 1"), Snippet("flag", "--a 2"))
    told = lines(finding(remedy=Remedy("Choose.", both, any_of=True)))

    assert [line.strip() for line in told[3:7]] == ["do:  Choose.", "--a 1", "or", "--a 2"]


def test_the_numbers_of_rules_stand_before_the_last_line() -> None:
    assert lines(finding())[-2] == f"{len(ALL_RULES)} rules: 1 judged, {len(ALL_RULES) - 1} not applicable anywhere."


def test_severity_is_a_glyph_and_a_word() -> None:
    heads = [lines(finding(severity=severity))[0].split("  ")[0] for severity in Severity]

    assert heads == ["✖ critical", "▲ warning", "● info"]


def test_a_finding_without_a_reason_has_no_line_for_it() -> None:
    assert not any("why:" in line for line in lines(finding(why="")))


def test_the_last_line_counts_what_stands_what_is_hidden_and_what_came_back() -> None:
    hidden, again = finding(suppression=suppression()), finding(expired=suppression())

    assert lines(again, suppressed=[hidden], down=1)[-1] == (
        "1 finding: 1 critical, 0 warning, 0 info; 1 suppressed; 1 whose suppression expired; 4 of 5 answered"
    )
    assert lines()[-1] == "0 findings: 0 critical, 0 warning, 0 info; 4 of 4 answered"


def test_sections_tell_what_was_hidden_skipped_raised_or_not_read() -> None:
    outcomes = [
        outcome("CO-01", OutcomeKind.SKIPPED, "told by none."),
        outcome("CO-02", OutcomeKind.ERROR, "KeyError: 1"),
    ]
    told = lines(
        suppressed=[finding(suppression=suppression())],
        outcomes=outcomes,
        down=1,
        inspected={"notes": ("suppress[1] in fleet.yaml matches no finding; take it out.",)},
    )

    for title, line in (
        ("Suppressed:", "critical RT-01 in chat, B x2 (chat-3 and chat-4): suppressed by ann until 2026-04-30: canary"),
        ("Skipped (not reported):", "CO-01 in chat: told by none."),
        ("Not judged, for the rule itself raised an error:", "CO-02 in chat: KeyError: 1"),
        ("Mind:", "suppress[1] in fleet.yaml matches no finding; take it out."),
        ("Not read:", "lost-1: Nothing listens there."),
    ):
        assert told[told.index(title) + 1] == f"    {line}"


def test_long_sections_are_counted() -> None:
    outcomes = [outcome("CO-01", OutcomeKind.SKIPPED, f"{number} of 4.") for number in range(20)]

    assert "    and 8 more" in lines(outcomes=outcomes)


def test_no_line_is_wider_than_asked() -> None:
    assert max(map(len, lines(finding(sentence="a long sentence " * 20), width=80))) <= 80


def test_foreign_text_loses_its_control_characters_and_is_no_markup() -> None:
    text = to_findings_table(evil(), width=200, colour=False)

    assert not any(HIDDEN.search(line) for line in text.split("\n"))
    assert "<b>![x](http://h/x.png)|`@all #1" in text


def test_colour_is_for_terminals_only() -> None:
    coloured = to_findings_table(fleet(finding()), width=100, colour=True)

    assert "\x1b[1;31m✖ critical" in coloured
    assert "\x1b" not in to_findings_table(fleet(finding()), width=100, colour=False)


def test_a_finding_that_rests_on_an_assumed_router_says_so_and_where_to_say_what_is_true() -> None:
    held = {"chat": domain(Router.APPROXIMATE, Basis.ASSUMED)}
    assumed = lines(finding(assumptions=("router is approximate",)), inspected={"domains": held})
    known = lines(finding(), inspected={"domains": held})

    assert "    Assumed: router is approximate." in assumed
    assert assumed[assumed.index("Assumptions (not configured):") + 1] == (
        "    chat: router is approximate; if not, declare it under pools in fleet.yaml."
    )
    assert "assum" not in "".join(known).lower()
