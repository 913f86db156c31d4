"""Replicas with their values of one setting, as tables to tick."""

from dashboard.views.blocks import Table
from dashboard.views.setting import MOST_ROWS, affected_section, replicas_section
from tests.builders import alike, document, down, fleet, story
from tests.findings_builder import finding

DOCUMENT = document()


def test_only_the_shortlist_very_many_replicas_are_listed() -> None:
    built = fleet(alike("chat", MOST_ROWS + 2, DOCUMENT), [DOCUMENT])
    (section,) = replicas_section(built, "version", built.replicas)
    table = section.blocks[0]

    assert isinstance(table, Table)
    assert (len(table.rows), table.note) == (MOST_ROWS, "2 more are not listed.")


def test_without_replicas_there_is_no_section() -> None:
    assert replicas_section(fleet([down("chat-1")]), "version", ()) == ()


def test_a_finding_without_a_setting_has_no_values() -> None:
    built = story()
    table = affected_section(built, finding(built, evidence=())).blocks[0]

    assert isinstance(table, Table)
    assert [each.title for each in table.columns] == ["Replica", "Affected", "Pool", "Cohort"]
