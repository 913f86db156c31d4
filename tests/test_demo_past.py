"""The recorded hours before the start of the simulated fleet."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import EventKind
from dashboard.cli import demo_past
from dashboard.cli.demo_past import PAST, TICK, record_past
from dashboard.config import Options
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.fleet.history import Sightings
from dashboard.fleet.traffic import summed
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.recording import Recorder, configured_database

OTHER_BLOCKS, CACHE_OFF, UPGRADED = "chat-70b-04", "gemma-27b-03", "gemma-27b-04"
RESTARTED = timedelta(hours=3)  # before the end: OTHER_BLOCKS, with its flag


class _Past(NamedTuple):
    polls: list[Fleet]
    reader: HistoryReader

    def before(self, end: timedelta) -> Fleet:
        """The first poll after so long before the end."""
        assert self.polls[-1].polled_at is not None
        at = self.polls[-1].polled_at - end
        return next(each for each in self.polls if each.polled_at is not None and each.polled_at >= at)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Past]:
    polls: list[Fleet] = []

    class Kept(Recorder):
        def record(self, fleet: Fleet, due: datetime) -> Sightings:
            polls.append(fleet)
            return super().record(fleet, due)

    with pytest.MonkeyPatch.context() as patch, in_thread(default_fleet()) as server:
        patch.setattr(demo_past, "Recorder", Kept)
        listed = [{"url": each["targets"][0], "labels": each["labels"]} for each in targets(server.fleet, server.port)]
        folder = tmp_path_factory.mktemp("past")
        options = Options.model_validate({"name": "demo", "targets": listed, "data_folder": folder})
        record_past(options, server)
        assert server.ago == 0
        yield _Past(polls, HistoryReader(configured_database(options)))


def _block_size(fleet: Fleet, name: str) -> str | None:
    (replica,) = (each for each in fleet.replicas if each.name == name)
    assert replica.document is not None
    return fleet.documents[replica.document].settings["cache_config.block_size"].value


def _version(fleet: Fleet, name: str) -> str | None:
    return next(each.version for each in fleet.replicas if each.name == name)


def _hit_rate(fleets: list[Fleet], name: str) -> float | None:
    return summed(
        each.counted[replica.id]
        for each in fleets
        for replica in each.replicas
        if replica.name == name and replica.id in each.counted
    ).hit_rate


@pytest.mark.long
def test_a_poll_is_recorded_every_five_minutes(past: _Past) -> None:
    assert len(past.polls) == PAST / TICK + 1
    assert all(len(each.replicas) == len(default_fleet()) for each in past.polls)


def test_a_replica_has_its_settings_of_before_until_it_restarted(past: _Past) -> None:
    assert _block_size(past.before(PAST), OTHER_BLOCKS) == "16"
    assert _block_size(past.before(RESTARTED - TICK), OTHER_BLOCKS) == "32"
    assert _version(past.before(PAST), UPGRADED) == "0.32.0"
    assert _version(past.polls[-1], UPGRADED) == "0.32.1"


def test_the_history_has_the_restarts_and_what_they_brought(past: _Past) -> None:
    assert past.polls[-1].polled_at is not None
    end = past.polls[-1].polled_at
    events = past.reader.events(end - PAST, end)
    restarted = {name for each in events if each.kind is EventKind.RESTARTED for _, name in each.replicas}
    assert restarted == {OTHER_BLOCKS, UPGRADED, *(f"qwen3-8b-0{number}" for number in (1, 2, 3, 4))}
    assert any(each.kind is EventKind.FINDING_BEGAN and end - each.at < RESTARTED for each in events)


def test_the_hit_rate_of_a_replica_fell_when_it_restarted_with_other_blocks(past: _Past) -> None:
    place = round((PAST - RESTARTED) / TICK)
    before, after = past.polls[1:place], past.polls[place + 2 :]
    assert (_hit_rate(before, OTHER_BLOCKS) or 0) > 0.6
    assert 0 <= (_hit_rate(after, OTHER_BLOCKS) or 0) < 0.15
    assert (_hit_rate(after, "chat-70b-01") or 0) > 0.6


def test_the_history_has_the_hit_rate_of_its_settings_every_five_minutes(past: _Past) -> None:
    poll = past.polls[-1]
    (replica,) = (each for each in poll.replicas if each.name == OTHER_BLOCKS)
    assert poll.polled_at is not None
    sums = past.reader.traffic(poll.polled_at - PAST, poll.polled_at, "chat-70b")
    rates = [each.traffic.hit_rate for each in sums if each.document == replica.document]
    assert len(rates) == pytest.approx(RESTARTED / TICK, abs=2)
    assert max(each or 0 for each in rates) < 0.2
    assert max(each.traffic.hit_rate or 0 for each in sums) > 0.6


def test_without_prefix_cache_no_prompt_token_is_found(past: _Past) -> None:
    assert _hit_rate(past.polls, CACHE_OFF) == 0


def test_what_traffic_shows_is_found_in_the_past_too(past: _Past) -> None:
    assert past.polls[-1].polled_at is not None
    end = past.polls[-1].polled_at
    earlier = past.reader.fleet_at(end - timedelta(hours=1))
    found = {(each.rule, earlier.names[key]): each for each in earlier.inspection.findings for key in each.replicas}
    for place in (("EF-01", OTHER_BLOCKS), ("EF-01", CACHE_OFF), ("EF-02", "gemma-27b-07")):
        sighting = earlier.sightings.findings[found[place].fingerprint]
        assert sighting.since <= end - PAST + 2 * TICK  # as soon as a whole window was counted
    assert not [each.rule for each in past.reader.events(end - timedelta(hours=1), end) if each.rule.startswith("EF")]
