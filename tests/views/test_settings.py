"""The page Settings as a view: search, values per pool, the field reference, JSON and CSV."""

import json
from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Setting, Source, State
from dashboard.render.tabular import setting_object
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Gauges, Table, Tone
from dashboard.views.finding_list import list_findings
from dashboard.views.pool_comparison import setting_severities, suppressed_settings
from dashboard.views.search import search_hits
from dashboard.views.setting import (
    EVERY_SETTING,
    MOST_ROWS,
    REPLICAS,
    VALUES,
    SettingFilter,
    affected_section,
    pool_values,
    setting_report,
    similar_settings,
)
from dashboard.views.settings import found_settings, setting_values, settings_report
from tests.builders import alike, document, down, fleet, replica, story
from tests.findings_builder import finding, with_findings
from tests.inspected_fleets import suppression
from tests.views.walking import part, tables_of, text_of

SIZE = "cache_config.block_size"
HASH_SIZE = "cache_config.hash_block_size"
TIMEOUT = "parallel_config.fault_tolerance_config.engine_recovery_timeout_sec"
USUAL, LARGE = document(), document({SIZE: 32})


def mixed() -> Fleet:
    """A pool with one odd replica of five, a pool of one replica, and a replica that is down."""
    members = [
        *alike("chat", 4, USUAL),
        replica("chat-odd", document=LARGE, labels={"zone": "eu-1"}),
        replica("embed-1", pool="embed", document=LARGE),
        down("gone", pool="embed"),
    ]
    return fleet(members, [USUAL, LARGE])


def shown(built: Fleet, path: str = SIZE, choice: SettingFilter = EVERY_SETTING) -> list[tuple[str, str, int]]:
    """Pool, value and number of replicas of each row."""
    return [(each.pool, each.value.value, len(each.replicas)) for each in pool_values(built, path, choice)]


def found(choice: SettingFilter) -> list[str]:
    return found_settings(setting_values(mixed(), choice), choice.search)["path"].to_list()


def test_a_pool_that_differs_is_first_and_its_rarest_value_above_the_others() -> None:
    assert shown(mixed()) == [("chat", "32", 1), ("chat", "16", 4), ("embed", "32", 1)]


def test_of_values_that_tie_none_is_the_usual_one() -> None:
    """Of two replicas with other blocks, neither is right."""
    tied = fleet([replica("one", document=USUAL), replica("two", document=LARGE)], [USUAL, LARGE])

    assert [each.is_most for each in pool_values(tied, SIZE)] == [False, False]


def test_a_setting_has_the_severity_of_its_findings_else_that_of_the_verdict_that_it_splits() -> None:
    without = with_findings(mixed())
    on_one = with_findings(without, finding(without, ["chat-odd"]))
    views = [
        view
        for each in (without, on_one)
        for view in (setting_report(each, SIZE), settings_report(each, SettingFilter(search=SIZE)))
    ]
    tones = [[row[1].tone for row in tables_of([part(view, VALUES)])[-1].rows] for view in views]

    assert tones == [
        [Tone.INFO, Tone.PLAIN, Tone.PLAIN],
        [Tone.INFO],
        [Tone.CRITICAL, Tone.PLAIN, Tone.PLAIN],
        [Tone.CRITICAL],
    ]


@pytest.mark.parametrize(
    ("choice", "replicas"),
    [
        (SettingFilter(pool="ch*t"), 5),
        (SettingFilter(label="zone=eu-1"), 1),
        (SettingFilter(role="decode"), 0),
    ],
)
def test_filters_choose_the_replicas(choice: SettingFilter, replicas: int) -> None:
    assert sum(number for *_, number in shown(mixed(), choice=choice)) == replicas


def test_the_lead_is_the_answer_for_the_fleet() -> None:
    assert setting_report(mixed(), SIZE).lead == "16 on most replicas, 32 on 2 replicas in 2 pools. Mixed in chat."
    assert setting_report(mixed(), TIMEOUT).lead == "Not reported by 6 replicas."
    alone = fleet(alike("chat", 3, USUAL), [USUAL])
    assert setting_report(alone, SIZE).lead == "16 on all 3 replicas."
    tied = fleet([replica("one", document=USUAL), replica("two", document=LARGE)], [USUAL, LARGE])
    assert setting_report(tied, SIZE).lead == "16 on 1 replica in chat, 32 on 1 replica in chat. Mixed in chat."
    nothing = setting_report(mixed(), SIZE, SettingFilter(pool="x"))
    assert nothing.lead == "No replica matches the filters."


def test_an_unknown_setting_is_no_value_and_differs_from_none() -> None:
    """The list, the page and the search agree on the pools that differ."""
    unknown = document({HASH_SIZE: Setting("null", State.UNKNOWN, Source.SERVER_INFO)})
    built = fleet([replica("one", document=USUAL), *alike("chat", 4, unknown)], [USUAL, unknown])
    row = found_settings(setting_values(built)).set_index("path").loc[HASH_SIZE]
    values = list(pool_values(built, HASH_SIZE))

    assert (row.differing, row.number, row.value) == (0, 1, "16")
    assert (values[-1].value.value, [each.is_most for each in values]) == ("16", [False, True])
    assert setting_report(built, HASH_SIZE).lead == "16 on 1 replica. Unknown on 4 replicas."
    (group,) = search_hits(built, HASH_SIZE, list_findings(built))
    assert "differs" not in group.hits[0].remark


def test_a_version_without_the_setting_is_unsupported_and_others_do_not_report_it() -> None:
    old, new = (replica(name, document=USUAL, version=version) for name, version in (("a", "0.20.2"), ("b", "0.33.0")))
    known = pool_values(fleet([old, new], [USUAL]), TIMEOUT)

    assert {each.value.state: each.replicas[0].name for each in known} == {State.UNSUPPORTED: "a", State.ABSENT: "b"}


@pytest.mark.parametrize(
    ("choice", "first"),
    [
        (SettingFilter(), SIZE),  # pools differ in it
        (SettingFilter(search="BLOCK size 32"), SIZE),
        (SettingFilter(search="sha256"), "cache_config.prefix_caching_hash_algo"),
    ],
)
def test_a_search_finds_paths_and_values(choice: SettingFilter, first: str) -> None:
    assert found(choice)[0] == first


@pytest.mark.parametrize(
    ("choice", "number", "replicas"),
    [
        (SettingFilter(label="zone=eu-1"), 1, 1),
        (SettingFilter(version="0.32.0", role="both", pool="ch*"), 2, 5),
        (SettingFilter(version="0.1.0"), 0, 0),
    ],
)
def test_a_list_of_settings_counts_only_the_replicas_of_the_filters(
    choice: SettingFilter, number: int, replicas: int
) -> None:
    rows = found_settings(setting_values(mixed(), choice))
    sizes = rows[rows["path"] == SIZE]

    assert (sizes["number"].sum(), sizes["replicas"].sum()) == (number, replicas)


def test_pools_with_the_same_documents_are_one_kind_and_each_counts() -> None:
    members = [
        *alike("a", 2, USUAL),
        *alike("a", 1, LARGE, first=3),
        *alike("b", 1, USUAL),
        *alike("b", 2, LARGE, first=2),
    ]
    rows = setting_values(fleet([*members, *alike("c", 2, USUAL)], [USUAL, LARGE]))
    sizes = rows[rows["path"] == SIZE]

    assert sorted(zip(sizes["value"], sizes["replicas"], sizes["pools"], strict=True)) == [
        ("16", 2, 1),
        ("16", 3, 2),
        ("32", 3, 2),
    ]
    assert dict(found_settings(rows).set_index("path").loc[SIZE, ["differing", "replicas"]]) == {
        "differing": 2,
        "replicas": 8,
    }


def test_the_field_reference_has_a_row_per_declaration() -> None:
    (table,) = tables_of([part(setting_report(mixed(), "scheduler_config.async_scheduling"), "declared")])

    assert [[cell.text for cell in row] for row in table.rows] == [
        ["0.12.0 to before 0.14.1", "bool", "false", "--async-scheduling"],
        ["0.14.1 to before 0.17.1", "bool", "null", "--async-scheduling"],
        ["0.17.1 and newer", "bool | None", "null", "--async-scheduling"],
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("scheduler_config.max_num_seqs", "computed (EngineArgs.create_engine_config)"),
        ("scheduler_config.max_num_partial_prefills", "0.12.0 to 0.26.0"),
        ("env.VLLM_SERVER_DEV_MODE", "VLLM_SERVER_DEV_MODE"),
        ("env.PYTHONHASHSEED", "Not in the field reference: not a variable of vLLM."),
        ("not.invented.yet", "Not in the field reference: no vLLM version declares it."),
    ],
)
def test_a_default_is_computed_or_a_literal_and_a_setting_may_be_removed_or_unknown(path: str, text: str) -> None:
    odd = document({"env.PYTHONHASHSEED": "0", "not.invented.yet": 1})

    assert text in text_of(setting_report(fleet([replica("one", document=odd)], [odd]), path))


@pytest.mark.parametrize(
    ("path", "similar"),
    [
        ("blok_size", [SIZE]),
        ("block_size", [SIZE]),
        ("cache_config.blocksize", [SIZE]),
        ("prefix_caching_hash", ["cache_config.prefix_caching_hash_algo"]),
        ("zzz", []),
    ],
)
def test_a_path_that_nothing_has_is_no_setting_and_leads_to_similar_ones(path: str, similar: list[str]) -> None:
    shown = setting_report(mixed(), path)

    assert shown.lead == "No such setting: no replica reports it, and no vLLM version has it."
    assert all(each in text_of(shown) for each in similar)
    assert ("Search the list of settings" in text_of(shown)) == (not similar)
    assert similar_settings(mixed(), SIZE) is None


def test_a_setting_with_several_values_has_a_histogram_here_and_in_the_list() -> None:
    (values,) = (each for each in part(setting_report(mixed(), SIZE), VALUES).blocks if isinstance(each, Gauges))
    (table,) = tables_of([part(settings_report(mixed(), SettingFilter(search=SIZE)), VALUES)])

    assert [(each.label, each.mark) for each in values.items] == [("16", "4 replicas"), ("32", "2 replicas")]
    assert [(cell.text, cell.spread) for cell in table.rows[0] if cell.spread] == [("16: 4, 32: 2", (4, 2))]


def test_one_severity_of_a_setting_on_every_page() -> None:
    """A finding in another pool, or on equal values, marks nothing; a suppressed one neither."""
    built = with_findings(mixed())
    in_chat = with_findings(built, finding(built, ["chat-odd"]))
    (chat, embed) = in_chat.pools
    found = tuple(replace(each, suppression=suppression()) for each in in_chat.inspection.findings)
    hidden = replace(in_chat, inspection=replace(in_chat.inspection, findings=(), suppressed=found))

    assert setting_severities(in_chat, chat)[SIZE] is Severity.CRITICAL
    assert SIZE not in setting_severities(in_chat, embed)
    assert SIZE not in setting_severities(hidden, chat)
    assert SIZE in suppressed_settings(hidden, chat)


def test_json_has_native_values_and_null_where_nothing_is_reported() -> None:
    content = setting_object(SIZE, pool_values(mixed(), SIZE))

    assert [(each["pool"], each["value"], each["state"]) for each in content["values"]] == [
        ("chat", 32, "reported"),
        ("chat", 16, "reported"),
        ("embed", 32, "reported"),
    ]
    assert content["declared"][0]["since"] == "0.12.0"
    assert json.loads(json.dumps(content)) == content
    assert {each["value"] for each in setting_object("x", pool_values(mixed(), "x"))["values"]} == {None}


def test_of_very_many_replicas_the_first_are_listed() -> None:
    built = fleet(alike("chat", MOST_ROWS + 2, USUAL), [USUAL])
    table = part(setting_report(built, "version", has_replicas=True), REPLICAS).blocks[0]

    assert isinstance(table, Table)
    assert (len(table.rows), table.note) == (MOST_ROWS, "2 more are not listed.")


def test_a_finding_without_a_setting_has_no_values() -> None:
    built = story()
    table = affected_section(built, finding(built, evidence=())).blocks[0]

    assert isinstance(table, Table)
    assert [each.title for each in table.columns] == ["Replica", "Affected", "Pool", "Cohort"]
