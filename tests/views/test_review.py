"""The whole review: in the order of the meeting, true, and fit for somebody who was not there."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dashboard.analysis.assembly import empty_fleet
from dashboard.rules.findings import Rollout, Severity
from dashboard.store.reviews import NoLastReview
from dashboard.views.blocks import Chart, DifferenceTable, Tone
from dashboard.views.review import AGENDA, review_report
from tests.builders import SAME_KV, alike, document, down, engine, fleet, hashing, replica, story
from tests.findings_builder import finding, suppression, with_findings
from tests.views.walking import (
    blocks_of,
    entries_of,
    figures_of,
    part,
    parts_of,
    tables_of,
    text_of,
)

STORY = story()
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_the_agenda_is_the_order_of_the_parts() -> None:
    """Is it fine, what is new, findings, differences, capacity, what was not read, what is suppressed."""
    anchors = [each.anchor for each in review_report(STORY).parts]

    assert tuple(anchors[: len(AGENDA)]) == tuple(AGENDA)
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
    assert report.lead.startswith("Fleet prod-eu: 40 vLLM replicas in 5 pools (2 split, 3 uniform); 39 of 40 answered.")


def test_numbers_lead_to_the_part_that_explains_them() -> None:
    """And the parts are there."""
    report = review_report(STORY)
    anchors = {each.label: each.target and each.target.anchor for each in figures_of(report.parts[:1])}

    assert anchors["Critical"] == "severity-critical"
    assert anchors["Replicas"] == anchors["Unknown"] == "not-read"
    assert set(anchors.values()) <= {each.anchor for each in parts_of(report.parts)}


@pytest.mark.parametrize("missing", [NoLastReview.UNREAD, NoLastReview.CHOSEN])
def test_a_review_that_is_held_against_no_other_is_not_called_the_first(missing: NoLastReview) -> None:
    """The last one may be damaged, or nobody asked for it."""
    shown = text_of(part(review_report(STORY, missing=missing), "new"))

    assert missing in shown
    assert "first review" not in shown


def test_what_is_new_since_the_last_review_is_told() -> None:
    """The last one stands there with its time; the appendices of the comparison are no parts of it."""
    calm = fleet(alike("chat", 3, document()), [document()])
    other = document({"cache_config.block_size": 32})
    now = fleet([*alike("chat", 3, document()), replica("chat-new", document=other)], [document(), other])
    new = part(review_report(now, before=calm), "new")

    assert "Data of the last review: 2026-03-02T11:42:05Z." in text_of(new)
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
    assert (appendix.title, appendix.is_appendix) == ("Changed settings", True)
    assert "cache_config.x8" in text_of(appendix)
    assert not any(each.anchor == "new-replica-changes" for each in report.parts)


def test_a_rollout_is_told_with_its_day() -> None:
    """Whoever reads it next week has to place it."""
    began = datetime(2026, 3, 2, 0, 35, 15, tzinfo=UTC)
    rollout = Rollout("chat-70b", "0.31.0", "0.32.0", (STORY.replicas[0].id,), 16, began, began)
    rolling = replace(STORY, inspection=replace(STORY.inspection, rollouts={"chat-70b": rollout}))

    assert "(1/16) since 2026-03-02T00:35:15Z" in text_of(part(review_report(rolling), "fine"))


def test_a_review_of_the_same_data_says_only_that_nothing_changed() -> None:
    """No tables of nothing."""
    new = part(review_report(STORY, before=STORY), "new")

    assert "Nothing changed" in text_of(new)
    assert new.parts == ()


def test_every_finding_is_told_with_why_who_and_what_to_do() -> None:
    """The whole of it, with what can be pasted."""
    told = finding(STORY)
    report = review_report(with_findings(STORY, told))
    entry = next(each for each in entries_of([part(report, "severity-critical")]))

    assert entry.head[0].text == "chat-70b"
    assert entry.side_text == "B chat-70b-17"
    assert told.why in text_of(entry.lines)
    assert told.remedy.sentence in text_of(entry.lines)
    assert entry.snippets == ("--block-size 16",)


def test_what_is_wrong_first_is_a_line_each_that_leads_to_the_whole_of_it() -> None:
    """The reasons stand there; twice would be too long."""
    first = entries_of([part(review_report(STORY), "fine")])

    assert first
    assert {each.lines for each in first} == {()}
    assert all(str(each.head[0].target and each.head[0].target.anchor).startswith("finding-") for each in first)


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
    assert "13 more settings: see the appendix." in shown.notes


def test_a_pool_that_shares_prefixes_has_no_word_on_it_among_its_differences() -> None:
    """There a band would hide what differs."""
    told = [document(SAME_KV), document({**SAME_KV, "model_config.max_logprobs": 5})]
    hashes = hashing("one root")
    members = [*alike("chat", 3, told[0], engines=hashes), replica("odd", document=told[1], engines=hashes)]

    assert "hare prefixes" not in text_of(part(review_report(fleet(members, told)), "pool-chat"))


def test_a_uniform_pool_with_findings_is_said_to_have_them() -> None:
    """Whoever reads only this part would take it to be in order; what is only for information misleads nobody."""
    decode = finding(STORY, ["deepseek-v3-decode-01"], id="one")
    found = [
        decode,
        replace(decode, id="two", severity=Severity.WARNING),
        replace(decode, id="three", severity=Severity.INFO),
        finding(STORY, ["gemma-27b-01"], id="four", severity=Severity.INFO),
    ]
    told = text_of(part(review_report(with_findings(STORY, *found)), "differences"))

    assert "Uniform pools with findings: deepseek-v3/decode (1 critical, 1 warning)." in told
    assert "with findings" not in text_of(part(review_report(with_findings(STORY)), "differences"))


def test_who_holds_less_is_named_and_drawn() -> None:
    """A pool whose ranks hold the same has no bars, and that is said."""
    members = [*alike("chat", 4, document()), *alike("calm", 3, document())]
    members[0] = replace(members[0], engines=(engine(600_000),))
    capacity = part(review_report(fleet(members, [document()])), "capacity")
    charts = [each for each in blocks_of(capacity.parts) if isinstance(each, Chart)]

    assert "chat-01 (chat): 600,000 tokens, 50 % less than the median (1,200,000)" in text_of(capacity)
    assert [chart.title for chart in charts] == ["chat: KV cache by DP rank, H100"]
    assert charts[0].median == 1_200_000
    assert [bar.mark for bar in charts[0].bars] == ["−50 %", "", "", ""]
    assert "Even ranks, no chart: calm." in text_of(capacity)


def test_what_could_not_be_read_says_why() -> None:
    """It is unknown, not critical: nobody knows what it would have said."""
    entries = entries_of([part(review_report(STORY), "not-read")])

    assert {entry.tone for entry in entries} == {Tone.UNKNOWN}
    assert "No answer within 5 s." in text_of(entries[0].lines)


def test_what_is_suppressed_says_by_whom_and_until_when() -> None:
    """Nothing is left out silently."""
    built = with_findings(STORY, suppressed=(finding(STORY, suppression=suppression()),))
    row = tables_of([part(review_report(built), "suppressed")])[0].rows[0]

    told = [cell.text for cell in row]
    by = suppression()
    assert told[2:] == [by.owner, str(by.until), by.reason]


def test_an_empty_fleet_and_one_that_is_down_are_told_truly() -> None:
    """No calm sentence where nothing was read."""
    empty, silent = review_report(empty_fleet("nobody")), review_report(fleet([down("a")], []))

    assert "Fleet nobody has no replicas." in empty.lead
    assert silent.headline == "No replica answered"
    for report in (empty, silent):
        assert "No pool reports its settings, so no rule was evaluated." in text_of(part(report, "fine"))
        assert "found nothing" not in text_of(report)


def test_terms_are_explained_once() -> None:
    """A reader of the PDF may know none of them."""
    words = text_of(part(review_report(STORY), "words"))

    for term in ("Cohort.", "Basis.", "Reference.", "Pool."):
        assert words.count(term) == 1
