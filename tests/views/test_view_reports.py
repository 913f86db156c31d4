"""What single views say, with the words and the choices of their pages."""

from dataclasses import replace

from dashboard.analysis.assembly import inspected
from dashboard.compare import MAJORITY, parse_reference
from dashboard.compare.sharing import MOST_COHORTS
from dashboard.fleet import Basis
from dashboard.rules.findings import OutcomeKind, Rollout, Severity
from dashboard.views.blocks import Chart, DifferenceTable
from dashboard.views.capacity import capacity_report
from dashboard.views.capacity_data import Measure
from dashboard.views.compare import compare_report
from dashboard.views.finding_list import FindingFilter
from dashboard.views.findings import findings_report
from dashboard.views.overview import overview_report
from dashboard.views.pool_comparison import ONLY_DIFFERENCES, MatrixChoice
from tests.builders import NOW, SAME_KV, alike, document, down, engine, fleet, hashing, replica, story
from tests.findings_builder import finding, outcome, suppression, with_findings
from tests.views.walking import blocks_of, entries_of, figures_of, part, parts_of, tables_of, text_of

STORY = story()


def test_overview_says_what_the_page_says() -> None:
    """The same sentence, the same six numbers, the pool that needs a look first on top."""
    report = overview_report(STORY, "before the upgrade")

    assert report.headline == "3 pools have critical findings; 1 replica is down"
    assert [each.label for each in figures_of(report.parts)][:3] == ["Replicas", "Pools", "Critical"]
    assert tables_of([part(report, "pools")])[0].rows[0][0].text == "chat-70b"
    assert tables_of([part(report, "pools")])[0].rows[0][2].text == "A ×15, B, C, 1 not reported"
    assert report.context.name == "before the upgrade"


def test_a_calm_overview_says_how_far_that_goes() -> None:
    """No finding is good news only for what was judged."""
    calm = with_findings(fleet(alike("chat", 3, document()), [document()]), outcomes=(outcome(pool="chat"),))

    assert text_of(part(overview_report(calm), "first")).endswith("No findings from 1 rule.")
    assert "No findings. 1 rule evaluated." in text_of(part(findings_report(calm), "findings"))
    assert "not-read" not in {each.anchor for each in overview_report(calm).parts}


def test_a_fleet_that_tells_no_settings_has_no_calm_report() -> None:
    """A rule on the whole fleet passed; of the others nobody knows."""
    silent = inspected(fleet([replica("chat-1"), replica("chat-2")]), NOW)

    assert overview_report(silent).headline == "No rule was evaluated"
    assert "No rule on settings was evaluated" in text_of(part(findings_report(silent), "findings"))


def test_findings_that_the_filters_hide_are_counted_and_the_filters_named() -> None:
    """A report of a part must not look like the whole."""
    built = with_findings(STORY, finding(STORY), finding(STORY, id="b", severity=Severity.INFO, rule="CO-02"))
    report = findings_report(built, FindingFilter(severity=Severity.CRITICAL, search="block"))

    assert [each.anchor for each in report.parts if each.anchor.startswith("severity")] == ["severity-critical"]
    assert "1 finding of 2 shown." in report.lead
    assert report.context.filters == (("severity", "critical"), ("search", "block"))


def test_filters_that_hide_all_findings_say_so() -> None:
    """It is not calm."""
    report = findings_report(with_findings(STORY, finding(STORY)), FindingFilter(search="nowhere"))

    assert "The filters hide all 1 finding." in text_of(part(report, "findings"))


def test_rules_that_failed_to_run_and_rules_that_were_skipped_are_named_with_the_reason() -> None:
    """Neither passes for a rule that found nothing."""
    built = with_findings(
        STORY,
        outcomes=(
            outcome(kind=OutcomeKind.ERROR, reason="KeyError: 'x'"),
            outcome("RT-02", kind=OutcomeKind.SKIPPED, reason="Not told by any replica: cache_config.block_size."),
        ),
    )
    report = findings_report(built)

    assert "RT-01 block-size-differs on chat-70b" in text_of(part(report, "raised"))
    row = tables_of([part(report, "not-judged")])[0].rows[0]
    assert [cell.text for cell in row][2:] == ["chat-70b", "Not told by any replica: cache_config.block_size."]


def test_compare_shows_the_pool_as_chosen() -> None:
    """Reference, section and search decide the rows, and stand in the context."""
    pool = STORY.pools[0]
    choice = MatrixChoice(
        only_differences=False,
        section="cache_config",
        search="block",
        reference=parse_reference("B", pool),
        by_replica=False,
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


def test_compare_says_who_can_share_prefixes_and_who_the_cohorts_are() -> None:
    """The band, the cohorts against each other, what tells them apart."""
    told = [document(SAME_KV), document({**SAME_KV, "cache_config.block_size": 32})]
    members = [*alike("chat", 3, told[0], engines=hashing("a")), replica("odd", document=told[1], engines=hashing("b"))]
    report = compare_report(fleet(members, told), "chat")
    sharing, cohorts = tables_of([part(report, "prefix-sharing"), part(report, "cohorts")])

    assert "B does not share prefixes with A" in text_of(part(report, "prefix-sharing"))
    assert [[cell.text for cell in row[1:]] for row in sharing.rows] == [["yes", "no"], ["no", "one replica"]]
    assert [cell.text for cell in cohorts.rows[1]] == ["", "1", "cache_config.block_size = 32", "odd"]


def test_compare_of_a_uniform_pool_says_how_much_was_compared() -> None:
    """And names the replicas that are not counted."""
    report = compare_report(fleet([*alike("chat", 3, document()), down("gone")], [document()]), "chat")

    assert text_of(part(report, "settings")).endswith("17 settings compared. Not compared (unreachable): gone.")
    assert "1 replica never read, in no cohort." in text_of(part(report, "cohorts"))


def test_the_findings_of_a_pool_stand_below_it() -> None:
    """Only those that name it."""
    built = with_findings(STORY, finding(STORY), finding(STORY, ["gemma-27b-01"], id="b"))

    assert len(entries_of([part(compare_report(built, "chat-70b"), "findings")])) == 1
    assert "No findings in this pool." in text_of(part(compare_report(built, "embed-8b"), "findings"))


def test_capacity_of_one_pool_is_drawn_in_the_measure_that_was_chosen() -> None:
    """Bars by rank with their cohort, one chart for each kind of device."""
    report = capacity_report(STORY, "chat-70b", Measure.GIB, 32_768)
    charts = [each for each in blocks_of(report.parts) if isinstance(each, Chart)]

    assert [(chart.unit, len(chart.bars), chart.more) for chart in charts] == [("GiB", 17, 0)]
    assert {bar.letter for bar in charts[0].bars} == {"A", "B", "C"}
    assert report.context.filters == (("pool", "chat-70b"), ("measure", "GiB"), ("length", "32768"))


def test_of_very_many_ranks_those_that_hold_least_are_drawn_and_the_others_counted() -> None:
    """All of them stand in the table."""
    members = [
        replica(f"chat-{place:03}", document=document(), engines=(engine(1_000 - place),)) for place in range(60)
    ]
    report = capacity_report(fleet(members, [document()]))
    chart = next(each for each in blocks_of(report.parts) if isinstance(each, Chart))

    assert (len(chart.bars), chart.more) == (48, 12)
    assert min(bar.value or 0 for bar in chart.bars) == 941
    assert len(tables_of([part(report, "ranks-chat")])[0].rows) == 60


def test_what_is_assumed_or_not_known_says_so_and_why() -> None:
    """An upper bound is marked on the bar, in the table, and below them."""
    bound = engine(500_000, basis=Basis.ASSUMED, reason="Blocks times block size.")
    unknown = engine(None, basis=Basis.UNKNOWN, reason="Nobody tells.")
    members = [replica("a", engines=(bound,)), replica("b", engines=(unknown,)), down("c")]
    report = capacity_report(fleet(members, []))
    told = part(report, "pool-chat")
    chart = next(each for each in blocks_of([told]) if isinstance(each, Chart))

    assert [(bar.value, bar.is_at_most) for bar in chart.bars] == [(500_000, True), (None, False)]
    assert [row[2].text for row in tables_of([part(report, "ranks-chat")])[0].rows] == ["≤ 500,000", "not known"]
    for line in (
        "Hatched bars (1 rank) are upper bounds. Blocks times block size.",
        "1 rank unknown (Nobody tells): b",
        "No engine data: c",
    ):
        assert line in text_of(told)


def test_a_pool_without_engines_says_why_nothing_is_drawn() -> None:
    """Not an empty chart."""
    told = part(capacity_report(fleet([down("a")], [])), "pool-chat")

    assert "No tokens to draw. No engine data." in text_of(told)


def test_the_reference_that_is_the_usual_one_is_no_filter() -> None:
    """Nobody chose it."""
    assert ONLY_DIFFERENCES.reference == MAJORITY
    assert compare_report(STORY, "chat-70b").context.filters == (("pool", "chat-70b"),)


def test_two_pools_of_one_slug_have_parts_of_their_own() -> None:
    """Names that differ in their signs only."""
    members = [*alike("a/b", 2, document()), *alike("a b", 2, document())]
    report = capacity_report(fleet([replace(each, id=f"{each.id}{each.pool}") for each in members], [document()]))

    assert {"pool-a-b", "pool-a-b-2"} <= {each.anchor for each in parts_of(report.parts)}


def test_what_fleet_yaml_ignores_is_named_with_the_pools_that_differ_in_it() -> None:
    """It is left out on purpose, and nobody should have to guess that."""
    told = [document(), document({"model_config.max_logprobs": 5})]
    members = [*alike("chat", 3, told[0]), replica("odd", document=told[1])]
    said = [
        text_of(part(findings_report(fleet(members, told, ignore=(glob,))), "suppressed"))
        for glob in ("model_config.max_*", "nothing.*")
    ]

    assert "Ignored by fleet.yaml: model_config.max_* (these differ in 1 pool)." in said[0]
    assert "(these differ in no pool)." in said[1]


def test_very_many_reasons_for_what_was_not_read_are_counted() -> None:
    """The list of replicas holds all."""
    told = fleet([down(f"r{place:02}", detail=f"Reason {place}.") for place in range(30)], [])

    assert "22 more replicas" in text_of(part(overview_report(told), "not-read"))


def test_a_suppression_that_is_over_is_told_with_the_finding() -> None:
    """It was agreed once, and counts again."""
    by = suppression()
    entry = text_of(part(findings_report(with_findings(STORY, finding(STORY, expired=by))), "severity-critical"))

    assert f"Suppression by {by.owner} expired on {by.until} ({by.reason})." in entry


def test_a_rollout_is_told_with_the_finding_that_runs_along_it() -> None:
    """Once for each pool of the finding that is in one."""
    rollout = Rollout("chat-70b", "0.31.0", "0.32.0", ("http://chat-70b-17:8000",), 18, NOW, NOW)
    pools = ("chat-70b", "embed-8b")
    built = with_findings(STORY, finding(STORY, pools=pools, is_rollout=True), rollouts={"chat-70b": rollout})

    assert text_of(part(findings_report(built), "severity-critical")).count("Rollout 0.3") == 1


def test_cohorts_that_are_too_many_for_a_table_are_told_in_groups() -> None:
    """Who shares with whom is still said."""
    told = [document({"model_config.seed": number}) for number in range(MOST_COHORTS + 1)]
    members = [
        replica(f"r{number:02}", document=each, engines=hashing("a" if number % 2 else "b"))
        for number, each in enumerate(told)
    ]
    sharing = part(compare_report(fleet(members, told), "chat"), "prefix-sharing")

    assert "hash alike." in text_of(sharing)
    assert tables_of([sharing]) == []


def test_a_length_that_no_rank_serves_says_so_and_who_is_in_no_pool_is_in_no_row() -> None:
    told = document()
    members = [*alike("chat", 2, told), replica("alone", pool=None, document=told)]
    report = capacity_report(fleet(members, [told]), length=262_144)
    rows = tables_of([part(report, "pools")])[0].rows

    assert [(row[0].text, row[1].text, row[3].text) for row in rows] == [("chat", "2", "not served")]


def test_a_finding_on_no_replica_names_none_at_its_side() -> None:
    built = with_findings(STORY, finding(STORY, []))

    assert entries_of([part(overview_report(built), "first")])[0].side_text == ""
