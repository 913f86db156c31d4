"""Findings that a restart would fix, add or spread, or that are unknown until then."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.whatif import WhatIf, converge
from dashboard.fleet import Baseline, Basis, Contradiction, Source
from dashboard.rules.findings import Finding
from tests.analysis.whatif.pools import LARGER, pool_of, rules
from tests.builders import NOW, alike, document, engine, fleet, hashing, replica, setting

LIMIT = {"model_config.max_logprobs": 5}
OFF, ON = {"env.VLLM_SERVER_DEV_MODE": False}, {"env.VLLM_SERVER_DEV_MODE": True}
SERVED = {"served_model_names": ["chat"]}
METRICS: dict[str, Any] = {"sources": (Source.METRICS,)}
CONTRADICTION = Contradiction("cache_config.block_size", setting(32), setting(16, source=Source.METRICS))
HALF = {"cache_config.gpu_memory_utilization": 0.5}


def one_odd(odd: dict[str, Any], usual: dict[str, Any] | None = None, **more: Any) -> WhatIf:
    """Return what would change if one replica of four had the settings of the others."""
    return converge(pool_of(odd, usual, **more), "chat", "A")


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
    what: WhatIf, fixed: list[str], unknown: list[str]
) -> None:
    assert (rules(what, "fixed"), rules(what, "not_evaluated")) == (fixed, unknown)


def test_a_capacity_finding_persists_if_the_capacity_does() -> None:
    what = one_odd(LIMIT, engines=(engine(600_000),))

    assert "CP-01" in [each.rule for each in what.changes.after.inspection.findings]


def test_fingerprints_are_unknown_after_a_restart_and_reported_tokens_become_a_forecast() -> None:
    what = one_odd(LARGER, others={"engines": hashing("same")}, engines=hashing("other"))
    odd = next(each for each in what.changes.after.replicas if each.name == "chat-9")

    assert [(each.fingerprint, each.basis) for each in odd.engines] == [(None, Basis.ASSUMED)]
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
    what = converge(fleet(members, documents), "chat", "A")

    assert any(path in each.finding.paths for each in what.changes.findings.not_evaluated)


def baseline(**settings: Any) -> Baseline:
    names = {"block_size": "cache_config.block_size", "dev_mode": "env.VLLM_SERVER_DEV_MODE"}
    return Baseline("agreed", "chat", {names[name]: value for name, value in settings.items()})


def sizes(found: Iterable[Finding]) -> list[tuple[str, int]]:
    return [(each.rule, len(each.replicas)) for each in found]


def test_a_finding_can_spread_to_more_replicas() -> None:
    documents = document(OFF), document(ON), document({**ON, **LARGER})
    members = [
        *alike("chat", 3, documents[0], **METRICS),
        *alike("chat", 2, documents[1], first=5, **METRICS),
        replica("chat-9", document=documents[2], **METRICS),
    ]
    before = fleet(members, documents)
    half = Baseline("half", "chat", {"cache_config.block_size": "32"}, ignored=("env.*",))

    assert sizes(converge(before, "chat", baseline(block_size="32", dev_mode="true")).spread) == [("CO-14", 6)]
    assert "CO-14" in rules(converge(before, "chat", baseline(block_size="16", dev_mode="false")), "fixed")
    assert sizes(converge(before, "chat", half).spread) == []


def test_a_finding_is_reduced_to_replicas_on_which_it_is_unknown() -> None:
    """The route answers on two replicas, and only one of them reports the variable that enables it."""
    documents = document(OFF), document(ON), document(LIMIT)
    members = [
        *alike("chat", 3, documents[0], **METRICS),
        replica("chat-8", document=documents[1], **METRICS),
        replica("chat-9", document=documents[2]),
    ]
    before = fleet(members, documents)
    reduced = converge(before, "chat", baseline(dev_mode="false")).reduced
    other = converge(before, "chat", Baseline("other", "chat", {"model_config.max_logprobs": "20"}))

    assert [(each.rule, each.replicas) for each in reduced] == [("CO-14", ("http://chat-9:8000",))]
    assert (other.reduced, other.unchanged) == ((), 1)


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
    assert set(converge(before, "one", "A").changes.after.inspection.rollouts) == {"two"}
