"""The view Review: agenda, what is new, findings, differences, capacity, missing data, notes, many equal pools."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.analysis.changes.events import Event, EventKind
from dashboard.analysis.plan import plan_of
from dashboard.fleet import Note
from dashboard.render.html import to_html
from dashboard.render.markdown import to_markdown
from dashboard.rules.findings import Finding, Severity
from dashboard.store.reviews import NoLastReview
from dashboard.views.blocks import Chart, DifferenceTable
from dashboard.views.changes_text import what_happened
from dashboard.views.review import AGENDA, review_report
from tests.builders import SAME_KV, alike, document, down, engine, fleet, hashing, replica, story
from tests.findings_builder import finding, suppression, with_findings
from tests.used import with_traffic
from tests.views.large_fleets import large
from tests.views.walking import (
    anchors_led_to,
    blocks_of,
    entries_of,
    part,
    parts_of,
    places_of,
    tables_of,
    text_of,
)

STORY = story()
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
DRAIN = Note("drain it", "ann")


def one_a_pool(number: int) -> tuple[Fleet, list[Finding]]:
    """Equal pools, each with a finding of one rule with a different value."""
    built = fleet(*large(number))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(number)
    ]
    return built, found


def test_the_agenda_comes_first_and_appendices_last() -> None:
    report = review_report(STORY)
    anchors, appendices = [each.anchor for each in report.parts], [each.is_appendix for each in report.parts]

    assert anchors[: len(AGENDA) + 1] == [*AGENDA, "words"]
    assert True in appendices
    assert appendices == sorted(appendices)
    assert report.title == "Review of prod-eu"
    assert report.lead.startswith("Fleet prod-eu: 40 vLLM replicas in 5 pools (2 split, 3 uniform); 39 of 40 answered.")


def test_the_plan_is_the_second_section_and_each_cause_leads_to_its_change() -> None:
    report = review_report(STORY)
    listed = entries_of([report.parts[1]])
    links = [each.link.anchor for each in listed if each.link]

    assert (report.parts[1].anchor, len(links)) == ("plan", len(plan_of(STORY).causes))
    assert [each.anchor for each in part(report, "plan-changes").parts] == links


@pytest.mark.parametrize("missing", [NoLastReview.UNREAD, NoLastReview.CHOSEN])
def test_only_a_first_review_is_called_the_first(missing: NoLastReview) -> None:
    shown = text_of(part(review_report(STORY, missing=missing), "new"))

    assert missing in shown
    assert "first review" not in shown


def test_changes_since_the_last_review_are_without_their_appendices() -> None:
    before = fleet(alike("chat", 3, document()), [document()])
    other = document({"cache_config.block_size": 32})
    now = fleet([*alike("chat", 3, document()), replica("chat-new", document=other)], [document(), other])
    new, same = (part(review_report(each, before=past), "new") for each, past in ((now, before), (STORY, STORY)))

    assert "Data of the last review: 2026-03-02T11:42:05Z." in text_of(new)
    assert "chat-new" in text_of(new)
    assert not any(each.is_appendix for each in parts_of(new.parts))
    assert "No changes since 11:42 (39 of 40 replicas compared)" in text_of(same)
    assert same.parts == ()


def test_what_began_and_ended_since_is_listed_where_both_ends_are_equal() -> None:
    ended = Event(EventKind.FINDING_ENDED, AT, AT, ("chat",), rule="RT-01", sentence="It was 32.", now="critical")
    between = what_happened([ended], AT, AT)
    new = part(review_report(STORY, before=STORY, between=between), "new")

    assert [each.anchor for each in new.parts] == ["new-range"]
    assert "RT-01 block-size-differs: It was 32." in text_of(new)


def test_changed_settings_that_are_cut_are_in_an_appendix() -> None:
    now, changed = document(), document({f"cache_config.x{number}": number for number in range(9)})
    zeros = document({f"cache_config.x{number}": 0 for number in range(9)})
    before = fleet(alike("chat", 3, zeros), [now, zeros])
    report = review_report(fleet(alike("chat", 3, changed), [now, changed]), before=before)
    (appendix,) = (each for each in report.parts if each.anchor == "new-setting-changes")

    assert "and 2 more settings, in the appendix" in text_of(part(report, "new"))
    assert (appendix.title, appendix.is_appendix) == ("Changed settings", True)
    assert "cache_config.x8" in text_of(appendix)
    assert not any(each.anchor == "new-replica-changes" for each in report.parts)


def test_differences_have_the_rows_of_findings_and_the_appendix_has_all() -> None:
    changes = {f"model_config.made_up_{number:02}": number for number in range(20)}
    documents = [document(dict.fromkeys(changes, "x")), document({"cache_config.block_size": 32, **changes})]
    report = review_report(fleet([*alike("chat", 3, documents[0]), replica("odd", document=documents[1])], documents))
    shown, whole = (
        next(each for each in blocks_of([part(report, anchor)]) if isinstance(each, DifferenceTable))
        for anchor in ("pool-chat", "all-differences")
    )

    assert "cache_config.block_size" in [row.path for row in shown.matrix.rows]
    assert (len(shown.matrix.rows), len(whole.matrix.rows)) == (8, 21)
    assert "13 more settings: see All differences." in shown.notes


def test_differences_mention_prefix_sharing_only_where_it_is_limited() -> None:
    documents = [document(SAME_KV), document({**SAME_KV, "model_config.max_logprobs": 5})]
    hashes = hashing("one root")
    odd = replica("odd", document=documents[1], engines=hashes)
    report = review_report(fleet([*alike("chat", 3, documents[0], engines=hashes), odd], documents))

    assert "hare prefixes" not in text_of(part(report, "pool-chat"))


def test_pools_with_uneven_ranks_have_a_chart() -> None:
    members = [*alike("chat", 4, document()), *alike("even", 3, document())]
    members[0] = replace(members[0], engines=(engine(600_000),))
    capacity = part(review_report(fleet(members, [document()])), "capacity")
    (chart,) = (each for each in blocks_of(capacity.parts) if isinstance(each, Chart))

    assert "chat-01 (chat): 600,000 tokens, 50% less than the median (1,200,000)" in text_of(capacity)
    assert (chart.title, chart.median) == ("chat: KV cache by DP rank, H100", 1_200_000)
    assert [bar.mark for bar in chart.bars] == ["−50%", "", "", ""]
    assert "Even ranks, no chart: even." in text_of(capacity)


def test_pools_are_listed_with_their_hit_rates_the_lowest_first() -> None:
    used = with_traffic(STORY, {"chat-70b": 0.62, "gemma-27b": 0.1})
    shown, unread = (part(review_report(each), "traffic") for each in (used, STORY))
    (table,) = tables_of([shown])

    assert [(row[0].text, row[1].text) for row in table.rows[:3]] == [
        ("gemma-27b", "10%"),
        ("chat-70b", "62%"),
        ("deepseek-v3/decode", "not read twice yet"),
    ]
    assert "Prefix hit rate: 45%. 6.8 M of 15.0 M prompt tokens in 15 min, without decode pools." in text_of(shown)
    assert "Prefix hit rates: traffic is off (option traffic)." in text_of(unread)
    assert not tables_of([unread])


def test_a_fleet_without_data_is_not_called_clean() -> None:
    empty, silent = review_report(empty_fleet("prod")), review_report(fleet([down("a")], []))

    assert "Fleet prod has no replicas." in empty.lead
    assert silent.headline == "No replica answered"
    assert "No pool reports its settings, so no rule on settings was evaluated." in text_of(part(empty, "plan"))
    assert all("No findings from" not in text_of(report) for report in (empty, silent))


@pytest.mark.no_cover
def test_a_thousand_replicas_stay_readable_and_below_two_megabytes() -> None:
    report = review_report(fleet(*large()))

    assert len(entries_of(report.parts[: len(AGENDA) + 1])) < 60
    assert len(part(report, "capacity").parts) == 1
    assert [each.title for each in part(report, "differences").parts] == ["pool-000 and 199 more like it"]
    assert len(tables_of([part(report, "all-replicas")])[0].rows) == 1_000
    assert len(to_html(report).encode()) < 2_000_000


@pytest.mark.no_cover
def test_a_thousand_replicas_fit_into_a_comment_of_github() -> None:
    usual, members = fleet(*large()), large()[0]
    found = [finding(usual, [each.name], id=each.name, sentence=f"{each.name} differs.") for each in members]
    text = to_markdown(review_report(with_findings(usual, *found), before=usual))

    assert len(text) < 65_536
    assert "\n\nAppendices, in the HTML, PDF and JSON of this report: Fix plan: what to change, All findings" in text


@pytest.mark.parametrize(("number", "rest"), [(1, ""), (4, ""), (5, "pool-004"), (6, "pool-004 and pool-005")])
def test_findings_of_one_rule_cause_and_fix_are_one_entry_with_their_values(number: int, rest: str) -> None:
    built, found = one_a_pool(number)
    critical = part(review_report(with_findings(built, *found)), "severity-critical")

    assert len(entries_of([critical])) == 1
    assert ("Replicas of one pool use different block sizes." in text_of(critical)) == (number > 1)
    assert (f"Other values in {rest}." in text_of(critical)) == bool(rest)


def test_findings_with_different_fixes_are_different_entries() -> None:
    built = fleet(*large(3))
    found = [finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence="S.") for place in range(3)]
    found[1] = replace(found[1], remedy=found[1].remedy._replace(sentence="Restart it."))
    critical = part(review_report(with_findings(built, *found)), "severity-critical")

    assert len(entries_of([critical])) == 2
    assert text_of(critical).count("What to do: ") == 2


def test_notes_are_shown_with_their_finding_or_section() -> None:
    built = with_findings(STORY, finding(STORY))
    notes = {"0123456789": Note("drain it", "ann", AT), "capacity": Note("order", "bob"), "fine": Note("", "cyd")}
    report = review_report(built, notes=notes, before_notes={"0123456789": Note("look at it", "bob")})
    kept = review_report(built, notes={"0123456789": DRAIN}, before_notes={"0123456789": DRAIN})
    lines = text_of(entries_of([part(report, "severity-critical")])[0].notes)

    assert "Note, ann: drain it (2026-03-02T12:00:00Z)" in lines
    assert "At the last review, bob: look at it" in lines
    assert "Note, bob: order" in text_of(part(report, "capacity"))
    assert "Note, cyd: owner assigned, no text" in text_of(part(report, "fine"))
    assert text_of(part(kept, "findings")).count("drain it") == 1


def test_all_notes_are_listed_first_with_links_to_what_they_are_about() -> None:
    """Findings, the worst first, then suppressed ones, then sections, then findings that no longer exist."""
    warning = finding(STORY, id="warning", severity=Severity.WARNING, sentence="Block size may differ.")
    hidden = finding(STORY, id="hidden", sentence="Known.", suppression=suppression())
    built = with_findings(STORY, finding(STORY), warning, suppressed=(hidden,))
    texts = {
        "0123456789": "drain",
        "warning": "watch",
        "hidden": "leave",
        "capacity": "order",
        "fine": "ok",
        "old": "?",
    }
    report = review_report(built, notes={about: Note(text, "ann") for about, text in reversed(texts.items())})
    noted = report.parts[0]
    items = entries_of([noted])
    shown = {each.anchor: each for each in entries_of([part(report, "severity-critical")])}

    assert (noted.anchor, noted.title) == ("agreed", "Notes")
    assert [text_of(each.notes) for each in items] == [
        f"Note, ann: {text}" for text in ("drain", "watch", "leave", "ok", "order", "?")
    ]
    anchors = [each.head[0].link and each.head[0].link.anchor for each in items]
    assert anchors == ["finding-0123456789", "finding-warning", "suppressed", "fine", "capacity", None]
    assert anchors_led_to(noted) <= places_of(report)
    assert items[0].side == shown["finding-0123456789"].side
    assert "RT-01" in text_of(items[0].lines)
    assert next(iter(AGENDA)) == review_report(built).parts[0].anchor, "without notes there is no such section"


def test_a_note_on_one_of_many_findings_links_to_their_common_entry() -> None:
    built, found = one_a_pool(8)
    report = review_report(with_findings(built, *found), notes={f"{5:010}": DRAIN})
    (entry,) = entries_of([report.parts[0]])

    assert entry.head[0].text == "pool-005"
    assert (target := entry.head[0].link)
    assert target.anchor == f"finding-{0:010}"


def test_a_note_on_a_finding_that_is_fixed_is_listed_as_no_longer_found() -> None:
    before = with_findings(STORY, finding(STORY, sentence="Block size is 32."))
    report = review_report(with_findings(STORY), before=before, before_notes={"0123456789": DRAIN})
    settled = text_of(part(report, "settled"))

    assert "chat-70b Block size is 32." in settled
    assert "At the last review, ann: drain it" in settled
