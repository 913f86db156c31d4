"""The table of all replicas: its rows, its filters, its CSV."""

import csv
import io
from datetime import timedelta

import pandas as pd
import pytest

from dashboard.fleet import FailureKind, ReplicaState, Role, Source
from dashboard.report.replicas.table import EXPORTED, SHOWN, filtered, rows_of, shown, to_csv
from dashboard.rules.findings import Severity
from tests.builders import HASHING, HOSTILE, NOW, alike, document, down, fleet, replica, story
from tests.findings_builder import finding, with_findings

USUAL = document()
OTHER = document({"cache_config.block_size": 32})


def rows() -> pd.DataFrame:
    """Four that agree, one that does not, one that is down."""
    members = [
        *alike("chat", 4, USUAL),
        replica("odd", document=OTHER, labels={"zone": "eu-1", "pool": "chat"}),
        down("gone", pool="embed", detail="Nothing listens there."),
    ]
    return rows_of(fleet(members, [USUAL, OTHER]))


def test_every_replica_is_a_row_with_its_number_of_differences() -> None:
    table = rows()
    assert table["name"].to_list() == ["gone", "odd", "chat-01", "chat-02", "chat-03", "chat-04"]
    assert table["differences"].to_list()[1:] == [1, 0, 0, 0, 0]
    assert pd.isna(table["differences"].iloc[0])  # never read: nobody knows
    assert table["labels"].iloc[1] == "pool=chat zone=eu-1"


def test_what_is_wrong_stands_first() -> None:
    """Down, then by the worst finding, what differs most, and the rest by name."""
    two = document({"cache_config.block_size": 32, "cache_config.gpu_memory_utilization": 0.5})
    members = [
        *alike("chat", 3, USUAL),
        replica("a-one", document=OTHER),
        replica("b-two", document=two),
        replica("part", document=USUAL, state=ReplicaState.PARTIAL),
        down("gone"),
    ]
    table = rows_of(fleet(members, [USUAL, OTHER, two], policy=HASHING))
    assert table["name"].to_list() == ["gone", "b-two", "a-one", "part", "chat-01", "chat-02", "chat-03"]


@pytest.mark.parametrize(
    ("pool", "state", "search", "names"),
    [
        (None, None, "", 6),
        ("embed", None, "", ["gone"]),
        (None, "down", "", ["gone"]),
        ("chat", "down", "", []),
        (None, None, "ZONE=eu", ["odd"]),
        (None, None, "http://odd:8000", ["odd"]),
        (None, None, "chat 03", ["chat-03"]),
        (None, None, "chat-.*", []),
        ("no such pool", None, "", []),
    ],
)
def test_filters_leave_what_matches_all_of_them(
    pool: str | None, state: str | None, search: str, names: int | list[str]
) -> None:
    """A search is words, not a pattern, and does not mind capitals."""
    kept = filtered(rows(), pool=pool, state=state, search=search)
    assert (len(kept) if isinstance(names, int) else kept["name"].to_list()) == names


def test_a_replica_without_a_pool_is_in_no_pool() -> None:
    table = rows_of(fleet([replica(pool=None)]))
    assert filtered(table, pool="chat", state=None, search="").empty


def test_the_page_shows_state_and_age_in_words() -> None:
    table = shown(rows(), NOW)
    assert tuple(table.columns) == tuple(name for name in SHOWN if name != "Role")
    assert table["State"].to_list()[:2] == ["? down, connection refused", "up"]
    assert table["Read"].to_list()[:2] == ["never", "8 s ago"]
    assert table["Reason"].iloc[0] == "Nothing listens there."


def test_without_a_clock_that_runs_times_are_told_and_no_ages() -> None:
    """`2 s ago` in what was frozen yesterday would be read as now."""
    read = shown(rows(), None)["Read"].to_list()

    assert read[:2] == ["never", f"{NOW - timedelta(seconds=8):%Y-%m-%dT%H:%M:%SZ}"]
    assert not [each for each in read if "ago" in each]


def test_an_unreadable_answer_is_not_named_like_the_role_decode() -> None:
    one = down("a", role=Role.DECODE, kind=FailureKind.DECODE, detail="It is no JSON: at 1.")
    table = shown(rows_of(fleet([one])), NOW)
    assert table["State"].to_list() == ["? down, unreadable answer"]
    assert table["Reason"].to_list() == ["It is no JSON: at 1."]


def test_a_tie_is_no_difference_of_either_side() -> None:
    tied = fleet([replica("a", document=USUAL), replica("b", document=OTHER)], [USUAL, OTHER])
    assert rows_of(tied)["differences"].to_list() == [0, 0]


@pytest.mark.parametrize(
    ("severities", "words"),
    [
        ([], None),
        ([Severity.INFO], "i info"),
        ([Severity.CRITICAL] * 2, "! critical ×2"),
        ([Severity.CRITICAL, Severity.WARNING, Severity.INFO, Severity.INFO], "! critical +3"),
        ([Severity.WARNING] * 2 + [Severity.INFO], "▲ warning ×2 +1"),
    ],
)
def test_the_worst_finding_of_a_replica_is_named_and_the_others_are_counted(
    severities: list[Severity], words: str | None
) -> None:
    """No finding is left out of the numbers."""
    built = fleet([replica("chat-1", document=USUAL)], [USUAL])
    found = (finding(built, ["chat-1"], id=str(number), severity=each) for number, each in enumerate(severities))
    told = shown(rows_of(with_findings(built, *found)), NOW)["Findings"].iloc[0]

    assert (None if pd.isna(told) else told) == words


def test_a_column_that_says_nothing_is_left_out() -> None:
    """Reasons where one is not up, roles where one is not both; what a narrow page cuts off stands last."""
    whole = shown(rows_of(fleet(alike("chat", 2, USUAL), [USUAL])), NOW)
    decoding = shown(rows_of(fleet([*alike("chat", 2, USUAL), replica("d", role=Role.DECODE)], [USUAL])), NOW)

    assert {"Reason", "Role"}.isdisjoint(whole.columns)
    assert list(shown(rows(), NOW).columns[6:9]) == ["vLLM", "Reason", "Best answer"]
    assert decoding["Role"].to_list() == ["both", "both", "decode"]


def test_the_best_answer_says_which_replicas_have_the_provider() -> None:
    members = [replica("a", sources=(Source.PROVIDER, Source.METRICS)), replica("b", sources=(Source.METRICS,))]
    table = shown(rows_of(fleet([*members, down("c")])), NOW).set_index("Replica")

    assert table["Best answer"].dropna().to_dict() == {"a": "the provider", "b": "/metrics"}


def test_old_data_are_told_by_their_age() -> None:
    old = replica(fresh=False, observed_at=NOW - timedelta(minutes=14))
    assert shown(rows_of(fleet([old])), NOW)["Read"].to_list() == ["14 min ago"]


def test_foreign_text_is_cut_to_one_line() -> None:
    table = shown(rows_of(fleet([replica("a\nb" + "x" * 999), down(detail=HOSTILE)])), NOW)
    assert table["Replica"].iloc[1].startswith("a bxxx")
    assert len(table["Replica"].iloc[1]) == 200


def test_csv_holds_what_is_shown_with_whole_times_and_notes() -> None:
    kept = filtered(rows(), pool=None, state=None, search="odd")
    written = list(csv.reader(io.StringIO(to_csv(kept, ["prod-eu: 1 of 6 replicas"]))))
    assert written[0] == list(EXPORTED)
    told = dict(zip(written[0], written[1], strict=True))
    assert (told["id"], told["state"], told["differences"]) == ("http://odd:8000", "up", "1")
    assert told["observed_at"] == "2026-03-02T11:42:05Z"
    assert told["reason"] == ""
    assert told["best_answer"] == "/server_info"
    assert written[2] == ["prod-eu: 1 of 6 replicas"]


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1+1", "@x", " =1"])
def test_csv_holds_no_formula(name: str) -> None:
    """A spreadsheet would run it."""
    written = list(csv.reader(io.StringIO(to_csv(rows_of(fleet([replica(name)])), []))))
    assert written[1][1] == "'" + name


def test_the_rows_of_a_whole_story_are_told() -> None:
    table = rows_of(story())
    assert table["differences"].max() == 5
    assert set(table["state"]) == {"up", "partial", "down"}
