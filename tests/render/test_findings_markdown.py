"""The findings as a comment on a pull request: whole, short enough, and free of foreign markup."""

import re

from dashboard.render.findings_markdown import PAGES, to_findings_markdown
from dashboard.render.markdown_text import MOST_CHARACTERS
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Basis, Router
from dashboard.rules.findings import OutcomeKind, Remedy, Snippet
from tests.report.judged import EVIL, domain, evil, finding, fleet, outcome, suppression


def without_code(text: str) -> str:
    """What a reader of Markdown looks for markup in: all but blocks of code and code in a line."""
    outside = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![\\`])`[^`\n]+`", "", outside)


def test_a_finding_is_told_whole() -> None:
    text = to_findings_markdown(fleet(finding()))

    assert text.startswith("## vLLM fleet: prod-eu\n\n**1 critical, 0 warning, 0 info** · 4 of 4 answered · ")
    assert f"{len(ALL_RULES)} rules: 1 judged, {len(ALL_RULES) - 1} not applicable anywhere\n\n" in text
    assert "### ✖ critical: RT-01 block-size-differs in chat\n\n**B x2 (chat-3 and chat-4)**: Block size is 32" in text
    assert "Why it matters: The router never finds what these replicas hold.\n\n" in text
    assert "What to do: Give these replicas the same block size.\n\n```sh\n--block-size 16\n```\n" in text


def test_a_finding_without_a_reason_has_no_line_for_it() -> None:
    assert "Why it matters" not in to_findings_markdown(fleet(finding(why="")))


def test_code_in_a_sentence_of_ours_is_code() -> None:
    told = finding(why="Say `block_size` *there*.", remedy=Remedy("Set `--block-size` to `16`."))
    text = to_findings_markdown(fleet(told))

    assert "Why it matters: Say `block_size` \\*there\\*.\n" in text
    assert "What to do: Set `--block-size` to `16`.\n" in text


def test_or_stands_between_blocks_of_which_one_is_enough() -> None:
    both = (Snippet("flag", "--a 1"), Snippet("env", "export A=2"))
    text = to_findings_markdown(fleet(finding(remedy=Remedy("Choose.", both, any_of=True))))

    assert "```sh\n--a 1\n```\n\nor\n\n```sh\nexport A=2\n```\n" in text


def test_where_there_are_findings_the_last_line_tells_how_to_read_more() -> None:
    assert to_findings_markdown(fleet(finding())).endswith(f"\n\n{PAGES}\n")
    assert PAGES not in to_findings_markdown(fleet())


def test_an_attack_stays_text_everywhere() -> None:
    text = to_findings_markdown(evil())
    outside = without_code(text)

    assert set(re.findall(r"</?\w+>", outside)) == {"<details>", "<summary>", "</summary>", "</details>"}
    assert not re.search(r"(?<!\\)[`\[|$~]|@\w", outside.replace("**", ""))
    assert "://" not in outside.replace("\\://", "")
    assert text.count(EVIL[:3]) == 1, "only inside the block of code, which holds it as it is"


def test_the_same_advice_is_given_once() -> None:
    text = to_findings_markdown(fleet(finding(), finding(subject="other"), finding("CO-01")))

    assert text.count("--block-size 16") == 2, "of each rule once"
    assert text.count("Why and what to do: as in chat.\n") == 1


def test_what_is_not_a_finding_is_folded() -> None:
    outcomes = [outcome("CO-01", OutcomeKind.SKIPPED, f"{number} of 4.") for number in range(60)]
    text = to_findings_markdown(fleet(suppressed=[finding(suppression=suppression())], outcomes=outcomes, down=1))

    assert "<details><summary>1 suppressed</summary>\n\n- critical RT-01 in chat, B x2" in text
    assert "<details><summary>60 skipped (not reported)</summary>" in text
    assert "- and 10 more\n\n</details>" in text
    assert "- lost-1: Nothing listens there." in text


def test_a_comment_is_never_longer_than_a_forge_takes_and_the_rest_is_counted() -> None:
    many = [finding(sentence="x" * 900, why=f"{number}") for number in range(200)]
    text = to_findings_markdown(fleet(*many))

    shown = text.count("### ")
    assert len(text) <= MOST_CHARACTERS + 200
    assert f"**and {200 - shown} more, for which there is no room here**" in text
    assert shown > 20


def test_a_finding_that_rests_on_an_assumed_router_says_so_and_where_to_say_what_is_true() -> None:
    held = {"domains": {"chat": domain(Router.APPROXIMATE, Basis.ASSUMED)}}
    assumed = to_findings_markdown(fleet(finding(assumptions=("router is approximate",)), inspected=held))
    known = to_findings_markdown(fleet(finding(), inspected=held))

    assert "\n\nAssumed: router is approximate." in assumed
    assert "<details><summary>1 assumptions (not configured)</summary>\n\n- chat: router is approximate" in assumed
    assert "assum" not in known
