"""Judging again only what can have changed finds what judging all of it finds."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.whatif import converge
from dashboard.fleet import Baseline
from tests.builders import NOW, POLLED_AT, alike, document, fleet, replica


def assert_alike(after: Fleet) -> None:
    """Judge the whole fleet once more, and compare all but the notes on options."""
    assert after.polled_at is not None
    whole = inspected(after, after.polled_at).inspection
    assert replace(after.inspection, notes=()) == replace(whole, notes=())


@pytest.mark.parametrize(
    ("pool", "target"), [("chat-70b", "A"), ("chat-70b", "B"), ("gemma-27b", "C"), ("qwen3-8b", "B")]
)
def test_in_the_simulated_fleet(demo_fleet: Fleet, pool: str, target: str) -> None:
    """Whatever the pool converges to."""
    assert_alike(converge(demo_fleet, pool, target).fleet)


@pytest.mark.parametrize("expected", [{"cache_config.block_size": "32"}, {"kv_transfer_config.kv_role": '"kv_both"'}])
def test_in_a_pair_of_pools(expected: dict[str, str]) -> None:
    """Prefill is held against decode; a pool that changes its role may be held against others."""
    producing = document({"kv_transfer_config.kv_role": "kv_producer", "cache_config.cache_dtype": "fp8"})
    consuming = document({"kv_transfer_config.kv_role": "kv_consumer"})
    members = [
        *alike("ds/prefill", 2, producing, role="prefill", served_model_names=("ds",)),
        *alike("ds/decode", 2, consuming, role="decode", served_model_names=("ds",)),
        replica("other-1", pool="other", document=document()),
    ]
    before = inspected(fleet(members, [producing, consuming, document()]), POLLED_AT)
    after = converge(before, "ds/prefill", Baseline("agreed", "ds/prefill", expected)).fleet

    assert after is not before
    assert_alike(after)


def test_a_rollout_that_was_going_on_is_no_longer_told() -> None:
    """Of other pools it is."""
    from datetime import timedelta

    old, new = document({"version": "0.31.0"}), document()
    members = [
        each
        for pool in ("one", "two")
        for each in (
            *alike(pool, 3, old, started_at=NOW - timedelta(days=9)),
            replica(f"{pool}-9", pool=pool, document=new, started_at=NOW - timedelta(hours=1)),
        )
    ]
    before = inspected(replace(fleet(members, [old, new])), POLLED_AT)
    after = converge(before, "one", "A").fleet

    assert set(before.inspection.rollouts) == {"one", "two"}
    assert set(after.inspection.rollouts) == {"two"}
    assert_alike(after)
