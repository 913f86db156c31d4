"""What check and poll print. The golden outputs show it whole."""

import re
from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet import Basis
from dashboard.fleet.formatting import HIDDEN
from dashboard.render.markdown import MOST_CHARACTERS, to_markdown
from dashboard.render.terminal import to_terminal
from dashboard.rules.domain import Origin, Router
from dashboard.rules.findings import CohortShare, OutcomeKind, Remedy, Snippet
from dashboard.views.command_line import check_view, poll_view
from tests.builders import document, down, replica
from tests.builders import fleet as polled
from tests.inspected_fleets import EVIL, domain, evil, finding, fleet, outcome, suppression

ACTION = "What to do: Give these replicas the same block size."


def lines(*found: object, width: int = 200, **more: object) -> list[str]:
    return to_terminal(check_view(fleet(*found, **more)), width=width, colour=False).splitlines()  # type: ignore[arg-type]


def without_code(text: str) -> str:
    """What a reader of Markdown looks for markup in: all but blocks of code and code in a line."""
    outside = re.sub(r"^( *)(`{3,})\w*\n.*?\n\1\2$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![\\`])`[^`\n]+`", "", outside)


def test_cause_and_fix_are_shown_once_and_referred_to_afterwards() -> None:
    alone = finding(replicas=("http://chat-1:8000",), cohorts=(CohortShare("chat", "A", ("http://chat-1:8000",)),))
    shown = lines(finding(), finding(subject="other"), finding("CO-01"), alone)

    assert shown.count(f"        {ACTION}") == 2, "of each rule once"
    assert "        Same cause and fix as chat." in shown
    assert "        Same cause and fix as RT-01 on B x2 (chat-3 and chat-4)." in shown


def test_a_choice_of_snippets_says_so_and_an_empty_cause_has_no_line() -> None:
    both = (Snippet("flag", "--a 1"), Snippet("flag", "--a 2"))
    shown = [line.strip() for line in lines(finding(why="", remedy=Remedy("Choose.", both, any_of=True)))]

    assert shown[6:10] == ["What to do: Choose.", "One of these is enough:", "--a 1", "--a 2"]


def test_what_was_suppressed_skipped_raised_or_unreachable_has_a_section() -> None:
    outcomes = [outcome("CO-01", OutcomeKind.SKIPPED, f"{each} of 4.") for each in range(2)]
    errors = [outcome("CO-02", OutcomeKind.ERROR, f"KeyError: {each}") for each in range(60)]
    shown = lines(
        finding(assumptions=("router is approximate",)),
        suppressed=[finding(suppression=suppression())],
        outcomes=[*outcomes, *errors],
        down=1,
        inspected={"notes": ("Unused.",), "domains": {"chat": domain(Router.APPROXIMATE, Origin.ASSUMED)}},
    )

    for title, line in (
        (
            "Assumptions (not configured):",
            "chat: router is approximate (assumed); declare it under pools in fleet.yaml.",
        ),
        ("Suppressed:", "critical RT-01 in chat, B x2 (chat-3 and chat-4): suppressed until 2026-04-30 by ann: canary"),
        ("Rule errors:", "CO-02 in chat: KeyError: 0"),
        ("Warnings:", "Unused."),
        ("Unreachable:", "lost-1: Nothing listens there."),
    ):
        assert shown[shown.index(title) + 1] == f"    ·  {line}"
    assert "    ·  and 10 more" in shown
    skipped = "    1 rule, as not enough replicas report their settings. --format json lists each with the reason."
    assert shown[shown.index("Skipped:") + 1] == skipped


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    assert max(map(len, lines(finding(sentence="a long sentence " * 20), width=width))) <= width


def test_an_attack_stays_text_in_the_terminal_and_in_markdown() -> None:
    terminal, markdown = to_terminal(check_view(evil()), width=200, colour=False), to_markdown(check_view(evil()))
    outside = without_code(markdown)

    assert not any(HIDDEN.search(line) for line in terminal.split("\n"))
    assert set(re.findall(r"</?\w+>", outside)) <= {"<br>", "<details>", "<summary>", "</summary>", "</details>"}
    assert not re.search(r"(?<!\\)[`\[|$~]|@\w", outside.replace("**", ""))
    assert "://" not in outside.replace("\\://", "")
    assert markdown.count(EVIL[:3]) == 1, "only inside the block of code, which has it as it is"


def test_a_comment_is_never_longer_than_a_forge_takes_and_the_rest_is_counted() -> None:
    text = to_markdown(check_view(fleet(*(finding(sentence="x" * 900, why=f"{number}") for number in range(200)))))

    shown = text.count("- ✖ critical: ")
    assert len(text) <= MOST_CHARACTERS + 200
    assert f"and {200 - shown} more entries" in text
    assert shown > 20


def text(of: Fleet, *, colour: bool = False) -> str:
    return to_terminal(poll_view(of), width=200, colour=colour)


def test_a_pool_without_two_replicas_to_compare_says_so() -> None:
    one = document()

    assert "Not compared: only one replica reports its settings." in text(polled([replica("a", document=one)], [one]))
    assert "Not compared: no replica reports its settings." in text(polled([down("a")]))
    assert "0 of 0 answered" in text(empty_fleet("nothing"))


def test_an_upper_bound_is_marked_and_so_is_an_unknown_capacity(demo_fleet: Fleet) -> None:
    first = next(each for each in demo_fleet.replicas if each.engines)
    bound, lost = first.engines[0]._replace(basis=Basis.ASSUMED), first.engines[0]._replace(kv_cache_size_tokens=None)
    assumed, unknown = (
        replace(demo_fleet, replicas=(replace(first, engines=(each,)),), pools=()) for each in (bound, lost)
    )

    assert f"≤ {bound.kv_cache_size_tokens:,}" in text(assumed)
    assert "unknown" in text(unknown)


def test_control_characters_and_markup_of_strangers_are_shown_as_text(demo_fleet: Fleet) -> None:
    hostile = replace(demo_fleet.replicas[0], name="\x1b[31m[bold]evil[/bold]\u202e\n")
    shown = text(replace(demo_fleet, replicas=(hostile,), pools=()), colour=True)

    assert "\x1b[31m[bold]" not in shown
    assert "[bold]evil[/bold]" in shown
    assert "\u202e" not in shown
