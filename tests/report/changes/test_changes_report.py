"""What changed as a report: the agenda first, everything else in appendices, nothing foreign taken for markup."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.changes import changes_between
from dashboard.fleet import Basis
from dashboard.render.html_page import to_html
from dashboard.render.markdown import to_markdown
from dashboard.render.report_text import to_changes_table
from dashboard.rules.findings import Inspection
from dashboard.views.blocks import Figures, Table, Tone
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from tests.analysis.changes.sides import LATER, NEW, OLD, RESTARTED, SEQS, chat, fleet
from tests.builders import HOSTILE, alike, document, down, engine, hostile, replica
from tests.report.changes.changed import ODD, blocks, entries, lines, of, paragraphs, report, rows, text
from tests.views.walking import parts_of


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
    anchors = [each.anchor for each in parts_of(told.parts)]
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
    anchors = {each.anchor for each in told.parts}
    assert {each.target.anchor for each in figures.items if each.target} <= anchors


@pytest.mark.parametrize(
    ("silent", "note", "sentence"),
    [
        (
            1,
            "1 does not tell its start",
            "Nobody knows whether it restarted: 1 replica does not tell when it started (chat-01).",
        ),
        (
            2,
            "2 do not tell their start",
            "Nobody knows whether they restarted: 2 replicas do not tell when they started (chat-01 and chat-02).",
        ),
    ],
)
def test_who_does_not_tell_its_start_is_counted_in_words_that_fit_the_number(
    silent: int, note: str, sentence: str
) -> None:
    told = report(chat(3), [*chat(silent, started_at=None), *chat(3 - silent, first=silent + 1)])
    (figures,) = blocks(told, "at-a-glance", Figures)

    assert next(each.note for each in figures.items if each.label == "Restarted") == note
    assert paragraphs(told, "replicas")[-1] == sentence


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
        "Nobody knows whether it restarted: 1 replica does not tell when it started (e-1)."
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


@pytest.mark.no_cover
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
