"""A saved fleet carries the policy that it was judged by, so that it opens as it was seen."""

import json
from dataclasses import replace
from datetime import date

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.documents.load import read_snapshot
from dashboard.fleet import Baseline, Tolerance
from dashboard.rules.domain import Declared, Expectations, Router, SeedPolicy, Store
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from tests.saved_fleets import saved

WHOLE = Policy(
    pools={
        "chat-*": Declared(
            Router.KV_EVENTS, Store.LMCACHE, True, Expectations(16, "sha256", SeedPolicy.DEFAULT, "kv@{host}")
        ),
        "*": Declared(),
    },
    rules={
        "RT-01": RuleChange(severity=Severity.INFO),
        "CP-01": RuleChange(enabled=False, parameters={"tolerance": 0.2, "least": 3, "strict": True}),
    },
    suppressions=(
        Suppression("RT-01", "ana", "a <b>test</b>", date(2026, 11, 20), "chat", ("chat-1",), {"zone": "b"}, 1),
        Suppression("RT-05", "bo", "later", date(2027, 1, 1)),
    ),
    baselines=(
        Baseline(
            "chat",
            "chat-70b",
            expected={
                "cache_config.block_size": "16",
                "model_config.dtype": '"bfloat16"',
                "a.b": "null",
                "a.c": "[1,2]",
            },
            tolerated={"a.d": Tolerance(("1", '"x"')), "a.e": Tolerance(at_least=0.5, at_most=1.0)},
            ignored=("observability_config.*",),
            comments={"cache_config.block_size": "agreed in May"},
            file="baselines/chat.yaml",
        ),
    ),
    file="fleet.prod.yaml",
)


@pytest.mark.parametrize("policy", [WHOLE, Policy()])
def test_a_policy_comes_back_as_it_was_saved(demo_fleet: Fleet, policy: Policy) -> None:
    assert read_snapshot(saved(replace(demo_fleet, policy=policy))).policy == policy


def test_a_saved_fleet_is_judged_by_its_own_policy_unless_another_is_given(demo_fleet: Fleet) -> None:
    assert demo_fleet.polled_at is not None
    milder = Policy(rules={"RT-01": RuleChange(enabled=False)})
    fleet = inspected(replace(demo_fleet, policy=milder), demo_fleet.polled_at)

    assert read_snapshot(saved(fleet)).inspection == fleet.inspection
    assert read_snapshot(saved(fleet)).policy == milder
    assert read_snapshot(saved(fleet), Policy()).policy == Policy()


def test_a_fleet_that_was_saved_without_its_policy_is_read_under_none(demo_fleet: Fleet) -> None:
    """As polls of the first version were."""
    told = json.loads(saved(demo_fleet))
    del told["policy"], told["rule_set"]

    assert read_snapshot(json.dumps(told).encode()).policy == Policy()
