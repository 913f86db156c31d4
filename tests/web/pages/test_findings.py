"""Findings says what is wrong and on which replicas, narrowed by filters; and how far that goes."""

import html as markup
import re
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.rules.findings import Finding, OutcomeKind, Remedy, Severity, Snippet
from dashboard.web.findings_entries import MOST_ENTRIES
from tests.builders import HOSTILE, NOW, POLLED_AT, alike, document, down, fleet, hostile, replica, story
from tests.findings_builder import evidence, finding, inspected_story, outcome, suppression, with_findings
from tests.page_runner import html, open_page, rerun
from tests.web.pages.finding_entries import entries


def many(number: int, sentence: str = "Block size is 32 in {}.") -> Fleet:
    """As many pools as asked for, each with one finding of its own words."""
    told = document()
    members = [each for index in range(number) for each in alike(f"pool-{index:03}", 2, told)]
    built = fleet(members, [told])
    names = (f"pool-{index:03}" for index in range(number))
    said = (finding(built, [f"{name}-01"], id=f"{name}x", sentence=sentence.format(name)) for name in names)
    return with_findings(built, *said)


def test_the_head_says_the_worst_first_and_what_it_rests_on() -> None:
    """Counts by severity; what became of all rules, each once; who answered; what is suppressed."""
    shown = html(open_page(inspected_story(), "findings"))

    assert "<h1>2 critical, 1 warning, 1 info</h1>" in shown
    assert ": 14 evaluated, 1 skipped, " in shown
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
    assert "Hash algorithm is xxhash instead of sha256_cbor, which 16 of 17" in found[0]
    assert ">RT-05 hash-algorithm-differs" in found[0]
    assert ">chat-70b</span>" in found[0]
    assert re.search(r'class="letter c\d">C</span></span> <span class="part">chat-70b-16<', found[0])
    assert "×5</span>" in found[3]
    assert "embed-8b-06" not in found[3]


def test_what_else_is_to_be_known_stands_as_a_tag() -> None:
    """What is derived; rollout; a suppression that is over."""
    tags = [re.findall(r'class="tag">([^<]+)<', each) for each in entries(open_page(inspected_story(), "findings"))]

    assert tags == [
        [],
        ["suppression expired"],
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

    assert "No matches for these filters" in shown
    assert "They hide all 4 findings." in shown
    assert '<a href="findings">Clear filters</a>' in shown


def test_links_of_the_list_keep_the_filters() -> None:
    """Opening a finding does not lose what was chosen."""
    found = entries(open_page(inspected_story(), "findings", severity="critical", rules="Skipped"))

    assert 'href="findings?severity=critical&amp;rules=Skipped&amp;finding=aaaa000001"' in found[0]


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
    app = open_page(with_findings(story(), outcomes=outcomes), "findings")
    shown = html(app)

    assert "<h1>No findings</h1>" in shown
    assert ": 2 evaluated, 1 skipped, " in shown
    assert "<b>No rule is broken.</b> 2 rules evaluated." in shown
    assert "1 rule not evaluated on all replicas. 1 replica did not answer." in shown
    assert "search" not in [each.key for each in app.text_input]


def test_when_nothing_was_judged_that_is_not_called_calm() -> None:
    """No finding and no rule: unknown."""
    shown = html(open_page(with_findings(story(), outcomes=(outcome(kind=OutcomeKind.SKIPPED),)), "findings"))

    assert "<h1>Nothing could be judged</h1>" in shown
    assert "<b>No rule on settings could be judged.</b>" in shown
    assert 'class="notice good"' not in shown


def test_a_rule_that_passed_is_no_good_news_where_no_settings_were_read() -> None:
    """That every replica answered is all that could be judged."""
    shown = html(open_page(inspected(fleet([replica("chat-1"), replica("chat-2")]), NOW), "findings"))

    assert ": 1 evaluated, " in shown
    assert "<b>No rule on settings could be judged.</b>" in shown
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
    return with_findings(
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
    nothing = with_findings(silent)
    found = with_findings(silent, replace(finding(silent, ["a"]), pools=(), subject="fleet", evidence=()))

    assert "No replicas configured" in html(open_page(replace(empty_fleet("x"), polled_at=POLLED_AT), "findings"))
    assert "No pools to compare" in html(open_page(nothing, "findings"))
    assert "<h1>1 critical</h1>" in html(open_page(found, "findings"))
    assert "<h2>Block size is 32 instead of 16" in html(open_page(found, "findings", finding="0123456789"))


def test_rules_as_they_are_fill_the_page() -> None:
    """The story, judged by the program itself: what the page shows is what the rules find."""
    told = story()
    worst = next(each for each in told.inspection.findings if each.rule == "RT-01")

    assert worst.severity is Severity.CRITICAL
    assert "<code>block_size</code> is <code>32</code>; 16 of 17 replicas use <code>16</code>." in html(
        open_page(told, "findings", finding=worst.id)
    )
