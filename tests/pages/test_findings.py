"""Findings says what is wrong, on which replicas, what it breaks and what to type; and how far that goes."""

from __future__ import annotations

import html as markup
import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.fleet import empty_fleet
from dashboard.report.judged_rules import NO_PAIR
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import Facet
from dashboard.rules.findings import OutcomeKind, Remedy, Severity, Snippet
from dashboard.ui.findings_entries import MOST_ENTRIES
from tests.builders import HOSTILE, POLLED_AT, alike, document, down, fleet, hostile, story
from tests.findings_builder import BLOCK_SIZE, evidence, finding, inspected_story, judged, outcome, suppression
from tests.page_runner import html, open_page, rerun

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

    from dashboard.fleet import Fleet
    from dashboard.rules.findings import Finding

ENTRY = re.compile(r'<li class="(critical|warning|info)"([^>]*)><div class="how">.*?</li>')


def entries(app: AppTest) -> list[str]:
    """The entries of the list, in order."""
    return [found.group() for found in ENTRY.finditer(html(app))]


def many(number: int, sentence: str = "Block size is 32 in {}.") -> Fleet:
    """As many pools as asked for, each with one finding of its own words."""
    told = document()
    members = [each for index in range(number) for each in alike(f"pool-{index:03}", 2, told)]
    built = fleet(members, [told])
    names = (f"pool-{index:03}" for index in range(number))
    said = (finding(built, [f"{name}-01"], id=f"{name}x", sentence=sentence.format(name)) for name in names)
    return judged(built, *said)


def test_the_head_says_the_worst_first_and_what_it_rests_on() -> None:
    """Counts by severity; what became of all rules, each once; who answered; what is suppressed."""
    shown = html(open_page(inspected_story(), "findings"))

    assert "<h1>2 critical, 1 warning, 1 info</h1>" in shown
    assert ": 14 judged, 1 skipped, " in shown
    assert "1 entry of fleet.yaml without effect" in shown


def test_every_finding_is_an_entry_worst_first_with_its_values_rule_pool_and_replicas() -> None:
    """Severity as glyph and word, values in monospace, the cohort's letter and the name of a single replica."""
    found = entries(open_page(inspected_story(), "findings"))

    assert [re.search(r'class="severity">(\w+)<', each).group(1) for each in found] == [  # type: ignore[union-attr]
        "critical",
        "critical",
        "warning",
        "info",
    ]
    assert "Hash algorithm is <code>xxhash</code> instead of <code>sha256_cbor</code>, which 16 of 17" in found[0]
    assert ">RT-05 hash-algorithm-differs " in found[0]
    assert ">chat-70b</span>" in found[0]
    assert re.search(r'class="letter c\d">C</span></span> chat-70b-16<', found[0])
    assert "×5</span>" in found[3]
    assert "embed-8b-06" not in found[3]


def test_what_else_is_to_be_known_stands_as_a_tag() -> None:
    """An assumed router, where it is why; what is not reported; rollout; a suppression that is over; unknown where."""
    tags = [re.findall(r'class="tag">([^<]+)<', each) for each in entries(open_page(inspected_story(), "findings"))]

    assert tags == [
        ["router assumed", "unknown on 1 of 18"],
        ["router assumed", "suppression expired"],
        ["derived"],
        ["rollout"],
    ]


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"severity": "critical"}, ["RT-05", "RT-01"]),
        ({"family": "disaggregation"}, ["PD-02"]),
        ({"pool": "deepseek-v3/decode"}, ["PD-02"]),
        ({"rule": "CO-01"}, ["CO-01"]),
        ({"search": "chat-70b-16"}, ["RT-05"]),
        ({"search": "cache_config HASH"}, ["RT-05"]),
        ({"severity": "critical", "search": "block"}, ["RT-01"]),
        ({"severity": "nonsense", "rule": "gone", "pool": "gone"}, ["RT-05", "RT-01", "PD-02", "CO-01"]),
    ],
)
def test_filters_stand_in_the_url_and_narrow_the_list(choice: dict[str, Any], left: list[str]) -> None:
    """Severity, family, pool, rule, words of replicas, settings and sentences; what is no option filters nothing."""
    found = entries(open_page(inspected_story(), "findings", **choice))

    assert [re.search(r'class="rule">(\S+) ', each).group(1) for each in found] == left  # type: ignore[union-attr]


def test_a_filter_that_is_chosen_is_written_into_the_url() -> None:
    """So the view can be handed on."""
    app = open_page(inspected_story(), "findings")
    app.segmented_control(key="severity").set_value("warning")
    app.selectbox(key="pool").set_value("deepseek-v3/prefill")
    rerun(app)

    assert len(entries(app)) == 1
    assert app.query_params["severity"] in ("warning", ["warning"])
    assert app.query_params["pool"] in ("deepseek-v3/prefill", ["deepseek-v3/prefill"])
    assert "1 of 4 findings shown." in html(app)


def test_filters_that_hide_all_say_so_and_offer_the_way_back() -> None:
    """An empty list is explained."""
    shown = html(open_page(inspected_story(), "findings", search="no such thing"))

    assert "Nothing matches these filters" in shown
    assert "They hide all 4 findings." in shown
    assert '<a href="findings">Remove the filters</a>' in shown


def test_links_of_the_list_keep_the_filters() -> None:
    """Opening a finding does not lose what was chosen."""
    found = entries(open_page(inspected_story(), "findings", severity="critical", rules="Skipped"))

    assert 'href="findings?severity=critical&amp;rules=Skipped&amp;finding=aaaa000001"' in found[0]


def test_a_finding_opens_by_its_address_and_says_what_it_is_why_and_what_to_do() -> None:
    """The sentence, the domain's reason and how the domain is known, the evidence, something to paste."""
    app = open_page(inspected_story(), "findings", finding="aaaa000004")
    shown = html(app)

    assert "<h2>Block size is <code>32</code> instead of <code>16</code>, which 16 of 17 replicas have.</h2>" in shown
    assert "its keys never match the blocks" in shown
    assert "Assumed: a router that hashes prefixes; if that is wrong, say so in fleet.yaml under pools." in shown
    assert "Give these replicas the same block size as the rest of the pool, and restart them." in shown
    assert [each.value for each in app.code] == ["--block-size 16"]
    assert 'href="replica?replica=http%3A%2F%2Fchat-70b-17%3A8000"' in shown
    assert f'href="compare?pool=chat-70b&amp;path={BLOCK_SIZE}"' in shown
    assert "Was suppressed by ana until 2026-02-01, which is over: a test of larger blocks" in shown


def test_the_finding_that_is_open_is_marked_in_the_list_and_can_be_closed() -> None:
    """The list stays beside it."""
    app = open_page(inspected_story(), "findings", finding="aaaa000004", severity="critical")

    assert ["aria-current" in each for each in entries(app)] == [False, True]
    assert '<a href="findings?severity=critical" class="close"' in html(app)


def test_every_kind_of_snippet_is_labelled_and_can_be_copied() -> None:
    """A flag, an environment variable and YAML are told apart."""
    app = open_page(inspected_story(), "findings", finding="aaaa000001")

    assert re.findall(r'class="snippet">([^<]+)<', html(app)) == ["Flag", "Environment variable", "YAML"]
    assert [each.language for each in app.code] == ["bash", "bash", "yaml"]


def test_snippets_of_which_one_is_enough_stand_with_or_between_them() -> None:
    """Of those that are all needed, one stands after the other."""
    told = inspected_story()
    one, all_of = (html(open_page(told, "findings", finding=each)) for each in ("aaaa000003", "aaaa000001"))

    assert re.findall(r'class="(?:snippet|or)">([^<]+)<', one) == ["Flag", "or", "Command"]
    assert 'class="or"' not in all_of


def test_a_reason_of_any_pool_needs_no_word_on_what_the_pool_shares() -> None:
    """Development mode, GPU memory, a replica that was not read."""
    told = story()
    rule = BY_ID["CO-01"]
    shown = html(
        open_page(
            judged(told, finding(told, rule="CO-01", why=rule.page.why[Facet.MODEL])), "findings", finding="0123456789"
        )
    )

    assert rule.page.why[Facet.MODEL].split(";")[0].split("`")[0] in shown
    assert 'class="basis"' not in shown


def test_the_rule_of_the_finding_is_documented_in_place() -> None:
    """Problem, reasons, fix, exceptions, example and the threads that prove it."""
    app = open_page(inspected_story(), "findings", finding="aaaa000004")

    assert [each.label for each in app.expander] == ["About rule RT-01 block-size-differs"]
    assert '<b>prefix-hash</b> <span class="mute">critical</span> <span class="tag">here</span>' in html(app)
    assert 'href="https://github.com/ai-dynamo/dynamo/issues/1233" target="_blank"' in html(app)


def test_a_finding_of_a_rule_that_is_no_longer_known_opens_without_its_page() -> None:
    """What was found stands, whatever became of the rule."""
    told = judged(story(), finding(story(), rule="ZZ-99"))
    app = open_page(told, "findings", finding="0123456789")

    assert "<h2>Block size is <code>32</code>" in html(app)
    assert not app.expander


def test_a_finding_of_a_rollout_says_between_which_versions() -> None:
    """And that it counts milder as long as that goes on."""
    shown = html(open_page(inspected_story(), "findings", finding="aaaa000003"))

    assert "It runs along a rollout from 0.31.0 to 0.32.0: 5 of 10 replicas moved" in shown


def test_a_finding_of_a_pair_names_both_pools_and_who_of_them_tells_what() -> None:
    """The holder stands beside the replicas."""
    shown = html(open_page(inspected_story(), "findings", finding="aaaa000002"))

    assert 'href="compare?pool=deepseek-v3%2Fprefill&amp;path=cache_config.cache_dtype"' in shown
    assert 'href="compare?pool=deepseek-v3%2Fdecode&amp;path=cache_config.cache_dtype"' in shown
    assert '<span class="mute">deepseek-v3/decode</span>' in shown
    assert "Concluded from what replicas tell" in shown


def test_a_finding_that_is_gone_says_so_and_the_list_stands() -> None:
    """It was fixed, or the data changed: nothing else is shown in its place."""
    app = open_page(inspected_story(), "findings", finding="ffffffffff", severity="critical")

    assert "This finding is gone." in html(app)
    assert len(entries(app)) == 2
    assert "What to do" not in html(app)


def test_the_parts_of_a_finding_that_a_suppression_cut_in_two_open_apart() -> None:
    """They have one id; the address tells them apart."""
    built = story()
    first = finding(built, ["chat-70b-16"], expired=suppression())
    rest = finding(built, ["chat-70b-17"])
    told = judged(built, first, rest)

    assert "http%3A%2F%2Fchat-70b-16" in html(open_page(told, "findings", finding="0123456789")).split("Evidence")[0]
    assert "<b>1 replica</b> of" in html(open_page(told, "findings", finding="0123456789.2"))
    assert ["aria-current" in each for each in entries(open_page(told, "findings", finding="0123456789.2"))] == [
        False,
        True,
    ]


def test_the_same_finding_of_many_pools_is_one_entry_that_lists_them() -> None:
    """Three pools, one sentence: one entry; opened, it links the finding of each other pool."""
    app = open_page(many(3, "Block size is 32."), "findings", finding="pool-001x")

    assert len(entries(app)) == 1
    assert ">3 pools</span>" in entries(app)[0]
    assert ">3 replicas<" in entries(app)[0]
    assert 'aria-current="true"' in entries(app)[0]
    assert 'The same in <a href="findings?finding=pool-000x">pool-000</a>, ' in html(app)
    assert "3 findings in 1 entries." not in html(app)
    assert "3 findings in 1 entry." in html(app)


def test_only_a_number_of_entries_is_drawn_and_the_rest_is_counted() -> None:
    """A thousand findings make no page."""
    app = open_page(many(MOST_ENTRIES + 3), "findings")

    assert len(entries(app)) == MOST_ENTRIES
    assert f"{MOST_ENTRIES + 3} findings. The first {MOST_ENTRIES} entries, and 3 more: narrow them" in html(app)


def test_no_finding_is_calm_and_says_how_far_that_goes() -> None:
    """Rules that were judged, rules that could not be, replicas that did not answer."""
    kinds = (OutcomeKind.PASSED, OutcomeKind.PASSED, OutcomeKind.SKIPPED)
    outcomes = tuple(outcome(f"XX-{number:02}", kind=kind) for number, kind in zip(count(), kinds, strict=False))
    app = open_page(judged(story(), outcomes=outcomes), "findings")
    shown = html(app)

    assert "<h1>No finding</h1>" in shown
    assert ": 2 judged, 1 skipped, " in shown
    assert "<b>No rule is broken.</b> That holds for 2 rules on what the replicas told." in shown
    assert "1 rule could not be judged everywhere. 1 replica did not answer and may hide something." in shown
    assert not app.text_input


def test_when_nothing_was_judged_that_is_not_called_calm() -> None:
    """No finding and no rule: unknown."""
    shown = html(open_page(judged(story(), outcomes=(outcome(kind=OutcomeKind.SKIPPED),)), "findings"))

    assert "<h1>Nothing could be judged</h1>" in shown
    assert "<b>No rule could be judged.</b>" in shown
    assert 'class="notice good"' not in shown


def test_a_rule_that_raised_stands_on_top() -> None:
    """A mistake of the program is never hidden, and the rest of the page stands."""
    told = inspected_story()
    broken = [outcome("RT-02", pool, OutcomeKind.ERROR, reason="KeyError: 'x'") for pool in ("chat-70b", "gemma-27b")]
    inspection = replace(told.inspection, outcomes=(*told.inspection.outcomes, *broken))
    shown = html(open_page(replace(told, inspection=inspection), "findings"))

    assert "<b>1 rule failed to run and judged nothing there.</b>" in shown
    assert ">chat-70b, gemma-27b</span>: KeyError: &#x27;x&#x27;" in shown
    assert shown.index("KeyError") < shown.index('class="findings"')


def test_all_rules_are_listed_by_outcome_with_where_and_why() -> None:
    """Counted by pool; the reasons of a skipped rule say what was missing, on how many replicas."""
    told = inspected_story()
    passed, skipped = (html(open_page(told, "findings", rules=name)) for name in ("Passed", "Skipped"))

    assert "A rule stands in several lists when it passed for one pool and was skipped for another." in passed
    assert ">Not told in full by</th>" in passed
    assert ">CO-02 served-names-differ</span>" in passed
    assert ">5 pools</span>" in passed
    assert ">RT-06 hash-root-differs</span>" in skipped
    assert 'env.PYTHONHASHSEED: told by 0 of 2 replicas<span class="mute"> (×2)</span>; told by 0 of 18' in skipped
    assert "Only for: kv-store." in html(open_page(told, "findings", rules="Not applicable"))


def test_the_control_counts_each_outcome() -> None:
    """Rules that passed, were skipped, do not apply; findings suppressed; differences ignored."""
    told = inspected_story()
    app = open_page(told, "findings")
    options = [option.content for option in app.segmented_control(key="rules").proto.options]

    idle = len(ALL_RULES) - len({each.rule for each in told.inspection.outcomes} - {"SH-01"})
    assert options == ["Passed 10", "Skipped 1", f"Not applicable {idle}", "Suppressed 1", "Ignored 0"]
    assert f", {idle} not applicable anywhere" in html(app)


def test_a_rule_that_looked_at_nothing_is_listed_with_the_reason() -> None:
    """It is counted at the top, so it stands somewhere."""
    told = judged(story(), outcomes=(outcome(),))
    shown = html(open_page(told, "findings", rules="Not applicable"))

    assert ">PD-02 prefill-decode-model-path-differs</span>" in shown
    assert NO_PAIR in shown


def test_the_filters_hold_for_the_rules_too() -> None:
    """Which rules passed on one pool, which of one family."""
    told = inspected_story()

    assert ">gemma-27b</span></td>" in html(open_page(told, "findings", pool="gemma-27b", rules="Passed"))
    assert "No rule passed." in html(open_page(told, "findings", family="stores", rules="Passed"))
    assert "SH-01" in html(open_page(told, "findings", family="stores", rules="Not applicable"))


def test_suppressed_findings_can_be_seen_with_owner_reason_and_day() -> None:
    """And so is an entry that matches nothing; each opens as any other."""
    shown = html(open_page(inspected_story(), "findings", rules="Suppressed"))

    assert '<td class="">ana</td><td class="">a test of larger blocks</td><td class="short">2026-12-24</td>' in shown
    assert "suppress[2] in fleet.yaml (RT-02, bob) matches no finding; take it out." in shown
    assert 'href="findings?rules=Suppressed&amp;finding=aaaa000005"' in shown

    opened = html(open_page(inspected_story(), "findings", finding="aaaa000005"))
    assert "Suppressed by ana until 2026-12-24: a test of larger blocks" in opened


def test_ignored_differences_are_counted_per_pool() -> None:
    """What fleet.yaml leaves out is seen to be left out."""
    told = [document(), document({"model_config.max_logprobs": 5})]
    members = [each for number, one in enumerate(told) for each in alike("chat", 1, one, first=number)]
    built = judged(fleet(members, told, ignore=("model_config.max_*",)))
    shown = html(open_page(built, "findings", rules="Ignored"))

    assert '<td class="number">1</td>' in shown
    assert "<code>model_config.max_logprobs</code>" in shown
    assert "fleet.yaml ignores <code>model_config.max_*</code>: these never make a finding." in shown


def test_nothing_that_servers_or_operators_say_becomes_markup() -> None:
    """In the list, in the detail, in every table, in what can be copied."""
    addresses: tuple[dict[str, Any], ...] = (
        {},
        {"finding": "0123456789"},
        {"rules": "Suppressed"},
        {"rules": "Skipped"},
    )
    for address in addresses:
        app = open_page(attacked(), "findings", **address)

        assert not re.search(r"<script|<img", html(app), re.IGNORECASE)
        assert not app.markdown
        assert markup.escape("<script>alert(1)</script>") in html(app)


def attacked() -> Fleet:
    """A fleet whose findings repeat what attackers told."""
    built = hostile()
    names = [each.name for each in built.replicas]
    ids = [each.id for each in built.replicas]
    quoted = f'"{"".join(char for char in HOSTILE if char not in chr(34) + chr(10))}"'
    told = (evidence(HOSTILE, quoted, (ids[0],)), evidence(HOSTILE, "0", (ids[1],), is_reference=True))
    said: dict[str, Any] = {
        "sentence": HOSTILE,
        "why": HOSTILE,
        "remedy": Remedy(HOSTILE, (Snippet("flag", HOSTILE),)),
        "evidence": told,
    }
    by = suppression(owner=HOSTILE, reason=HOSTILE)
    found: Finding = finding(built, names[:1], **said, expired=by)
    return judged(
        built,
        found,
        suppressed=(finding(built, names[1:2], **said, id="x", suppression=by),),
        notes=(HOSTILE,),
        outcomes=(
            outcome("RT-01", HOSTILE, OutcomeKind.ERROR, reason=HOSTILE),
            outcome("RT-02", HOSTILE, OutcomeKind.SKIPPED, reason=HOSTILE),
        ),
    )


def test_without_targets_the_page_says_how_to_begin_and_without_answers_why() -> None:
    """The empty states of every page; what is found on replicas of no pool is shown nevertheless."""
    silent = replace(fleet([down("a", pool=None)]), polled_at=POLLED_AT)
    nothing = judged(silent)
    found = judged(silent, replace(finding(silent, ["a"]), pools=(), subject="fleet", evidence=()))

    assert "No replicas are configured yet" in html(
        open_page(replace(empty_fleet("x"), polled_at=POLLED_AT), "findings")
    )
    assert "There is no pool to compare" in html(open_page(nothing, "findings"))
    assert "<h1>1 critical</h1>" in html(open_page(found, "findings"))
    assert "<h2>Block size is 32 instead of 16" in html(open_page(found, "findings", finding="0123456789"))


def test_rules_as_they_are_fill_the_page() -> None:
    """The story, judged by the program itself: what the page shows is what the rules find."""
    told = story()
    worst = next(each for each in told.inspection.findings if each.rule == "RT-01")

    assert worst.severity is Severity.CRITICAL
    assert "Block size is <code>32</code> instead of <code>16</code>" in html(
        open_page(told, "findings", finding=worst.id)
    )
