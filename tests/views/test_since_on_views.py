"""Since when, in every view and its exports, and the choice of what is new."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.changes import changes_between
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import to_plain
from dashboard.render.export import Format, written
from dashboard.rules.findings import Severity
from dashboard.views.blocks import DifferenceTable, Entries, Section, Table, View
from dashboard.views.changes import changes_report
from dashboard.views.compare import cohort_blocks, compare_report, setting_blocks
from dashboard.views.context import context_of
from dashboard.views.finding_list import FindingFilter, group_findings, list_findings, newest_of, sort_findings
from dashboard.views.findings import finding_section, findings_report, list_section
from dashboard.views.replica import replica_report
from dashboard.views.replicas import ReplicaChoice, replica_rows, replicas_data, replicas_report
from dashboard.views.review import FINDINGS, agenda_counts, review_report
from dashboard.views.review_pools import DIFFERENCES
from dashboard.views.since import NEWEST_FIRST, Recency
from tests.builders import NOW, POLLED_AT, alike, document, fleet, replica, story
from tests.findings_builder import finding, inspected_story, sighted, with_findings
from tests.views.walking import blocks_of, entries_of, part, text_of

SIZE, SEQS = "cache_config.block_size", "scheduler_config.max_num_seqs"
HOUR = timedelta(hours=1)
NEW = Sighting(POLLED_AT - HOUR, POLLED_AT - HOUR, POLLED_AT - 2 * HOUR)
OLD = Sighting(POLLED_AT - 90 * HOUR, POLLED_AT - 90 * HOUR, POLLED_AT - 91 * HOUR)
ALWAYS = Sighting(POLLED_AT - 99 * HOUR, POLLED_AT - 99 * HOUR)
DAY = Recency(POLLED_AT - 24 * HOUR)
SINCE = "since 2026-03-02T10:42:05Z, not at 09:42:05 UTC"
EVERYWHERE = sighted(inspected_story())


def seen(built: Fleet, *of_findings: Sighting | None, **more: object) -> Fleet:
    """The fleet with these sightings of its findings, in their order."""
    found = dict(zip((each.fingerprint for each in built.inspection.findings), of_findings, strict=True))
    known = {key: each for key, each in found.items() if each}
    return replace(built, sightings=replace(NO_SIGHTINGS, findings=known, **more))  # type: ignore[arg-type]


def three() -> Fleet:
    """A fleet with a finding of two pools, new in one, and two other ones: an old one, and one from the begin."""
    built = story()
    same = [finding(built, [name], id=name, sentence="S") for name in ("chat-70b-16", "gemma-27b-01")]
    other = [finding(built, rule=rule, id=rule, severity=Severity.WARNING) for rule in ("RT-02", "RT-03")]
    return seen(with_findings(built, *same, *other), OLD, NEW, OLD, ALWAYS)


def split() -> Fleet:
    """Two pools that differ; in the first one a setting differs since an hour, another one and the second pool long."""
    documents = [document(), document({SIZE: 32, SEQS: 8})]
    members = [*alike("chat", 3, documents[0]), replica("odd", document=documents[1])]
    members += [
        *alike("other", 3, documents[0]),
        replica("other-odd", pool="other", document=documents[1]),
    ]
    built = inspected(fleet(members, documents), NOW)
    differences = {("chat", SIZE): NEW, ("chat", SEQS): OLD, ("other", SIZE): OLD, ("other", SEQS): ALWAYS}
    cohorts = {(pool.name, each.document): OLD for pool in built.pools for each in pool.cohorts}
    return replace(built, sightings=replace(NO_SIGHTINGS, differences=differences, cohorts=cohorts))


def matrices(view: View, anchor: str) -> list[DifferenceTable]:
    return [each for each in blocks_of([part(view, anchor)]) if isinstance(each, DifferenceTable)]


def data_of(parts: Iterable[Section]) -> list[Table]:
    """The tables for programs of entries and tables."""
    blocks = list(blocks_of(parts))
    tables = [block.data for block in blocks if isinstance(block, Table) and block.for_programs]
    return tables + [block.data for block in blocks if isinstance(block, Entries) and block.data]


def titles(table: Table) -> list[str]:
    return [each.title for each in table.columns]


def test_a_filter_keeps_what_is_new_and_groups_count_their_newest_finding() -> None:
    known = list_findings(three())
    found = list(filter(FindingFilter(new_since=DAY.new_since).matches, known.active))
    (group, *_) = group_findings(known.active)

    assert [each.key for each in found] == ["gemma-27b-01"]
    assert newest_of(group) == NEW
    assert FindingFilter(new_since=DAY.new_since).choices[-1] == ("new_since", "2026-03-01T11:42:05Z")


def test_newest_first_puts_what_has_no_sighting_last() -> None:
    built = three()
    without = replace(
        built, sightings=replace(built.sightings, findings=dict(list(built.sightings.findings.items())[1:]))
    )

    assert [each.key for each in sort_findings(list_findings(built).active, NEWEST_FIRST)] == [
        "gemma-27b-01",
        "chat-70b-16",
        "RT-02",
        "RT-03",
    ]
    assert sort_findings(list_findings(without).active, NEWEST_FIRST)[-1].key == "chat-70b-16"


def test_entries_of_the_list_have_their_time_and_the_open_finding_has_a_line() -> None:
    built = three()
    known = list_findings(built)
    lines = [each.lines[0] for each in entries_of([list_section(known, known.active, (), None)])]
    panel = text_of(finding_section(built, known, known.active[1], ()))

    assert to_plain(lines[0]).endswith(" · since 2026-03-02T10:42:05Z")
    assert [each[-1].age is not None for each in lines] == [True, True, False]
    assert "The newest of 2 since 2026-03-02T10:42:05Z, not at 09:42:05 UTC." in panel


def test_exports_of_findings_have_the_whole_text_and_their_csv_all_times() -> None:
    report = findings_report(three(), FindingFilter(new_since=DAY.new_since))
    (table,) = data_of([part(report, "severity-critical")])
    row = dict(zip(titles(table), table.rows[0], strict=True))

    for output in (Format.MARKDOWN, Format.HTML):
        assert SINCE in written(report, output).decode().replace("\\", ""), output
    assert [row[name].value for name in ("first_seen", "since", "absent_at")] == [
        "2026-03-02T10:42:05Z",
        "2026-03-02T10:42:05Z",
        "2026-03-02T09:42:05Z",
    ]
    assert report.context.filters == (("new_since", "2026-03-01T11:42:05Z"),)
    assert "1 finding of 4 shown." in report.lead


def test_differences_and_cohorts_have_a_column_in_every_export_of_compare() -> None:
    report = compare_report(split(), "chat")
    (table,) = matrices(report, "settings")
    (cohorts,) = [each for each in blocks_of([part(report, "cohorts")]) if isinstance(each, Table)]
    rows = {each["path"]: each for each in _rows(json.loads(written(report, Format.JSON)))}

    assert table.sightings == {SIZE: NEW, SEQS: OLD}
    assert table.column_sightings == {"A": OLD, "B": OLD}
    assert titles(cohorts)[-1] == "Since"
    assert titles(cohorts.data)[-3:] == ["first_seen", "since", "absent_at"]
    assert "2026-03-02T10:42:05Z" in written(report, Format.HTML).decode()
    assert "| since |" in written(report, Format.MARKDOWN).decode()
    assert rows[SIZE]["since"] == "2026-03-02T10:42:05Z"
    assert rows[SIZE]["absent_at"] == "2026-03-02T09:42:05Z"


def _rows(document: object) -> list[dict[str, str]]:
    """Find the rows of difference tables anywhere in a document."""
    if isinstance(document, dict):
        own = document["rows"] if document.get("kind") == "differences" else []
        return [*own, *(row for each in document.values() for row in _rows(each))]
    return [row for each in document for row in _rows(each)] if isinstance(document, list) else []


def test_the_dialogs_of_compare_say_since_when() -> None:
    built = split()
    (pool, _) = built.pools

    size, equal = (
        text_of(Section("dialog", "", setting_blocks(built, pool, path))) for path in (SIZE, "model_config.dtype")
    )

    assert "Differs since 2026-03-02T10:42:05Z, not at 09:42:05 UTC." in size
    assert "ince" not in equal
    assert "Since 2026-02-26T17:42:05Z, not at 16:42:05 UTC." in text_of(
        Section("dialog", "", cohort_blocks(built, pool, pool.cohorts[1]))
    )


def test_replicas_have_a_sortable_column_and_all_times_in_their_csv() -> None:
    built = split()
    first, second = (each.id for each in built.replicas[:2])
    built = replace(built, sightings=replace(NO_SIGHTINGS, replicas={first: ALWAYS, second: NEW}))
    sorted_by = [
        [row[0].link.key for row in table.rows[:2] if row[0].link]
        for sort in ("since", "-since")
        for table in [_table(replicas_report(built, ReplicaChoice(sort=sort)))]
    ]
    table = _table(replicas_report(built, ReplicaChoice(sort="-since")))
    place = titles(table).index("Since")
    data = replicas_data(replica_rows(built))
    times = {row[titles(data).index("Address")].value: [cell.value for cell in row[-3:]] for row in data.rows}

    assert sorted_by == [[first, second], [second, first]]
    assert [row[place].text for row in table.rows[:3]] == ["2026-03-02T10:42:05Z", "", ""]
    assert titles(data)[-3:] == ["first_seen", "since", "absent_at"]
    assert times[second] == ["2026-03-02T10:42:05Z", "2026-03-02T10:42:05Z", "2026-03-02T09:42:05Z"]
    assert times[first][2] is None
    assert "In the fleet since 2026-03-02T10:42:05Z" in text_of(part(replica_report(built, second), "numbers"))


def _table(view: View) -> Table:
    (found,) = [each for each in blocks_of([part(view, "replicas")]) if isinstance(each, Table)]
    return found


def test_the_review_shows_only_new_findings_and_counts_the_rest() -> None:
    report = review_report(three(), recency=DAY)
    section = part(report, FINDINGS)

    assert [each.anchor for each in section.parts] == ["severity-critical"]
    assert "1 of 4 findings shown: new since 2026-03-01T11:42:05Z." in text_of(section)
    assert agenda_counts(three(), DAY)[FINDINGS] == 1
    assert report.context.filters == (("new_since", "2026-03-01T11:42:05Z"),)


def test_the_review_sorts_findings_of_one_severity_by_their_time() -> None:
    built = three()
    warnings = [
        [each.anchor for each in entries_of([part(review_report(built, recency=chosen), "severity-warning")])]
        for chosen in (Recency(), Recency(is_newest_first=True))
    ]
    turned = seen(built, OLD, NEW, ALWAYS, OLD)
    (newest, *_) = entries_of([part(review_report(turned, recency=Recency(is_newest_first=True)), "severity-warning")])

    assert warnings == [["finding-RT-02", "finding-RT-03"]] * 2
    assert newest.anchor == "finding-RT-03"


def test_the_review_shows_only_new_differences_and_counts_the_pools() -> None:
    built = split()
    report = review_report(built, recency=DAY)

    assert [[row.path for row in table.matrix.rows] for table in matrices(report, DIFFERENCES)] == [[SIZE]]
    assert "1 of 2 split pools shown: new since 2026-03-01T11:42:05Z." in text_of(part(report, DIFFERENCES))
    assert agenda_counts(built, DAY)[DIFFERENCES] == 1
    assert agenda_counts(built)[DIFFERENCES] == 2


def test_the_review_sorts_pools_and_settings_by_their_newest_difference() -> None:
    built = split()
    later = {("other", SEQS): NEW, ("chat", SIZE): OLD, ("chat", SEQS): ALWAYS, ("other", SIZE): ALWAYS}
    built = replace(built, sightings=replace(NO_SIGHTINGS, differences=later))
    report = review_report(built, recency=Recency(is_newest_first=True))

    assert [(each.matrix.pool.name, each.matrix.rows[0].path) for each in matrices(report, DIFFERENCES)] == [
        ("other", SEQS)
    ]
    assert part(report, DIFFERENCES).parts[0].title == "other and 1 more like it"
    assert report.context.filters == (("sort", "-since"),)


def test_findings_that_changed_have_the_times_of_the_fleet_that_has_them() -> None:
    before = three()
    after = seen(with_findings(before, before.inspection.findings[0]), NEW)
    changes = changes_between(before, after)
    report = changes_report(changes, context_of(before), context_of(after))
    (table,) = [each for each in data_of(report.parts) if "absent_at" in titles(each)]
    places = [titles(table).index(name) for name in ("change", "id", "since")]

    assert sorted([row[place].value for place in places] for row in table.rows) == [
        ["not evaluated", "RT-02", "2026-02-26T17:42:05Z"],
        ["not evaluated", "RT-03", "2026-02-26T08:42:05Z"],
        ["not evaluated", "gemma-27b-01", "2026-03-02T10:42:05Z"],
    ]


@pytest.mark.parametrize("make", [findings_report, review_report, replicas_report])
def test_without_a_history_nothing_is_shown(make: object) -> None:
    """The story differs in what it says, but never has a word on time."""
    assert callable(make)
    with_history, without = (written(make(each), Format.MARKDOWN).decode() for each in (EVERYWHERE, inspected_story()))

    assert "ince 2026" in with_history or "| Since |" in with_history
    assert "ince 2026" not in without.replace("in progress since", "").replace("(5/10) since", "")
    assert "| Since |" not in without
