"""Below the list Findings says what became of every rule, and of what was suppressed or ignored."""

from dashboard.report.findings.rule_coverage import NO_PAIR
from dashboard.rules.catalogue import ALL_RULES
from tests.builders import alike, document, fleet, story
from tests.findings_builder import inspected_story, outcome, with_findings
from tests.page_runner import html, open_page


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
    assert f", {idle} n/a" in html(app)


def test_a_rule_that_looked_at_nothing_is_listed_with_the_reason() -> None:
    """It is counted at the top, so it stands somewhere."""
    told = with_findings(story(), outcomes=(outcome(),))
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
    built = with_findings(fleet(members, told, ignore=("model_config.max_*",)))
    shown = html(open_page(built, "findings", rules="Ignored"))

    assert '<td class="number">1</td>' in shown
    assert "<code>model_config.max_logprobs</code>" in shown
    assert "fleet.yaml ignores <code>model_config.max_*</code>: these never make a finding." in shown
