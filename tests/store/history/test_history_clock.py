"""A poll with a time in the future is not recorded: it would keep later ones out. If it was, it can be deleted."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard.config import Options
from dashboard.errors import HistoryError
from dashboard.store.history.recording import Recorder
from dashboard.store.history.retention import rewind
from dashboard.store.opening import TRUST, JumpGuard, boot_seconds
from tests.captured import AT
from tests.polled_fleets import at, built, unreachable
from tests.store.history.recorded import DUE, POLL, Recorded, later, shown

FLEET = built(at(1), at(2), unreachable(3))
DAY = timedelta(days=1)


class Boot:
    """The time since the boot, which a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.guard = JumpGuard(lambda: self.seconds)

    def poll(self, passed: timedelta, clock: datetime) -> bool:
        """Poll after a time, while the wall clock has another one; return whether the poll is to be recorded."""
        self.seconds += passed.total_seconds()
        try:
            self.guard.check(clock, clock + DUE)
        except HistoryError:
            return False
        return True


def test_a_clock_that_jumps_ahead_and_back_loses_the_polls_between_only() -> None:
    boot = Boot()
    clocks = [AT, AT + POLL, AT + 2 * POLL + DAY, AT + 3 * POLL + DAY, AT + 4 * POLL, AT + 5 * POLL]
    assert [boot.poll(POLL, each) for each in clocks] == [True, True, False, False, True, True]


def test_a_clock_that_stays_ahead_is_trusted_after_ten_minutes() -> None:
    boot = Boot()
    assert boot.poll(POLL, AT)
    ahead = [boot.poll(POLL, AT + DAY + number * POLL) for number in range(TRUST // POLL + 2)]
    assert ahead == [False] * (TRUST // POLL) + [True] * 2


def test_a_long_poll_a_suspended_machine_and_ntp_are_no_jumps() -> None:
    boot = Boot()
    clocks = [(POLL, AT), (DAY, AT + DAY), (POLL, AT + DAY + POLL + timedelta(seconds=59))]
    assert all(boot.poll(passed, clock) for passed, clock in clocks)


def test_the_time_since_the_boot_passes() -> None:
    assert 0 < boot_seconds() <= boot_seconds()


def test_the_recorder_says_that_the_clock_jumped(working_folder: Path) -> None:
    recorder = Recorder(Options(), JumpGuard())
    for number, problem in (
        (0, None),
        (100, "Not recorded: the clock jumped ahead after 2026-03-02T11:42:05Z; "),
        (1, None),
    ):
        fleet = later(FLEET, number * POLL)
        assert fleet.polled_at is not None
        recorder.record(fleet, fleet.polled_at + DUE)
        assert (recorder.status.problem or "").startswith(problem or "")
        assert (recorder.status.problem is None) == (problem is None)
    recorder.close()
    assert Recorded(working_folder / "data").rows("poll") == 2


def test_polls_of_the_future_are_deleted_and_recording_goes_on(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    history.record(FLEET)
    history.record(later(FLEET, POLL))
    history.record(later(built(at(2), at(4)), DAY))
    history.record(later(built(at(5)), DAY + POLL))
    with pytest.raises(HistoryError, match="delete those polls with history prune --after TIME"):
        history.record(later(FLEET, 2 * POLL))

    assert rewind(history.database, FLEET.name, AT + POLL) == 2
    now = later(FLEET, 2 * POLL)
    history.record(now)
    assert [history.rows(name) for name in ("poll", "watch", "replica_span")] == [3, 1, 3]
    for each in (FLEET, later(FLEET, POLL), now):
        assert each.polled_at is not None
        assert shown(history.reader.fleet_at(each.polled_at)) == shown(each)


def test_nothing_is_deleted_while_a_dashboard_records(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    history.record(FLEET)
    with pytest.raises(HistoryError, match=r"^Another process records the history history\.db; end it"):
        rewind(history.database, FLEET.name, AT)
    assert history.rows("poll") == 1
