"""What changed, in sentences that are true."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.changes import Amount, Changes, PersistingFinding, PoolCapacity, changes_between
from dashboard.fleet import Basis, State
from dashboard.report.changes import words
from dashboard.rules.findings import Finding, Inspection, OutcomeKind, Severity
from dashboard.rules.policy import Policy, RuleChange
from tests.analysis.changes.sides import BLOCK_SIZE, NEW, RESTARTED, SEQS, between, chat, fleet, ids, silent
from tests.builders import NOW, POLLED_AT, document, down, engine
from tests.report import judged

NAMES = dict(zip(ids("chat-01", "chat-02", "chat-03"), ("chat-01", "chat-02", "chat-03"), strict=True))
ODD = [*chat(3), *chat(1, NEW, first=4)]


def test_the_headline_says_findings_then_settings_then_replicas() -> None:
    changes = between(chat(4), [*chat(3), *chat(1, NEW, first=4, **RESTARTED), *chat(1, first=5)])

    assert words.headline(changes) == (
        "1 new finding, 1 spread to 1 more replica; 1 replica changed, block_size 16 to 32; 1 came and 1 restarted"
    )


def test_the_headline_says_that_a_finding_is_on_more_replicas_than_before() -> None:
    """It is not new, but worse; what was not read before, is suppressed or for information only does not count."""

    def now(*found: Finding) -> Changes:
        before = replace(fleet(*chat(4)), inspection=Inspection((judged.finding(replicas=ids("chat-01")),)))
        return changes_between(before, replace(fleet(*chat(4)), inspection=Inspection(found)))

    wider = judged.finding(replicas=ids("chat-01", "chat-02", "chat-03"))

    assert words.headline(now(wider)) == "1 finding spread to 2 more replicas"
    assert words.headline(now(wider, judged.finding(id="b"))) == "1 new finding, 1 spread to 2 more replicas"
    assert words.headline(now(replace(wider, severity=Severity.INFO))) == "1 finding changed"
    hidden = PersistingFinding(wider, wider, joined=ids("chat-02"), is_suppressed_after=True)
    assert (hidden.spread, replace(hidden, is_suppressed_after=False).spread) == ((), ids("chat-02"))
    assert replace(hidden, is_suppressed_after=False, unread=ids("chat-02")).spread == ()


def test_the_headline_names_the_change_that_matters_first_and_on_how_many() -> None:
    both, seqs = document({BLOCK_SIZE: 32, SEQS: 512}), document({SEQS: 512})
    changes = between(chat(4), [*chat(3, seqs), *chat(1, both, first=4)], both, seqs)

    assert "4 replicas changed, block_size 16 to 32 on 1 and 1 other setting" in words.headline(changes)


def test_the_headline_tells_what_is_gone_and_what_nobody_looked_at_apart() -> None:
    assert words.headline(between(ODD, chat(4))).startswith("1 finding gone; 1 replica changed")
    lost = words.headline(between(ODD, [*chat(3), replace(ODD[3], fresh=False)]))
    assert lost == "1 new finding", "ID-05: the replica is not read"


def test_the_headline_tells_what_went_changed_state_or_holds_less() -> None:
    less, more = (chat(1, first=2, engines=(engine(tokens),)) for tokens in (600_000, 2_400_000))
    gone = words.headline(between(chat(3), [*chat(1), down("chat-02"), *chat(1, first=4)]))

    assert gone.endswith("; 1 replica came, 1 went and 1 changed state")
    assert words.headline(between(chat(2), [*chat(1), *less])).endswith("1 rank holds less")
    assert words.headline(between(chat(2), [*chat(1), *more])).endswith("1 rank holds more")
    assert words.headline(between([*chat(1), *less], [*chat(1, engines=(engine(600_000),)), *more])).endswith(
        "1 rank holds less, 1 more"
    )
    assert words.headline(between(chat(1), [replace(chat(1)[0], name="blue")])) == "1 replica changed pool or name"


def test_nothing_changed_is_said_of_what_was_read_only() -> None:
    lost = down("chat-02")

    assert words.headline(between(chat(2), chat(2))) == "Nothing changed"
    assert words.headline(between([*chat(1), lost], [*chat(1), lost])) == (
        "Nothing changed in what was read on both sides"
    )
    hidden = document({SEQS: silent(State.REDACTED)})
    assert words.headline(between(chat(1), chat(1, hidden), hidden)) == (
        "No value changed, but not everything is told on both sides"
    )


def test_the_lead_says_what_else_became_of_findings() -> None:
    lost = between(ODD, [*chat(3), replace(ODD[3], fresh=False)])
    hidden = replace(judged.finding(id="b", replicas=ids("chat-01")), suppression=judged.suppression())
    now = replace(fleet(*chat(4)), inspection=Inspection((), (hidden,)))

    assert "; 1 finding not judged any more; 1 finding changed; " in words.lead(lost)
    assert words.headline(changes_between(fleet(*chat(4)), now)) == (
        "1 finding not judged any more, 1 new finding suppressed"
    )


def test_the_lead_says_how_much_was_compared() -> None:
    changes = between([*ODD, down("chat-05")], [*ODD, *chat(1, first=5)])

    assert words.lead(changes) == (
        "Settings of 4 of 5 replicas of both sides compared; 1 not read on both sides; 1 finding changed; "
        "1 finding as before."
    )


def test_findings_as_before_that_are_suppressed_are_counted_apart() -> None:
    """Other pages count those that are not suppressed: without a word the numbers would not agree."""

    def lead(*hidden: str) -> str:
        found = tuple(judged.finding(id=each) for each in "abc" if each not in hidden)
        left = tuple(replace(judged.finding(id=each), suppression=judged.suppression()) for each in hidden)
        then = replace(fleet(*chat(1)), inspection=Inspection(found, left))
        return words.as_before(changes_between(then, then))

    assert lead() == "3 findings as before"
    assert lead("b", "c") == "3 findings as before, of them 2 suppressed"


def test_the_lead_says_why_nothing_was_compared() -> None:
    """`0 of 0` tells nobody anything."""
    assert words.lead(between(chat(1), chat(1, first=2))) == (
        "No settings compared: no replica is on both sides; 1 finding changed; 0 findings as before."
    )
    assert words.lead(between(chat(2), [replace(each, fresh=False) for each in chat(2)])).startswith(
        "No settings compared: of 2 replicas of both sides, none was read on both; "
    )


def test_the_last_line_of_the_command_says_what_is_to_be_minded() -> None:
    changes = between([down("chat-01")], [down("chat-01")], now={"polled_at": POLLED_AT - timedelta(1)})

    assert words.difference_words(changes) == (
        "Nothing changed in what was read on both sides; 1 replica could not be compared; "
        "the second side is older than the first."
    )


def test_what_makes_the_comparison_another_one_is_warned_of() -> None:
    off = {"policy": Policy(rules={"RT-01": RuleChange(enabled=False)}), "polled_at": POLLED_AT - timedelta(1)}
    told = words.warnings(between(chat(1), chat(1), now={**off, "name": "prod-us"}))

    assert told == [
        "The second side is older than the first: what reads as new here is what was there before.",
        "These are two fleets: prod-eu and prod-us.",
        "fleet.yaml is not the same on both sides: findings can come and go by what it says.",
    ]
    assert words.warnings(between(chat(1), chat(2))) == []


def test_a_group_says_whose_settings_changed() -> None:
    def who(before: Any, after: Any) -> str:
        return words.group_who(between(before, after).settings.groups[0])

    assert who(chat(4), [*chat(3, NEW), *chat(1, first=4)]) == "3 of 4 replicas of chat"
    assert who(chat(2), chat(2, NEW)) == "Both replicas of chat"
    assert who(chat(3), chat(3, NEW)) == "All 3 replicas of chat"
    assert who(chat(1), chat(1, NEW)) == "The one replica of chat"
    assert who(chat(2), [replace(each, pool="talk") for each in chat(2, NEW)]) == (
        "2 replicas that went from chat to talk"
    )
    lone = [replace(each, pool=None) for each in chat(2)]
    assert who([*lone], [replace(each, pool=None) for each in chat(2, NEW)]) == "2 replicas without a pool"


def test_a_group_says_how_many_restarted() -> None:
    def restarts(*after: Any) -> str:
        return words.restarts_words(between(chat(len(after)), after).settings.groups[0])

    one, other = chat(1, NEW, **RESTARTED)[0], chat(1, NEW, first=2, **RESTARTED)[0]
    assert restarts(one) == "It restarted."
    assert restarts(one, other) == "All of them restarted."
    assert restarts(one, *chat(1, NEW, first=2)) == "1 of 2 restarted."
    assert restarts(*chat(1, NEW, started_at=None)) == (
        "None is known to have restarted; 1 does not tell when it started."
    )
    assert restarts(*chat(2, NEW, started_at=None)) == (
        "None is known to have restarted; 2 do not tell when they started."
    )


def test_a_group_says_in_which_cohorts_it_was_and_is() -> None:
    (group,) = between(chat(4), [*chat(3), *chat(1, NEW, first=4)]).settings.groups

    assert words.cohorts_words(group) == "from A to B"


def test_a_group_that_stays_in_its_cohorts_is_not_said_to_move() -> None:
    def cohorts(before: Any, after: Any) -> str:
        return words.cohorts_words(between(before, after).settings.groups[0])

    lone, pooled = ([replace(each, pool=pool) for each in chat(2, NEW)] for pool in (None, "chat"))
    assert cohorts(chat(1), chat(1, NEW)) == "in A before and after"
    assert cohorts(chat(4), chat(4, NEW)) == "in A ×4 before and after"
    assert cohorts([replace(each, pool=None) for each in chat(2)], pooled) == "no cohort ×2 to A ×2"
    assert cohorts([replace(each, pool=None) for each in chat(2)], lone) == ""


def test_what_only_one_side_tells_says_why() -> None:
    hidden = document({SEQS: silent(State.REDACTED)})
    settings = between(chat(2), chat(2, hidden), hidden).settings
    back = between(chat(2, hidden), chat(2), hidden).settings

    assert words.silence_words(settings.no_longer_told[0], is_told_now=False) == (
        "1 setting of 2 replicas of chat, redacted now: max_num_seqs."
    )
    assert words.silence_words(back.now_told[0], is_told_now=True) == (
        "1 setting of 2 replicas of chat, redacted before: max_num_seqs."
    )
    moved = [replace(each, pool=None) for each in chat(1, hidden)]
    told = between(chat(1), moved, hidden).settings.no_longer_told[0]
    assert "of 1 replica of chat, now no pool," in words.silence_words(told, is_told_now=False)


def lone(before: Any, after: Any, *, is_new: bool = False, **more: Any) -> list[str]:
    changes = between(before, after, *more.pop("told", ()), **more)
    found = changes.findings.new if is_new else changes.findings.gone
    return next(words.lone_words(each, changes.names, is_new=is_new) for each in found if each.finding.rule == "RT-01")


def test_what_became_of_a_gone_finding() -> None:
    hidden = document({BLOCK_SIZE: silent(State.REDACTED)})
    off = {"policy": Policy(rules={"RT-01": RuleChange(enabled=False)})}
    two = [*chat(3), *chat(2, NEW, first=4)]

    assert lone(ODD, chat(4)) == ["Its replica was read again."]
    assert lone(two, [*chat(4)]) == ["Its 2 replicas were read again; 1 left."]
    assert lone(ODD, chat(3)) == ["Its replica left."]
    assert lone(ODD, [*chat(3), replace(ODD[3], fresh=False)]) == ["Not judged any more: chat-04 could not be read."]
    assert lone(ODD, chat(4), now=off) == ["Not judged any more: the rule does not apply (fleet.yaml disables it)."]
    assert lone(ODD, [*chat(3), *chat(1, hidden, first=4)], told=(hidden,)) == [
        "Not judged any more: chat-04 did not tell what it is about."
    ]
    assert lone(ODD, [replace(each, pool="talk") for each in chat(4)]) == [
        "Not judged any more: the rule was not run there on the same pool."
    ]


def test_what_was_before_a_new_finding() -> None:
    assert lone(chat(4), ODD, is_new=True) == []
    assert lone(chat(3), ODD, is_new=True) == ["Its replica was not there before."]
    assert lone([*chat(3), down("chat-04")], ODD, is_new=True) == ["Was not judged before: chat-04 could not be read."]


def test_a_lone_finding_says_that_it_is_or_was_suppressed() -> None:
    entry = judged.suppression(reason="A trial.")
    (new,) = between(chat(4), ODD).findings.new
    hidden = replace(new, finding=replace(new.finding, suppression=entry), is_suppressed=True)

    assert words.lone_words(hidden, {}, is_new=True) == ["It is suppressed by ann until 2026-04-30: A trial."]


def test_a_rule_on_the_whole_was_judged_again_or_raised() -> None:
    (new,) = between(chat(4), ODD).findings.gone or between(ODD, chat(4)).findings.gone
    whole = replace(new, finding=replace(new.finding, replicas=()))

    assert words.lone_words(whole, {}, is_new=False) == ["The rule was judged again."]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"joined": ids("chat-02")}, "Now also on chat-02."),
        ({"left": ids("chat-03", "chat-01")}, "No longer on chat-01 and chat-03."),
        ({"joined": ids("chat-02"), "unread": ids("chat-02")}, "Now also on chat-02, not read before."),
        ({"left": ids("chat-02"), "unread": ids("chat-02")}, "Not judged any more on chat-02, not read now."),
        ({"ended": judged.suppression()}, "Its suppression by ann ended on 2026-04-30 (canary)."),
        ({"is_suppressed_before": True}, "No longer suppressed."),
        ({"suppressed_after": ids("chat-01")}, "Suppressed on chat-01 only."),
    ],
)
def test_how_a_finding_of_both_sides_changed(more: dict[str, Any], told: str) -> None:
    same = PersistingFinding(judged.finding(), judged.finding(), **more)

    assert words.kept_words(same, NAMES) == [told]


def test_how_a_finding_became_milder_and_suppressed() -> None:
    after = judged.finding(severity=Severity.WARNING, suppression=judged.suppression())
    same = PersistingFinding(judged.finding(), after, is_suppressed_after=True)

    assert words.kept_words(same, NAMES) == [
        "Now warning, was critical.",
        "Now suppressed by ann until 2026-04-30: canary.",
    ]


def test_what_is_not_in_the_sums_is_said() -> None:
    whole, part = Amount(4, 9, 9, basis=Basis.REPORTED), Amount(4, 9, 9, 1, 3, 2, Basis.REPORTED)

    def told(before: Amount, after: Amount) -> str:
        return words.missing_words(PoolCapacity("chat", before, after, same_ranks=True))

    assert told(whole, whole) == ""
    assert told(part, part) == "2 replicas, tokens of 1 rank, bytes of 3 ranks"
    assert told(whole, part._replace(unsized=0, silent=0)) == "before: nothing; after: tokens of 1 rank"
    assert told(part._replace(unknown=0, unsized=0), whole) == "before: 2 replicas; after: nothing"


def test_a_change_of_a_sum_is_told_where_it_can_be() -> None:
    def told(before: int | None, after: int | None, *, same: bool = True) -> str:
        then, now = (Amount(1, each, basis=Basis.REPORTED, silent=int(not same)) for each in (before, after))
        return words.share_words(PoolCapacity("chat", then, now, same))

    assert (told(1000, 820), told(1000, 1004), told(1000, 1000)) == ("−18 %", "+0.4 %", "0 %")
    assert (told(1000, 100_000), told(1000, 1_099)) == ("+9,900 %", "+9.9 %")
    assert (told(1000, 900, same=False), told(None, None), told(None, 5)) == ("not known", "-", "not known")
    assert words.percent(float("inf")) == "from nothing"


def test_a_rank_says_what_it_held_and_holds() -> None:
    assert words.rank_words(488_000, 400_000, is_at_most=False) == "488,000 to 400,000 tokens"
    assert words.rank_words(488_000, 400_000, is_at_most=True) == "≤ 488,000 to ≤ 400,000 tokens"


def test_a_rule_that_raised_or_was_skipped_on_the_other_side() -> None:
    (gone,) = between(ODD, [*chat(3), replace(ODD[3], fresh=False)]).findings.gone
    raised = replace(gone, outcome=OutcomeKind.ERROR, reason="ValueError: no.")

    assert words.lone_words(raised, {}, is_new=False) == [
        "Not judged any more: the rule raised an error (ValueError: no), and http://chat-04:8000 could not be read."
    ]


def test_a_fleet_before_its_first_poll_is_not_older() -> None:
    assert words.warnings(changes_between(fleet(polled_at=NOW), fleet(*chat(1)))) == [
        "The second side is older than the first: what reads as new here is what was there before."
    ]
