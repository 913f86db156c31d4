"""Findings in a report of what changed: by what became of them, grouped, counted and cut."""

from dataclasses import replace

from dashboard.rules.findings import Inspection
from dashboard.views.blocks import Figures, Tone
from tests.analysis.changes.sides import LATER, NEW, OLD, chat, fleet, ids
from tests.builders import POLLED_AT, alike
from tests.report import judged
from tests.report.changes.changed import ODD, blocks, entries, lines, of, paragraphs, report, text
from tests.views.walking import part


def test_findings_stand_by_what_became_of_them() -> None:
    told = report(ODD, chat(4))
    (solved,) = entries(told, "gone-findings")

    assert part(told, "gone-findings").title == "Gone (1)"
    assert solved.tone is Tone.GOOD
    assert text(solved.head) == "chat Block size is 32 instead of 16, which 3 of 4 replicas have."
    assert solved.side == "B chat-04"
    assert lines(solved) == ["RT-01 block-size-differs", "Its replica was read again."]
    (new,) = entries(report(chat(4), ODD), "new-findings")
    assert (new.tone, lines(new)) == (Tone.CRITICAL, ["RT-01 block-size-differs"])
    (lost,) = entries(report(ODD, [*chat(3), replace(ODD[3], fresh=False)]), "unjudged-findings")
    assert (lost.tone, lines(lost)[1]) == (Tone.UNKNOWN, "Not judged any more: chat-04 could not be read.")
    (left,) = entries(report(ODD, chat(3)), "gone-findings")
    assert left.tone is Tone.PLAIN


def test_the_same_finding_of_many_pools_is_one_entry() -> None:
    before = [each for number in range(15) for each in alike(f"p{number:02}", 4, OLD)]
    after = [each if each.name.endswith(("1", "2", "3")) else replace(each, document=NEW.id) for each in before]
    told = report(before, after)
    (new,) = entries(told, "new-findings")
    (group,) = entries(told, "settings")

    assert part(told, "new-findings").title == "New (15)"
    assert text(new.head).startswith("15 pools Block size is 32")
    assert new.side == "15 replicas"
    assert lines(new)[-1].endswith("p11 and 3 more.")
    assert text(group.head) == "15 replicas of 15 pools: block_size 16 to 32"
    assert lines(group)[1] == "1 of 4 replicas of p00: None is known to have restarted. p00-04"
    assert lines(group)[-1] == "and in 3 more pools"


def test_a_finding_that_changed_and_a_suppression_that_ended_stand_apart() -> None:
    entry = judged.suppression()
    then = replace(
        fleet(*chat(4)),
        inspection=Inspection(
            (judged.finding(id="a", replicas=ids("chat-01")),),
            (judged.finding(id="b", replicas=(), suppression=entry),),
        ),
    )
    now = replace(
        fleet(*chat(4), polled_at=LATER),
        inspection=Inspection(
            (
                judged.finding(id="a", replicas=ids("chat-01", "chat-02")),
                judged.finding(id="b", replicas=(), expired=entry),
            ),
        ),
    )
    told = of(then, now)

    assert [lines(each)[1:] for each in entries(told, "changed-findings")] == [["Now also on chat-02."]]
    assert [lines(each)[1] for each in entries(told, "ended-suppressions")] == [
        "Its suppression by ann ended on 2026-04-30 (canary)."
    ]
    assert paragraphs(told, "findings") == []  # what was as before, the lead says


def test_where_no_finding_changed_their_part_says_so() -> None:
    then, now = (
        replace(fleet(*chat(4), polled_at=at), inspection=Inspection((judged.finding(id="a"),)))
        for at in (POLLED_AT, LATER)
    )
    assert paragraphs(of(then, now), "findings") == ["1 finding as before."]


def test_a_finding_that_spread_has_a_figure_of_its_own_as_bad_as_it_is() -> None:
    """New findings are none then, and that alone would read as good news."""
    then, now = (
        replace(fleet(*chat(4), polled_at=at), inspection=Inspection((judged.finding(replicas=replicas),)))
        for at, replicas in ((POLLED_AT, ids("chat-01")), (LATER, ids("chat-01", "chat-02")))
    )
    (figures,) = blocks(of(then, now), "at-a-glance", Figures)

    assert [each[:2] for each in figures.items[:2]] == [("New findings", "0"), ("Findings that spread", "1")]
    assert (figures.items[1].note, figures.items[1].tone) == ("to 1 more replica", Tone.CRITICAL)


def test_a_new_finding_that_is_suppressed_is_counted_apart() -> None:
    hidden = judged.finding(id="b", replicas=ids("chat-01"), suppression=judged.suppression())
    now = replace(fleet(*chat(4), polled_at=LATER), inspection=Inspection((), (hidden,)))
    (figures,) = blocks(of(fleet(*chat(4)), now), "at-a-glance", Figures)

    assert figures.items[0][:2] == ("New findings", "0")
    assert figures.items[0].note == "1 suppressed"


def test_many_findings_of_a_kind_are_cut() -> None:
    found = tuple(judged.finding(id=f"{number}", sentence=f"Number {number}.") for number in range(45))
    now = replace(fleet(*chat(4), polled_at=LATER), inspection=Inspection(found))
    told = of(fleet(*chat(4)), now)

    assert len(entries(told, "new-findings")) == 40
    assert paragraphs(told, "new-findings") == ["5 more in the JSON document."]
