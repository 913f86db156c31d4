"""Tables for programs: plain numbers, complete lists, findings with the same columns in every file."""

import csv
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd
import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note
from dashboard.render.export import Format, written
from dashboard.rules.findings import Severity
from dashboard.views.blocks import View
from dashboard.views.capacity import capacity_report
from dashboard.views.finding_text import COLUMNS
from dashboard.views.findings import findings_report
from dashboard.views.review import review_report
from tests.builders import alike, document, engine, fleet, replica, story
from tests.docs_pages import schema
from tests.findings_builder import finding, inspected_story, suppression, with_findings
from tests.views.large_fleets import large
from tests.views.walking import part, tables_of

STORY = story()
FIELDS = [column.title for column in COLUMNS]
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def files_of(report: View) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(written(report, Format.CSV))) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def rows_of(report: View, name: str) -> list[dict[str, str]]:
    lines = [line for line in files_of(report)[name].splitlines() if not line.startswith("# ")]
    return list(csv.DictReader(lines))


def test_a_finding_has_the_columns_of_the_json_document_and_all_its_replicas() -> None:
    everyone = [each.name for each in STORY.replicas if each.pool == "chat-70b"]
    only = finding(STORY, everyone)
    (row,) = rows_of(review_report(with_findings(STORY, only)), "findings.csv")

    assert (row["severity"], row["rule"], row["id"], row["pools"]) == ("critical", "RT-01", only.id, "chat-70b")
    assert sorted(row["replicas"].split(", ")) == sorted(everyone)
    assert len(row["addresses"].split(", ")) == len(everyone)
    assert (row["sentence"], row["remedy"]) == (only.sentence, only.remedy.sentence)
    assert row["snippets"] == "'--block-size 16"
    keys = schema("findings")["$defs"]["Finding"]["properties"].keys()
    assert set(FIELDS) - keys == {"addresses", "snippets", "paths"}


def test_a_finding_of_a_rule_on_the_whole_fleet_has_its_pools() -> None:
    many = [
        finding(STORY, id=f"{number}", rule="ID-05", subject="fleet", sentence=f"{number} of 7.") for number in range(5)
    ]
    hidden = replace(many[0], id="hidden", suppression=suppression())
    report = review_report(with_findings(STORY, *many, suppressed=(hidden,)))

    assert {row[2].text for row in tables_of([part(report, "all-findings")])[0].rows} == {"chat-70b"}
    assert tables_of([part(report, "suppressed")])[0].rows[0][1].text.startswith("chat-70b · ")
    assert {row["pools"] for row in rows_of(report, "findings.csv")} == {"chat-70b"}


@pytest.mark.parametrize("view", [review_report, findings_report])
def test_findings_have_the_same_columns_in_every_file_the_worst_first(view: Callable[[Fleet], View]) -> None:
    built = inspected_story()
    rows = rows_of(view(built), "findings.csv")
    ids = [each.id for each in built.inspection.findings]

    assert list(rows[0]) == FIELDS
    assert [row["id"] for row in rows] == ids


def test_suppressed_findings_have_owner_date_and_reason_and_are_complete() -> None:
    by = suppression()
    hidden = [finding(STORY, id=f"{number}", suppression=by) for number in range(120)]
    report = review_report(with_findings(STORY, suppressed=tuple(hidden)))
    rows = rows_of(report, "suppressed.csv")

    assert list(rows[0]) == [*FIELDS, "owner", "author", "until", "reason"]
    assert (len(rows), len(tables_of([part(report, "suppressed")])[0].rows)) == (120, 100)
    assert (rows[0]["owner"], rows[0]["until"], rows[0]["reason"]) == (by.owner, str(by.until), by.reason)


def test_changed_findings_have_the_kind_of_change() -> None:
    known = finding(STORY, id="1")
    before = with_findings(STORY, known, finding(STORY, id="2", sentence="Fixed."))
    now = with_findings(STORY, replace(known, severity=Severity.WARNING), finding(STORY, id="3", sentence="New."))
    rows = rows_of(review_report(now, before=before), "new-finding-changes.csv")

    assert list(rows[0]) == ["change", *FIELDS, "what_changed"]
    assert {row["change"]: row["id"] for row in rows} == {"new": "3", "fixed": "2", "changed": "1"}


def test_notes_are_rows_with_owner_time_and_finding_and_no_second_file() -> None:
    built = with_findings(STORY, finding(STORY))
    notes = {"0123456789": Note("drain it", "ann", AT), "capacity": Note("order two", "bob"), "old": Note("?")}
    report = review_report(built, notes=notes)
    first, second, third = rows_of(report, "agreed.csv")

    assert (first["owner"], first["note"], first["at"]) == ("ann", "drain it", "2026-03-02T12:00:00Z")
    assert (first["rule"], first["id"], first["pools"]) == ("RT-01", "0123456789", "chat-70b")
    assert (second["owner"], second["about"], second["id"]) == ("bob", "Capacity by pool", "")
    assert third["about"] == "Finding no longer found: old"
    assert not set(files_of(report)) & {"fine.csv", "capacity.csv", "severity-critical.csv"}


def test_capacity_has_plain_numbers_that_can_be_added() -> None:
    members = alike("chat", 3, document(), engines=(engine(1_200_000, kv_cache_bytes=2**31),))
    members.append(replica("chat-9", document=document(), engines=(engine(800_000, kv_cache_bytes=None),)))
    files = files_of(capacity_report(fleet(members, [document()])))
    pools, ranks, outliers = (
        pd.read_csv(io.StringIO(files[f"{name}.csv"]), comment="#")
        for name in ("capacity-of-pools", "ranks-chat", "outliers")
    )

    assert pools[["kv_tokens", "ranks", "kv_gib", "ranks_with_kv_gib"]].iloc[0].tolist() == [4_400_000, 4, 6.0, 3]
    assert ranks["kv_tokens"].sum() == 4_400_000
    assert ranks["to_the_median_percent"].dropna().tolist() == [-33.33]
    assert outliers["to_the_median_percent"].tolist() == [-33.33]


def test_cohorts_and_unreachable_replicas_have_all_names() -> None:
    documents = [document(), document({"cache_config.block_size": 32})]
    members = [*alike("chat", 40, documents[0]), replica("chat-odd", document=documents[1])]
    first, _ = rows_of(review_report(fleet(members, documents)), "cohorts-chat.csv")

    assert len(first["names"].split(", ")) == 40
    assert [row["replica"] for row in rows_of(review_report(STORY), "not-read.csv")] == [
        each.name for each in STORY.replicas if each.state != "up"
    ]


@pytest.mark.no_cover
def test_a_finding_on_a_thousand_replicas_has_all_of_them() -> None:
    built = fleet(*large())
    everyone = [each.name for each in built.replicas]
    rows = rows_of(review_report(with_findings(built, finding(built, everyone))), "findings.csv")

    assert len(rows[0]["replicas"].split(", ")) == 1_000
