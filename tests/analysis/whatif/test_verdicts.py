"""Findings that would go, come, spread, or are known only after the restart."""

from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import WhatIf, converge
from dashboard.fleet import Baseline, Basis, Contradiction, Source
from dashboard.rules.findings import Finding
from tests.builders import alike, document, engine, fleet, hashing, replica, setting

LARGER = {"cache_config.block_size": 32}


def one_odd(odd: dict[str, Any], usual: dict[str, Any] | None = None, **more: Any) -> WhatIf:
    """Return what a replica of four that is set up otherwise would change."""
    told = document(), document(odd)
    members = [*alike("chat", 3, told[0], **(usual or {})), replica("chat-9", document=told[1], **more)]
    return converge(fleet(members, told), "chat", "A")


def rules(what: WhatIf, name: str) -> list[str]:
    """Return the rules of findings."""
    return [each.rule for each in getattr(what.verdicts, name)]


def test_a_difference_that_is_gone_takes_its_finding_along() -> None:
    """Settings decide it, and they are known afterwards."""
    assert rules(one_odd(LARGER), "gone") == ["RT-01"]


def test_measured_hashes_do_not_hold_after_a_restart() -> None:
    """Whether the roots agree then shows only then: the finding is neither gone nor still there."""
    what = one_odd({"model_config.max_logprobs": 5}, {"engines": hashing("same")}, engines=hashing("other"))

    assert "RT-06" in rules(what, "open")
    assert "RT-06" not in rules(what, "gone")
    odd = next(each for each in what.fleet.replicas if each.name == "chat-9")
    assert [each.fingerprint for each in odd.engines] == [None]


def test_capacity_that_is_only_assumed_settles_no_finding_on_capacity() -> None:
    """An engine that holds less may do so again."""
    what = one_odd({"cache_config.gpu_memory_utilization": 0.5}, engines=(engine(600_000),))

    assert rules(what, "open") == ["CP-01"]
    assert rules(what, "gone") == ["CP-02"]


def test_a_finding_on_capacity_that_nothing_touches_stays() -> None:
    """Nothing changes that decides it, so the number is kept."""
    what = one_odd({"model_config.max_logprobs": 5}, engines=(engine(600_000),))

    assert (rules(what, "gone"), rules(what, "open")) == (["CO-12"], [])
    assert "CP-01" in [each.rule for each in what.fleet.inspection.findings]


def test_an_engine_of_which_nothing_is_known_afterwards_leaves_its_finding_open() -> None:
    """The same tokens with another basis are not the same knowledge."""
    what = one_odd(LARGER, {"engines": (engine(1_200_000),)}, engines=(engine(1_200_000, basis=Basis.REPORTED),))

    assert rules(what, "open") == []
    assert what.capacity.ranks[0].after == what.capacity.ranks[0].before


def test_answers_that_contradict_each_other_may_do_so_again() -> None:
    """The cause may be a load balancer as well as a restart between two answers."""
    path = "cache_config.block_size"
    told = Contradiction(path, setting(32), setting(16, source=Source.METRICS))

    assert "ID-06" in rules(one_odd(LARGER, contradictions=(told,)), "open")


def test_adapters_that_are_not_loaded_show_only_later() -> None:
    """Who loads them after a restart is not known."""
    told = document({"served_model_names": ["chat"]}), document({"served_model_names": ["chat"], **LARGER})
    members = [*alike("chat", 3, told[0], adapters={"sql": None}), replica("chat-9", document=told[1])]
    what = converge(fleet(members, told), "chat", "A")

    assert "CO-09" in rules(what, "open")


def test_a_route_that_answers_follows_from_its_variable_where_that_is_told() -> None:
    """Without the variable nobody knows whether development mode ends."""
    off, on = {"env.VLLM_SERVER_DEV_MODE": False}, {"env.VLLM_SERVER_DEV_MODE": True}
    quiet = (Source.METRICS,)
    for usual, odd, name in ((off, on, "gone"), ({}, {"model_config.max_logprobs": 5}, "open")):
        told = document(usual), document(odd)
        members = [*alike("chat", 3, told[0], sources=quiet), replica("chat-9", document=told[1])]
        assert "CO-14" in rules(converge(fleet(members, told), "chat", "A"), name)


def test_a_setting_that_nobody_tells_afterwards_leaves_its_finding_open() -> None:
    """Another version has other defaults, and the target does not tell this one."""
    said = {"version": "0.31.0", "model_config.logprobs_mode": "raw_logits"}
    told = (
        document({"version": "0.32.0"}),
        document(said),
        document({**said, "model_config.logprobs_mode": "raw_logprobs"}),
    )
    members = [
        *alike("chat", 3, told[0]),
        replica("chat-8", document=told[1]),
        replica("chat-9", document=told[2]),
    ]
    what = converge(fleet(members, told), "chat", "A")

    assert [each.rule for each in what.verdicts.open if "model_config.logprobs_mode" in each.paths] != []


def test_findings_reach_more_or_fewer_replicas() -> None:
    """The same finding on others is neither gone nor new."""
    off, on = {"env.VLLM_SERVER_DEV_MODE": False}, {"env.VLLM_SERVER_DEV_MODE": True}
    told = document(off), document(on), document({**on, **LARGER})
    members = [
        *alike("chat", 3, told[0], sources=(Source.METRICS,)),
        *alike("chat", 2, told[1], first=5, sources=(Source.METRICS,)),
        replica("chat-9", document=told[2], sources=(Source.METRICS,)),
    ]
    before = fleet(members, told)
    agreed = Baseline("agreed", "chat", {"cache_config.block_size": "32", "env.VLLM_SERVER_DEV_MODE": "true"})
    ended = Baseline("ended", "chat", {"cache_config.block_size": "16", "env.VLLM_SERVER_DEV_MODE": "false"})
    half = Baseline("half", "chat", {"cache_config.block_size": "32"}, ignored=("env.*",))

    def numbers(pairs: tuple[tuple[Finding, Finding], ...]) -> list[tuple[str, int, int]]:
        return [(one.rule, len(one.replicas), len(other.replicas)) for one, other in pairs]

    assert numbers(converge(before, "chat", agreed).verdicts.spread) == [("CO-14", 3, 6)]
    assert "CO-14" in rules(converge(before, "chat", ended), "gone")
    assert numbers(converge(before, "chat", half).verdicts.spread) == []


def test_a_finding_on_fewer_replicas_is_eased_where_that_is_known() -> None:
    """Of two replicas whose route answers, one tells the variable behind it, and the other does not."""
    off, on = {"env.VLLM_SERVER_DEV_MODE": False}, {"env.VLLM_SERVER_DEV_MODE": True}
    told = document(off), document(on), document({"model_config.max_logprobs": 5})
    members = [
        *alike("chat", 3, told[0], sources=(Source.METRICS,)),
        replica("chat-8", document=told[1], sources=(Source.METRICS,)),
        replica("chat-9", document=told[2], sources=(Source.SERVER_INFO,)),
    ]
    before = fleet(members, told)

    ended = converge(before, "chat", Baseline("ended", "chat", {"env.VLLM_SERVER_DEV_MODE": "false"})).verdicts
    assert [(one.rule, one.replicas[:-1], other.replicas) for one, other in ended.eased] == [
        ("CO-14", ("http://chat-8:8000",), ("http://chat-9:8000",))
    ]
    other = converge(before, "chat", Baseline("other", "chat", {"model_config.max_logprobs": "20"})).verdicts
    assert (other.eased, other.stay) == ((), 1)


def test_what_is_suppressed_neither_goes_nor_comes(demo_fleet: Fleet) -> None:
    """Somebody answers for it already."""
    what = converge(demo_fleet, "chat-70b", "A")
    suppressed = {each.id for each in demo_fleet.inspection.suppressed}

    assert suppressed.isdisjoint(each.id for each in (*what.verdicts.gone, *what.verdicts.came))
