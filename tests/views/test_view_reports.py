"""The views of Overview, Findings, Compare and Capacity: choices, states without data, limits."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import inspected
from dashboard.compare import MAJORITY, parse_reference
from dashboard.compare.sharing import MOST_COHORTS
from dashboard.fleet import Basis
from dashboard.fleet.history import Rollout
from dashboard.rules.findings import OutcomeKind, Severity
from dashboard.views.blocks import Chart, DifferenceTable
from dashboard.views.capacity import capacity_report
from dashboard.views.compare import compare_report
from dashboard.views.filters import read_search
from dashboard.views.finding_list import FindingFilter, finding_keys
from dashboard.views.findings import findings_report
from dashboard.views.overview import overview_report
from dashboard.views.pool_comparison import ONLY_DIFFERENCES, SettingChoice
from tests.builders import NOW, SAME_KV, alike, document, down, engine, fleet, hashing, replica, story
from tests.findings_builder import finding, outcome, with_findings
from tests.views.walking import blocks_of, entries_of, part, parts_of, tables_of, text_of

STORY = story()


def test_no_findings_is_good_only_where_settings_were_compared() -> None:
    clean = with_findings(fleet(alike("chat", 3, document()), [document()]), outcomes=(outcome(pool="chat"),))
    silent = inspected(fleet([replica("chat-1"), replica("chat-2")]), NOW)

    assert text_of(part(overview_report(clean), "plan")).endswith("No findings from 1 rule.")
    assert "No findings. 1 rule evaluated." in text_of(part(findings_report(clean), "findings"))
    assert "not-read" not in {each.anchor for each in overview_report(clean).parts}
    assert overview_report(silent).headline == "No rule was evaluated"
    assert "No rule on settings was evaluated" in text_of(part(findings_report(silent), "findings"))


def test_an_export_of_filtered_findings_names_the_filters_and_counts_the_rest() -> None:
    built = with_findings(STORY, finding(STORY), finding(STORY, id="b", severity=Severity.INFO, rule="CO-02"))
    report = findings_report(built, FindingFilter(read_search("severity:critical block", finding_keys(built, ()))))
    none = findings_report(built, FindingFilter(read_search("nowhere", {})))

    assert [each.anchor for each in report.parts if each.anchor.startswith("severity")] == ["severity-critical"]
    assert "1 finding of 2 shown." in report.lead
    assert report.context.filters == (("search", "severity:critical block"),)
    assert "The filters hide all 2 findings." in text_of(part(none, "findings"))


def test_rule_errors_and_skipped_rules_have_their_reasons() -> None:
    reason = "Not reported by any replica: cache_config.block_size."
    error = outcome(kind=OutcomeKind.ERROR, reason="KeyError: 'x'")
    skipped = outcome("RT-02", kind=OutcomeKind.SKIPPED, reason=reason)
    report = findings_report(with_findings(STORY, outcomes=(error, skipped)))

    assert "RT-01 block-size-differs on chat-70b: KeyError: 'x'." in text_of(part(report, "raised"))
    assert [cell.text for cell in tables_of([part(report, "skipped")])[0].rows[0]][2:] == ["chat-70b", reason]


def test_a_rollout_is_described_once_with_a_finding_of_several_pools() -> None:
    rollout = Rollout("chat-70b", "0.31.0", "0.32.0", ("http://chat-70b-17:8000",), 18, NOW, NOW)
    several = finding(STORY, pools=("chat-70b", "embed-8b"), is_rollout=True)
    built = with_findings(STORY, several, rollouts={"chat-70b": rollout})

    assert text_of(part(findings_report(built), "severity-critical")).count("Rollout 0.3") == 1


def test_unreachable_replicas_with_many_reasons_are_counted() -> None:
    silent = fleet([down(f"r{place:02}", detail=f"Reason {place}.") for place in range(30)], [])

    assert "22 more replicas" in text_of(part(overview_report(silent), "not-read"))


def test_compare_shows_the_rows_that_match_and_has_the_choices_as_filters() -> None:
    pool = STORY.pools[0]
    choice = SettingChoice(
        only_differences=False, section="cache_config", search="block", reference=parse_reference("B", pool)
    )
    report = compare_report(STORY, "chat-70b", choice)
    table = next(each for each in blocks_of([part(report, "settings")]) if isinstance(each, DifferenceTable))

    assert {row.path for row in table.matrix.rows} == {"cache_config.block_size", "cache_config.hash_block_size"}
    assert report.context.filters == (
        ("pool", "chat-70b"),
        ("show", "All settings"),
        ("search", "block"),
        ("section", "cache_config"),
        ("reference", "B"),
    )
    assert ONLY_DIFFERENCES.reference == MAJORITY
    assert compare_report(STORY, "chat-70b").context.filters == (("pool", "chat-70b"),)


def test_compare_has_prefix_sharing_cohorts_and_the_findings_of_its_pool() -> None:
    documents = [document(SAME_KV), document({**SAME_KV, "cache_config.block_size": 32})]
    odd = replica("odd", document=documents[1], engines=hashing("b"))
    report = compare_report(fleet([*alike("chat", 3, documents[0], engines=hashing("a")), odd], documents), "chat")
    sharing, cohorts = tables_of([part(report, "prefix-sharing"), part(report, "cohorts")])
    built = with_findings(STORY, finding(STORY), finding(STORY, ["gemma-27b-01"], id="b"))

    assert "B does not share prefixes with A" in text_of(part(report, "prefix-sharing"))
    assert [[cell.text for cell in row[1:]] for row in sharing.rows] == [["yes", "no"], ["no", "one replica"]]
    assert [cell.text for cell in cohorts.rows[1]] == ["", "1", "cache_config.block_size = 32", "odd"]
    assert len(entries_of([part(compare_report(built, "chat-70b"), "findings")])) == 1
    assert "No findings in this pool." in text_of(part(compare_report(built, "embed-8b"), "findings"))


def test_compare_of_a_uniform_pool_counts_the_compared_settings() -> None:
    report = compare_report(fleet([*alike("chat", 3, document()), down("gone")], [document()]), "chat")

    assert text_of(part(report, "settings")).endswith("17 settings compared. Not compared (unreachable): gone.")
    assert "1 replica in no cohort: settings not reported." in text_of(part(report, "cohorts"))


def test_prefix_sharing_of_very_many_cohorts_is_described_in_groups() -> None:
    documents = [document({"model_config.seed": number}) for number in range(MOST_COHORTS + 1)]
    members = [
        replica(f"r{number:02}", document=each, engines=hashing("a" if number % 2 else "b"))
        for number, each in enumerate(documents)
    ]
    sharing = part(compare_report(fleet(members, documents), "chat"), "prefix-sharing")

    assert "hash alike." in text_of(sharing)
    assert tables_of([sharing]) == []


def test_of_very_many_ranks_those_with_least_are_drawn_and_all_are_in_the_table() -> None:
    members = [
        replica(f"chat-{place:03}", document=document(), engines=(engine(1_000 - place),)) for place in range(300)
    ]
    report = capacity_report(fleet(members, [document()]))
    chart = next(each for each in blocks_of(report.parts) if isinstance(each, Chart))

    assert (len(chart.bars), chart.more, min(bar.value or 0 for bar in chart.bars)) == (240, 60, 701)
    assert len(tables_of([part(report, "ranks-chat")])[0].rows) == 300


def test_upper_bounds_and_unknown_ranks_are_marked_with_the_reason() -> None:
    bound = engine(500_000, basis=Basis.ASSUMED, reason="Blocks times block size.")
    unknown = engine(None, basis=Basis.UNKNOWN, reason="Not reported.")
    members = [replica("a", engines=(bound,)), replica("b", engines=(unknown,)), down("c")]
    report = capacity_report(fleet(members, []))
    section = part(report, "pool-chat")
    chart = next(each for each in blocks_of([section]) if isinstance(each, Chart))

    assert [(bar.value, bar.is_at_most) for bar in chart.bars] == [(500_000, True), (None, False)]
    assert [row[2].text for row in tables_of([part(report, "ranks-chat")])[0].rows] == ["≤ 500,000", "unknown"]
    for line in (
        "Hatched bars (1 rank) are upper bounds. Blocks times block size.",
        "1 rank unknown (Not reported): b",
        "No engine data: c",
    ):
        assert line in text_of(section)


@pytest.mark.parametrize("names", [("a/b", "a b"), ("a.b", "a-b")])
def test_pools_with_equal_slugs_have_separate_sections(names: tuple[str, str]) -> None:
    members = [each for name in names for each in alike(name, 2, document())]
    built = fleet([replace(each, id=f"{each.id}{each.pool}") for each in members], [document()])
    reports = [capacity_report(built, name) for name in names]

    assert {"pool-a-b", "pool-a-b-2"} <= {each.anchor for report in reports for each in parts_of(report.parts)}
