"""Notes of a review stand with what they belong to, and at the top."""

from datetime import UTC, datetime

from dashboard.fleet import Note
from dashboard.rules.findings import Severity
from dashboard.views.review import AGENDA, review_report
from tests.builders import fleet, story
from tests.findings_builder import finding, suppression, with_findings
from tests.views.large_fleets import large
from tests.views.walking import (
    anchors_led_to,
    entries_of,
    part,
    places_of,
    text_of,
)

STORY = story()
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_owner_notes_stand_with_what_they_belong_to() -> None:
    """Notes on findings below them, notes on parts in these; those of the last review are marked as such."""
    built = with_findings(STORY, finding(STORY))
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
    assert "Note, cyd: owner assigned, no text" in text_of(part(report, "fine"))


def test_a_note_that_was_kept_is_told_once() -> None:
    """The same words of two reviews say it once."""
    note = Note("look at it", "bob")
    report = review_report(
        with_findings(STORY, finding(STORY)), notes={"0123456789": note}, before_notes={"0123456789": note}
    )

    assert text_of(part(report, "findings")).count("look at it") == 1


def test_what_was_agreed_stands_first_with_owner_finding_and_a_link_to_it() -> None:
    """Findings the worst first, suppressed ones too, then parts in the order of the agenda, then what is gone."""
    calm = finding(STORY, id="calm", severity=Severity.WARNING, sentence="Block size may differ.")
    quiet = finding(STORY, id="quiet", sentence="Known.", suppression=suppression())
    built = with_findings(STORY, finding(STORY), calm, suppressed=(quiet,))
    told = {"0123456789": "drain", "calm": "watch", "quiet": "leave", "capacity": "order", "fine": "ok", "lost": "?"}
    report = review_report(built, notes={about: Note(text, "ann") for about, text in reversed(told.items())})
    agreed = report.parts[0]
    items = entries_of([agreed])

    assert (agreed.anchor, agreed.title) == ("agreed", "Notes")
    assert [text_of(each.notes) for each in items] == [
        f"Note, ann: {text}" for text in ("drain", "watch", "leave", "ok", "order", "?")
    ]
    assert [each.head[0].target and each.head[0].target.anchor for each in items] == [
        "finding-0123456789",
        "finding-calm",
        "suppressed",
        "fine",
        "capacity",
        None,
    ]
    assert anchors_led_to(agreed) <= places_of(report)
    assert next(iter(AGENDA)) == review_report(built).parts[0].anchor, "without notes there is no such part"


def test_what_was_agreed_says_whom_a_finding_concerns_and_which_rule_made_it() -> None:
    """As the entry on the finding does: a few by name at the side, of more the first ones in a line."""
    few, many = finding(STORY), finding(STORY, [f"chat-70b-{place:02}" for place in range(1, 9)], id="many")
    report = review_report(
        with_findings(STORY, few, many), notes={each.id: Note("drain", "ann") for each in (few, many)}
    )
    told = {each.anchor: each for each in entries_of([part(report, "severity-critical")])}

    for agreed in entries_of([report.parts[0]]):
        entry = told[target.anchor if (target := agreed.head[0].target) else ""]
        assert agreed.side == entry.side
        assert agreed.lines == entry.lines[: len(agreed.lines)]
    assert "RT-01" in text_of(report.parts[0])


def test_a_note_on_one_of_many_leads_to_the_entry_that_tells_them_all() -> None:
    """It has the place of the first of them."""
    built = fleet(*large(8))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(8)
    ]
    report = review_report(with_findings(built, *found), notes={f"{5:010}": Note("drain it", "ann")})

    (entry,) = entries_of([report.parts[0]])
    assert (entry.head[0].text, entry.head[0].target and entry.head[0].target.anchor) == (
        "pool-005",
        f"finding-{0:010}",
    )


def test_a_note_on_a_finding_that_is_gone_is_told_as_settled() -> None:
    """So that it can be ticked off in the meeting."""
    before = with_findings(STORY, finding(STORY, sentence="Block size is 32."))
    report = review_report(with_findings(STORY), before=before, before_notes={"0123456789": Note("drain it", "ann")})
    settled = text_of(part(report, "settled"))

    assert "chat-70b Block size is 32." in settled
    assert "At the last review, ann: drain it" in settled
