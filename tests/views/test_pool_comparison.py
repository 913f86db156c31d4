"""One pool compared: what is hidden, which replicas are not compared, how its cohorts share prefixes, its dialogs."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.compare import BASELINE, MAJORITY
from dashboard.compare.matrix import lay_out
from dashboard.fleet import Baseline
from dashboard.fleet.pieces import Kind, Style, page, to_plain
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Block, Cell, Entries, Figures, Paragraph, Table, Tone
from dashboard.views.compare import cohort_blocks, setting_blocks, sharing_band, sharing_kind
from dashboard.views.overview import NUMBERS, overview_report
from dashboard.views.pages import REVIEW
from dashboard.views.pool_comparison import (
    SettingChoice,
    compare_chosen,
    coverage_text,
    equal_text,
    head_text,
    hidden_text,
    setting_severities,
    suppressed_settings,
    unmatched_text,
)
from dashboard.views.pool_text import sharing_blocks
from tests.builders import HASHING, HOSTILE, NOW, alike, document, down, fleet, hashing, replica, setting, story
from tests.findings_builder import evidence, finding, suppression, with_findings

SAME = document()
UNIFORM = fleet(alike("chat", 3, SAME), [SAME])
(POOL,) = UNIFORM.pools
BLOCK_SIZE = "cache_config.block_size"


@pytest.mark.parametrize(("expected", "number"), [("16", "0 deviations"), ("64", "1 deviation")])
def test_a_pool_without_differences_may_deviate_from_its_baseline(expected: str, number: str) -> None:
    baseline = Baseline("agreed", "chat", {BLOCK_SIZE: expected})
    matrix = lay_out(POOL, UNIFORM.documents, BASELINE, baseline=baseline).table()

    assert hidden_text(matrix, []).startswith(f"0 of 17 compared settings differ. {number} from the baseline agreed.")


@pytest.mark.parametrize(("number", "named"), [(1, "r0"), (3, "r0, r1 and r2"), (4, "4 replicas")])
def test_replicas_that_are_not_compared_are_named_and_many_are_counted(number: int, named: str) -> None:
    matrix = lay_out(POOL, UNIFORM.documents, MAJORITY).table()
    missing = [down(f"r{place}") for place in range(number)]

    assert equal_text(matrix, missing) == f"17 settings compared. Not compared (unreachable): {named}."


def test_the_head_counts_only_replicas_with_settings_into_cohorts() -> None:
    shown = fleet([*alike("chat", 3, document()), down("gone", pool="chat")], [document()])
    assert head_text(shown.pools[0], shown.replicas, None).startswith("3 of 4 replicas in 1 cohort")


def test_the_number_of_rollouts_leads_to_their_list(demo_fleet: Fleet) -> None:
    (summary,) = (each for each in overview_report(demo_fleet).parts if each.anchor == NUMBERS)
    figures = (each for block in summary.blocks if isinstance(block, Figures) for each in block.items)
    assert next(figures).link == page(REVIEW)


def test_filters_that_hide_everything_are_named() -> None:
    choice = SettingChoice(section="cache_config", search="x")
    matrix = lay_out(POOL, UNIFORM.documents, MAJORITY).table(only_differences=False, section="a", search="x")

    assert unmatched_text(matrix, choice._replace(only_differences=False)) == (
        "None of 17 settings matches section cache_config and “x”."
    )
    assert unmatched_text(lay_out(POOL, UNIFORM.documents, MAJORITY).table(), choice) == (
        "The pool has no differing settings, with or without the filters."
    )


def test_a_copied_table_has_its_fleet_coverage_and_time() -> None:
    assert coverage_text(UNIFORM) == "prod-eu: 3 of 3 answered, data as of 2026-03-02T11:42:05Z"
    assert coverage_text(empty_fleet("prod-eu")) == "prod-eu: 0 of 0 answered"


def test_the_band_has_bold_claims_and_values_as_code() -> None:
    documents = [document(), document({"cache_config.prefix_caching_hash_algo": HOSTILE})]
    members = [*alike("chat", 3, documents[0]), replica("chat-9", document=documents[1])]
    split = fleet(members, documents, policy=HASHING)
    band = sharing_band(split, split.pools[0])

    assert band.tone is Tone.CRITICAL
    assert "B" in [piece.text for piece in band.line if piece.style is Style.STRONG]
    assert any(HOSTILE[:8] in piece.text for piece in band.line if piece.style is Style.CODE)


def sharing(shown: Fleet) -> tuple[Block, ...]:
    pool = shown.pools[0]
    return sharing_blocks(shown.sharing[pool.name], "chat", sharing_kind(shown, pool))


def cells(shown: Fleet) -> list[list[Cell]]:
    table = next(each for each in sharing(shown) if isinstance(each, Table))
    return [list(row[1:]) for row in table.rows]


def test_cohorts_are_shown_against_each_other_with_the_cause() -> None:
    documents = [document(), document({BLOCK_SIZE: 32})]
    shown = fleet(
        [*alike("chat", 3, documents[0]), *alike("chat", 1, documents[1], first=4, engines=hashing("x"))], documents
    )
    rows = cells(shown)

    assert [[cell.text.partition(",")[0] for cell in row] for row in rows] == [["unknown", "no"], ["no", "one replica"]]
    assert rows[0][1].tone is Tone.WARNING
    assert rows[0][1].hint == "derived from settings, block_size differs"


@pytest.mark.parametrize("changed", [{BLOCK_SIZE: 32}, {"cache_config.enable_prefix_caching": False}])
def test_verdict_cells_and_the_settings_of_the_cause_have_one_colour(changed: dict[str, object]) -> None:
    documents = [document(), document(changed)]
    members = [*alike("chat", 3, documents[0]), replica("chat-9", document=documents[1])]
    shown = fleet(members, documents, policy=HASHING)
    settings, _ = compare_chosen(shown, shown.pools[0])
    band = sharing_band(shown, shown.pools[0])
    (path,) = changed

    tones = {cell.tone for row in cells(shown) for cell in row if cell.text.startswith("no")}
    assert tones == {band.tone} == {Tone(settings.kinds[path])}


def test_hashes_that_not_all_replicas_report_are_alike_in_the_sentence_and_in_the_table() -> None:
    members = [
        *alike("chat", 2, SAME, engines=hashing("x")),
        *alike("chat", 2, SAME, first=3),
    ]
    shown = fleet(
        [*members, replica("odd", pool="chat", document=document({BLOCK_SIZE: 32}))], [SAME, document({BLOCK_SIZE: 32})]
    )

    assert "hash alike (measured on 2 of 4 replicas)" in to_plain(sharing_band(shown, shown.pools[0]).line)
    assert cells(shown)[0][0].text == "hash alike where measured"


def test_a_cohort_that_does_not_share_within_itself_is_shown_alone() -> None:
    members = [replica(f"chat-{index}", document=SAME, engines=hashing(f"root {index}")) for index in range(3)]
    ((cell,),) = cells(fleet(members, [SAME]))

    assert (cell.text, cell.tone) == ("no", Tone.INFO)
    assert cell.hint.startswith("measured, ")
    assert sharing(UNIFORM) == ()


def test_very_many_cohorts_are_lines_of_groups() -> None:
    many = [document({BLOCK_SIZE: 16 * (index + 1)}) for index in range(30)]
    members = [replica(f"chat-{n}", document=each, engines=hashing(f"{n % 2}")) for n, each in enumerate(many)]
    blocks = sharing(fleet(members, many))

    assert all(isinstance(each, Paragraph) for each in blocks)
    assert len(blocks) > 1


def entries(blocks: tuple[Block, ...]) -> list[tuple[str, list[str], tuple[str, ...]]]:
    return [
        (to_plain(item.head), [to_plain(line) for line in item.lines], item.snippets)
        for block in blocks
        if isinstance(block, Entries)
        for item in block.items
    ]


def texts(blocks: tuple[Block, ...]) -> list[str]:
    return [to_plain(each.line) for each in blocks if isinstance(each, Paragraph)]


def test_a_setting_opens_all_its_values_with_replicas_sources_and_findings() -> None:
    shown = story()
    finding, first, second = entries(setting_blocks(shown, shown.pools[0], BLOCK_SIZE))

    assert finding[1] == ["RT-01 block-size-differs"]
    assert first[0].endswith("16 replicas · reported by /server_info")
    assert [first[2], second[2]] == [("16",), ("32",)]
    assert second[1] == ["chat-70b-17", "Origin: unknown."]


def test_a_value_that_is_compared_in_part_is_shown_as_reported_too() -> None:
    same = document({"model_config.model": "llama"})
    members = [
        replica(f"chat-{name}", document=same, identity={"model_config.model": setting(f"/mnt/{name}/llama")})
        for name in ("b", "a")
    ]
    shown = fleet(members, [same])

    assert entries(setting_blocks(shown, shown.pools[0], "model_config.model"))[0][2] == (
        "llama",
        "/mnt/a/llama\n/mnt/b/llama",
    )


def test_a_setting_that_no_replica_reports_and_digests_of_engines_are_explained() -> None:
    shown = story()

    assert texts(setting_blocks(shown, shown.pools[0], "no.such"))[1] == "Not reported by any replica of this pool."
    assert texts(setting_blocks(shown, shown.pools[0], "replicas.fingerprint"))[1].startswith("Each engine computes")


def test_a_cohort_opens_its_replicas_and_leads_to_comparisons_with_it() -> None:
    shown = story()
    pool = shown.pools[0]
    blocks = cohort_blocks(shown, pool, pool.cohorts[2])

    assert entries(blocks)[0][2] == ("cache_config.prefix_caching_hash_algo = xxhash",)
    assert "chat-70b-16" in texts(blocks)
    assert texts(blocks)[-1] == "Compare with C"
    links = [piece.link for each in blocks if isinstance(each, Paragraph) for piece in each.line if piece.link]
    assert {each.kind for each in links} == {Kind.COHORT, Kind.REPLICA, Kind.PAGE}
    alone = cohort_blocks(UNIFORM, POOL, POOL.cohorts[0])
    assert not any("Compare with" in text for text in texts(alone))


def test_a_setting_whose_findings_are_suppressed_has_no_severity_and_says_who_suppressed_them() -> None:
    built = story()
    pool = next(each for each in built.pools if each.name == "chat-70b")
    loud = with_findings(built, finding(built, ["chat-70b-16"], evidence=(evidence(BLOCK_SIZE, "32"),)))
    found = finding(
        built, ["chat-70b-16"], evidence=(evidence(BLOCK_SIZE, "32"),), suppression=suppression(owner="ann")
    )
    quiet = replace(built, inspection=replace(built.inspection, findings=(), suppressed=(found,)))

    assert BLOCK_SIZE in setting_severities(loud, pool)
    assert suppressed_settings(loud, pool) == {}
    assert BLOCK_SIZE not in setting_severities(quiet, pool)
    assert suppressed_settings(quiet, pool) == {BLOCK_SIZE: "suppressed until 2026-12-24 by ann"}


def test_a_setting_derived_from_one_whose_findings_are_suppressed_is_suppressed_with_it(demo_fleet: Fleet) -> None:
    """Of chat-70b the hash algorithm stays critical."""
    derived, algorithm = "cache_config.hash_block_size", "cache_config.prefix_caching_hash_algo"
    by = replace(suppression(owner="ann"), rule="RT-01", pool="chat-70b")
    quiet = inspected(replace(demo_fleet, policy=replace(demo_fleet.policy, suppressions=(by,))), NOW)
    pool = next(each for each in quiet.pools if each.name == "chat-70b")
    before, after = setting_severities(demo_fleet, pool), setting_severities(quiet, pool)

    assert {before[BLOCK_SIZE], before[derived], before[algorithm], after[algorithm]} == {Severity.CRITICAL}
    assert after.keys().isdisjoint({BLOCK_SIZE, derived})
    assert suppressed_settings(quiet, pool) == dict.fromkeys(
        (BLOCK_SIZE, derived), "suppressed until 2026-12-24 by ann"
    )


def test_a_setting_derived_from_others_has_their_severity_and_not_that_of_the_verdict(demo_fleet: Fleet) -> None:
    pool = next(each for each in demo_fleet.pools if each.name == "chat-70b")
    found = tuple(
        replace(each, severity=Severity.WARNING) if each.rule == "RT-01" else each
        for each in demo_fleet.inspection.findings
    )
    milder = replace(demo_fleet, inspection=replace(demo_fleet.inspection, findings=found))

    assert setting_severities(milder, pool)["cache_config.hash_block_size"] is Severity.WARNING
