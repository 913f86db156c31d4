"""Findings that are new, gone or the same; and what nobody looked at is never solved."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from dashboard.analysis.assembly import inspected
from dashboard.analysis.changes import (
    FindingChanges,
    OneSidedFinding,
    OtherSideStatus,
    PersistingFinding,
    changes_between,
)
from dashboard.fleet import Replica, State
from dashboard.rules.findings import Evidence, Finding, Inspection, OutcomeKind, Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.rules.subject import FINGERPRINT
from tests import inspected_fleets
from tests.analysis.changes.sides import BLOCK_SIZE, LATER, NEW, between, chat, fleet, ids, silent
from tests.builders import HASHING, NOW, document, down, engine, hashing, setting

ODD = [*chat(3), *chat(1, NEW, first=4)]  # RT-01: the fourth cuts blocks of 32
EVEN = chat(4)
ENTRY = Suppression("RT-01", "ann", "a trial", NOW.date(), number=1)


def of(rule: str, found: tuple[Any, ...]) -> Any:
    """The one finding of a rule."""
    told = [getattr(each, "after", None) or each.finding for each in found]
    (one,) = (each for each, finding in zip(found, told, strict=True) if finding.rule == rule)
    return one


def gone(*after: Replica, **more: Any) -> OneSidedFinding:
    """What became of the block size of the fourth replica."""
    changes = between(ODD, after, *more.pop("told", ()), **more)
    return of("RT-01", changes.findings.gone)  # type: ignore[no-any-return]


def test_what_was_mended_is_gone_and_was_looked_at() -> None:
    solved = gone(*EVEN)

    assert solved.elsewhere is OtherSideStatus.JUDGED
    assert solved.finding.replicas == ids("chat-04")
    assert (solved.outcome, solved.absent, solved.unread, solved.silent) == (OutcomeKind.PASSED, (), (), ())


def test_what_is_new_was_looked_at_before_and_not_found() -> None:
    new = of("RT-01", between(EVEN, ODD).findings.new)

    assert (new.elsewhere, new.is_suppressed) == (OtherSideStatus.JUDGED, False)


@pytest.mark.parametrize(
    "lost", [down("chat-04"), replace(EVEN[3], fresh=False), down("chat-04", document=NEW, fresh=True)]
)
def test_what_is_gone_because_its_replica_cannot_be_read_is_not_solved(lost: Replica) -> None:
    changes = between(ODD, [*chat(3), lost])
    found = [each for each in changes.findings.gone if each.finding.rule == "RT-01"]

    assert [each.elsewhere for each in found] in ([OtherSideStatus.NOT_JUDGED], [])
    assert all(each.unread == ids("chat-04") for each in found)
    assert changes.findings.over == ()


def test_what_its_replica_no_longer_tells_is_not_solved() -> None:
    hidden = document({BLOCK_SIZE: silent(State.REDACTED)})
    lost = gone(*chat(3), *chat(1, hidden, first=4), told=(hidden,))

    assert lost.elsewhere is OtherSideStatus.NOT_JUDGED
    assert (lost.silent, lost.unread) == (ids("chat-04"), ())


def test_what_left_with_its_replica_is_told_as_that() -> None:
    left = gone(*chat(3))

    assert (left.elsewhere, left.absent) == (OtherSideStatus.NOT_THERE, ids("chat-04"))


def test_a_rule_that_is_switched_off_solves_nothing() -> None:
    off = gone(*EVEN, now={"policy": Policy(rules={"RT-01": RuleChange(enabled=False)})})

    assert (off.elsewhere, off.outcome) == (OtherSideStatus.NOT_JUDGED, OutcomeKind.NOT_APPLICABLE)
    assert off.reason == "Disabled in fleet.yaml."


def test_a_pool_that_is_called_otherwise_was_not_judged_under_its_name() -> None:
    other = [replace(each, pool="talk") for each in EVEN]

    assert (gone(*other).elsewhere, gone(*other).outcome) == (OtherSideStatus.NOT_JUDGED, None)


def test_what_is_new_only_because_it_can_be_read_now_was_not_judged_before() -> None:
    new = of("RT-01", between([*chat(3), down("chat-04")], ODD).findings.new)

    assert (new.elsewhere, new.unread) == (OtherSideStatus.NOT_JUDGED, ids("chat-04"))


def test_a_finding_on_a_replica_that_cannot_be_read_is_solved_when_it_can() -> None:
    read = of("ID-05", between([*chat(3), down("chat-04")], EVEN).findings.gone)

    assert read.elsewhere is OtherSideStatus.JUDGED


def test_capacity_that_is_no_longer_told_is_not_solved() -> None:
    short = [*chat(4), *chat(1, first=5, engines=(engine(400_000),))]
    untold = [*chat(4), *chat(1, first=5, engines=(engine(None),))]
    mended = chat(5)

    assert of("CP-01", between(short, untold).findings.gone).elsewhere is OtherSideStatus.NOT_JUDGED
    assert of("CP-01", between(short, mended).findings.gone).elsewhere is OtherSideStatus.JUDGED


def test_measured_hashes_are_needed_only_by_the_rule_that_needs_them() -> None:
    """RT-06 rests on them; RT-01 has them as evidence beside the settings."""
    told = [*chat(3, engines=hashing("a")), *chat(1, first=4, engines=hashing("b"))]
    found = between(told, chat(4)).findings.gone

    assert {each.finding.rule for each in found if each.silent} <= {"RT-06"}
    assert all(each.elsewhere is OtherSideStatus.NOT_JUDGED for each in found if each.finding.rule == "RT-06")


def test_what_a_replica_never_told_here_is_not_missed_there_but_identity_is() -> None:
    """ID findings rest on identity: an address that is no longer told cannot clash any more."""
    told = {"kv_events_config.endpoint": setting("tcp://h:1")}
    named = inspected_fleets.finding(
        replicas=ids("chat-01"), evidence=(Evidence("kv_events_config.endpoint", '"tcp://h:1"', State.REPORTED),)
    )
    then = replace(fleet(*chat(4, identity=told)), inspection=Inspection((named,)))
    (lost,) = changes_between(then, fleet(*EVEN)).findings.gone
    (solved,) = changes_between(then, fleet(*chat(4, identity=told))).findings.gone

    assert (lost.elsewhere, lost.silent) == (OtherSideStatus.NOT_JUDGED, ids("chat-01"))
    assert solved.elsewhere is OtherSideStatus.JUDGED


def test_hashes_beside_settings_are_not_missed_by_a_rule_that_does_not_need_them() -> None:
    beside = (Evidence(BLOCK_SIZE, "32", State.REPORTED), Evidence(FINGERPRINT, '"a"', State.REPORTED))
    found = inspected_fleets.finding(replicas=ids("chat-01"), evidence=beside)
    then = replace(fleet(*chat(4, engines=hashing("a"))), inspection=Inspection((found,)))

    assert changes_between(then, fleet(*EVEN)).findings.gone[0].elsewhere is OtherSideStatus.JUDGED


def test_a_replica_that_neither_side_read_does_not_hinder_judging() -> None:
    lost = [*chat(3), down("chat-04")]
    then = replace(fleet(*lost), inspection=Inspection((inspected_fleets.finding(replicas=ids("chat-04")),)))

    assert changes_between(then, fleet(*lost)).findings.gone[0].unread == ()


def kept(before: list[Finding], after: list[Finding], **more: list[Finding]) -> FindingChanges:
    """Compare findings that are made by hand, on the same four replicas."""
    then, now = fleet(*EVEN), fleet(*EVEN, polled_at=LATER)
    then = replace(then, inspection=Inspection(tuple(before), tuple(more.get("hidden_before", ()))))
    now = replace(now, inspection=Inspection(tuple(after), tuple(more.get("hidden_after", ()))))
    return changes_between(then, now).findings


def one(changes: FindingChanges) -> PersistingFinding:
    (same,) = changes.kept
    assert (changes.new, changes.gone) == ((), ())
    return same


def finding(*names: str, **more: Any) -> Finding:
    return inspected_fleets.finding(replicas=ids(*names), **more)


def test_a_finding_of_both_sides_is_the_same_and_not_changed() -> None:
    same = one(kept([finding("chat-01")], [finding("chat-01", sentence="Says it in other words.")]))

    assert not same.is_changed


def test_a_finding_with_other_replicas_is_the_same_and_says_which() -> None:
    same = one(kept([finding("chat-01", "chat-02")], [finding("chat-02", "chat-03")]))

    assert (same.joined, same.left) == (ids("chat-03"), ids("chat-01"))
    assert same.is_changed


def test_a_replica_that_could_not_be_read_did_not_leave_a_finding() -> None:
    two = [*chat(4), *chat(2, NEW, first=5)]
    lost = [*two[:5], replace(two[5], fresh=False)]
    there = of("RT-01", between(two, lost).findings.kept)
    back = of("RT-01", between(lost, two).findings.kept)

    assert (there.left, there.unread) == (ids("chat-06"), ids("chat-06"))
    assert (back.joined, back.unread) == (ids("chat-06"), ids("chat-06"))


def test_a_finding_of_another_severity_is_the_same_and_says_so() -> None:
    same = one(kept([finding("chat-01")], [finding("chat-01", severity=Severity.INFO)]))

    assert (same.has_other_severity, same.is_changed) == (True, True)
    assert (same.before.severity, same.after.severity) == (Severity.CRITICAL, Severity.INFO)


def test_a_finding_that_became_suppressed_is_the_same_and_says_so() -> None:
    same = one(kept([finding("chat-01")], [], hidden_after=[finding("chat-01", suppression=ENTRY)]))

    assert same.has_other_suppression
    assert (same.is_suppressed_before, same.is_suppressed_after) == (False, True)
    assert (same.joined, same.left) == ((), ())


def test_a_part_that_a_suppression_took_leaves_the_finding_its_replicas() -> None:
    whole = finding("chat-01", "chat-02")
    part = finding("chat-02", suppression=ENTRY)
    same = one(kept([whole], [finding("chat-01")], hidden_after=[part]))

    assert (same.joined, same.left, same.is_suppressed_after) == ((), (), False)
    assert (same.suppressed_before, same.suppressed_after) == ((), ids("chat-02"))
    assert same.is_changed


def test_a_suppression_that_ended_is_told_with_the_finding_that_counts_again() -> None:
    hidden = [finding("chat-01", suppression=ENTRY)]
    again = finding("chat-01", expired=ENTRY)

    assert one(kept([], [again], hidden_before=hidden)).ended == ENTRY
    assert one(kept([again], [again])).ended is None, "it had ended before already"


def test_a_new_finding_that_is_suppressed_is_no_standing_one() -> None:
    changes = kept([], [finding("chat-01", id="a")], hidden_after=[finding("chat-02", id="b", suppression=ENTRY)])

    assert [each.finding.id for each in changes.new] == ["a", "b"]
    assert [each.finding.id for each in changes.standing] == ["a"]


def test_a_finding_without_replicas_was_judged_when_its_rule_was() -> None:
    then = replace(fleet(*EVEN), inspection=Inspection((finding(),)))
    ran, not_run = fleet(*EVEN), replace(fleet(*EVEN), inspection=Inspection())

    assert changes_between(then, ran).findings.gone[0].elsewhere is OtherSideStatus.JUDGED
    assert changes_between(then, not_run).findings.gone[0].elsewhere is OtherSideStatus.NOT_JUDGED


def test_suppressions_end_by_the_day_of_each_side() -> None:
    policy = Policy(suppressions=(replace(ENTRY, until=date(2026, 3, 4)),))
    then, now = (fleet(*ODD, policy=policy, polled_at=at) for at in (NOW, LATER))
    same = of("RT-01", changes_between(inspected(then, NOW), inspected(now, LATER)).findings.changed)

    assert (same.is_suppressed_before, same.is_suppressed_after) == (True, False)
    assert same.ended.owner == "ann"


def test_other_options_are_told_for_findings_change_by_them() -> None:
    off = {"policy": Policy(rules={"RT-01": RuleChange(enabled=False)})}

    assert between(ODD, ODD, now=off).options_differ
    assert between(ODD, ODD, now={"ignore": ("env.*",)}).options_differ
    assert not between(ODD, ODD, now={"policy": replace(HASHING, file="prod.yaml")}).options_differ
