"""What changed between two fleets: what is new, fixed, unknown; every name links to the fleet that has it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes, PersistingFinding
from dashboard.fleet import Basis, Replica, State
from dashboard.fleet.pieces import Kind, Link, Text, to_plain
from dashboard.render.html import to_html
from dashboard.render.markdown import to_markdown
from dashboard.rules.findings import Finding, Inspection, Severity
from dashboard.rules.policy import Policy, RuleChange
from dashboard.views import changes_text
from dashboard.views.blocks import Entry, Paragraph, Table, Tone, View
from dashboard.views.changes import changes_report
from dashboard.views.changes_entries import finding_entries, sides_of
from dashboard.views.context import context_of
from tests import inspected_fleets as findings
from tests.analysis.changes.sides import (
    BLOCK_SIZE,
    LATER,
    NEW,
    OLD,
    RESTARTED,
    SEQS,
    between,
    chat,
    fleet,
    ids,
    without_value,
)
from tests.builders import NOW, POLLED_AT, alike, document, down, engine, replica
from tests.views.walking import blocks_of, entries_of, part, parts_of, tables_of

ODD = [*chat(3), *chat(1, NEW, first=4)]
STALE = [*chat(3), replace(ODD[3], fresh=False)]
HIDDEN = document({SEQS: without_value(State.REDACTED)})
BOTH, MORE = document({BLOCK_SIZE: 32, SEQS: 512}), document({SEQS: 512})
OFF = {"policy": Policy(rules={"RT-01": RuleChange(enabled=False)})}


def of(then: Fleet, now: Fleet) -> View:
    return changes_report(changes_between(then, now), context_of(then), context_of(now, name="Monday"))


def view(before: Iterable[Replica], after: Iterable[Replica], *documents: Any, **more: Any) -> View:
    then, now = (fleet(*each, documents=(OLD, NEW, *documents)) for each in (before, after))
    return of(then, replace(now, polled_at=LATER, **more))


def entries(shown: View, anchor: str) -> list[Entry]:
    return entries_of([replace(part(shown, anchor), parts=())])


def lines(entry: Entry) -> list[str]:
    return [to_plain(each) for each in entry.lines]


def paragraphs(shown: View, anchor: str) -> list[str]:
    return [to_plain(each.line) for each in blocks_of([part(shown, anchor)]) if isinstance(each, Paragraph)]


def rows(shown: View, anchor: str) -> list[list[str]]:
    return [[cell.text for cell in row] for table in tables_of([part(shown, anchor)]) for row in table.rows]


def targets(text: Text) -> dict[str, Link]:
    return {piece.text: piece.link for piece in text if piece.link}


def fleet_with(*found: Finding, suppressed: Sequence[Finding] = (), **more: Any) -> Fleet:
    return replace(fleet(*chat(4), **more), inspection=Inspection(found, tuple(suppressed)))


@pytest.mark.parametrize(
    ("before", "after", "headline"),
    [
        (chat(2), chat(2), "No changes since 2026-03-02 11:42 (2 replicas compared)"),
        (
            chat(4),
            [*chat(3), *chat(1, NEW, first=4, **RESTARTED)],
            "1 new finding; 1 replica changed: block_size 16 -> 32; 1 restarted",
        ),
        (ODD, chat(4), "1 finding fixed; 1 replica changed: block_size 32 -> 16"),
        (ODD, STALE, "1 new finding"),  # ID-05: the replica is stale
        ([*chat(1), down("x")], [*chat(1), down("x")], "No changes since 2026-03-02 11:42 (1 of 2 replicas compared)"),
        (chat(1), chat(1, HIDDEN), "No value changed; some settings are reported on one side only"),
        (chat(1), [replace(chat(1)[0], name="blue")], "1 replica changed pool or name"),
        (chat(1), chat(1, engines=(engine(600_000),)), "KV cache of 1 rank changed: 1 with less"),
        (
            chat(4),
            [*chat(3, MORE), *chat(1, BOTH, first=4)],
            "1 new finding; 4 replicas changed: block_size 16 -> 32 on 1 and 1 other setting",
        ),
    ],
)
def test_the_headline_names_findings_then_settings_then_replicas(before: Any, after: Any, headline: str) -> None:
    assert changes_text.headline(between(before, after, HIDDEN, MORE, BOTH)) == headline


def test_a_finding_on_more_replicas_is_worse_unless_it_is_suppressed_or_info_or_was_unreadable() -> None:
    wider = findings.finding(replicas=ids("chat-01", "chat-02", "chat-03"))

    def now(*found: Finding) -> Changes:
        return changes_between(fleet_with(findings.finding(replicas=ids("chat-01"))), fleet_with(*found))

    assert changes_text.headline(now(wider)) == "1 finding spread to 2 more replicas"
    assert changes_text.headline(now(replace(wider, severity=Severity.INFO))) == "1 finding changed"
    hidden = PersistingFinding(wider, wider, joined=ids("chat-02"), is_suppressed_after=True)
    assert (hidden.spread, replace(hidden, is_suppressed_after=False, unread=ids("chat-02")).spread) == ((), ())


def test_a_misleading_comparison_warns() -> None:
    now = {**OFF, "polled_at": POLLED_AT - timedelta(1), "name": "prod-us"}

    assert changes_text.warnings(between(chat(1), chat(1), now=now)) == [
        "The second side is older than the first: new and fixed are reversed.",
        "Different fleets: prod-eu and prod-us.",
        "fleet.yaml differs between the sides: findings may change with it.",
    ]
    changes = between([down("chat-01")], [down("chat-01")], now={"polled_at": now["polled_at"]})
    assert changes_text.summary(changes).endswith("; 1 replica not compared; the second side is older than the first.")
    assert changes_text.warnings(between(chat(1), chat(2))) == []
    assert changes_text.warnings(changes_between(fleet(polled_at=NOW), fleet(*chat(1)))) != []


def test_what_changed_is_first_and_anchors_are_unique() -> None:
    shown = view(ODD, [*chat(2), *chat(2, NEW, first=3, engines=(engine(600_000),), **RESTARTED)])
    anchors = [each.anchor for each in parts_of(shown.parts)]

    assert [each.anchor for each in shown.parts if each.is_appendix] == [
        "setting-changes",
        "replica-changes",
        "rank-changes",
    ]
    assert len(anchors) == len(set(anchors))
    assert [each.anchor for each in shown.parts if not each.is_appendix] == [
        "findings",
        "settings",
        "replicas",
        "capacity",
        "compared",
    ]
    assert [each.anchor for each in view(chat(2), chat(2)).parts] == ["compared"]
    (unchanged,) = paragraphs(view(chat(2), chat(2)), "compared")
    assert unchanged.startswith("1 finding unchanged. No settings changed on 2 replicas. No replica was added, removed")
    assert unchanged.endswith(" No KV cache changed by more than 10% on 2 compared ranks.")


def test_a_new_finding_that_is_suppressed_is_counted_apart() -> None:
    hidden = findings.finding(id="b", replicas=ids("chat-01"), suppression=findings.suppression())
    shown = of(fleet_with(), fleet_with(suppressed=[hidden], polled_at=LATER))

    assert shown.headline == "1 new finding suppressed"
    assert lines(entries(shown, "new-findings")[0])[-1] == "Suppressed until 2026-04-30 by ann: canary."


MASKED = document({BLOCK_SIZE: without_value(State.REDACTED)})
TWO = [*chat(3), *chat(2, NEW, first=4)]
RENAMED = [replace(each, pool="talk") for each in chat(4)]


@pytest.mark.parametrize(
    ("before", "after", "now", "change", "line"),
    [
        (ODD, chat(4), {}, "gone", "Evaluated again on 1 replica."),
        (TWO, chat(4), {}, "gone", "Evaluated again on 2 replicas. 1 removed."),
        (ODD, chat(3), {}, "gone", "Its replica is removed."),
        (ODD, STALE, {}, "gone", "No longer evaluated: unreachable chat-04."),
        (ODD, chat(4), OFF, "gone", "No longer evaluated: rule n/a (Disabled in fleet.yaml)."),
        (
            ODD,
            [*chat(3), *chat(1, MASKED, first=4)],
            {},
            "gone",
            "No longer evaluated: setting not reported by chat-04.",
        ),
        (ODD, RENAMED, {}, "gone", "No longer evaluated: rule not run on this pool."),
        (chat(4), ODD, {}, "new", ""),
        (chat(3), ODD, {}, "new", "Its replica is new."),
        ([*chat(3), down("chat-04")], ODD, {}, "new", "Not evaluated before: unreachable chat-04."),
    ],
)
def test_a_finding_on_one_side_has_a_reason(before: Any, after: Any, now: Any, change: str, line: str) -> None:
    changes = between(before, after, MASKED, now=now)
    found = changes.findings.new if change == "new" else changes.findings.no_longer_found
    own = [each for each in found if each.finding.rule == "RT-01"]

    assert "".join(lines(finding_entries(change, own, sides_of(changes)).items[0])[1:]) == line


def test_findings_are_listed_by_status_with_their_rule_linked_where_it_found_them() -> None:
    shown = view(ODD, chat(4), snapshot="0a1b2c3d4e")
    (fixed,) = entries(shown, "fixed-findings")
    (new,) = entries(view(chat(4), ODD, snapshot="0a1b2c3d4e"), "new-findings")

    assert (fixed.tone, fixed.side_text) == (Tone.GOOD, "B chat-04")
    assert targets(fixed.lines[0]) == {
        "RT-01 block-size-differs": Link(Kind.RULE, "RT-01", choices=(("snapshot", "live"),))
    }
    assert targets(new.lines[0])["RT-01 block-size-differs"].choices == (("snapshot", "0a1b2c3d4e"),)
    assert entries(view(ODD, STALE), "not-evaluated-findings")[0].tone is Tone.UNKNOWN
    assert entries(view(ODD, chat(3)), "fixed-findings")[0].tone is Tone.PLAIN


def test_the_same_finding_and_the_same_change_in_many_pools_are_one_entry() -> None:
    before = [each for number in range(15) for each in alike(f"p{number:02}", 4, OLD)]
    after = [each if each.name.endswith(("1", "2", "3")) else replace(each, document=NEW.id) for each in before]
    shown = view(before, after)
    (new,), (group,) = entries(shown, "new-findings"), entries(shown, "settings")

    assert part(shown, "new-findings").title == "New (15)"
    assert to_plain(new.head).startswith("15 pools ")
    assert lines(new)[-1].endswith("p11 and 3 more.")
    assert to_plain(group.head) == "15 replicas of 15 pools: block_size 16 -> 32"
    assert lines(group)[1] == "1 of 4 replicas of p00: 0 of 1 restarted. p00-04"
    assert lines(group)[-1] == "and in 3 more pools"


def test_long_lists_are_cut_and_counted() -> None:
    found = [findings.finding(id=f"{number}", sentence=f"Number {number}.") for number in range(45)]
    shown = of(fleet_with(), fleet_with(*found, polled_at=LATER))
    assert len(entries(shown, "new-findings")) == 40
    assert paragraphs(shown, "new-findings") == ["5 more in the JSON document."]

    own = [document({SEQS: number}) for number in range(45)]
    shown = view(
        chat(45, first=0), [one for number, each in enumerate(own) for one in chat(1, each, first=number)], *own
    )
    assert len(entries(shown, "settings")) == 40
    assert paragraphs(shown, "settings")[0] == "5 more in the appendix."
    assert len(rows(shown, "setting-changes")) == 45


def test_a_group_lists_its_settings_with_links_its_restarts_and_its_replicas() -> None:
    many = document({BLOCK_SIZE: 32, SEQS: 512, **{f"x.y{number}": number for number in range(6)}})
    none = document({f"x.y{number}": None for number in range(6)})
    shown = view(chat(2, none), chat(2, many, **RESTARTED), many, none)
    (group,) = entries(shown, "settings")

    assert to_plain(group.head) == "All 2 replicas of chat: block_size 16 -> 32 and 7 more settings"
    assert group.side == "B ×2 -> A ×2"
    assert lines(group)[:2] == ["cache_config.block_size 16 -> 32", "scheduler_config.max_num_seqs 256 -> 512"]
    assert lines(group)[-2:] == ["and 2 more settings, in the appendix", "All restarted. chat-01 and chat-02"]
    assert targets(group.lines[0])[BLOCK_SIZE][:3] == (Kind.SETTING, BLOCK_SIZE, "chat")
    assert [each.key for each in targets(group.lines[-1]).values()] == [*ids("chat-01", "chat-02")]
    assert rows(shown, "setting-changes")[0] == ["chat", BLOCK_SIZE, "16", "32", "2", "chat-01 and chat-02"]


def test_settings_that_could_not_be_compared_are_unknown() -> None:
    after = [*chat(1, HIDDEN), down("chat-02"), *chat(1, first=3), down("chat-04")]
    shown = view([*chat(2), down("chat-03"), down("chat-04")], after, HIDDEN)

    assert paragraphs(shown, "not-compared") == [
        "Unreachable on both sides: 1 replica (chat-04).",
        "Unreachable before: 1 replica (chat-03).",
        "Unreachable after: 1 replica (chat-02).",
    ]
    (unknown,) = entries(shown, "one-sided")
    assert to_plain(unknown.head) == "No longer reported (change unknown)"
    assert lines(unknown) == ["1 setting on 1 replica of chat, redacted now: max_num_seqs."]
    moved = view(chat(1, HIDDEN), [replace(each, pool=None) for each in chat(1)], HIDDEN)
    assert lines(entries(moved, "one-sided")[0]) == [
        "1 setting on 1 replica of chat, now no pool, redacted before: max_num_seqs."
    ]
    ignoring = view(chat(1), chat(1, NEW), ignored=(BLOCK_SIZE,))
    assert "Changed but ignored by fleet.yaml: cache_config.block_size." in paragraphs(ignoring, "settings")


def test_replicas_are_listed_by_what_happened_to_them_and_removed_ones_are_linked_in_the_fleet_before() -> None:
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
    shown = view(before, after, snapshot="0a1b2c3d4e")
    listed = entries(shown, "replicas")

    assert [(to_plain(each.head), lines(each)) for each in listed] == [
        ("2 replicas added", ["chat: chat-08 and chat-09"]),
        ("1 replica removed", ["chat: chat-04"]),
        ("1 replica restarted", ["chat: chat-02"]),
        ("1 replica changed state: up -> down", ["chat: chat-03"]),
        ("1 replica changed version: 0.31.0 -> 0.32.0", ["embed: e-1"]),
        ("1 replica moved: no pool -> chat", ["chat: blue"]),
        ("1 replica renamed: m -> blue", ["chat: blue"]),
    ]
    assert targets(listed[0].lines[0])["chat-08"].choices == (("snapshot", "0a1b2c3d4e"),)
    assert targets(listed[1].lines[0])["chat-04"].choices == (("snapshot", "live"),)
    assert paragraphs(shown, "not-compared")[-1] == "Restart unknown (no start time reported): 1 replica (e-1)."
    table = rows(shown, "replica-changes")
    assert ["chat", "chat-08", "added", "0.32.0", "A", "", ""] in table
    assert ["no pool -> chat", "m -> blue", "up", "0.32.0", "- -> A", "no", ""] in table
    assert ["embed", "e-1", "up", "0.31.0 -> 0.32.0", "A", "unknown", ""] in table


def test_capacity_lists_the_pools_that_changed_and_the_sum() -> None:
    other = [replica("e", pool="embed", document=OLD)]
    after = [*chat(1, engines=(engine(600_000),)), *chat(1, first=2, engines=(engine(900_000),)), *other]
    shown = view([*chat(2), *other], after)
    (table,), (less,) = tables_of([part(shown, "capacity")]), entries(shown, "capacity")

    assert [row[:5] for row in rows(shown, "capacity")] == [
        ["chat", "2", "2.4 M", "1.5 M", "−38%"],
        ["All pools", "3", "3.6 M", "2.7 M", "−25%"],
    ]
    assert table.note.endswith("Unchanged: 1 pool.")
    assert (less.tone, to_plain(less.head)) == (Tone.WARNING, "2 ranks of chat with less KV cache: −50% to −25%")
    assert lines(less)[0] == "chat-01, rank 0: 1,200,000 -> 600,000 tokens"
    assert rows(shown, "rank-changes")[0] == ["chat", "chat-01", "0", "1,200,000", "600,000", "−50%"]
    bound = view(chat(2), chat(2, engines=(engine(5, basis=Basis.ASSUMED),)))
    assert "Not compared (upper bound on one side only): 2 ranks." in tables_of([part(bound, "capacity")])[0].note


@pytest.mark.no_cover
@pytest.mark.parametrize("write", [to_html, to_markdown])
def test_a_thousand_replicas_stay_readable(write: Any) -> None:
    before = [
        each for number in range(25) for each in alike(f"p{number:02}", 40, OLD, engines=(engine(), engine(dp_rank=1)))
    ]
    after = [replace(each, document=NEW.id, engines=(engine(5), engine(9, dp_rank=1)), **RESTARTED) for each in before]
    shown = view(before, after)

    assert len(write(shown)) < 1_000_000
    table = next(each for each in blocks_of([part(shown, "rank-changes")]) if isinstance(each, Table))
    assert table.note == "1,000 more ranks in the JSON document."
