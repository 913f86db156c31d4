"""What the reports of all replicas and of one say."""

from datetime import timedelta

import pytest

from dashboard.fleet import Contradiction, Source
from dashboard.views.blocks import Tone
from dashboard.views.replica import replica_report
from dashboard.views.replicas import replicas_report
from tests.builders import POLLED_AT, alike, document, down, fleet, replica, setting, story
from tests.findings_builder import finding, with_findings
from tests.views.walking import entries_of, figures_of, part, tables_of, text_of

STORY = story()


def test_replicas_are_listed_with_what_is_wrong_first() -> None:
    """The page's words, without its glyphs; times are whole, for an age would be another one tomorrow."""
    report = replicas_report(STORY)
    first = [cell.text for cell in tables_of([part(report, "replicas")])[0].rows[0]]

    assert report.headline == "40 replicas: 1 down and 1 partial"
    assert first[:3] == ["chat-70b-18", "down, timeout", "chat-70b"]
    assert tables_of([part(report, "replicas")])[0].rows[0][1].tone is Tone.UNKNOWN
    assert first[7] == f"{POLLED_AT - timedelta(minutes=14) + timedelta(seconds=8):%Y-%m-%dT%H:%M:%SZ}"


def test_filtered_replicas_are_counted_and_the_filters_named() -> None:
    """Only what they leave is told, also of those that were not read."""
    report = replicas_report(STORY, pool="chat-70b", state="up", search="chat-70b-17")

    assert report.lead == "1 of 40 replicas in 5 pools."
    assert report.context.filters == (("pool", "chat-70b"), ("state", "up"), ("search", "chat-70b-17"))
    assert "not-read" not in {each.anchor for each in report.parts}
    assert "The filters leave no replica." in text_of(replicas_report(STORY, search="nowhere"))


def test_a_replica_says_where_it_belongs_and_in_what_it_differs() -> None:
    """Its settings stand at the end, those that differ first."""
    report = replica_report(with_findings(STORY, finding(STORY)), "http://chat-70b-17:8000")
    figures = {each.label: each for each in figures_of(report.parts)}
    settings = part(report, "settings")

    assert report.headline == "chat-70b-17"
    assert figures["Pool"].note == "cohort B of 3"
    assert figures["Differs from its pool in"].value == "5"
    assert len(entries_of([part(report, "findings")])) == 1
    assert tables_of([settings])[0].rows[0][0].text == "cache_config.block_size"
    assert settings.is_appendix


def test_a_replica_with_old_values_says_so_before_anything_else() -> None:
    """Old numbers look like new ones."""
    old = replica("a", document=document(), fresh=False)
    report = replica_report(fleet([old, *alike("chat", 2, document())], [document()]), old.id)

    assert f"Old values. They were last read {POLLED_AT:%Y-%m-%dT%H:%M:%SZ} and are not counted." in text_of(report)


def test_a_process_behind_two_addresses_is_named() -> None:
    """Its capacity is counted once."""
    one = replica("a", document=document(), same_process=("http://b:8000",))
    two = replica("b", document=document(), same_process=(one.id,))
    report = replica_report(fleet([one, two], [document()]), one.id)

    assert "One process behind two addresses. b answers with the same instance_id." in text_of(report)


def test_sources_that_contradict_each_other_are_shown_beside_each_other() -> None:
    """What was kept, and what was not."""
    path = "cache_config.block_size"
    clash = Contradiction(path, setting(16), setting(32, source=Source.METRICS))
    report = replica_report(
        fleet([replica("a", document=document(), contradictions=(clash,))], [document()]), "http://a:8000"
    )
    row = tables_of([part(report, "contradictions")])[0].rows[0]

    assert [cell.text for cell in row] == [path, "16", "/server_info", "32", "/metrics"]


def test_a_replica_that_was_never_read_says_what_is_not_known() -> None:
    """Nothing equals nothing."""
    report = replica_report(fleet([down("a")], []), "http://a:8000")

    assert report.lead == "Down: Nothing listens there."
    assert {each.tone for each in figures_of(report.parts) if each.value == "?"} == {Tone.UNKNOWN}
    assert "Its settings were never read." in text_of(report)
    with pytest.raises(KeyError):
        replica_report(STORY, "http://nobody")


def test_a_replica_that_tells_nothing_of_itself_has_no_such_part() -> None:
    alone = fleet([replica("alone", pool=None)])

    assert "identity" not in {each.anchor for each in replica_report(alone, alone.replicas[0].id).parts}
