"""A replica that changes all the time costs what changed, and only so often a day."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.rules.policy import Policy
from dashboard.store.history import spans
from dashboard.store.history.retention import stats_of
from tests import builders
from tests.captured import AT
from tests.store.history.recorded import POLL, Recorded, shown
from tests.store.history.test_history_law import Step, polled

DAY = timedelta(days=1)


def poll(number: int, day: int = 0) -> Fleet:
    """A poll of two replicas: the first one changes at each."""
    answers = ("blocks" if number % 2 else "llama", "llama_dp2")
    return polled(Step(answers, Policy(), (), (), POLL, False), AT + day * DAY + number * POLL)


def test_beyond_the_limit_a_replica_stays_as_it_was_recorded_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "MOST_CHANGES", 3)
    history = Recorded(tmp_path)
    for number in range(8):
        history.record(poll(number))

    assert history.rows("replica_span") == 2 + 3
    assert history.writer.limited == ("10.0.0.0:8000",)
    fifth, seventh = (history.reader.fleet_at(AT + number * POLL) for number in (4, 7))
    sentence = (
        "10.0.0.0:8000 changed more than 3 times a day, the most that the history records: its changes from "
        "2026-03-02T11:44:05Z until the end of that day are missing."
    )
    assert [each.unrecorded for each in (fifth, seventh)] == [(sentence,), (sentence,)]
    assert not any(sentence in each.inspection.notes for each in (fifth, seventh)), "no configuration warning"
    assert shown(history.reader.fleet_at(AT + 3 * POLL)) == shown(poll(3))
    blocks = [each.documents[each.replicas[0].document or ""].settings for each in (poll(3), seventh)]
    assert blocks[0] == blocks[1]
    assert [each.severity for each in seventh.inspection.findings] == [
        each.severity for each in poll(3).inspection.findings
    ]

    history.record(poll(9, day=1))
    assert not history.writer.limited
    assert shown(history.reader.fleet_at(AT + DAY + 9 * POLL)) == shown(poll(9, day=1))


def test_after_a_restart_the_changes_of_the_day_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "MOST_CHANGES", 3)
    history = Recorded(tmp_path)
    for number in range(6):
        history.record(poll(number))
    history.restart()
    for number in range(6, 12):
        history.record(poll(number))

    assert history.rows("replica_span") <= 2 + 3 + 1, "the first poll of a process knows no replica before"


def test_a_changed_setting_costs_the_bytes_of_a_setting(tmp_path: Path) -> None:
    """The settings have 50 KB of JSON."""
    history, sizes = Recorded(tmp_path), []
    for number in range(100):
        settings = {f"other_config.option_{each}": f"value {each}" for each in range(600)}
        document = builders.document({**settings, "cache_config.block_size": number})
        fleet = builders.fleet([builders.replica(document=document)], [document], polled_at=AT + number * POLL)
        history.record(fleet)
        stats = stats_of(history.database)
        sizes.append(stats.table_bytes["body"])

    assert history.rows("document_span") == 100
    assert sizes[-1] - sizes[9] < 90 * 500
