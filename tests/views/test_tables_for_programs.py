"""Tables that programs read: plain numbers, whole lists, findings in one shape everywhere."""

import csv
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd
import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.findings import CONTRACT
from dashboard.fleet import Note
from dashboard.render.export import Format, written
from dashboard.rules.findings import Finding, Severity
from dashboard.views.blocks import View
from dashboard.views.capacity import capacity_report
from dashboard.views.finding_data import COLUMNS
from dashboard.views.findings import findings_report
from dashboard.views.overview import overview_report
from dashboard.views.review import review_report
from tests.builders import alike, document, engine, fleet, replica, story
from tests.findings_builder import finding, inspected_story, suppression, with_findings
from tests.views.large_fleets import large
from tests.views.walking import part, tables_of

STORY = story()
FIELDS = [column.title for column in COLUMNS]
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def files_of(report: View) -> dict[str, str]:
    """The CSV files of a report by their names."""
    with zipfile.ZipFile(io.BytesIO(written(report, Format.CSV))) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def rows_of(report: View, name: str) -> list[dict[str, str]]:
    """The rows of one CSV file."""
    lines = [line for line in files_of(report)[name].splitlines() if not line.startswith("# ")]
    return list(csv.DictReader(lines))


def test_findings_say_all_that_a_program_needs_by_the_names_of_the_json_document() -> None:
    """Severity, rule, id, pools, every replica, what is wrong, what to do."""
    everyone = [each.name for each in STORY.replicas if each.pool == "chat-70b"]
    told = finding(STORY, everyone)
    (row,) = rows_of(review_report(with_findings(STORY, told)), "findings.csv")

    assert (row["severity"], row["rule"], row["id"], row["pools"]) == ("critical", "RT-01", told.id, "chat-70b")
    assert sorted(row["replicas"].split(", ")) == sorted(everyone)
    assert len(row["addresses"].split(", ")) == len(everyone)
    assert (row["sentence"], row["remedy"], row["snippets"]) == (
        told.sentence,
        told.remedy.sentence,
        "'--block-size 16",
    )
    assert set(FIELDS) - {key.name for key in CONTRACT.types[Finding].keys} == {"addresses", "snippets", "paths"}


def test_a_finding_of_the_whole_fleet_is_where_its_pools_are() -> None:
    """As on the page of findings and in `check`: `fleet` would send the reader nowhere."""
    many = [
        finding(STORY, id=f"{number}", rule="ID-05", subject="fleet", sentence=f"{number} of 7.") for number in range(5)
    ]
    quiet = replace(many[0], id="quiet", suppression=suppression())
    report = review_report(with_findings(STORY, *many, suppressed=(quiet,)))
    (table,) = tables_of([part(report, "all-findings")])
    (suppressed,) = tables_of([part(report, "suppressed")])

    assert {row[2].text for row in table.rows} == {"chat-70b"}
    assert suppressed.rows[0][1].text.startswith("chat-70b · ")
    assert {row["pools"] for row in rows_of(report, "findings.csv")} == {"chat-70b"}


@pytest.mark.parametrize("view", [review_report, findings_report, overview_report])
def test_findings_have_one_shape_in_every_file(view: Callable[[Fleet], View]) -> None:
    """Each stands once, the worst first; only the overview leaves some out."""
    built = inspected_story()
    rows = rows_of(view(built), "findings.csv")
    ids = [each.id for each in built.inspection.findings]

    assert list(rows[0]) == FIELDS
    assert [row["id"] for row in rows] == ids[: len(rows)] if view is overview_report else ids


def test_what_is_suppressed_has_the_shape_of_findings_with_who_answers_for_it() -> None:
    """All of it, also where people are told the first ones."""
    by = suppression()
    quiet = [finding(STORY, id=f"{number}", suppression=by) for number in range(120)]
    report = review_report(with_findings(STORY, suppressed=tuple(quiet)))
    rows = rows_of(report, "suppressed.csv")

    assert list(rows[0]) == [*FIELDS, "owner", "until", "reason"]
    assert len(rows) == 120
    assert len(tables_of([part(report, "suppressed")])[0].rows) == 100
    assert (rows[0]["owner"], rows[0]["until"], rows[0]["reason"]) == (by.owner, str(by.until), by.reason)


def test_findings_that_changed_have_the_shape_of_findings_with_what_became_of_them() -> None:
    """New, gone and changed ones in one file."""
    known = finding(STORY, id="1")
    before = with_findings(STORY, known, finding(STORY, id="2", sentence="Gone."))
    now = with_findings(STORY, replace(known, severity=Severity.WARNING), finding(STORY, id="3", sentence="New."))
    rows = rows_of(review_report(now, before=before), "new-finding-changes.csv")

    assert list(rows[0]) == ["change", *FIELDS, "what_changed"]
    assert {row["change"]: row["id"] for row in rows} == {"new": "3", "gone": "2", "changed": "1"}


def test_what_was_agreed_is_a_list_of_actions() -> None:
    """Owner, note, time, finding each in its column; notes on parts of the agenda have no finding."""
    built = with_findings(STORY, finding(STORY))
    notes = {"0123456789": Note("drain it", "ann", AT), "capacity": Note("order two", "bob"), "lost": Note("?")}
    first, second, third = rows_of(review_report(built, notes=notes), "agreed.csv")

    assert (first["owner"], first["note"], first["at"]) == ("ann", "drain it", "2026-03-02T12:00:00Z")
    assert (first["rule"], first["id"], first["pools"]) == ("RT-01", "0123456789", "chat-70b")
    assert (second["owner"], second["about"], second["id"]) == ("bob", "Capacity by pool", "")
    assert third["about"] == "Finding no longer found: lost"


def test_sums_of_pools_can_be_added_up_and_say_of_how_many_ranks_they_are() -> None:
    """No separators, no signs, no words in a column of numbers."""
    members = alike("chat", 3, document(), engines=(engine(1_200_000, kv_cache_bytes=2**31),))
    members.append(replica("chat-9", document=document(), engines=(engine(800_000, kv_cache_bytes=None),)))
    files = files_of(capacity_report(fleet(members, [document()])))
    pools = pd.read_csv(io.StringIO(files["capacity-of-pools.csv"]), comment="#")
    ranks = pd.read_csv(io.StringIO(files["ranks-chat.csv"]), comment="#")
    outliers = pd.read_csv(io.StringIO(files["outliers.csv"]), comment="#")

    assert pools[["KV tokens", "Ranks", "KV GiB", "Ranks with KV GiB"]].iloc[0].tolist() == [4_400_000, 4, 6.0, 3]
    assert ranks["KV tokens"].sum() == 4_400_000
    assert ranks["To the median (%)"].dropna().tolist() == [-33.33]
    assert outliers["To the median (%)"].tolist() == [-33.33]


def test_cohorts_and_what_was_not_read_name_everyone() -> None:
    """People are told the first ones."""
    members = [*alike("chat", 40, document()), replica("chat-odd", document=document({"cache_config.block_size": 32}))]
    report = review_report(fleet(members, [document(), document({"cache_config.block_size": 32})]))
    first, _ = rows_of(report, "cohorts-chat.csv")

    assert len(first["Who"].split(", ")) == 40
    assert [row["replica"] for row in rows_of(review_report(STORY), "not-read.csv")] == [
        each.name for each in STORY.replicas if each.state != "up"
    ]


@pytest.mark.no_cover
def test_a_thousand_replicas_are_all_there() -> None:
    """Whatever a page of paper leaves out."""
    built = fleet(*large())
    everyone = [each.name for each in built.replicas]
    rows = rows_of(review_report(with_findings(built, finding(built, everyone))), "findings.csv")

    assert len(rows[0]["replicas"].split(", ")) == 1_000


def test_lists_that_programs_read_elsewhere_are_no_second_file() -> None:
    """What is wrong first, and the notes below a part, stand among the findings and among what was agreed."""
    notes = {"fine": Note("ok", "ann"), "capacity": Note("order", "bob")}
    names = set(files_of(review_report(inspected_story(), notes=notes)))

    assert {"findings.csv", "agreed.csv"} <= names
    assert not names & {"fine.csv", "capacity.csv", "severity-critical.csv"}
