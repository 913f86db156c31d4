"""The page Replicas as a view: order, filters, table and CSV."""

import csv
import io
from dataclasses import replace
from datetime import timedelta

import pandas as pd
import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import FailureKind, PastTime, ReplicaState, Role, Source
from dashboard.fleet.formatting import natural
from dashboard.fleet.pieces import Age
from dashboard.render.tabular import to_table_csv
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Table, Tone
from dashboard.views.context import context_of
from dashboard.views.filters import Search, read_search
from dashboard.views.replicas import (
    EVERY_REPLICA,
    FIELDS,
    SORTED_BY,
    TITLES,
    ReplicaChoice,
    best_source,
    chosen_rows,
    replica_keys,
    replica_rows,
    replicas_data,
    replicas_report,
)
from dashboard.views.table import sort_name
from dashboard.views.traffic import why_no_rates
from tests.builders import HASHING, HOSTILE, NOW, POLLED_AT, alike, document, down, fleet, replica, story
from tests.findings_builder import finding, with_findings
from tests.used import traffic, with_traffic
from tests.views.walking import part, tables_of, text_of

USUAL = document()
OTHER = document({"cache_config.block_size": 32})


def mixed() -> Fleet:
    """Return a fleet with four equal replicas, one that differs, one that is down."""
    members = [
        *alike("chat", 4, USUAL),
        replica("odd", document=OTHER, labels={"zone": "eu-1", "pool": "chat"}),
        down("gone", pool="embed", detail="Nothing listens there."),
    ]
    return fleet(members, [USUAL, OTHER])


def table(built: Fleet, choice: ReplicaChoice = EVERY_REPLICA) -> Table:
    """Return the table of a fleet."""
    return tables_of([part(replicas_report(built, choice), "replicas")])[0]


def column(shown: Table, title: str) -> list[str]:
    """Return the texts of one column."""
    place = [each.title for each in shown.columns].index(title)
    return [row[place].text for row in shown.rows]


def test_unreachable_replicas_are_first_then_findings_partial_ones_differences_and_names() -> None:
    two = document({"cache_config.block_size": 32, "cache_config.gpu_memory_utilization": 0.5})
    members = [
        *alike("chat", 3, USUAL),
        replica("a-one", document=OTHER),
        replica("b-two", document=two),
        replica("part", document=USUAL, state=ReplicaState.PARTIAL),
        down("gone"),
    ]
    built = fleet(members, [USUAL, OTHER, two], policy=HASHING)

    assert column(table(built), "Replica") == ["gone", "b-two", "a-one", "part", "chat-01", "chat-02", "chat-03"]


def test_the_prefix_hit_rate_is_a_column_once_counters_were_read_twice() -> None:
    used = with_traffic(mixed(), {"chat-01": 0.62, "chat-02": 0.05, "chat-03": traffic(0.9, requests=2)})

    assert "Prefix hit rate" not in [each.title for each in table(mixed()).columns]
    assert column(table(used), "Prefix hit rate") == [
        *("unreachable", "not read twice yet", "62%", "5%", "not enough traffic", "not read twice yet")
    ]
    assert "Traffic of the last 15 min" in table(used).note


def test_replicas_without_a_hit_rate_are_last_and_the_lowest_rate_first() -> None:
    used = with_traffic(mixed(), {"chat-01": 0.62, "chat-02": 0.05, "chat-03": traffic(0.9, requests=2)})

    assert column(table(used, ReplicaChoice(sort="prefix-hit-rate")), "Replica")[:2] == ["chat-02", "chat-01"]
    assert column(table(used, ReplicaChoice(sort="-prefix-hit-rate")), "Replica")[:2] == ["chat-01", "chat-02"]


def test_a_past_time_has_no_traffic_of_replicas_and_says_so() -> None:
    past: Fleet = replace(with_traffic(mixed(), {}, 0.6), past=PastTime(NOW, None), recorded_traffic={})
    chosen = ReplicaChoice(columns=("Prefix hit rate", "Waiting"), sort="prefix-hit-rate")

    assert [each.title for each in table(past, chosen).columns] == [each.title for each in table(past).columns]
    assert replicas_report(past, chosen).lead == f"2 pools. {why_no_rates(past)}"
    assert replicas_report(past).lead == replicas_report(past, chosen).lead
    assert replicas_report(mixed()).lead == "2 pools. Traffic is off (option traffic)."
    assert "prefix_hit_rate" not in [each.key or each.title for each in table(past).data.columns]


def test_differences_count_only_against_a_majority() -> None:
    tied = fleet([replica("a", document=USUAL), replica("b", document=OTHER)], [USUAL, OTHER])

    assert column(table(mixed()), "Differs in") == ["", "1", "0", "0", "0", "0"]
    assert column(table(tied), "Differs in") == ["0", "0"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pool:chat state:down", []),
        ("state:incomplete", ["gone"]),
        ("ZONE=eu", ["odd"]),
        ("chat-.*", []),
        ("2026-02-28T11 odd", ["odd"]),
        ("cohort:A cohort:B 03", ["chat-03"]),
        ("02-28T11", []),
        ("version:0.32.0 pool:embed", []),
        ("source:/server_info odd", ["odd"]),
    ],
)
def test_filters_combine_and_a_search_is_words_not_a_pattern(text: str, names: list[str]) -> None:
    rows = replica_rows(mixed())
    assert chosen_rows(rows, ReplicaChoice(read_search(text, replica_keys(rows))))["name"].to_list() == names


def test_the_pool_of_all_pages_limits_the_list() -> None:
    rows = replica_rows(mixed())
    assert set(chosen_rows(rows, ReplicaChoice(pool="chat"))["pool"]) == {"chat"}
    assert chosen_rows(rows, ReplicaChoice(pool="unknown")).empty


def test_a_severity_chooses_replicas_with_any_finding_of_it() -> None:
    built = fleet(alike("chat", 3, USUAL), [USUAL])
    found = [
        finding(built, ["chat-01"], id="1"),
        finding(built, ["chat-01", "chat-02"], id="2", severity=Severity.INFO),
    ]
    rows = replica_rows(with_findings(built, *found))

    assert chosen_rows(rows, ReplicaChoice(read_search("severity:info", replica_keys(rows))))["name"].to_list() == [
        "chat-01",
        "chat-02",
    ]
    assert (
        len(chosen_rows(rows, ReplicaChoice(read_search("severity:info severity:critical", replica_keys(rows))))) == 2
    )
    assert chosen_rows(rows, ReplicaChoice(sort="findings"))["name"].to_list() == ["chat-02", "chat-01", "chat-03"]
    assert chosen_rows(rows, ReplicaChoice(sort="-findings"))["name"].to_list() == ["chat-01", "chat-02", "chat-03"]


@pytest.mark.parametrize(("title", "column"), SORTED_BY.items())
def test_a_sort_puts_replicas_without_a_value_last_in_both_directions(title: str, column: str) -> None:
    rows = replica_rows(with_traffic(story(), {"chat-70b": 0.6}))
    sort = sort_name(title)
    up, down = (chosen_rows(rows, ReplicaChoice(sort=each))[column] for each in (sort, f"-{sort}"))
    number = int(rows[column].replace("", pd.NA).notna().sum())

    assert sorted(up.index) == sorted(down.index) == list(rows.index)
    for each in (up, down):
        assert each.head(number).replace("", pd.NA).notna().all()
    if column != "worst":
        known = [natural(each) if isinstance(each, str) else each for each in up.head(number)]
        assert known == sorted(known)
        assert down.head(number).to_list() == sorted(
            up.head(number), key=lambda each: natural(each) if isinstance(each, str) else each, reverse=True
        )


def test_the_chosen_columns_follow_the_first() -> None:
    assert [each.title for each in table(mixed(), ReplicaChoice(columns=("Pool", "Address"))).columns] == [
        "Replica",
        "Pool",
        "Address",
    ]
    assert {each.title for each in table(mixed()).columns} <= set(TITLES)


def test_the_report_names_its_filters_and_counts_what_matches() -> None:
    report = replicas_report(story(), ReplicaChoice(Search("chat-70b-17", ("chat-70b-17",)), "chat-70b"))

    assert report.lead.startswith("1 of 18 replicas shown. ")
    assert ", 1 pool. " in replicas_report(story(), ReplicaChoice(Search("chat-70b-17", ("chat-70b-17",)))).lead
    assert report.context.filters == (("search", "chat-70b-17"), ("pool", "chat-70b"))
    assert "not-read" not in {each.anchor for each in report.parts}
    assert "No replica matches the filters." in text_of(
        replicas_report(story(), ReplicaChoice(Search("nowhere", ("nowhere",))))
    )


@pytest.mark.parametrize(
    ("severities", "text", "tone"),
    [
        ([], "", Tone.PLAIN),
        ([Severity.CRITICAL, Severity.WARNING, Severity.INFO, Severity.INFO], "critical +3", Tone.CRITICAL),
        ([Severity.WARNING] * 2 + [Severity.INFO], "warning ×2 +1", Tone.WARNING),
    ],
)
def test_findings_are_the_worst_severity_and_the_numbers(severities: list[Severity], text: str, tone: Tone) -> None:
    built = fleet([replica("chat-1", document=USUAL)], [USUAL])
    found = (finding(built, ["chat-1"], id=str(number), severity=each) for number, each in enumerate(severities))
    shown = table(with_findings(built, *found))
    cell = shown.rows[0][[each.title for each in shown.columns].index("Findings")]

    assert (cell.text, cell.tone) == (text, tone)


def test_a_state_has_the_kind_of_failure_and_no_severity() -> None:
    one = down("a", role=Role.DECODE, kind=FailureKind.DECODE, detail="It is no JSON: at 1.")
    stale = replica("b", target_stale=True)
    shown = table(fleet([one, stale]), ReplicaChoice(columns=("State", "Role")))

    assert column(shown, "State") == ["down, unreadable answer", "up, stale target"]
    assert [row[1].tone for row in shown.rows] == [Tone.UNKNOWN, Tone.PLAIN]
    assert shown.rows[0][1].note == "It is no JSON: at 1."
    assert column(shown, "Role") == ["decode", "both"]


def test_the_time_of_the_last_answer_has_its_age_for_live_pages() -> None:
    at = NOW - timedelta(minutes=14)
    shown = table(fleet([replica(fresh=False, observed_at=at), down("b")]), ReplicaChoice(columns=("Read",)))
    place = [each.title for each in shown.columns].index("Read")

    assert column(shown, "Read") == ["never", f"{at:%Y-%m-%dT%H:%M:%SZ}"]
    assert [row[place].age for row in shown.rows] == [None, Age(at)]


def test_the_most_trusted_source_is_named() -> None:
    assert best_source((Source.METRICS, Source.PROVIDER, Source.SERVER_INFO)) == "the provider"
    assert best_source((Source.VERSION, Source.METRICS)) == "/metrics"
    assert best_source(()) is None


def test_foreign_text_is_cut_to_one_line() -> None:
    name = column(table(fleet([replica("a\nb" + "x" * 999), down(detail=HOSTILE)])), "Replica")[1]

    assert name.startswith("a bxxx")
    assert len(name) == 200


def csv_rows(built: Fleet, choice: ReplicaChoice = EVERY_REPLICA) -> list[dict[str, str]]:
    """Return the rows of the CSV of a fleet."""
    text = to_table_csv(replicas_data(chosen_rows(replica_rows(built), choice)), context_of(built))
    return list(csv.DictReader(io.StringIO("".join(each for each in text.splitlines(True) if each[0] != "#"))))


def test_the_csv_has_all_columns_whole_times_and_plain_numbers() -> None:
    (row,) = csv_rows(with_traffic(mixed(), {"odd": 0.62}), ReplicaChoice(Search("odd", ("odd",))))

    assert list(row) == [field.key or field.name for field in FIELDS if not field.is_shown_only]
    assert (row["prefix_hit_rate"], row["requests_per_minute"], row["prefix_hit_rate_missing"]) == ("0.62", "20", "")
    assert (row["id"], row["state"], row["differences"], row["critical"]) == ("http://odd:8000", "up", "1", "0")
    assert row["observed_at"] == f"{POLLED_AT:%Y-%m-%dT%H:%M:%SZ}"
    assert (row["reason"], row["best_answer"], row["labels"]) == ("", "/server_info", "pool=chat zone=eu-1")
    assert csv_rows(mixed())[0]["reason"] == "refused: Nothing listens there."


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1+1", "@x", " =1"])
def test_the_csv_has_no_formula(name: str) -> None:
    assert csv_rows(fleet([replica(name)]))[0]["name"] == "'" + name


def test_a_long_list_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.views.replicas.MOST_ROWS", 4)

    assert len(table(mixed()).rows) == 4
    assert table(mixed()).note.endswith("2 more are not listed.")
