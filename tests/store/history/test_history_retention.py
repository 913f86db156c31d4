"""Old polls and ended spans are deleted; what lasts, and what is still used, stays."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.config import HistoryOptions
from dashboard.errors import HistoryError
from dashboard.rules.policy import Policy
from dashboard.store.history import retention as pruning
from dashboard.store.history.retention import history_bytes, prune, stats_of
from dashboard.store.snapshots import Snapshots
from tests.captured import AT
from tests.store.history.recorded import POLL, Recorded, shown
from tests.store.history.test_history_law import Step, polled

DAY = timedelta(days=1)
KEPT = HistoryOptions(keep_spans_days=10, keep_polls_days=2)
STORY = (("llama", "refused"), ("llama_dp2", "llama"), ("llama_dp2", "blocks"))


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    """Three polls, a day between each, and the replicas differ in each."""
    history = Recorded(tmp_path)
    for day, answers in enumerate(STORY):
        history.record(polled(Step(answers, Policy(), (), (), POLL, False), AT + day * DAY))
    return history


def test_old_polls_are_deleted_and_their_gaps_stay(history: Recorded) -> None:
    gaps = history.reader.gaps(AT, AT + 3 * DAY)
    assert len(gaps) == 3

    assert sum(prune(history.database, AT + 4 * DAY + POLL, KEPT)) == 3
    assert history.rows("poll") == 0
    assert history.reader.gaps(AT, AT + 3 * DAY) == gaps


def test_ended_spans_are_deleted_with_the_bodies_that_nothing_uses(
    history: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "STEP_ROWS", 2)
    last = polled(Step(STORY[-1], Policy(), (), (), POLL, False), AT + 2 * DAY)
    bodies = history.rows("body")

    steps = list(prune(history.database, AT + 30 * DAY, KEPT))

    assert set(steps) == {1, 2}
    assert 0 < history.rows("body") < bodies
    assert history.rows("replica_span") == 2
    assert shown(history.reader.fleet_at(AT + 30 * DAY)) == shown(last)
    assert list(prune(history.database, AT + 30 * DAY, KEPT)) == []


def test_a_history_that_is_too_large_loses_what_ended_first(history: Recorded) -> None:
    last, now = AT + 2 * DAY, AT + 3 * DAY
    snapshots = Snapshots(history.database.file.parent) if history.database.file else None
    assert snapshots is not None
    snapshots.save(history.reader.fleet_at(AT), "kept", now)
    with history.database.read() as connection:
        size = history_bytes(connection)

    def kept(most: int) -> int:
        list(prune(history.database, now, KEPT.model_copy(update={"keep_spans_days": 400, "max_bytes": most})))
        return history.rows("replica_span")

    spans = history.rows("replica_span")
    assert kept(size) == spans
    assert kept(size - 1) < spans
    assert kept(1) == 2, "what lasts is kept"
    assert shown(history.reader.fleet_at(last)) == shown(polled(Step(STORY[-1], Policy(), (), (), POLL, False), last))
    assert len(snapshots.all()) == 1


def test_what_a_poll_after_pruning_brings_back_is_stored_again(history: Recorded) -> None:
    list(prune(history.database, AT + 30 * DAY, KEPT))
    again = polled(Step(STORY[0], Policy(), (), (), POLL, False), AT + 30 * DAY)

    try:
        recorded = history.record(again)
    except HistoryError:  # the base of a difference was deleted: the next poll stores it whole
        recorded = history.record(again)

    assert shown(history.reader.fleet_at(AT + 30 * DAY)) == shown(recorded)


def test_the_writer_prunes_by_itself(history: Recorded) -> None:
    history.writer.options = KEPT
    for number in range(10):
        at = AT + 30 * DAY + number * POLL
        history.record(polled(Step(STORY[-1], Policy(), (), (), POLL, False), at))

    assert history.rows("poll") == 10
    assert history.rows("watch") == 1


def test_nothing_is_deleted_in_the_first_hour_when_the_clock_may_be_wrong(history: Recorded) -> None:
    history.restart()
    history.writer.options = KEPT
    for minutes in (0, 59):
        at = AT + 4_000 * DAY + timedelta(minutes=minutes)
        history.record(polled(Step(STORY[-1], Policy(), (), (), POLL, False), at))

    assert history.rows("poll") == 5


def test_statistics_have_rows_bytes_and_the_first_and_last_poll(history: Recorded) -> None:
    stats = stats_of(history.database)

    assert stats.rows["poll"] == 3
    assert stats.rows["replica"] == 2
    assert stats.size_bytes is not None
    assert stats.size_bytes > 10_000
    assert (stats.first, stats.last) == (AT, AT + 2 * DAY)


def test_a_time_before_the_oldest_kept_span_is_refused(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    for number in range(3):  # one long watch
        history.record(polled(Step(STORY[number], Policy(), (), (), POLL, False), AT + number * DAY), due=2 * DAY)
    list(prune(history.database, AT + 11 * DAY + POLL, KEPT))

    with pytest.raises(HistoryError, match=r"has no poll at .* or before; the first one is of"):
        history.reader.fleet_at(AT + DAY)
    assert history.reader.poll_at(AT + 2 * DAY)[1] is None
