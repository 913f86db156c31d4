"""Findings that are new, fixed or persisting; one that was not evaluated is never fixed."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from dashboard.analysis.assembly import inspected
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import FindingChanges, OneSidedFinding, OtherSideStatus, PersistingFinding
from dashboard.fleet import State
from dashboard.rules.findings import Evidence, Finding, Inspection, OutcomeKind, Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.rules.subject import FINGERPRINT
from tests import inspected_fleets as findings
from tests.analysis.changes.sides import BLOCK_SIZE, LATER, NEW, between, chat, fleet, ids, without_value
from tests.builders import HASHING, NOW, document, down, engine, hashing, setting

EVALUATED, NOT_EVALUATED, NOT_THERE = OtherSideStatus
ODD = [*chat(3), *chat(1, NEW, first=4)]  # RT-01: the block size of the fourth is 32
EVEN = chat(4)
LOST = [*chat(3), down("chat-04")]
HIDDEN = document({BLOCK_SIZE: without_value(State.REDACTED)})
OFF = {"policy": Policy(rules={"RT-01": RuleChange(enabled=False)})}
ENTRY = Suppression("RT-01", "ann", "a trial", NOW.date(), number=1)


def of(rule: str, found: tuple[Any, ...]) -> Any:
    """Return the only finding of a rule."""
    own = [getattr(each, "after", None) or each.finding for each in found]
    (one,) = (each for each, finding in zip(found, own, strict=True) if finding.rule == rule)
    return one


def gone(*after: Any, **more: Any) -> OneSidedFinding:
    """Return the finding on the block size of the fourth replica, which the other side does not have."""
    changes = between(ODD, after, HIDDEN, **more)
    return of("RT-01", changes.findings.no_longer_found)  # type: ignore[no-any-return]


def test_a_finding_that_only_one_side_has_has_a_status_on_the_other() -> None:
    fixed, hidden, removed = gone(*EVEN), gone(*chat(3), *chat(1, HIDDEN, first=4)), gone(*chat(3))
    disabled, renamed = gone(*EVEN, now=OFF), gone(*[replace(each, pool="talk") for each in EVEN])

    assert (fixed.other_side, fixed.outcome, fixed.finding.replicas) == (EVALUATED, OutcomeKind.PASSED, ids("chat-04"))
    assert (fixed.absent, fixed.unread, fixed.silent) == ((), (), ())
    assert (hidden.other_side, hidden.silent, hidden.unread) == (NOT_EVALUATED, ids("chat-04"), ())
    assert (removed.other_side, removed.absent) == (NOT_THERE, ids("chat-04"))
    assert (disabled.other_side, disabled.outcome) == (NOT_EVALUATED, OutcomeKind.NOT_APPLICABLE)
    assert disabled.reason == "Disabled in fleet.yaml."
    assert (renamed.other_side, renamed.outcome) == (NOT_EVALUATED, None)


@pytest.mark.parametrize(
    "lost", [down("chat-04"), replace(EVEN[3], fresh=False), down("chat-04", document=NEW, fresh=True)]
)
def test_a_finding_on_a_replica_that_is_unreadable_now_is_not_fixed(lost: Any) -> None:
    changes = between(ODD, [*chat(3), lost])
    found = [each for each in changes.findings.no_longer_found if each.finding.rule == "RT-01"]

    assert all(each.other_side is NOT_EVALUATED and each.unread == ids("chat-04") for each in found)
    assert changes.findings.fixed == ()


def test_a_new_finding_was_either_evaluated_before_or_not() -> None:
    new, read = of("RT-01", between(EVEN, ODD).findings.new), of("RT-01", between(LOST, ODD).findings.new)

    assert (new.other_side, new.is_suppressed) == (EVALUATED, False)
    assert (read.other_side, read.unread) == (NOT_EVALUATED, ids("chat-04"))
    assert of("ID-05", between(LOST, EVEN).findings.no_longer_found).other_side is EVALUATED


def test_a_capacity_finding_is_not_fixed_by_missing_capacity() -> None:
    short = [*chat(4), *chat(1, first=5, engines=(engine(400_000),))]
    unknown = [*chat(4), *chat(1, first=5, engines=(engine(None),))]

    assert of("CP-01", between(short, unknown).findings.no_longer_found).other_side is NOT_EVALUATED
    assert of("CP-01", between(short, chat(5)).findings.no_longer_found).other_side is EVALUATED


def test_a_finding_on_fingerprints_is_not_fixed_where_they_are_no_longer_reported() -> None:
    differing = [*chat(3, engines=hashing("a")), *chat(1, first=4, engines=hashing("b"))]
    found = between(differing, chat(4)).findings.no_longer_found

    assert {each.finding.rule for each in found if each.silent} <= {"RT-06"}
    assert all(each.other_side is NOT_EVALUATED for each in found if each.finding.rule == "RT-06")


ENDPOINT = {"kv_events_config.endpoint": setting("tcp://h:1")}


@pytest.mark.parametrize(
    ("paths", "before", "after", "status", "silent"),
    [
        ((BLOCK_SIZE, FINGERPRINT), chat(4, engines=hashing("a")), EVEN, EVALUATED, ()),  # RT-01 needs no fingerprint
        (ENDPOINT, chat(4, identity=ENDPOINT), EVEN, NOT_EVALUATED, ids("chat-01")),
        (ENDPOINT, chat(4, identity=ENDPOINT), chat(4, identity=ENDPOINT), EVALUATED, ()),
        (("devices.name",), EVEN, chat(4, devices=()), NOT_EVALUATED, ids("chat-01")),
        ((), [down("chat-01"), *EVEN[1:]], [down("chat-01"), *EVEN[1:]], EVALUATED, ()),  # neither side read it
    ],
)
def test_a_finding_is_evaluated_where_all_that_it_needs_is_reported(
    paths: Iterable[str], before: Any, after: Any, status: OtherSideStatus, silent: tuple[str, ...]
) -> None:
    made = finding("chat-01", evidence=tuple(Evidence(path, '"x"', State.REPORTED) for path in paths))
    then = replace(fleet(*before), inspection=Inspection((made,)))
    (found,) = changes_between(then, fleet(*after)).findings.no_longer_found

    assert (found.other_side, found.silent, found.unread) == (status, silent, ())


def test_a_finding_without_replicas_is_evaluated_if_its_rule_ran() -> None:
    then, ran = replace(fleet(*EVEN), inspection=Inspection((finding(),))), fleet(*EVEN)
    found = (changes_between(then, now) for now in (ran, replace(ran, inspection=Inspection())))

    assert [each.findings.no_longer_found[0].other_side for each in found] == [EVALUATED, NOT_EVALUATED]


def compared(before: list[Finding], after: list[Finding], **more: list[Finding]) -> FindingChanges:
    """Compare findings on the same four replicas."""
    then, now = fleet(*EVEN), fleet(*EVEN, polled_at=LATER)
    then = replace(then, inspection=Inspection(tuple(before), tuple(more.get("suppressed_before", ()))))
    now = replace(now, inspection=Inspection(tuple(after), tuple(more.get("suppressed_after", ()))))
    return changes_between(then, now).findings


def persisting(before: list[Finding], after: list[Finding], **more: list[Finding]) -> PersistingFinding:
    changes = compared(before, after, **more)
    assert (changes.new, changes.no_longer_found) == ((), ())
    (found,) = changes.persisting
    return found


def finding(*names: str, **more: Any) -> Finding:
    return findings.finding(replicas=ids(*names), **more)


def test_a_persisting_finding_changes_by_replicas_and_severity_but_not_by_its_sentence() -> None:
    reworded = persisting([finding("chat-01")], [finding("chat-01", sentence="Another sentence.")])
    moved = persisting([finding("chat-01", "chat-02")], [finding("chat-02", "chat-03")])
    milder = persisting([finding("chat-01")], [finding("chat-01", severity=Severity.INFO)])

    assert not reworded.is_changed
    assert (moved.joined, moved.left, moved.is_changed) == (ids("chat-03"), ids("chat-01"), True)
    assert (milder.has_other_severity, milder.is_changed) == (True, True)
    assert (milder.before.severity, milder.after.severity) == (Severity.CRITICAL, Severity.INFO)


def hashes(key: str, *names: str) -> Finding:
    """A finding on block hashes alone: its id names its replicas."""
    evidence = (Evidence(FINGERPRINT, "f1", State.REPORTED, ids(*names)),)
    return finding(*names, id=key, rule="RT-06", evidence=evidence)


def test_one_more_replica_that_hashes_otherwise_is_a_spread_and_no_new_finding() -> None:
    found = persisting([hashes("a1", "chat-01")], [hashes("b2", "chat-01", "chat-02")])

    assert (found.before.id, found.after.id) == ("a1", "b2")
    assert (found.spread, found.left) == (ids("chat-02"), ())


def test_one_more_unreachable_replica_is_a_spread_and_no_new_finding() -> None:
    """Each has its own reason, which names its address."""
    third, fourth = (
        replace(each, failure=replace(each.failure, detail=f"{each.name} refused the connection."))
        for each in (down("chat-03"), down("chat-04"))
        if each.failure
    )
    changes = between([*chat(3), fourth], [*chat(2), third, fourth]).findings
    unreachable = of("ID-05", changes.persisting)

    assert "ID-05" not in {each.finding.rule for each in (*changes.new, *changes.no_longer_found)}
    assert unreachable.before.id != unreachable.after.id
    assert (unreachable.joined, unreachable.left) == (ids("chat-03"), ())


def test_findings_on_hashes_that_cannot_be_told_apart_are_new_and_gone() -> None:
    changes = compared([hashes("a1", "chat-01")], [hashes("b2", "chat-02"), hashes("c3", "chat-03")])

    assert changes.persisting == ()
    assert [each.finding.id for each in changes.new] == ["b2", "c3"]
    assert [each.finding.id for each in changes.no_longer_found] == ["a1"]


def test_a_replica_that_was_unreadable_on_a_side_did_not_join_or_leave_for_certain() -> None:
    two = [*chat(4), *chat(2, NEW, first=5)]
    lost = [*two[:5], replace(two[5], fresh=False)]
    there, back = (of("RT-01", between(*sides).findings.persisting) for sides in ((two, lost), (lost, two)))

    assert (there.left, there.unread) == (ids("chat-06"), ids("chat-06"))
    assert (back.joined, back.unread) == (ids("chat-06"), ids("chat-06"))


def test_a_finding_persists_when_it_is_suppressed_as_a_whole_or_in_part() -> None:
    whole = persisting([finding("chat-01")], [], suppressed_after=[finding("chat-01", suppression=ENTRY)])
    part = persisting(
        [finding("chat-01", "chat-02")],
        [finding("chat-01")],
        suppressed_after=[finding("chat-02", suppression=ENTRY)],
    )

    assert (whole.has_other_suppression, whole.is_suppressed_before, whole.is_suppressed_after) == (True, False, True)
    assert (whole.joined, whole.left) == (part.joined, part.left) == ((), ())
    assert (part.suppressed_before, part.suppressed_after) == ((), ids("chat-02"))
    assert (part.is_suppressed_after, part.is_changed) == (False, True)


def test_a_suppression_that_expired_in_between_is_named() -> None:
    again = finding("chat-01", expired=ENTRY)

    assert persisting([], [again], suppressed_before=[finding("chat-01", suppression=ENTRY)]).ended == ENTRY
    assert persisting([again], [again]).ended is None, "it had expired before already"


def test_new_findings_are_counted_with_and_without_suppressed_ones() -> None:
    hidden = [finding("chat-02", id="b", suppression=ENTRY)]
    changes = compared([], [finding("chat-01", id="a")], suppressed_after=hidden)

    assert [each.finding.id for each in changes.new] == ["a", "b"]
    assert [each.finding.id for each in changes.unsuppressed] == ["a"]


def test_suppressions_expire_by_the_date_of_each_side() -> None:
    policy = Policy(suppressions=(replace(ENTRY, until=date(2026, 3, 4)),))
    then, now = (fleet(*ODD, policy=policy, polled_at=at) for at in (NOW, LATER))
    same = of("RT-01", changes_between(inspected(then, NOW), inspected(now, LATER)).findings.changed)

    assert (same.is_suppressed_before, same.is_suppressed_after, same.ended.owner) == (True, False, "ann")


def test_different_options_are_noticed_but_not_the_name_of_their_file() -> None:
    assert between(ODD, ODD, now=OFF).options_differ
    assert between(ODD, ODD, now={"ignore": ("env.*",)}).options_differ
    assert not between(ODD, ODD, now={"policy": replace(HASHING, file="prod.yaml")}).options_differ
