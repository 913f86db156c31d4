"""The life of a finding: it begins, lasts while nobody can see its end, comes again on one replica, and ends."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis import lifecycle
from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.flapping import Watch
from dashboard.analysis.lifecycle import EndProof, recurrences, resumed
from dashboard.documents.load import read_snapshot
from dashboard.fleet.history import Extent, Sighting
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import Finding, FindingLife, Inspection, OutcomeKind, Suppression
from dashboard.rules.policy import Policy
from dashboard.store.packing import content_of
from tests import builders, findings_builder
from tests.builders import NOW
from tests.notify.polls import DOCUMENT, FLEET, POLL, lived, lost, poll, problem, rolling

KEY = problem().fingerprint
FIRST = "http://chat-01:8000"
MINUTE = timedelta(minutes=1)


def life(fleet: Fleet, finding: Finding | None = None) -> FindingLife:
    return fleet.lives.lives[finding.fingerprint if finding else KEY]


def test_a_finding_begins_between_two_polls_and_lasts_since() -> None:
    *_, last = lived(poll(0), poll(1, problem()), poll(2, problem()))

    assert life(last).sighting == Sighting(NOW + POLL, NOW + POLL, NOW)
    assert life(last).ended is None


def test_what_the_first_poll_finds_or_a_new_rule_set_may_be_older() -> None:
    (first,) = lived(poll(0, problem()))
    assert life(first).sighting == Sighting(NOW, NOW)
    assert life(first).times == {}

    (before,) = lived(poll(0))
    updated = lifecycle.with_lives(poll(1, problem()), replace(before.lives, rule_set=RULE_SET - 1))
    assert life(updated).sighting == Sighting(NOW + POLL, NOW + POLL)


def test_a_finding_that_returns_begins_anew_and_keeps_when_it_was_seen_first() -> None:
    *_, last = lived(poll(0), poll(1, problem()), poll(2), poll(3), poll(4, problem()))

    assert life(last).sighting == Sighting(NOW + POLL, NOW + 4 * POLL, NOW + 3 * POLL)


def test_a_finding_ends_with_the_first_poll_that_could_see_it_and_did_not() -> None:
    *_, last, after = lived(poll(0), poll(1, problem()), poll(2), poll(3))

    assert life(last).ended == life(after).ended == NOW + 2 * POLL


def test_a_finding_of_a_replica_that_is_down_stays_among_the_findings() -> None:
    gone = lost(FLEET, "chat-01")
    *_, down, still, back = lived(
        poll(0), poll(1, problem()), poll(2, fleet=gone), poll(3, fleet=gone), poll(4, problem())
    )

    for fleet in (down, still):
        assert fleet.inspection.findings == (replace(problem(), seen_at=NOW + POLL),)
        assert fleet.inspection.tallies["chat"].critical == 1
    assert back.inspection.findings == (problem(),)
    assert life(back).sighting == Sighting(NOW + POLL, NOW + POLL, NOW)
    assert life(back).times == {FIRST: (NOW + POLL,)}


def test_a_finding_that_was_mended_in_an_outage_ends_with_the_first_poll_that_sees_it() -> None:
    *_, last = lived(poll(0, problem()), poll(1, fleet=lost(FLEET, "chat-01")), poll(2))

    assert last.inspection.findings == ()


def test_nothing_is_proved_where_a_rule_raised_an_error_or_most_of_a_pool_was_not_read() -> None:
    raised = poll(1, outcomes=(findings_builder.outcome(kind=OutcomeKind.ERROR),))
    alone = poll(1, fleet=lost(FLEET, "chat-02", "chat-03"))
    nothing = poll(1, fleet=lost(FLEET, *[each.name for each in FLEET.replicas]))
    partly = replace(FLEET, replicas=FLEET.replicas[1:], discovery_errors=("targets.json: No such file",))

    for fleet in (raised, alone, nothing, poll(1, fleet=partly)):
        assert KEY in {each.fingerprint for each in lived(poll(0, problem()), fleet)[-1].inspection.findings}
    removed = replace(partly, discovery_errors=())
    assert lived(poll(0, problem()), poll(1, fleet=removed))[-1].inspection.findings == ()


def test_a_replica_that_is_no_target_any_more_is_not_named_by_what_lasts() -> None:
    partly = replace(FLEET, replicas=FLEET.replicas[1:], discovery_errors=("targets.json: No such file",))
    (found,) = lived(poll(0, problem()), poll(1, fleet=partly))[-1].inspection.findings

    assert (found.replicas, found.cohorts, found.pools) == ((), (), ("chat",))
    assert {one for each in found.evidence for one in each.replicas} <= {each.id for each in partly.replicas}


def test_a_suppression_applies_to_a_finding_that_no_poll_can_see() -> None:
    own = Suppression("RT-01", "ann", "canary", date(2099, 1, 1), number=1)
    note = "suppress[0] in fleet.yaml (RT-01, ann) matches no finding; remove it."
    gone = replace(lost(FLEET, "chat-01"), policy=Policy(suppressions=(own,)))
    *_, last, after = lived(poll(0, problem()), poll(1, fleet=gone, notes=(note,)), poll(2, fleet=gone, notes=()))

    for fleet in (last, after):
        assert (fleet.inspection.findings, fleet.inspection.notes) == ((), ())
        assert [each.suppression for each in fleet.inspection.suppressed] == [own]


def test_what_cannot_be_seen_is_evaluated_again_with_the_fleet() -> None:
    """As by `check --snapshot`, or with one pool alone."""
    last = lived(poll(0, problem()), poll(1, fleet=lost(FLEET, "chat-01")))[-1]
    again = inspected(replace(last, policy=Policy()), NOW + POLL)

    assert KEY in {each.fingerprint for each in again.inspection.unconfirmed}


def test_what_was_found_again_and_what_no_rule_finds_any_more_are_left_out() -> None:
    found = inspected(replace(builders.story(), inspection=Inspection()), NOW)
    seen = tuple(replace(each, seen_at=NOW) for each in found.inspection.findings)
    before = Inspection((*seen, replace(seen[0], rule="XX-99")))

    again = inspected(replace(found, inspection=before), NOW)
    assert seen
    assert again.inspection.findings == found.inspection.findings


def test_a_saved_fleet_has_what_its_poll_could_not_see_and_quotes_no_secret() -> None:
    quoting = (findings_builder.evidence("cache_config.api_key", '"a1b2"'),)
    secret = findings_builder.finding(FLEET, ["chat-01"], rule="RT-02", evidence=quoting)
    last = lived(poll(0, problem(), secret), poll(1, fleet=lost(FLEET, "chat-01")))[-1]

    (found,) = read_snapshot(content_of(last)).inspection.unconfirmed
    assert found == replace(problem(), seen_at=NOW)


def test_a_finding_comes_to_each_replica_by_itself() -> None:
    both, other = problem("chat-01"), problem("chat-02")
    *_, last = lived(poll(0), poll(1, both), poll(2, other), poll(3, other, both), poll(4), poll(5, other))

    assert life(last).times == {
        FIRST: (NOW + POLL, NOW + 3 * POLL),
        "http://chat-02:8000": (NOW + 2 * POLL, NOW + 5 * POLL),
    }


def test_times_before_the_window_of_the_rule_are_forgotten() -> None:
    *_, last = lived(poll(0), poll(1, problem()), poll(2), poll(123, problem()), poll(124), poll(300))
    assert KEY not in last.lives.lives


def test_the_extent_counts_replicas_that_were_not_read_since_and_rests_in_a_rollout() -> None:
    both = findings_builder.finding(FLEET, ["chat-01", "chat-02"], evidence=problem().evidence)
    *_, down, gone = lived(poll(0, both), poll(1, problem(), fleet=lost(FLEET, "chat-02")), poll(2, problem()))
    assert (life(down).extent, life(gone).extent) == (Extent(2, 3), Extent(1, 3))

    (moving,) = lived(poll(0, problem(), rollouts=rolling()))
    assert life(moving).extent is None


def test_an_end_is_seen_although_one_of_many_replicas_is_lost_at_the_same_time() -> None:
    """It is not where most replicas were lost: the others have nothing to be compared with."""
    many = builders.fleet(builders.alike("chat", 4, DOCUMENT), [DOCUMENT])

    def proves(*names: str) -> bool:
        return EndProof(lost(many, *names)).covers("RT-01", ["chat"], ["http://chat-04:8000"])

    assert proves("chat-01")
    assert proves("chat-01", "chat-02")
    assert not proves("chat-01", "chat-02", "chat-03")
    assert not proves("chat-04")


def restarting(names: Iterable[Iterable[str]]) -> list[Fleet]:
    """Polls of five replicas, a minute apart, in each of which some of them are unreachable."""
    replicas = builders.alike("chat", 5, DOCUMENT)
    watch, fleets = Watch(), [builders.fleet(replicas, [DOCUMENT])]
    for number, unreachable in enumerate(names):
        down = [builders.down(each.name, pool="chat") if each.name in unreachable else each for each in replicas]
        at, lives = NOW + number * MINUTE, fleets[-1].lives
        fleet = replace(builders.fleet(down, [DOCUMENT]), polled_at=at)
        fleet = inspected(replace(fleet, recent=watch.add_poll(fleet, at, lives)), at)
        fleets.append(lifecycle.with_lives(fleet, lives))
    return fleets[1:]


def rules_of(fleet: Fleet) -> list[str]:
    return [each.rule for each in fleet.inspection.findings if each.rule in {"ID-05", "ID-15"}]


@pytest.mark.parametrize("pause", [[], [()]])
def test_a_rolling_restart_of_any_size_comes_once_to_each_replica(pause: list[tuple[()]]) -> None:
    steps = [step for number in range(1, 6) for step in [(f"chat-{number:02}",), *pause]]
    *during, last = restarting([(), *steps, ()])

    assert [rules for fleet in during[1:] if (rules := rules_of(fleet))] == [["ID-05"]] * 5
    assert rules_of(last) == []
    assert recurrences(last.lives, NOW - MINUTE) == {}


def test_one_replica_that_is_unreachable_again_and_again_is_reported() -> None:
    fleets = restarting([(), *[("chat-02",), ()] * 3, ()])

    assert rules_of(fleets[-1]) == ["ID-15"]
    (found,) = [each for each in fleets[-1].inspection.findings if each.rule == "ID-15"]
    assert (found.sentence, found.replicas) == (
        "ID-05 was found 3 times within 60 minutes.",
        ("http://chat-02:8000",),
    )


def test_another_process_goes_on_with_the_lives_that_the_history_has() -> None:
    last = restarting([(), *[("chat-02",), ()] * 2, ("chat-02",)])[-1]
    saved = replace(last, recent=Watch().add_poll(last, NOW + 6 * MINUTE, last.lives))
    found = [each.fingerprint for each in last.inspection.findings]
    saved = replace(saved, sightings=replace(saved.sightings, findings={each: Sighting(NOW, NOW) for each in found}))

    read = resumed(saved, RULE_SET)
    assert (read.at, read.rule_set) == (last.polled_at, RULE_SET)
    assert {key: each.findings for key, each in read.lives.items()} == {
        key: each.findings for key, each in last.lives.lives.items() if each.ended is None
    }
    assert recurrences(read, NOW - MINUTE) == recurrences(last.lives, NOW - MINUTE) != {}
    over = resumed(replace(saved, sightings=replace(saved.sightings, findings={})), RULE_SET)
    assert {each.ended for each in over.lives.values()} == {last.polled_at}
    assert recurrences(over, NOW - MINUTE) == recurrences(read, NOW - MINUTE)


def test_findings_with_values_of_each_poll_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "MOST_ENDED", 9)
    monkeypatch.setattr(lifecycle, "MOST_UNCONFIRMED", 7)
    polls = [
        poll(
            number,
            *[problem(path=f"x.{number}.{place}") for place in range(3)],
            *([problem()] if number % 2 else []),
            fleet=FLEET if number < 20 else lost(FLEET, "chat-01"),
        )
        for number in range(40)
    ]
    fleets = lived(*polls)

    seen = fleets[19].lives.lives
    assert len(seen) == 9 + 4
    assert len(life(fleets[19]).times[FIRST]) == 10
    assert all(len(each.lives.lives) <= 9 + 7 + 4 for each in fleets)


NAMES = ("chat-01", "chat-02", "embed-01")
PROBLEMS = st.lists(st.builds(problem, st.sampled_from(NAMES), path=st.sampled_from(["a", "b"])), max_size=4)


@given(st.lists(st.tuples(PROBLEMS, st.sets(st.sampled_from(NAMES))), max_size=8))
def test_every_poll_has_the_findings_whose_lives_last(polls: list[tuple[list[Finding], set[str]]]) -> None:
    fleets = lived(*(poll(number, *found, fleet=lost(FLEET, *gone)) for number, (found, gone) in enumerate(polls)))
    for fleet, (found, _) in zip(fleets, polls, strict=True):
        lasting = {key for key, each in fleet.lives.lives.items() if each.ended is None}
        assert lasting == {each.fingerprint for each in fleet.inspection.findings}
        assert {each.fingerprint for each in found} <= lasting
        assert all(each.sighting.since <= fleet.lives.at for each in fleet.lives.lives.values() if fleet.lives.at)
    assert all(each.ended for each in lived(*fleets, poll(99))[-1].lives.lives.values())


@pytest.mark.parametrize(
    ("now", "earlier", "expected"),
    [((3, 4), (2, 4), True), ((2, 4), (2, 4), False), ((3, 8), (2, 4), False), ((4, 8), (2, 4), False)],
)
def test_a_finding_spreads_to_more_replicas_and_a_larger_share(
    now: tuple[int, int], earlier: tuple[int, int], *, expected: bool
) -> None:
    """A pool that grew has more replicas with it, and not a worse problem."""
    assert Extent(*now).exceeds(Extent(*earlier)) is expected
