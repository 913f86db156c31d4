"""Findings that a restart would fix, add or spread, or that are unknown until then."""

from datetime import timedelta
from typing import Any

import pytest

from dashboard.fleet import Basis, Contradiction, Source
from tests.analysis.whatif.pools import LARGER, Restarted, like_cohort, pool_of, set_to
from tests.builders import NOW, alike, document, engine, fleet, hashing, replica, setting

LIMIT = {"model_config.max_logprobs": 5}
OFF, ON = {"env.VLLM_SERVER_DEV_MODE": False}, {"env.VLLM_SERVER_DEV_MODE": True}
SERVED = {"served_model_names": ["chat"]}
METRICS: dict[str, Any] = {"sources": (Source.METRICS,)}
CONTRADICTION = Contradiction("cache_config.block_size", setting(32), setting(16, source=Source.METRICS))
HALF = {"cache_config.gpu_memory_utilization": 0.5}


def one_odd(odd: dict[str, Any], usual: dict[str, Any] | None = None, **more: Any) -> Restarted:
    """Restart one of four replicas with the settings of the others."""
    return like_cohort(pool_of(odd, usual, **more))


@pytest.mark.parametrize(
    ("what", "fixed", "unknown"),
    [
        (one_odd(LARGER), ["RT-01"], []),
        # Fingerprints are measured anew, so whether the roots agree is unknown.
        (one_odd(LIMIT, others={"engines": hashing("same")}, engines=hashing("other")), ["CO-12"], ["RT-06"]),
        # A forecast of the capacity is an assumption.
        (one_odd(HALF, engines=(engine(600_000),)), ["CP-02"], ["CP-01"]),
        # Nothing that decides the capacity changes, so it stays.
        (one_odd(LIMIT, engines=(engine(600_000),)), ["CO-12"], []),
        (one_odd(LARGER, contradictions=(CONTRADICTION,)), [], ["RT-01", "ID-06"]),
        (one_odd({**SERVED, **LARGER}, SERVED, others={"adapters": {"sql": None}}), ["RT-01"], ["CO-09"]),
        # A route that answered is decided by its variable, if that is reported.
        (one_odd(ON, OFF, others=METRICS), ["CO-14"], []),
        (one_odd(LIMIT, others=METRICS), ["CO-12"], ["CO-14"]),
    ],
)
def test_a_finding_is_fixed_only_if_its_evidence_is_known_after_the_restart(
    what: Restarted, fixed: list[str], unknown: list[str]
) -> None:
    assert (what.rules("ended"), what.rules("unknown")) == (fixed, unknown)


def test_a_capacity_finding_persists_if_the_capacity_does() -> None:
    assert "CP-01" in one_odd(LIMIT, engines=(engine(600_000),)).left


def test_fingerprints_are_unknown_after_a_restart_and_reported_tokens_become_a_forecast() -> None:
    what = one_odd(LARGER, others={"engines": hashing("same")}, engines=hashing("other"))

    assert [(each.fingerprint, each.basis) for each in what.moved().engines] == [(None, Basis.ASSUMED)]
    assert what.ranks[0].after == what.ranks[0].before


def test_a_setting_that_is_unreported_after_a_restart_makes_its_finding_unknown() -> None:
    """The target does not report the setting, and a different version has another default."""
    path = "model_config.logprobs_mode"
    old = {"version": "0.31.0", path: "raw_logits"}
    documents = document({"version": "0.32.0"}), document(old), document({**old, path: "raw_logprobs"})
    members = [
        *alike("chat", 3, documents[0]),
        replica("chat-8", document=documents[1]),
        replica("chat-9", document=documents[2]),
    ]
    what = like_cohort(fleet(members, documents))

    assert any(path in each.paths for each in what.unknown)


def test_a_finding_can_spread_to_more_replicas_and_is_not_new() -> None:
    documents = document(OFF), document({**ON, **LARGER})
    members = [
        *alike("chat", 3, documents[0], **METRICS),
        *alike("chat", 2, documents[1], first=5, **METRICS),
    ]
    before = fleet(members, documents)
    spread = set_to(before, {"cache_config.block_size": 32, "env.VLLM_SERVER_DEV_MODE": True})

    assert len(spread.left["CO-14"].replicas) == 5
    assert "CO-14" not in spread.rules("new")


def test_a_finding_is_reduced_to_replicas_on_which_it_is_unknown() -> None:
    """The route answers on two replicas, and only one of them reports the variable that enables it."""
    documents = document(OFF), document(ON), document(LIMIT)
    members = [
        *alike("chat", 3, documents[0], **METRICS),
        replica("chat-8", document=documents[1], **METRICS),
        replica("chat-9", document=documents[2]),
    ]
    before = fleet(members, documents)
    what = set_to(before, OFF)

    assert what.left["CO-14"].replicas == ("http://chat-9:8000",)
    assert "CO-14" not in {*what.rules("ended"), *what.rules("new"), *what.rules("unknown")}


def test_the_rollout_of_another_pool_continues() -> None:
    old, new = document({"version": "0.31.0"}), document()
    members = [
        each
        for pool in ("one", "two")
        for each in (
            *alike(pool, 3, old, started_at=NOW - timedelta(days=9)),
            replica(f"{pool}-9", pool=pool, document=new, started_at=NOW - timedelta(hours=1)),
        )
    ]
    before = fleet(members, [old, new])

    assert set(before.inspection.rollouts) == {"one", "two"}
    assert set(like_cohort(before, "one").after.inspection.rollouts) == {"two"}
