"""A finding that is opened says what it is, why it matters and what to type."""

import re
from html import escape

from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import ImpactContext
from tests.builders import story
from tests.findings_builder import BLOCK_SIZE, finding, inspected_story, suppression, with_findings
from tests.page_runner import html, open_page
from tests.web.pages.finding_entries import entries


def test_a_finding_opens_by_its_address_and_says_what_it_is_why_and_what_to_do() -> None:
    """The sentence, the domain's reason and how the domain is known, the evidence, something to paste."""
    app = open_page(inspected_story(), "findings", finding="aaaa000004")
    shown = html(app)

    assert "<h2>Block size is 32 instead of 16, which 16 of 17 replicas have.</h2>" in shown
    assert "its keys never match the blocks" in shown
    assert "Router: prefix-hash (fleet.yaml)." in shown
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
            with_findings(
                told, finding(told, rule="CO-01", why=rule.page.why[ImpactContext.MODEL], context=ImpactContext.MODEL)
            ),
            "findings",
            finding="0123456789",
        )
    )

    assert escape(rule.page.why[ImpactContext.MODEL]) in shown
    assert 'class="basis"' not in shown


def test_the_rule_of_the_finding_is_documented_in_place() -> None:
    """Problem, reasons, fix, exceptions, example and the threads that prove it."""
    app = open_page(inspected_story(), "findings", finding="aaaa000004")

    assert [each.label for each in app.expander] == ["About rule RT-01 block-size-differs"]
    assert '<b>prefix-hash</b> <span class="mute">critical</span> <span class="tag">here</span>' in html(app)
    assert 'href="https://github.com/ai-dynamo/dynamo/issues/1233" target="_blank"' in html(app)


def test_a_finding_of_a_rule_that_is_no_longer_known_opens_without_its_page() -> None:
    """What was found stands, whatever became of the rule."""
    told = with_findings(story(), finding(story(), rule="ZZ-99"))
    app = open_page(told, "findings", finding="0123456789")

    assert "<h2>Block size is 32" in html(app)
    assert not app.expander


def test_a_finding_of_a_rollout_says_between_which_versions() -> None:
    """And that it counts milder as long as that goes on."""
    shown = html(open_page(inspected_story(), "findings", finding="aaaa000003"))

    assert "Rollout 0.31.0 → 0.32.0: 5 of 10 replicas moved" in shown


def test_a_finding_of_a_pair_names_both_pools_and_who_of_them_tells_what() -> None:
    """The holder stands beside the replicas."""
    shown = html(open_page(inspected_story(), "findings", finding="aaaa000002"))

    assert 'href="compare?pool=deepseek-v3%2Fprefill&amp;path=cache_config.cache_dtype"' in shown
    assert 'href="compare?pool=deepseek-v3%2Fdecode&amp;path=cache_config.cache_dtype"' in shown
    assert '<span class="mute">deepseek-v3/decode</span>' in shown
    assert "Derived from reported settings." in shown


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
    told = with_findings(built, first, rest)

    assert "http%3A%2F%2Fchat-70b-16" in html(open_page(told, "findings", finding="0123456789")).split("Evidence")[0]
    assert "<b>1 replica</b> of" in html(open_page(told, "findings", finding="0123456789.2"))
    assert ["aria-current" in each for each in entries(open_page(told, "findings", finding="0123456789.2"))] == [
        False,
        True,
    ]
