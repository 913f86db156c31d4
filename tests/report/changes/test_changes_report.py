"""What changed as a report: the agenda first, everything else in appendices, nothing foreign taken for markup."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.changes import changes_between
from dashboard.models import Basis, State
from dashboard.report.blocks import Entries, Figures, Paragraph, Table, Tone
from dashboard.report.changes.table import to_changes_table
from dashboard.report.context import context_of
from dashboard.report.formats.html_page import to_html
from dashboard.report.formats.markdown import to_markdown
from dashboard.report.views.changes import changes_report
from dashboard.rules.findings import Inspection
from tests.builders import HOSTILE, POLLED_AT, alike, document, down, engine, hostile, replica
from tests.changes.sides import BLOCK_SIZE, LATER, NEW, OLD, RESTARTED, SEQS, chat, fleet, ids, silent
from tests.report import judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dashboard.fleet import Fleet
    from dashboard.models import Replica
    from dashboard.report.blocks import Block, Entry, Part, Report

ODD = [*chat(3), *chat(1, NEW, first=4)]


def report(before: Iterable[Replica], after: Iterable[Replica], *told: Any, **more: Any) -> Report:
    documents = (OLD, NEW, *told)
    then, now = fleet(*before, told=documents), fleet(*after, told=documents, polled_at=LATER, **more)
    return of(then, now)


def of(then: Fleet, now: Fleet) -> Report:
    return changes_report(changes_between(then, now), context_of(then), context_of(now, name="Monday"))


def parts(told: Iterable[Part]) -> Iterator[Part]:
    for each in told:
        yield each
        yield from parts(each.parts)


def part(told: Report, anchor: str) -> Part:
    return next(each for each in parts(told.parts) if each.anchor == anchor)


def blocks(told: Report, anchor: str, kind: type[Block]) -> list[Any]:
    return [each for each in part(told, anchor).blocks if isinstance(each, kind)]


def entries(told: Report, anchor: str) -> list[Entry]:
    return [item for block in blocks(told, anchor, Entries) for item in block.items]


def text(line: Iterable[Any]) -> str:
    return "".join(piece.text for piece in line)


def lines(entry: Entry) -> list[str]:
    return [text(line) for line in entry.lines]


def paragraphs(told: Report, anchor: str) -> list[str]:
    return [text(each.line) for each in blocks(told, anchor, Paragraph)]


def rows(told: Report, anchor: str) -> list[list[str]]:
    (table,) = blocks(told, anchor, Table)
    return [[cell.text for cell in row] for row in table.rows]


def test_the_report_is_the_agenda_then_the_appendices() -> None:
    told = report(ODD, [*chat(2), *chat(2, NEW, first=3, engines=(engine(600_000),), **RESTARTED)])

    assert [(each.anchor, each.is_appendix) for each in told.parts] == [
        ("at-a-glance", False),
        ("findings", False),
        ("settings", False),
        ("replicas", False),
        ("capacity", False),
        ("setting-changes", True),
        ("replica-changes", True),
        ("rank-changes", True),
    ]
    assert told.context.data_as_of == LATER
    anchors = [each.anchor for each in parts(told.parts)]
    assert len(anchors) == len(set(anchors))


def test_both_sides_are_told() -> None:
    told = report(chat(2), [*chat(1), down("chat-02")], snapshot="0a1b2c3d4e", name="prod-us")

    assert rows(told, "at-a-glance") == [
        ["Fleet", "prod-eu", "prod-us"],
        ["Snapshot", "not frozen", "0a1b2c3d4e “Monday”"],
        ["Data as of", "2026-03-02T11:42:05Z", "2026-03-09T11:42:05Z"],
        ["Answered", "2 of 2", "1 of 2"],
    ]
    assert paragraphs(told, "at-a-glance") == ["These are two fleets: prod-eu and prod-us."]


def test_a_side_that_was_never_polled_or_has_no_name_says_so() -> None:
    then, now = fleet(polled_at=None, inspection=Inspection()), fleet(snapshot="0a1b2c3d4e")
    told = changes_report(changes_between(then, now), context_of(then), context_of(now))

    assert rows(told, "at-a-glance")[1:3] == [
        ["Snapshot", "not frozen", "0a1b2c3d4e"],
        ["Data as of", "no data yet", "2026-03-02T11:42:05Z"],
    ]


def test_the_figures_are_those_of_the_headline() -> None:
    seqs = document({SEQS: 512, "model_config.max_logprobs": 5})
    told = report(ODD, [*chat(2), replace(ODD[3], fresh=False), *chat(1, seqs, first=3, **RESTARTED)], seqs)
    (figures,) = blocks(told, "at-a-glance", Figures)

    assert {each.label: (each.value, each.note) for each in figures.items} == {
        "New findings": ("3", "0 critical, 2 warning, 1 info"),
        "Gone findings": ("0", "1 more not judged any more"),
        "Replicas with other settings": ("1", "of 3 compared"),
        "Replicas that came": ("0", ""),
        "Replicas that went": ("0", ""),
        "Restarted": ("1", "of 4"),
        "KV tokens": ("not known", "all pools together"),
    }
    assert all(any(each.anchor == anchor for each in told.parts) for anchor in {each.anchor for each in figures.items})


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
    assert paragraphs(told, "findings") == ["0 findings are as before."]


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


def test_a_group_shows_its_settings_its_restarts_and_its_replicas() -> None:
    many = document({BLOCK_SIZE: 32, SEQS: 512, **{f"x.y{number}": number for number in range(6)}})
    none = document({f"x.y{number}": None for number in range(6)})
    told = report(chat(2, none), chat(2, many, **RESTARTED), many, none)
    (group,) = entries(told, "settings")

    assert text(group.head) == "Both replicas of chat: block_size 16 to 32 and 7 more settings"
    assert group.side == "A ×2 to A ×2"
    assert lines(group)[:2] == ["cache_config.block_size 16 to 32", "scheduler_config.max_num_seqs 256 to 512"]
    assert lines(group)[-2:] == ["and 2 more settings, in the appendix", "All of them restarted. chat-01 and chat-02"]
    assert len(rows(told, "setting-changes")) == 8
    assert rows(told, "setting-changes")[0] == ["chat", BLOCK_SIZE, "16", "32", "2", "chat-01 and chat-02"]


def test_what_is_not_compared_is_told_and_never_called_the_same() -> None:
    hidden = document({SEQS: silent(State.REDACTED)})
    after = [*chat(1, hidden), down("chat-02"), *chat(1, first=3), down("chat-04")]
    told = report([*chat(2), down("chat-03"), down("chat-04")], after, hidden)

    assert paragraphs(told, "settings") == [
        "No setting has another value on the 1 replica that were compared.",
        "Not compared, for they were not read on either side: 1 replica (chat-04).",
        "Not compared, for they were not read before: 1 replica (chat-03).",
        "Not compared, for they were not read after: 1 replica (chat-02).",
    ]
    (untold,) = entries(told, "one-sided")
    assert text(untold.head) == "No longer told, so no change is known"
    assert lines(untold) == ["1 setting of 1 replica of chat, redacted now: max_num_seqs."]


def test_what_is_told_now_and_what_is_ignored_is_said_and_long_lists_are_counted() -> None:
    bare = [document(base={"version": "0.32.0", "n": number}) for number in range(14)]
    full = [document({"n": number, SEQS: 1000 + number}) for number in range(14)]
    before = [each for number, one in enumerate(bare) for each in chat(1, one, first=number)]
    after = [each for number, one in enumerate(full) for each in chat(1, one, first=number)]
    (told,) = entries(report(before, after, *bare, *full), "one-sided")
    ignoring = report(chat(1), chat(1, NEW), ignored=(BLOCK_SIZE,))

    assert text(told.head) == "Now told, so no change is known"
    assert lines(told)[-1].startswith("16 settings of 14 replicas of chat, not reported before: block_size, ")
    assert "Changed, but left out because fleet.yaml says that it does not matter: cache_config.block_size." in (
        paragraphs(ignoring, "settings")
    )


def test_replicas_stand_by_what_became_of_them() -> None:
    before = [
        *chat(4),
        replica("e-1", pool="embed", document=OLD, version="0.31.0"),
        replica("m", pool=None, document=OLD),
    ]
    after = [
        *chat(1),
        *chat(1, first=2, **RESTARTED),
        down("chat-03"),
        replica("e-1", pool="embed", document=OLD, version="0.32.0", started_at=None),
        replace(replica("m", pool="chat", document=OLD), name="blue"),
        *chat(2, first=8),
    ]
    told = report(before, after)

    assert [(text(each.head), lines(each)) for each in entries(told, "replicas")] == [
        ("2 replicas came", ["chat: chat-08 and chat-09"]),
        ("1 replica went", ["chat: chat-04"]),
        ("1 replica restarted", ["chat: chat-02"]),
        ("1 replica changed state: up to down", ["chat: chat-03"]),
        ("1 replica runs another version: 0.31.0 to 0.32.0", ["embed: e-1"]),
        ("1 replica moved to another pool: no pool to chat", ["chat: blue"]),
        ("1 replica is called something else: m to blue", ["chat: blue"]),
    ]
    assert paragraphs(told, "replicas") == [
        "Nobody knows whether they restarted: 1 replica does not tell when they started (e-1)."
    ]
    listed = rows(told, "replica-changes")
    assert ["chat", "chat-08", "came", "0.32.0", "A", "", ""] in listed
    assert ["chat", "chat-02", "up", "0.32.0", "A", "yes", ""] in listed
    assert ["no pool to chat", "m to blue", "up", "0.32.0", "- to A", "no", ""] in listed
    assert ["embed", "e-1", "up", "0.31.0 to 0.32.0", "A", "not known", ""] in listed


def test_where_nothing_changed_the_report_says_so_and_has_no_appendix() -> None:
    told = report(chat(2), chat(2))

    assert told.headline == "Nothing changed"
    assert not any(each.is_appendix for each in told.parts)
    assert paragraphs(told, "replicas") == ["No replica came, went or restarted, as far as they tell."]
    assert paragraphs(told, "capacity") == ["None of the 2 ranks compared holds 10 % less or more than before."]


def test_capacity_lists_the_pools_that_changed_and_the_sum() -> None:
    other = [replica("e", pool="embed", document=OLD)]
    before = [*chat(2), *other]
    after = [*chat(1, engines=(engine(600_000),)), *chat(1, first=2, engines=(engine(900_000),)), *other]
    told = report(before, after)

    assert [row[:5] for row in rows(told, "capacity")] == [
        ["chat", "2", "2.4 M", "1.5 M", "−38 %"],
        ["All pools", "3", "3.6 M", "2.7 M", "−25 %"],
    ]
    (table,) = blocks(told, "capacity", Table)
    assert table.note.endswith("As before: 1 pool.")
    (less,) = entries(told, "capacity")
    assert (less.tone, text(less.head)) == (Tone.WARNING, "2 ranks of chat hold less than before: −50 % to −25 %")
    assert lines(less)[0] == "chat-01, rank 0: 1,200,000 to 600,000 tokens"
    assert rows(told, "rank-changes")[0] == ["chat", "chat-01", "0", "1,200,000", "600,000", "−50 %"]


def test_more_ranks_and_pools_than_can_be_read_are_counted() -> None:
    many = [each for number in range(45) for each in alike(f"p{number:02}", 4, OLD)]
    told = report(many, [replace(each, engines=(engine(2_400_000),)) for each in many])
    (table,) = blocks(told, "capacity", Table)

    assert len(table.rows) == 41
    assert table.note.endswith("5 more pools in the JSON document.")
    assert lines(entries(told, "capacity")[0])[-1] == "and 1 more rank, in the appendix"
    assert entries(told, "capacity")[0].tone is Tone.PLAIN


def test_ranks_of_which_only_one_side_is_an_upper_bound_are_counted() -> None:
    told = report(chat(2), chat(2, engines=(engine(5, basis=Basis.ASSUMED),)))
    (table,) = blocks(told, "capacity", Table)

    assert "Not compared, for only one side is an upper bound: 2 ranks." in table.note


@pytest.mark.parametrize("write", [to_html, to_markdown])
def test_a_thousand_replicas_stay_readable(write: Any) -> None:
    before = [
        each for number in range(25) for each in alike(f"p{number:02}", 40, OLD, engines=(engine(), engine(dp_rank=1)))
    ]
    after = [replace(each, document=NEW.id, engines=(engine(5), engine(9, dp_rank=1)), **RESTARTED) for each in before]
    told = report(before, after)
    text_of = write(told)

    assert len(text_of) < 1_000_000
    assert len(rows(told, "rank-changes")) == 1_000
    (table,) = blocks(told, "rank-changes", Table)
    assert table.note == "1,000 more ranks in the JSON document."
    assert len(entries(told, "settings")) == 1


def test_what_strangers_write_is_no_markup_and_breaks_no_line() -> None:
    then, now = hostile(), hostile()
    swapped = [
        replace(each, document=other.document) for each, other in zip(now.replicas, now.replicas[1::-1], strict=False)
    ]
    now = fleet(*swapped, told=now.documents.values(), name=HOSTILE, polled_at=LATER)
    told = of(then, now)
    page, table = to_html(told), to_changes_table(told, width=120, colour=False)

    assert "<script" not in page.replace("&lt;script", "")
    assert "<img" not in page
    assert not any(line.startswith("=1+1") for line in table.splitlines())
    assert HOSTILE.split("\n")[0][:20] in table


def test_many_findings_of_a_kind_are_cut() -> None:
    found = tuple(judged.finding(id=f"{number}", sentence=f"Number {number}.") for number in range(45))
    now = replace(fleet(*chat(4), polled_at=LATER), inspection=Inspection(found))
    told = of(fleet(*chat(4)), now)

    assert len(entries(told, "new-findings")) == 40
    assert paragraphs(told, "new-findings") == ["5 more in the JSON document."]


def test_many_groups_of_settings_are_cut() -> None:
    each_its_own = [document({SEQS: number}) for number in range(45)]
    after = [one for number, told in enumerate(each_its_own) for one in chat(1, told, first=number)]
    told = report(chat(45, first=0), after, *each_its_own)

    assert len(entries(told, "settings")) == 40
    assert paragraphs(told, "settings")[0] == "5 more groups of replicas stand in the appendix."
    assert len(rows(told, "setting-changes")) == 45
