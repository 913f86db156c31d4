"""The law of the history: the fleet of any recorded poll is the fleet that was recorded."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.documents.load import read_snapshot
from dashboard.errors import HistoryError
from dashboard.fleet import Failure, FailureKind, ProbeResult, Snapshot, Source, Target
from dashboard.rules.findings import Severity
from dashboard.rules.policy import Policy, RuleChange
from dashboard.store.history.bodies import fleet_part, read_parts
from dashboard.store.packing import content_of
from tests import builders
from tests.captured import AT, METRICS, Capture, capture, captures, snapshot
from tests.polled_fleets import INTERVAL, OPEN, build_fleet
from tests.saved_fleets import built_of_captures
from tests.sources.polling.hostile import changed_metrics
from tests.store.history.recorded import POLL, Recorded, later, shown
from tests.store.test_redacted_snapshots import SECRET, written_before

CASES = ("llama", "llama_dp2", "mamba2")
POLICIES = (Policy(), Policy(rules={"RT-01": RuleChange(severity=Severity.INFO)}))


class Step(NamedTuple):
    """One poll: what each of four addresses answers, the options, and what happened before it."""

    answers: tuple[str, ...]
    policy: Policy
    ignored: tuple[str, ...]
    errors: tuple[str, ...]
    waited: timedelta
    is_restarted: bool


answers_of_one = st.sampled_from(["gone", "refused", "stale", "open", "blocks", "other pod", *CASES])
steps = st.builds(
    Step,
    st.tuples(*[answers_of_one] * 4),
    st.sampled_from(POLICIES),
    st.sampled_from([(), ("cache_config.*",)]),
    st.sampled_from([(), ("targets.json cannot be read.",)]),
    st.sampled_from([POLL, 2 * POLL, 20 * POLL]),
    st.booleans(),
)


def polled(step: Step, at: datetime) -> Fleet:
    """The fleet of one poll."""
    snapshots = [
        _snapshot(answer, f"http://10.0.0.{number}:8000", at)
        for number, answer in enumerate(step.answers)
        if answer != "gone"
    ]
    fleet = build_fleet("prod", snapshots, polled_at=at, interval=INTERVAL, ignore=step.ignored, policy=step.policy)
    return replace(fleet, discovery_errors=step.errors)


def _snapshot(answer: str, target: str, at: datetime) -> Snapshot:
    labels = {"pool": "chat", "namespace": "ml", "pod": "chat-1" if answer == "other pod" else "chat-0"}
    if answer == "refused":
        failed = ProbeResult(METRICS, Source.METRICS, at, 0.0, failure=Failure(FailureKind.REFUSED, "Refused."))
        return Snapshot(Target(target, labels), at, {METRICS: failed})
    observed_at = at - 10 * INTERVAL if answer == "stale" else at - timedelta(seconds=1)
    answers = capture(answer if answer in CASES else "llama").answers
    if answer == "blocks":
        answers = {**answers, METRICS: changed_metrics(block_size=32)}
    return snapshot(answers, OPEN if answer == "open" else None, target=target, labels=labels, observed_at=observed_at)


@settings(max_examples=settings().max_examples // 5)
@given(st.lists(steps, min_size=1, max_size=5))
def test_the_fleet_of_each_poll_is_the_one_that_was_recorded(story: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        history, at, recorded = Recorded(Path(folder)), AT, []
        for step in story:
            at += step.waited
            if step.is_restarted:
                history.restart()
            recorded.append(history.record(polled(step, at)))

        for fleet in (*recorded, *reversed(recorded)):
            assert fleet.polled_at is not None
            read = history.reader.fleet_at(fleet.polled_at)
            assert shown(read) == shown(fleet)
            assert read.inspection.notes == fleet.inspection.notes
            assert read.sightings == fleet.sightings
        history.writer.close()


def test_the_first_poll_of_the_simulated_fleet_is_restored_with_all_times(demo_fleet: Fleet, tmp_path: Path) -> None:
    stored, read = restored(demo_fleet, tmp_path)
    assert read == stored


@pytest.mark.few(5)
@pytest.mark.parametrize("captured", captures())
def test_the_first_poll_of_a_real_server_is_restored_with_all_times(captured: Capture, tmp_path: Path) -> None:
    stored, read = restored(built_of_captures(captured), tmp_path)
    assert read == stored


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [builders.story, builders.hostile, built_of_captures])
def test_the_first_poll_of_any_fleet_is_restored_with_all_times(make: Callable[[], Fleet], tmp_path: Path) -> None:
    stored, read = restored(read_snapshot(content_of(make())), tmp_path)  # in the order of a poll
    assert json.loads(read) == json.loads(stored)


def restored(fleet: Fleet, folder: Path) -> tuple[bytes, bytes]:
    """Record a fleet, and return its content and that of what is read."""
    history = Recorded(folder)
    recorded = history.record(fleet)
    assert fleet.polled_at is not None
    read = history.reader.fleet_at(fleet.polled_at)
    history.writer.close()
    return content_of(recorded), content_of(read)


def test_a_past_fleet_shows_no_secret_that_was_not_known_when_it_was_recorded(tmp_path: Path) -> None:
    history, content = Recorded(tmp_path), written_before(built_of_captures())
    recorded = history.record(read_snapshot(content))
    assert recorded.polled_at is not None

    read = history.reader.fleet_at(recorded.polled_at)
    assert SECRET.encode() not in content_of(read)
    assert shown(read) == shown(read_snapshot(content))


@pytest.mark.parametrize(
    "settings",
    [
        {"x": {"value": 1, "state": "imagined", "source": "metrics"}},
        {"x": {"value": 1, "state": "reported", "source": "imagined"}},
        {"x": {"value": 2**70, "state": "reported", "source": "metrics"}},
        {"x": {"state": "reported", "source": "metrics"}},
        {"x": 1},
        [],
    ],
)
def test_settings_of_another_version_end_in_a_sentence(settings: Any, demo_fleet: Fleet) -> None:
    with pytest.raises(HistoryError, match=r"^The history has data of 2026-03-02T11:42:05Z that this version cannot r"):
        read_parts(fleet_part(demo_fleet, AT), AT, documents={"0" * 12: json.dumps(settings).encode()})


def test_equal_numbers_of_other_kinds_stay_settings_of_their_own(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    documents = [builders.document({"x": value}) for value in (1, True, "1", [1], [True])]
    replicas = [builders.replica(f"chat-{number}", document=each) for number, each in enumerate(documents)]
    recorded = history.record(builders.fleet(replicas, documents))
    assert recorded.polled_at is not None

    read = history.reader.fleet_at(recorded.polled_at).documents
    assert [read[each.id].settings["x"].value for each in documents] == ["1", "true", '"1"', "[1]", "[true]"]


def test_a_poll_without_a_change_adds_no_span(demo_fleet: Fleet, tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    history.record(demo_fleet)
    spans = {table: history.rows(table) for table in ("replica_span", "document_span", "finding_span", "body")}
    history.record(later(demo_fleet, POLL))
    history.restart()
    history.record(later(demo_fleet, 2 * POLL))

    assert {table: history.rows(table) for table in spans} == spans
    assert history.rows("poll") == 3


def test_the_last_answer_of_a_fresh_replica_has_the_time_of_the_poll_and_a_stale_one_its_own(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    step = Step(("llama", "stale"), Policy(), (), (), POLL, False)
    first = polled(step, AT)
    history.record(first)
    history.record(later(first, POLL))

    fresh, stale = history.reader.fleet_at(AT + POLL).replicas
    assert fresh.observed_at == AT + POLL
    assert stale.observed_at == AT - 10 * INTERVAL


def test_the_last_answer_of_a_stale_replica_may_become_later(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    fleets = [polled(Step(("stale",), Policy(), (), (), POLL, False), AT + number * POLL) for number in range(2)]
    for fleet in [history.record(each) for each in fleets]:
        assert fleet.polled_at is not None
        assert shown(history.reader.fleet_at(fleet.polled_at)) == shown(fleet)


def test_another_answer_of_one_path_alone_is_recorded(tmp_path: Path) -> None:
    history, own = Recorded(tmp_path), builders.document()
    fleets = [
        later(
            builders.fleet(
                [builders.replica(document=own, probes=(builders.probe(), builders.probe("/version", status=status)))],
                [own],
            ),
            number * POLL,
        )
        for number, status in enumerate((404, 501))
    ]
    for fleet in [history.record(each) for each in fleets]:
        assert fleet.polled_at is not None
        assert shown(history.reader.fleet_at(fleet.polled_at)) == shown(fleet)
