"""Findings are counted per replica, per pool and of the fleet, with what is unknown beside."""

from typing import Any

from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Declared, Router
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Severity, Tally, tally_fleet, tally_pools, tally_replicas
from dashboard.rules.policy import Policy
from tests import builders
from tests.rules.case import built

ENTRIES: list[dict[str, Any]] = [
    {"replicas": 3, "settings": {"cache_config.block_size": 16}},
    {"settings": {"cache_config.block_size": 32}},
    {"state": "down"},
    {"pool": "silent", "replicas": 2},
]
POLICY = Policy({"*": Declared(router=Router.PREFIX_HASH)})


def test_counts_stand_beside_what_is_unknown() -> None:
    replicas, documents = built(ENTRIES)
    fleet = builders.fleet(replicas, documents)
    found = inspect_fleet([BY_ID["RT-01"]], fleet.pools, replicas, fleet.documents, POLICY, builders.NOW)
    by_replica = tally_replicas(found, replicas)

    assert tally_fleet(found) == Tally(critical=1, unknown=1)
    assert tally_pools(found) == {"chat": Tally(critical=1), "silent": Tally(unknown=1)}
    assert by_replica["http://chat-4:8000"].worst is Severity.CRITICAL
    assert by_replica["http://chat-1:8000"] == Tally()
    assert by_replica["http://chat-5:8000"] == Tally(unknown=1)


def test_the_worst_is_the_first_severity_that_there_is() -> None:
    assert Tally(warning=2, info=1).worst is Severity.WARNING
    assert Tally(info=1, unknown=3).worst is Severity.INFO
    assert Tally(unknown=3).worst is None
