"""What would change if a pool converged to a cohort or a baseline."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.analysis.documents.fleet import fleet_json
from dashboard.analysis.whatif import ApplyMethod, WhatIf, converge
from dashboard.analysis.whatif.converge import paths_of
from dashboard.compare.baseline import deviations
from dashboard.fleet import Baseline, Basis, State, Tolerance
from dashboard.rules.policy import Policy
from tests.builders import NOW, alike, devices, document, down, engine, fleet, replica, setting, story

FEW = 20  # examples: each judges two fleets by all rules


def paths(fleet: Fleet, pool: str) -> set[str]:
    """Return in which settings a pool differs."""
    return {each.path for own in fleet.pools if own.name == pool for each in own.differences}


def rules(what: WhatIf, name: str) -> list[str]:
    """Return the rules whose findings go, come or are open."""
    return [each.rule for each in getattr(what.verdicts, name)]


def with_baseline(fleet: Fleet, baseline: Baseline) -> Fleet:
    """Return a fleet whose operator agreed on a baseline."""
    return inspected(replace(fleet, policy=Policy(baselines=(baseline,))), NOW)


def test_the_two_replicas_that_stand_apart_restart_and_their_findings_go(demo_fleet: Fleet) -> None:
    """The replica with other hashes and the one with larger blocks are made like the fourteen: seven findings go."""
    what = converge(demo_fleet, "chat-70b", "A")

    assert [(group.letters, len(group.replicas)) for group in what.groups] == [(("B",), 1), (("C",), 1)]
    assert rules(what, "gone") == ["RT-01", "RT-05", "SH-02", "CP-03", "CO-14", "CP-02", "CO-12"]
    assert rules(what, "came") == rules(what, "open") == []
    assert paths(what.fleet, "chat-70b") == set()
    assert len(what.unread) == 1


def test_the_wrong_target_spreads_what_is_wrong(demo_fleet: Fleet) -> None:
    """Made like the replica with random hashes, all others get them too: the finding stays and reaches all."""
    what = converge(demo_fleet, "chat-70b", "B")

    spread = {before.rule: (len(before.replicas), len(after.replicas)) for before, after in what.verdicts.spread}
    assert spread == {"RT-05": (1, 16), "CO-14": (1, 16)}
    assert "RT-05" not in rules(what, "gone")


def test_nothing_outside_the_pool_changes(demo_fleet: Fleet) -> None:
    """Replicas of other pools are the very same, and so is what is found on them."""
    after = converge(demo_fleet, "chat-70b", "A").fleet

    others = [each for each in demo_fleet.replicas if each.pool != "chat-70b"]
    assert [each for each in after.replicas if each.pool != "chat-70b"] == others
    assert [each for each in after.inspection.findings if "chat-70b" not in each.pools] == [
        each for each in demo_fleet.inspection.findings if "chat-70b" not in each.pools
    ]


def test_the_fleet_itself_is_left_alone(demo_fleet: Fleet) -> None:
    """Nothing is applied: the fleet says after it what it said before."""
    before = fleet_json(demo_fleet, NOW, full=True)
    converge(demo_fleet, "chat-70b", "A")

    assert fleet_json(demo_fleet, NOW, full=True) == before


def test_a_pool_with_one_cohort_has_nothing_to_converge(demo_fleet: Fleet) -> None:
    """No replica restarts, nothing is found or lost, and the fleet is the same one."""
    what = converge(demo_fleet, "deepseek-v3/decode", "A")

    assert (what.groups, what.restarts, what.capacity.ranks) == ((), (), ())
    assert what.fleet is demo_fleet
    assert what.verdicts.stay == 2


def test_what_is_not_there_is_refused() -> None:
    """A pool or a cohort that does not exist is an error, as is any pool of a fleet that was never polled."""
    with pytest.raises(KeyError, match="no pool other"):
        converge(story(), "other", "A")
    with pytest.raises(KeyError, match="no cohort Z"):
        converge(story(), "chat-70b", "Z")
    with pytest.raises(KeyError):
        converge(empty_fleet("prod"), "chat-70b", "A")


values = st.sampled_from([None, 16, 32, "auto", True])
told_settings = st.dictionaries(
    st.sampled_from(["cache_config.block_size", "model_config.max_logprobs", "env.VLLM_X", "speculative_config"]),
    values,
    max_size=4,
)


@tried(max_examples=FEW)
@given(st.lists(st.tuples(told_settings, st.integers(1, 3)), min_size=1, max_size=5), st.booleans())
def test_laws(told: list[tuple[dict[str, Any], int]], has_leaf: bool) -> None:  # noqa: FBT001
    """After it the pool differs only in what the target does not tell, and doing it again changes nothing."""
    documents = [document(own, base={"version": "0.32.0"}) for own, _ in told]
    if has_leaf:
        documents.append(document({"speculative_config.method": "ngram"}, base={"version": "0.32.0"}))
    members = [
        replica(f"chat-{place}-{number}", document=own)
        for place, own in enumerate(documents)
        for number in range(told[place][1] if place < len(told) else 1)
    ]
    before = fleet(members, documents)
    for cohort in before.pools[0].cohorts:
        what = converge(before, "chat", cohort.letter)
        left = paths(what.fleet, "chat")
        assert not paths_of(cohort, left)
        assert left <= set(what.untold)
        assert set(what.restarts).isdisjoint(cohort.replicas)
        same = Baseline("same", "chat", {path: each.value for path, each in cohort.settings.items()})
        assert converge(what.fleet, "chat", same).restarts == ()


@tried(max_examples=FEW)
@given(st.lists(told_settings, min_size=1, max_size=5), st.sampled_from([16, 32]))
def test_laws_of_baselines(told: list[dict[str, Any]], wanted: int) -> None:
    """After it no replica deviates from the baseline, and doing it again changes nothing."""
    agreed = Baseline("chat", "chat", {"cache_config.block_size": str(wanted), "env.VLLM_X": "null"})
    documents = [document(own, base={"version": "0.32.0"}) for own in told]
    before = fleet([replica(f"chat-{place}", document=own) for place, own in enumerate(documents)], documents)
    what = converge(before, "chat", agreed)

    assert all(not deviations(agreed, each.settings) for each in what.fleet.documents.values())
    assert converge(what.fleet, "chat", agreed).restarts == ()


def test_a_replica_that_only_tells_less_does_not_restart_and_that_is_said(demo_fleet: Fleet) -> None:
    """Four of the pool tell their metrics only: as far as they tell, they are as the others."""
    what = converge(demo_fleet, "gemma-27b", "A")

    names = {each.id: each.name for each in demo_fleet.replicas}
    assert sorted(names[each] for each in what.silent) == [f"gemma-27b-0{number}" for number in (1, 2, 6, 7)]
    assert set(what.silent).isdisjoint(what.restarts)


def test_a_baseline_is_a_target_and_what_it_tolerates_stays() -> None:
    """Only the value outside of the agreed range changes, to its nearer end; what is ignored does not matter."""
    told = [document({"cache_config.gpu_memory_utilization": share}) for share in (0.85, 0.9, 0.97)]
    before = fleet([replica(f"chat-{place}", document=own) for place, own in enumerate(told)], told)
    path = "cache_config.gpu_memory_utilization"
    agreed = Baseline("agreed", "chat", tolerated={path: Tolerance(at_least=0.8, at_most=0.95)})
    what = converge(with_baseline(before, agreed), "chat", agreed)

    assert what.restarts == ("http://chat-2:8000",)
    assert (what.target, what.is_baseline) == ("agreed", True)
    assert [(each.path, each.before.value, each.after.value) for each in what.groups[0].changes] == [
        (path, "0.97", "0.95")
    ]
    assert converge(before, "chat", replace(agreed, ignored=("cache_config.*",))).groups == ()


def test_paths_that_are_compared_nowhere_change_nowhere() -> None:
    """What fleet.yaml ignores is no reason to restart."""
    told = [document(), document({"cache_config.block_size": 32})]
    before = fleet([replica("chat-1", document=told[0]), replica("chat-2", document=told[1])], told)
    agreed = Baseline("agreed", "chat", {"cache_config.block_size": "16"})

    assert converge(before, "chat", agreed).restarts == ("http://chat-2:8000",)
    ignoring = fleet(before.replicas, told, ignore=("*.block_size",))
    assert converge(ignoring, "chat", agreed).restarts == ()


def test_replicas_that_change_alike_are_one_group_whatever_else_they_tell() -> None:
    """Two documents that differ elsewhere, in a setting that the target leaves alone, change the same."""
    usual, odd = document(), document({"cache_config.block_size": 32})
    other = document({"cache_config.block_size": 32, "a_new_config.seed": 1})
    members = [*alike("chat", 3, usual), replica("chat-8", document=odd), replica("chat-9", document=other)]
    what = converge(fleet(members, [usual, odd, other]), "chat", "A")

    assert [group.replicas for group in what.groups] == [("http://chat-8:8000", "http://chat-9:8000")]


def test_a_section_that_is_not_set_gets_what_the_target_has_in_it_and_back() -> None:
    """Null for a whole section means null for all below it."""
    without = document({"speculative_config": None})
    guessing = document({"speculative_config.method": "ngram", "speculative_config.model": None})
    members = [*alike("chat", 3, without), replica("chat-9", document=guessing)]
    before = fleet(members, [without, guessing])

    forth = converge(before, "chat", "B")
    changed = next(each for each in forth.fleet.documents.values() if "speculative_config.method" in each.settings)
    assert "speculative_config" not in changed.settings
    assert changed.settings["speculative_config.model"].state is State.NULL
    assert paths(forth.fleet, "chat") == paths(converge(before, "chat", "A").fleet, "chat") == set()


def test_another_version_makes_unknown_what_the_target_does_not_tell() -> None:
    """Defaults of the new image are not those of the old one."""
    old = document({"version": "0.31.0", "a_config.of_old": 1})
    new = document({"version": "0.32.0"})
    members = [*alike("chat", 3, new), replica("chat-9", document=old)]
    what = converge(fleet(members, [old, new]), "chat", "A")

    moved = next(each for each in what.fleet.replicas if each.name == "chat-9")
    assert moved.version == "0.32.0"
    assert "a_config.of_old" not in what.fleet.documents[str(moved.document)].settings
    assert what.groups[0].changes[0].how is ApplyMethod.IMAGE
    assert "Another version has other defaults" in what.notes[0]


def test_what_a_process_told_of_itself_is_not_known_after_its_restart() -> None:
    """Hashes, adapters, contradictions and its start end with the process."""
    usual, odd = document(), document({"cache_config.prefix_caching_hash_algo": "xxhash"})
    counted = {"cache_config.num_gpu_blocks": setting(100), "instance_id": setting("abc")}
    members = [*alike("chat", 3, usual), replica("chat-9", document=odd, adapters={"sql": None}, identity=counted)]
    what = converge(fleet(members, [usual, odd]), "chat", "A")

    after = next(each for each in what.fleet.replicas if each.name == "chat-9")
    assert (after.started_at, after.adapters, after.contradictions, after.sources, after.probes) == (
        None,
        {},
        (),
        (),
        (),
    )
    assert set(after.identity) == {"instance_id"}
    assert what.notes == ("LoRA adapters of a replica must be loaded again.",)


def test_adapters_of_several_replicas_are_counted() -> None:
    """One sentence for all of them."""
    usual, odd = document(), document({"model_config.max_logprobs": 5})
    members = [
        *alike("chat", 3, usual),
        *(replica(f"odd-{each}", pool="chat", document=odd, adapters={"sql": None}) for each in (1, 2)),
    ]
    notes = converge(fleet(members, [usual, odd]), "chat", "A").notes

    assert notes == ("LoRA adapters of 2 replicas must be loaded again.",)


def test_names_and_role_follow_what_would_be_served() -> None:
    """What follows from a setting changes with it; a label decides the role as it does now."""
    usual = document({"served_model_names": ["chat", "chat-2"], "kv_transfer_config.kv_role": "kv_consumer"})
    odd = document({"served_model_names": ["other"], "kv_transfer_config.kv_role": "kv_producer"})
    members = [
        *alike("chat", 3, usual),
        replica("chat-8", document=odd, labels={"pool": "chat", "role": "prefill"}),
        replica("chat-9", document=odd),
    ]
    before = fleet(members, [usual, odd])
    after = {each.name: each for each in converge(before, "chat", "A").fleet.replicas}
    assert after["chat-9"].served_model_names == ("chat", "chat-2")
    assert (after["chat-8"].role, after["chat-9"].role) == (before.replicas[3].role, "decode")

    nothing = Baseline("none", "chat", {"kv_transfer_config.kv_role": "null", "served_model_names": '"chat"'})
    emptied = {each.name: each for each in converge(before, "chat", nothing).fleet.replicas}
    assert (emptied["chat-9"].role, emptied["chat-9"].served_model_names) == ("both", ())


def test_a_rollout_that_may_or_may_not_go_on_is_said() -> None:
    """Who started when decides it, and that is not known after a restart."""
    old, new = document({"version": "0.31.0", "model_config.max_logprobs": 5}), document({"version": "0.32.0"})
    members = [
        *alike("chat", 3, old, started_at=NOW - timedelta(days=9)),
        replica("chat-9", document=new, started_at=NOW - timedelta(hours=1)),
    ]
    before = fleet(members, [old, new])
    agreed = Baseline("agreed", "chat", {"model_config.max_logprobs": "20"})

    assert "chat" in before.inspection.rollouts
    assert converge(before, "chat", agreed).notes == ("The state of the rollout is unknown until the restart.",)
    assert all("rollout" not in note for note in converge(before, "chat", "A").notes)


def test_a_replica_that_was_never_read_is_named() -> None:
    """Nobody knows whether it would restart."""
    told = [document(), document({"cache_config.block_size": 32})]
    members = [*alike("chat", 3, told[0]), replica("chat-8", document=told[1]), down("chat-9")]
    what = converge(fleet(members, told), "chat", "A")

    assert (what.total, what.unread, what.restarts) == (5, ("http://chat-9:8000",), ("http://chat-8:8000",))


def test_capacity_comes_from_engines_that_are_set_up_so_already() -> None:
    """The median of the cohort on the same device, as an assumption, and its range beside it."""
    usual, odd = document(), document({"cache_config.block_size": 32})
    members = [
        *[replica(f"chat-{each}", document=usual, engines=(engine(1_000 + each * 100),)) for each in range(3)],
        replica("chat-8", document=usual, engines=(engine(5_000),), devices=devices(4, "NVIDIA H200")),
        replica("chat-9", document=odd, engines=(engine(700),)),
    ]
    what = converge(fleet(members, [usual, odd]), "chat", "A")

    (rank,) = what.capacity.ranks
    assert (rank.before, rank.after, rank.after_basis, rank.peers) == (700, 1_100, Basis.ASSUMED, 3)
    assert (rank.least, rank.most) == (1_000, 1_200)
    assert (what.capacity.least, what.capacity.most) == (300, 500)
    assert (what.capacity.before, what.capacity.after, what.capacity.unchanged) == (9_000, 9_400, 4)
    assert "3 identical engines on NVIDIA H100" in rank.reason
