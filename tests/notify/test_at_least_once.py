"""No message is lost, whatever fails: laws over random polls, answers, deaths and restarts, on a simulated clock."""

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dashboard.notify.alerts import AlertEvent, AlertKey
from dashboard.rules.findings import Finding
from dashboard.store.history.database import Database
from dashboard.store.history.outbox import POOL_PAUSE
from tests.builders import NOW
from tests.notify.machine import BUSY, DIES_AFTER, DIES_BEFORE, OK, REFUSED, Arrived, Process
from tests.notify.polls import CRITICAL, FLEET, WARNING, lost, poll, problem

REPLICAS = ("chat-01", "chat-02", "embed-01")
SOME = st.lists(
    st.builds(
        problem,
        st.sampled_from(REPLICAS),
        path=st.sampled_from(["cache_config.block_size", "cache_config.cache_dtype"]),
        severity=st.sampled_from([CRITICAL, WARNING]),
    ),
    min_size=1,
    max_size=3,
)
PROBLEMS: st.SearchStrategy[list[Finding]] = st.one_of(SOME, st.just([]))
ANSWERS = st.sampled_from([OK, OK, REFUSED, BUSY, DIES_BEFORE, DIES_AFTER])


class Delivery(RuleBasedStateMachine):
    """One dashboard with one webhook."""

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.process = Process(Database(f"sqlite:///{Path(self.folder.name) / 'history.db'}"), FLEET, NOW)
        self.fired: dict[AlertKey, list[datetime]] = defaultdict(list)
        self.firing: set[AlertKey] = set()

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        self.hear([])
        self.process.drain()
        self.every_alert_that_fired_arrived_with_its_end()
        assert self.process.outbox.pending() == {}
        self.folder.cleanup()

    @rule(
        found=PROBLEMS,
        gone=st.sets(st.sampled_from(REPLICAS), max_size=1),
        sent=st.lists(st.tuples(st.integers(0, 40), ANSWERS), min_size=1, max_size=4),
    )
    def polled(self, found: list[Finding], gone: set[str], sent: list[tuple[int, Any]]) -> None:
        self.hear(found, gone)
        for seconds, answer in sent:
            self.process.now += timedelta(seconds=seconds)
            self.process.send(answer)

    def hear(self, found: list[Finding], gone: set[str] | None = None) -> None:
        self.process.now += timedelta(seconds=15)
        self.process.poll(poll(0, *found, fleet=lost(FLEET, *(gone or ()))))
        now = {AlertKey(each.rule, each.subject, each.severity) for each in found}
        for key in now - self.firing:
            self.fired[key].append(self.process.now)
        lost_pools = {name.partition("-")[0] for name in gone or ()}
        self.firing = now | {key for key in self.firing if key.pool in lost_pools}

    @rule()
    def restarted(self) -> None:
        self.process.start()

    @invariant()
    def only_deaths_repeat_a_message_and_then_it_is_the_same(self) -> None:
        if not hasattr(self, "process"):
            return
        by_id: dict[str, list[Arrived]] = defaultdict(list)
        for each in self.process.arrived:
            by_id[each.message].append(each)
        assert sum(len(each) - 1 for each in by_id.values()) <= self.process.deaths
        for same in by_id.values():
            assert all(each.alerts == same[0].alerts and each.pool == same[0].pool for each in same)

    @invariant()
    def a_pool_has_at_most_one_new_message_a_minute(self) -> None:
        if not hasattr(self, "process"):
            return
        first: dict[str, Arrived] = {}
        for each in self.process.arrived:
            first.setdefault(each.message, each)
        by_pool: dict[str, list[datetime]] = defaultdict(list)
        for each in first.values():
            by_pool[each.pool].append(each.at)
        assert all(b - a >= POOL_PAUSE for times in by_pool.values() for a, b in pairwise(times))

    def every_alert_that_fired_arrived_with_its_end(self) -> None:
        arrived: dict[AlertKey, list[Any]] = defaultdict(list)
        for message in self.process.arrived:
            for each in message.alerts:
                arrived[each.key].append(each)
        assert {*arrived} == {*self.fired}
        for key, alerts in arrived.items():
            assert alerts[-1].event is AlertEvent.RESOLVED, f"{key} did not end"
            assert alerts[-1].since >= self.fired[key][0]


Delivery.TestCase.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=12)
TestDelivery = Delivery.TestCase
