"""What a difference costs on Overview, in the fix plan, for a finding and in Compare; and why a number is missing."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause
from dashboard.analysis.plan import plan_of
from dashboard.fleet import PastTime
from dashboard.fleet.pieces import to_plain
from dashboard.fleet.traffic import Traffic
from dashboard.render.markdown import to_markdown
from dashboard.render.terminal import to_terminal
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Cell, Paragraph, Table, Tone, View
from dashboard.views.cause import PLAN
from dashboard.views.compare import compare_report
from dashboard.views.effect import cause_text, effect_section, finding_line
from dashboard.views.findings import findings_report
from dashboard.views.overview import BY_EFFECT, BY_RATE, IDLE, MAP, NO_RATE, POOLS, fleet_map, overview_report
from dashboard.views.plan import plan_view
from dashboard.views.pool_comparison import SettingChoice, compare_chosen, pool_named
from dashboard.views.traffic import traffic_figures
from tests.builders import NOW, alike, document, down, fleet
from tests.findings_builder import finding, with_findings
from tests.used import traffic, with_traffic
from tests.views.walking import part

CHAT, LARGE_BLOCKS = "chat-70b", "chat-70b-04"
RECOMPUTED = "Recomputed, avoidable (estimate)"
FEW = "Not enough traffic: 3 requests (minimum 20) and 6,000 prompt tokens (minimum 10,000) in 15 min."


@pytest.fixture(name="used", scope="module")
def _used(demo_fleet: Fleet) -> Fleet:
    """The simulated fleet: its replica with larger blocks finds 4% of 40,000 prompt tokens a minute, others 62%."""
    return with_traffic(demo_fleet, {LARGE_BLOCKS: 0.04}, 0.62)


def cause(used: Fleet, key: str = "cache_config.block_size") -> Any:
    return next(each for each in plan_of(used).causes if each.key == key)


def of_rule(used: Fleet, rule: str) -> Finding:
    return next(each for each in used.inspection.findings if each.rule == rule)


def texts(used: Fleet, *found: Finding) -> tuple[list[list[str]], list[str]]:
    """The rows of a finding's measured effect, and its sentences."""
    blocks = effect_section(used, found).blocks
    rows = [[cell.text for cell in row] for each in blocks if isinstance(each, Table) for row in each.rows]
    return rows, [to_plain(each.line) for each in blocks if isinstance(each, Paragraph)]


def figures(used: Fleet) -> list[tuple[str, str]]:
    return [(each.value, each.note) for each in traffic_figures(used)]


def test_a_finding_has_the_traffic_of_both_sides_and_the_estimate_with_its_inputs(used: Fleet) -> None:
    rows, (estimate,) = texts(used, of_rule(used, "RT-01"))

    assert rows == [
        ["Prefix hit rate", "4%", "62%"],
        ["Share of prompts", "6%", "88%"],
        ["Prompt tokens/min", "40.0 k", "560.0 k"],
        ["Requests/min", "20", "280"],
        ["Time to first token", "530 ms", "240 ms"],
        ["Preemptions", "0", "0"],
    ]
    assert estimate == (
        f"{RECOMPUTED}: 23.2 k tokens/min, 290 ms of prefill per request. "
        "It assumes equal prompts: 40.0 k prompt tokens/min × (62% − 4%)."
    )


def test_a_finding_that_does_not_change_what_the_cache_finds_has_no_estimate(used: Fleet) -> None:
    rows, sentences = texts(used, of_rule(used, "CP-03"))

    assert rows[0][1:] == ["4%", "62%"]
    assert sentences == []


def test_several_pools_are_summed_before_the_ratio_and_so_is_the_estimate() -> None:
    members = [*alike("chat", 3, document()), *alike("code", 3, document())]
    built = fleet(members, [document()])
    used = with_traffic(built, {"chat-01": 0.0, "code-01": traffic(0.5, requests=900), "chat": 0.6, "code": 0.9})
    rows, (estimate,) = texts(used, finding(used, ["chat-01", "code-01"]))

    assert rows[0] == ["Prefix hit rate", "38%", "75%"]
    assert (
        estimate == f"{RECOMPUTED}: 72.0 k tokens/min, the sum of the pools. It assumes equal prompts within each pool."
    )


@pytest.mark.parametrize(
    ("own", "rest", "sentence"),
    [
        (0.7, 0.6, f"{RECOMPUTED}: none. Their hit rate is not below that of the unaffected replicas."),
        (
            traffic(0.1, requests=3),
            0.6,
            f"{RECOMPUTED}: unknown. Affected replicas: {FEW}",
        ),
        (0.1, None, f"{RECOMPUTED}: unknown. Unaffected replicas: Not read twice yet."),
        (None, 0.6, "Not read twice yet."),
    ],
)
def test_without_an_estimate_the_reason_is_in_its_place(
    own: float | Traffic | None, rest: float | None, sentence: str
) -> None:
    built = fleet(alike("chat", 3, document()), [document()])
    used = with_traffic(built, {"chat-01": own}, rest)

    assert texts(used, finding(used, ["chat-01"]))[1] == [sentence]


def test_in_no_pool_both_sides_have_a_hit_rate() -> None:
    built = fleet([*alike("chat", 2, document()), *alike("code", 2, document())], [document()])
    used = with_traffic(built, {"chat-01": 0.1, "code-01": 0.1})

    assert texts(used, finding(used, ["chat-01", "code-01"]))[1][0].endswith(
        "In no pool both these replicas and unaffected ones have a hit rate."
    )


def test_a_cause_of_a_slow_engine_has_its_time_to_first_token(used: Fleet) -> None:
    slow = finding(used, [LARGE_BLOCKS], rule="EF-03", id="aaaaaaaaaa", explained_by=("CP-01",))
    explaining, other = (finding(used, [LARGE_BLOCKS], rule=rule, id="bbbbbbbbbb") for rule in ("CP-01", "CP-03"))
    measured = "Time to first token 530 ms; unaffected replicas 240 ms."

    for each, line in ((slow, measured), (explaining, measured), (other, "")):
        with_it = with_findings(used, slow, each) if each is not slow else with_findings(used, slow)
        assert finding_line(with_it, each) == (f"Effect, measured: {line}" if line else "")
        assert cause_text(with_it, Cause("", (each,))) == line


def test_a_cause_has_the_measured_effect_in_its_second_line_and_whole_with_its_changes(used: Fleet) -> None:
    assert cause_text(used, cause(used)) == (
        "Prefix hit rate 4%; unaffected replicas 62%. Recomputed, avoidable (estimate): 23.2 k tokens/min."
    )
    whole = to_markdown(plan_view(used, plan_of(used)))
    short = to_terminal(plan_view(used, plan_of(used), is_short=True), width=200, colour=False)
    for text in (whole, short):
        assert "Prefix hit rate 4%; unaffected replicas 62%." in text
        assert "290 ms of prefill per request" in text


def test_a_cause_says_that_its_pool_has_no_unaffected_replica_and_that_it_was_not_read(used: Fleet) -> None:
    seeds = next(each for each in plan_of(used).causes if "PYTHONHASHSEED" in each.key)
    unread = with_traffic(used, {CHAT: None}, 0.6)

    assert cause_text(used, seeds) == ("deepseek-v3/prefill: prefix hit rate 62%; no unaffected replica in the pool.")
    assert cause_text(unread, cause(unread)) == "Prefix hit rate: Not read twice yet."


def test_a_cause_of_other_settings_claims_no_effect_on_the_cache(used: Fleet) -> None:
    others = [each for each in plan_of(used).causes if not any(own.rule.startswith("RT") for own in each.findings)]

    assert others
    assert {cause_text(used, each) for each in others} == {""}
    assert {cause_text(with_traffic(used, {}), each) for each in plan_of(used).causes} == {""}


def test_the_head_has_the_hit_rate_of_the_fleet_and_what_is_recomputed(used: Fleet) -> None:
    assert figures(used) == [
        ("60%", "19.8 M prompt tokens in 15 min · without decode pools"),
        ("23.2 k tokens/min", "assumes equal prompts · unknown in deepseek-v3/prefill"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"traffic_window": 900.0}, "not read twice yet"),
        ({}, "traffic is off (option traffic)"),
        ({"past": PastTime(NOW)}, "not recorded at this time"),
        ({"snapshot": "0123456789"}, "not in this snapshot"),
    ],
)
def test_a_fleet_without_traffic_says_why_its_rate_is_unknown(
    demo_fleet: Fleet, change: dict[str, Any], words: str
) -> None:
    shown = replace(demo_fleet, **change)

    assert figures(shown) == [("unknown", words), ("unknown", words)]
    assert texts(shown, of_rule(shown, "RT-01"))[1] == [f"{words.capitalize()}."]


def test_too_few_requests_are_no_rate_and_no_estimate(demo_fleet: Fleet) -> None:
    few = with_traffic(demo_fleet, {}, None)
    few = replace(few, traffic={demo_fleet.replicas[0].id: {0: traffic(0.5, requests=3)}})

    assert figures(few)[0] == ("unknown", "not enough traffic")
    assert figures(few)[1] == ("unknown", "no rates to compare")


def test_without_findings_on_prefixes_nothing_is_recomputed() -> None:
    members = alike("chat", 3, document())
    used = with_findings(with_traffic(fleet(members, [document()]), {}, 0.6))

    assert figures(used)[1] == ("none", "no findings on prefixes")


def test_the_map_by_hit_rate_has_a_neutral_cell_for_a_replica_without_rate(used: Fleet) -> None:
    first = used.replicas[0].id
    shown = fleet_map(
        replace(used, traffic={**used.traffic, first: {0: traffic(0.0, requests=1)}}), used.pools, BY_RATE
    )
    cells = {cell.name: cell for row in shown.rows for group in row.groups for cell in group}

    assert (cells[LARGE_BLOCKS].kind, cells[LARGE_BLOCKS].mark) == ("rate-0", "4")
    assert cells[LARGE_BLOCKS].hint == f"{LARGE_BLOCKS} · prefix hit rate 4%"
    assert (cells["chat-70b-02"].kind, cells["chat-70b-02"].mark) == ("rate-3", "62")
    assert (cells["chat-70b-01"].kind, cells["chat-70b-01"].mark) == (NO_RATE, "")
    assert cells["chat-70b-01"].hint.endswith("not enough traffic")
    assert dict(shown.legend).keys() >= {cell.kind for cell in cells.values()}
    assert shown.rows[0].number == "58%"


def test_the_map_by_hit_rate_tells_unreachable_and_idle_replicas_apart() -> None:
    known = fleet([*alike("chat", 2, document()), down("gone", pool="chat")], [document()])
    shown = fleet_map(with_traffic(known, {"chat-01": traffic(0.0, requests=0)}), known.pools, BY_RATE)

    assert [(cell.hint, cell.kind) for cell in shown.rows[0].groups[0]] == [
        ("chat-01 · prefix hit rate unknown, no requests", IDLE),
        ("chat-02 · prefix hit rate not read twice yet", Tone.UNKNOWN),
        ("gone · prefix hit rate unreachable", Tone.UNKNOWN),
    ]


def test_pools_are_sorted_by_their_hit_rate_where_there_is_traffic(demo_fleet: Fleet, used: Fleet) -> None:
    idle = next(each.name for each in used.pools if each.name != CHAT)
    low = with_traffic(used, {CHAT: 0.2, idle: traffic(0.1, requests=1)}, 0.9)
    pools = pools_of(overview_report(low, sort="prefix-hit-rate"))

    assert next(iter(pools.items())) == (CHAT, "20%")
    assert list(pools.items())[-1] == (idle, "not enough traffic")
    assert "Prefix hit rate" not in [each.title for each in table_of_pools(overview_report(demo_fleet)).columns]


def table_of_pools(shown: View) -> Table:
    (table,) = part(shown, POOLS).blocks
    assert isinstance(table, Table)
    return table


def pools_of(shown: View) -> dict[str, str]:
    table = table_of_pools(shown)
    place = [each.title for each in table.columns].index("Prefix hit rate")
    return {row[0].text: row[place].text for row in table.rows}


def test_the_table_of_the_map_counts_replicas_by_hit_rate(used: Fleet) -> None:
    table = fleet_map(used, used.pools, BY_RATE).data
    heads = [each.title for each in table.columns]
    (chat,) = (dict(zip(heads, [cell.text for cell in row], strict=True)) for row in table.rows if row[0].text == CHAT)

    assert (chat["0 to 19%"], chat["60 to 79%"], chat["No data"], chat["Prefix hit rate"]) == (
        "1",
        "15",
        "1",
        "58%",
    )


def note_of(shown: Fleet, anchor: str, *, order: str = "", colouring: str = "") -> str:
    return to_plain(part(overview_report(shown, order=order, colouring=colouring), anchor).note)


def test_the_map_and_the_plan_offer_their_other_order_where_there_is_traffic(demo_fleet: Fleet, used: Fleet) -> None:
    assert "by prefix hit rate" in note_of(used, MAP)
    assert "by worst finding" in note_of(used, MAP, colouring=BY_RATE)
    assert "hit rate" not in note_of(demo_fleet, MAP)
    assert "worst finding; hit rates: traffic is off (option traffic)" in note_of(demo_fleet, MAP, colouring=BY_RATE)
    assert "by measured effect" in note_of(used, PLAN)
    assert "by recomputed, avoidable (estimate)" in note_of(used, PLAN, order=BY_EFFECT)
    assert "measured" not in note_of(demo_fleet, PLAN)


def test_a_past_time_has_no_map_by_hit_rate(used: Fleet) -> None:
    recorded = {(each.pool or "", each.document or ""): traffic(0.5) for each in used.replicas}
    past = replace(used, past=PastTime(NOW), traffic={}, recorded_traffic=recorded)

    assert "worst finding; hit rates: not recorded by replica" in note_of(past, MAP, colouring=BY_RATE)
    assert "hit rate" not in note_of(past, MAP)


def test_a_past_time_has_the_rates_of_cohorts_and_no_spread(used: Fleet) -> None:
    recorded = {(each.pool or "", each.document or ""): traffic(0.5) for each in used.replicas if each.document}
    past = replace(used, past=PastTime(NOW), traffic={}, recorded_traffic=recorded)
    shown, by_replica = measures(past, CHAT), measures(past, CHAT, by_replica=True)

    assert {key: (each.text, each.note) for key, each in shown["Prefix hit rate"].items()} == dict.fromkeys(
        "ABC", ("50%", "")
    )
    alone = {each.replicas[0] for each in pool_named(past, CHAT).cohorts if len(each.replicas) == 1}
    known = {key for key, each in by_replica["Prefix hit rate"].items() if each.text == "50%"}
    assert known == alone
    assert texts(past, of_rule(past, "RT-06"))[0][0][1:] == ["50%"]


def test_links_of_the_map_keep_the_other_choices_of_the_url(used: Fleet) -> None:
    note = part(overview_report(used, "-pool", order=BY_EFFECT), MAP).note
    (link,) = (each.link for each in note if each.link and "hit rate" in each.text)

    assert dict(link.choices) == {"sort": "-pool", "order": "effect", "map": "hit-rate"}


def measures(used: Fleet, pool: str, *, by_replica: bool = False) -> dict[str, dict[str, Cell]]:
    settings, _ = compare_chosen(used, pool_named(used, pool), SettingChoice(by_replica=by_replica))
    return {title: dict(cells) for title, cells in settings.measures}


def test_each_cohort_has_its_rate_with_the_spread_of_its_replicas_above_its_settings(used: Fleet) -> None:
    shown = measures(with_traffic(used, {LARGE_BLOCKS: 0.04, "chat-70b-02": 0.5}, 0.62), CHAT)

    assert {key: each.text for key, each in shown["Prefix hit rate"].items()} == {"A": "61%", "B": "4%", "C": "62%"}
    assert shown["Prefix hit rate"]["A"].note == "50% to 62%"
    assert shown["Share of prompts"]["B"].text == "6%"
    assert (shown["Time to first token"]["B"].text, shown["Time to first token"]["B"].note) == ("530 ms", "")
    assert shown["Time to first token"]["A"].note == "240 ms to 300 ms"
    assert shown["Preemptions"]["B"].text == "0"


def test_columns_of_replicas_have_their_own_rates(used: Fleet) -> None:
    shown = measures(used, "gemma-27b", by_replica=True)["Prefix hit rate"]

    assert {each.text for each in shown.values()} == {"62%", "62%, caching off"}
    assert set(shown) == {each.id for each in used.replicas if each.pool == "gemma-27b" and each.document}


def test_a_pool_without_traffic_has_no_rows_for_it(demo_fleet: Fleet) -> None:
    assert measures(demo_fleet, CHAT) == {}
    assert "Traffic of" not in to_markdown(compare_report(demo_fleet, CHAT))


def test_where_no_setting_differs_the_rates_are_above_what_decides_prefix_sharing(used: Fleet) -> None:
    settings, deciding = compare_chosen(used, pool_named(used, "deepseek-v3/prefill"))

    assert not settings.matrix.rows
    assert deciding.measures == settings.measures
    assert deciding.measures


def test_an_export_of_compare_has_the_traffic_of_cohorts_as_a_table(used: Fleet) -> None:
    text = to_markdown(compare_report(used, CHAT))

    assert "Traffic of chat-70b" in text
    assert "| **B**  | 4% | 6% |" in text


def test_the_replica_that_decides_the_rate_of_the_fleet_is_named() -> None:
    members = alike("chat", 3, document())
    built = with_traffic(fleet(members, [document()]), {members[1].id: traffic(0.1, requests=3000)}, 0.62)

    assert figures(built)[0][1].endswith(f" · {members[1].name} has 83% of them")


def test_an_export_has_the_measured_effect_of_findings_on_prefixes_together_and_of_no_others() -> None:
    members = [*alike("chat", 3, document()), *alike("code", 3, document())]
    used = with_traffic(fleet(members, [document()]), {"chat-01": 0.1, "code-01": 0.1}, 0.6)
    same = [finding(used, [f"{pool}-01"], id=pool) for pool in ("chat", "code")]
    shown = with_findings(used, *same, finding(used, ["chat-02"], id="other", rule="CO-14"))
    text = to_markdown(findings_report(shown))

    assert text.count("**Effect, measured:** ") == 1
    assert "Prefix hit rate 10%; unaffected replicas 60%. Recomputed, avoidable (estimate): 40.0 k tokens/min." in text
    assert "Effect, measured" not in to_markdown(findings_report(replace(shown, traffic={})))


def test_the_unaffected_replicas_have_their_spread_and_the_replica_that_decides_its_rate() -> None:
    built = fleet(alike("chat", 4, document()), [document()])
    used = with_traffic(built, {"chat-01": 0.1, "chat-02": traffic(0.5, requests=3_000)}, 0.6)
    (table,) = (each for each in effect_section(used, [finding(used, ["chat-01"])]).blocks if isinstance(each, Table))

    assert [cell.text for cell in table.rows[0]] == ["Prefix hit rate", "10%", "52%"]
    assert table.rows[0][2].note == "50% to 60%, chat-02 has 83% of the tokens"


def test_a_finding_on_whole_pools_has_no_measured_effect_in_lists(used: Fleet) -> None:
    on_all = next(each for each in used.inspection.findings if each.rule == "RT-06")

    assert finding_line(used, on_all) == ""
    assert finding_line(used, of_rule(used, "RT-01")).startswith("Effect, measured: Prefix hit rate 4%")


def test_where_a_connector_was_asked_the_external_hit_rate_is_beside_the_prefix_hit_rate() -> None:
    built = fleet(alike("chat", 3, document()), [document()])
    asked = {"external_queries": 100_000.0, "external_hits": 80_000.0}
    used = with_traffic(built, {"chat-01": traffic(0.1, **asked), "chat-02": traffic(0.6, **asked)}, 0.6)
    low = finding(used, ["chat-01"])

    assert texts(used, low)[0][1] == ["External hit rate", "80%", "80%"]
    assert "; unaffected replicas 60%. External hit rate 80%; unaffected replicas 80%." in finding_line(used, low)
    few = with_traffic(built, {"chat-01": traffic(0.1, external_queries=10.0, external_hits=0.0)}, 0.6)
    assert "External hit rate unknown (not enough traffic). Recomputed, avoidable" in finding_line(few, low)
    assert {each.text for each in measures(used, "chat")["External hit rate"].values()} == {"80%"}
