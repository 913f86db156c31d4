"""Since when findings, replicas, cohorts and differences are there; a pause begins a new stay."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import EventKind
from dashboard.fleet.history import Sighting
from dashboard.rules.catalogue import RULE_SET
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.store.history.recorded import POLL, Recorded

CHAT = {"pool": "chat"}
ALONE = built(at(1, labels=CHAT))
PAIR = built(at(1, labels=CHAT), at(2, "llama_noprefix", labels=CHAT))


def moment(number: int) -> datetime:
    return AT + number * POLL


def keep_running(_: Recorded) -> None:
    """The dashboard is not started again."""


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def polled(history: Recorded, fleet: Fleet, number: int) -> Fleet:
    return history.record(replace(fleet, polled_at=moment(number)))


def test_what_the_first_poll_has_may_be_older(history: Recorded) -> None:
    seen = polled(history, PAIR, 0).sightings

    assert set(seen.replicas) == {each.id for each in PAIR.replicas}
    assert set(seen.findings) == {each.fingerprint for each in PAIR.inspection.findings}
    assert set(seen.cohorts) == {("chat", each.document) for each in PAIR.pools[0].cohorts}
    assert set(seen.differences) == {("chat", each.path) for each in PAIR.pools[0].differences}
    for one in (seen.replicas, seen.findings, seen.cohorts, seen.differences):
        assert set(one.values()) == {Sighting(moment(0), moment(0))}
    assert not Sighting(moment(0), moment(0)).is_new_since(moment(0))


@pytest.mark.parametrize("restart", [keep_running, Recorded.restart])
def test_what_comes_later_came_between_two_polls(history: Recorded, restart: Callable[[Recorded], object]) -> None:
    polled(history, ALONE, 0)
    restart(history)
    polled(history, PAIR, 1)
    restart(history)
    seen = polled(history, PAIR, 2).sightings

    new = Sighting(moment(1), moment(1), moment(0))
    assert seen.replicas == {
        ALONE.replicas[0].id: Sighting(moment(0), moment(0)),
        next(each.id for each in PAIR.replicas if each.id != ALONE.replicas[0].id): new,
    }
    assert set(seen.differences.values()) == {new}
    assert new.is_new_since(moment(1))
    assert not new.is_new_since(moment(1) + timedelta(seconds=1))


@pytest.mark.parametrize("restart", [keep_running, Recorded.restart])
def test_what_returns_begins_a_new_stay_and_keeps_its_first_sighting(
    history: Recorded, restart: Callable[[Recorded], object]
) -> None:
    for number, fleet in enumerate([ALONE, PAIR, ALONE, ALONE, PAIR]):
        restart(history)
        last = polled(history, fleet, number)

    assert set(last.sightings.differences.values()) == {Sighting(moment(1), moment(4), moment(3))}
    assert set(history.reader.fleet_at(moment(1)).sightings.differences.values()) == {
        Sighting(moment(1), moment(1), moment(0))
    }
    assert history.reader.fleet_at(moment(2)).sightings.differences == {}


def test_another_severity_goes_on_with_the_stay(history: Recorded) -> None:
    polled(history, ALONE, 0)
    polled(history, PAIR, 1)
    finding = PAIR.inspection.findings[0]
    milder = replace(finding, severity=finding.severity.milder)
    changed = replace(PAIR, inspection=replace(PAIR.inspection, findings=(milder, *PAIR.inspection.findings[1:])))

    seen = polled(history, changed, 2).sightings.findings[finding.fingerprint]

    assert seen == Sighting(moment(1), moment(1), moment(0))


def test_what_a_new_set_of_rules_finds_may_be_older(history: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    polled(history, ALONE, 0)
    history.restart()
    monkeypatch.setattr("dashboard.analysis.lifecycle.RULE_SET", RULE_SET + 1)
    seen = polled(history, PAIR, 1).sightings

    new = {each.fingerprint for each in PAIR.inspection.findings} - {
        each.fingerprint for each in ALONE.inspection.findings
    }
    assert new
    assert {seen.findings[each] for each in new} == {Sighting(moment(1), moment(1))}
    assert set(seen.differences.values()) == {Sighting(moment(1), moment(1), moment(0))}


def lost(fleet: Fleet, number: int = 9) -> Fleet:
    """The same fleet while its first replicas cannot be read: their findings are gone, as no rule saw them."""
    stale = [replace(each, fresh=place >= number) for place, each in enumerate(fleet.replicas)]
    return replace(fleet, replicas=tuple(stale), inspection=replace(fleet.inspection, findings=()))


@pytest.mark.parametrize("restart", [keep_running, Recorded.restart])
def test_an_outage_ends_no_finding(history: Recorded, restart: Callable[[Recorded], object]) -> None:
    polls = [ALONE, PAIR, lost(PAIR), lost(PAIR), PAIR]
    for number, fleet in enumerate(polls):
        restart(history)
        last = polled(history, fleet, number)
        assert history.reader.fleet_at(moment(number)).sightings.findings == last.sightings.findings
    new = {each.fingerprint for each in PAIR.inspection.findings} - set(findings_of(ALONE))

    assert {last.sightings.findings[each] for each in new} == {Sighting(moment(1), moment(1), moment(0))}
    assert [each.kind for each in history.reader.events(moment(1), moment(4)) if "finding" in each.kind] == []


def test_a_finding_that_was_mended_in_an_outage_ends_at_the_first_poll_that_sees_it(history: Recorded) -> None:
    mended = replace(PAIR, inspection=replace(PAIR.inspection, findings=()))
    for number, fleet in enumerate([PAIR, lost(PAIR), lost(PAIR), mended, mended]):
        polled(history, fleet, number)
    ended = [each for each in history.reader.events(moment(0), moment(4)) if each.kind is EventKind.FINDING_ENDED]

    assert len(ended) == len(set(findings_of(PAIR)))
    assert {(each.at, each.after) for each in ended} == {(moment(3), moment(2))}


def findings_of(fleet: Fleet) -> list[str]:
    return [each.fingerprint for each in fleet.inspection.findings]
