"""The whole review: in the order of the meeting, true, and fit for somebody who was not there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from dashboard.fleet import empty_fleet
from dashboard.models import Note
from dashboard.report.blocks import Chart, DifferenceTable, Tone
from dashboard.report.formats.html_page import to_html
from dashboard.report.views.review import AGENDA, review_report
from dashboard.rules.findings import Severity
from tests.builders import alike, document, down, engine, fleet, replica, story
from tests.findings_builder import finding, judged, suppression
from tests.report.views.walking import (
    anchors_led_to,
    blocks_of,
    entries_of,
    figures_of,
    part,
    parts_of,
    tables_of,
    text_of,
)

if TYPE_CHECKING:
    from dashboard.models import Document, Replica
    from dashboard.report.blocks import Report

STORY = story()
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
MANY = 200


def places_of(report: Report) -> set[str]:
    """Where links within a report can lead."""
    return {each.anchor for each in parts_of(report.parts)} | {each.anchor for each in entries_of(report.parts)}


def large(pools: int = MANY) -> tuple[list[Replica], list[Document]]:
    """Pools of five replicas that all differ in the same way: one has another block size, and less KV cache."""
    usual, other = document(), document({"cache_config.block_size": 32})
    members: list[Replica] = []
    for name in [f"pool-{place:03}" for place in range(pools)]:
        members += alike(name, 4, usual)
        members += alike(name, 1, other, first=5, engines=(engine(400_000),))
    return members, [usual, other]


def test_the_agenda_is_the_order_of_the_parts() -> None:
    """Is it fine, what is new, findings, differences, capacity, what was not read, what is suppressed."""
    anchors = [each.anchor for each in review_report(STORY).parts]

    assert tuple(anchors[: len(AGENDA)]) == AGENDA
    assert anchors[len(AGENDA)] == "words"


def test_appendices_stand_at_the_end() -> None:
    """What is for reference never stands between two points of the agenda."""
    appendix = [each.is_appendix for each in review_report(STORY).parts]

    assert True in appendix
    assert appendix == sorted(appendix)


def test_the_lead_introduces_the_fleet_to_who_was_not_there() -> None:
    """How many, in which pools, how much of it was read, what was found."""
    report = review_report(STORY)

    assert report.title == "Review of prod-eu"
    assert report.lead.startswith(
        "The fleet prod-eu has 40 vLLM replicas in 5 pools (2 of them split into cohorts with different settings, "
        "3 uniform); 39 of 40 answered."
    )


def test_numbers_lead_to_the_part_that_explains_them() -> None:
    """And the parts are there."""
    report = review_report(STORY)
    anchors = {each.label: each.anchor for each in figures_of(report.parts[:1])}

    assert anchors["Critical"] == "severity-critical"
    assert anchors["Replicas"] == anchors["Unknown"] == "not-read"
    assert set(anchors.values()) <= {each.anchor for each in parts_of(report.parts)}


def test_the_first_review_says_that_it_is_the_first() -> None:
    """Nothing new is not the same as nothing to compare with."""
    assert "This is the first review of this fleet" in text_of(part(review_report(STORY), "new"))


def test_what_is_new_since_the_last_review_is_told() -> None:
    """The last one stands there with its time; the appendices of the comparison are no parts of it."""
    calm = fleet(alike("chat", 3, document()), [document()])
    other = document({"cache_config.block_size": 32})
    now = fleet([*alike("chat", 3, document()), replica("chat-new", document=other)], [document(), other])
    new = part(review_report(now, before=calm), "new")

    assert "The last review looked at data of 2026-03-02T11:42:05Z." in text_of(new)
    assert "chat-new" in text_of(new)
    assert not any(each.is_appendix for each in parts_of(new.parts))


def test_what_the_part_on_changes_cuts_stands_in_the_appendix() -> None:
    """It points there: all settings that changed, under a title that says so far from the part."""
    now, told = document(), document({f"cache_config.x{number}": number for number in range(9)})
    zeros = document({f"cache_config.x{number}": 0 for number in range(9)})
    calm = fleet(alike("chat", 3, zeros), [now, zeros])
    report = review_report(fleet(alike("chat", 3, told), [now, told]), before=calm)
    (appendix,) = (each for each in report.parts if each.anchor == "new-setting-changes")

    assert "and 2 more settings, in the appendix" in text_of(part(report, "new"))
    assert (appendix.title, appendix.is_appendix) == ("Changed settings, one by one", True)
    assert "cache_config.x8" in text_of(appendix)
    assert not any(each.anchor == "new-replica-changes" for each in report.parts)


def test_a_review_of_the_same_data_says_only_that_nothing_changed() -> None:
    """No tables of nothing."""
    new = part(review_report(STORY, before=STORY), "new")

    assert "Nothing changed" in text_of(new)
    assert new.parts == ()


def test_every_finding_is_told_with_why_who_and_what_to_do() -> None:
    """The whole of it, with what can be pasted."""
    told = finding(STORY)
    report = review_report(judged(STORY, told))
    entry = next(each for each in entries_of([part(report, "severity-critical")]))

    assert entry.head[0].text == "chat-70b"
    assert entry.side == "B chat-70b-17"
    assert told.why in text_of(entry.lines)
    assert told.remedy.sentence in text_of(entry.lines)
    assert entry.snippets == ("--block-size 16",)


def test_owner_notes_stand_with_what_they_belong_to() -> None:
    """Notes on findings below them, notes on parts in these; those of the last review are marked as such."""
    built = judged(STORY, finding(STORY))
    notes = {
        "0123456789": Note("drained tonight", "ann", AT),
        "capacity": Note("two GPUs are ordered", "bob"),
        "fine": Note("", "cyd"),
    }
    before = {"0123456789": Note("look at it", "bob")}
    report = review_report(built, notes=notes, before_notes=before)

    (entry,) = entries_of([part(report, "severity-critical")])
    lines = text_of(entry.notes)
    assert "Note, ann: drained tonight (2026-03-02T12:00:00Z)" in lines
    assert "At the last review, bob: look at it" in lines
    assert "Note, bob: two GPUs are ordered" in text_of(part(report, "capacity"))
    assert "Note, cyd: takes it on." in text_of(part(report, "fine"))


def test_a_note_that_was_kept_is_told_once() -> None:
    """The same words of two reviews say it once."""
    note = Note("look at it", "bob")
    report = review_report(judged(STORY, finding(STORY)), notes={"0123456789": note}, before_notes={"0123456789": note})

    assert text_of(part(report, "findings")).count("look at it") == 1


def test_what_was_agreed_stands_first_with_owner_finding_and_a_link_to_it() -> None:
    """Findings the worst first, suppressed ones too, then parts in the order of the agenda, then what is gone."""
    calm = finding(STORY, id="calm", severity=Severity.WARNING, sentence="Block size may differ.")
    quiet = finding(STORY, id="quiet", sentence="Known.", suppression=suppression())
    built = judged(STORY, finding(STORY), calm, suppressed=(quiet,))
    told = {"0123456789": "drain", "calm": "watch", "quiet": "leave", "capacity": "order", "fine": "ok", "lost": "?"}
    report = review_report(built, notes={about: Note(text, "ann") for about, text in reversed(told.items())})
    agreed = report.parts[0]
    items = entries_of([agreed])

    assert (agreed.anchor, agreed.title) == ("agreed", "What was agreed")
    assert [text_of(each.notes) for each in items] == [
        f"Note, ann: {text}" for text in ("drain", "watch", "leave", "ok", "order", "?")
    ]
    assert [each.head[0].anchor for each in items] == [
        "finding-0123456789",
        "finding-calm",
        "suppressed",
        "fine",
        "capacity",
        "",
    ]
    assert anchors_led_to(agreed) <= places_of(report)
    assert AGENDA[0] == review_report(built).parts[0].anchor, "without notes there is no such part"


def test_a_note_on_one_of_many_leads_to_the_entry_that_tells_them_all() -> None:
    """It has the place of the first of them."""
    built = fleet(*large(8))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(8)
    ]
    report = review_report(judged(built, *found), notes={f"{5:010}": Note("drain it", "ann")})

    (entry,) = entries_of([report.parts[0]])
    assert (entry.head[0].text, entry.head[0].anchor) == ("pool-005", f"finding-{0:010}")


def test_what_is_wrong_first_is_a_line_each_that_leads_to_the_whole_of_it() -> None:
    """The reasons stand there; twice would be too long."""
    first = entries_of([part(review_report(STORY), "fine")])

    assert first
    assert {each.lines for each in first} == {()}
    assert all(each.head[0].anchor.startswith("finding-") for each in first)


def test_a_note_on_a_finding_that_is_gone_is_told_as_settled() -> None:
    """So that it can be ticked off in the meeting."""
    before = judged(STORY, finding(STORY, sentence="Block size is 32."))
    report = review_report(judged(STORY), before=before, before_notes={"0123456789": Note("drain it", "ann")})
    settled = text_of(part(report, "settled"))

    assert "chat-70b Block size is 32." in settled
    assert "At the last review, ann: drain it" in settled


def test_only_rows_that_matter_stand_among_the_differences_and_the_rest_in_the_appendix() -> None:
    """What a finding names is always there, however much it is."""
    changes = {f"model_config.made_up_{number:02}": number for number in range(20)}
    told = [document(dict.fromkeys(changes, "x")), document({"cache_config.block_size": 32, **changes})]
    members = [*alike("chat", 3, told[0]), replica("odd", document=told[1])]
    report = review_report(fleet(members, told))
    shown = next(each for each in blocks_of([part(report, "pool-chat")]) if isinstance(each, DifferenceTable))
    whole = next(each for each in blocks_of([part(report, "all-differences")]) if isinstance(each, DifferenceTable))

    assert "cache_config.block_size" in [row.path for row in shown.matrix.rows]
    assert len(shown.matrix.rows) == 8
    assert len(whole.matrix.rows) == 21
    assert "13 more settings differ: see the appendix." in shown.notes


def test_a_pool_that_shares_prefixes_has_no_word_on_it_among_its_differences() -> None:
    """There a band would hide what differs."""
    told = [document({"seed_policy": "default"}), document({"seed_policy": "default", "model_config.max_logprobs": 5})]
    members = [*alike("chat", 3, told[0]), replica("odd", document=told[1])]

    assert "hare prefixes" not in text_of(part(review_report(fleet(members, told)), "pool-chat"))


def test_uniform_pools_are_one_sentence() -> None:
    """Nobody reads a table in which nothing differs."""
    told = text_of(part(review_report(STORY), "differences"))

    assert (
        "3 pools are uniform: gemma-27b, deepseek-v3/prefill and deepseek-v3/decode agree in all settings that were "
        "compared." in told
    )


def test_who_holds_less_is_named_and_drawn() -> None:
    """A pool whose ranks hold the same has no bars, and that is said."""
    members = [*alike("chat", 4, document()), *alike("calm", 3, document())]
    members[0] = replace(members[0], engines=(engine(600_000),))
    capacity = part(review_report(fleet(members, [document()])), "capacity")
    charts = [each for each in blocks_of(capacity.parts) if isinstance(each, Chart)]

    assert "chat-01 of chat holds 50 % less than the median: 600,000 tokens beside 1,200,000" in text_of(capacity)
    assert [chart.title for chart in charts] == ["chat: KV cache by DP rank, H100"]
    assert charts[0].median == 1_200_000
    assert [bar.mark for bar in charts[0].bars] == ["−50 %", "", "", ""]
    assert "Within calm, all ranks hold about the same: no bars are drawn." in text_of(capacity)


def test_what_could_not_be_read_says_why() -> None:
    """It is unknown, not critical: nobody knows what it would have said."""
    entries = entries_of([part(review_report(STORY), "not-read")])

    assert {entry.tone for entry in entries} == {Tone.UNKNOWN}
    assert "No answer within 5 s." in text_of(entries[0].lines)


def test_what_is_suppressed_says_by_whom_and_until_when() -> None:
    """Nothing is left out silently."""
    built = judged(STORY, suppressed=(finding(STORY, suppression=suppression()),))
    row = tables_of([part(review_report(built), "suppressed")])[0].rows[0]

    told = [cell.text for cell in row]
    by = suppression()
    assert told[2:] == [by.owner, str(by.until), by.reason]


def test_an_empty_fleet_and_one_that_is_down_are_told_truly() -> None:
    """No calm sentence where nothing was read."""
    empty, silent = review_report(empty_fleet("nobody")), review_report(fleet([down("a")], []))

    assert "The fleet nobody has no replica." in empty.lead
    assert silent.headline == "No replica answers"
    for report in (empty, silent):
        assert "No settings of any pool were read, so nothing could be judged." in text_of(part(report, "fine"))
        assert "found nothing" not in text_of(report)


def test_terms_are_explained_once() -> None:
    """A reader of the PDF may know none of them."""
    words = text_of(part(review_report(STORY), "words"))

    for term in ("Cohort.", "Basis.", "Reference.", "Pool."):
        assert words.count(term) == 1


def test_a_thousand_replicas_stay_readable_and_below_two_megabytes() -> None:
    """The same of two hundred pools is told once; what is left out is counted."""
    report = review_report(fleet(*large()))
    agenda = report.parts[: len(AGENDA) + 1]

    assert len(entries_of(agenda)) < 60
    assert len(part(report, "differences").parts) == 1
    assert len(part(report, "capacity").parts) == 1
    assert part(report, "differences").parts[0].title == "pool-000 and 199 more like it"
    assert len(tables_of([part(report, "all-replicas")])[0].rows) == 1_000
    assert len(to_html(report).encode()) < 2_000_000


def test_many_findings_of_one_rule_with_other_values_are_one_entry() -> None:
    """The first ones are told, the others counted with their pools; all of them stand in the appendix."""
    built = fleet(*large(8))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(8)
    ]
    report = review_report(judged(built, *found))
    critical = part(report, "severity-critical")

    assert critical.title == "8 critical findings"
    assert len(entries_of([critical])) == 1
    lines = text_of(critical)
    assert "Also: 7 more findings of this rule, with other values." in lines
    assert "Block size is 3." in lines
    assert "And in pool-004, pool-005, pool-006 and pool-007." in lines
    assert len(tables_of([part(report, "all-findings")])[0].rows) == 8


def test_where_all_others_are_told_none_is_counted() -> None:
    """Four: the first with its advice, three more below it."""
    built = fleet(*large(4))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(4)
    ]
    lines = text_of(part(review_report(judged(built, *found)), "severity-critical"))

    assert "Also: 3 more findings of this rule, with other values." in lines
    assert "And in " not in lines


@pytest.mark.parametrize("number", [1, 3])
def test_few_findings_of_one_rule_are_told_one_by_one(number: int) -> None:
    """Then nothing has to be looked up."""
    built = fleet(*large(3))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(number)
    ]
    report = review_report(judged(built, *found))

    assert len(entries_of([part(report, "severity-critical")])) == number
    assert "all-findings" not in {each.anchor for each in report.parts}


def test_a_remedy_that_is_of_one_pool_says_of_which() -> None:
    """What is told of three pools at once must hold for all three, or name the one."""
    built = fleet(*large(3))
    found = [finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence="S.") for place in range(3)]
    found[1] = replace(found[1], remedy=found[1].remedy._replace(sentence="Start it anew."))
    report = review_report(judged(built, *found))
    lines = text_of(part(report, "severity-critical"))

    assert "What to do in pool-000: " in lines
    assert "Why it matters: " in lines
