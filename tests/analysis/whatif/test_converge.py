"""What would change if a pool converged to a cohort or a baseline."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.analysis.whatif import WhatIf, converge
from dashboard.compare.baseline import deviations
from dashboard.documents.fleet import fleet_json
from dashboard.fleet import Baseline, State, Tolerance
from dashboard.rules.apply_method import ApplyMethod
from tests.analysis.whatif.pools import LARGER, pool_of, rules
from tests.builders import NOW, alike, document, fleet, replica, setting, story

FEW = 20  # examples: each evaluates all rules on two fleets
UTILIZATION = "cache_config.gpu_memory_utilization"


def paths(fleet: Fleet, pool: str = "chat") -> set[str]:
    """Return the settings that differ in a pool."""
    return {each.path for own in fleet.pools if own.name == pool for each in own.differences}


def moved(what: WhatIf, name: str = "chat-9") -> Any:
    """Return a replica after its restart."""
    return next(each for each in what.changes.after.replicas if each.name == name)


def test_converging_to_the_largest_cohort_restarts_the_others_and_changes_no_other_pool(demo_fleet: Fleet) -> None:
    saved = fleet_json(demo_fleet, NOW, full=True)
    what = converge(demo_fleet, "chat-70b", "A")
    after = what.changes.after

    assert [(group.letters, len(group.replicas)) for group in what.groups] == [(("C",), 1), (("B",), 1)]
    assert rules(what, "fixed") == ["RT-01", "RT-05", "SH-02", "CP-03", "CO-14", "CP-02", "CO-12"]
    assert rules(what, "new") == rules(what, "not_evaluated") == []
    assert (paths(after, "chat-70b"), len(what.unread)) == (set(), 1)
    for one, other in ((after.replicas, demo_fleet.replicas), (after.pools, demo_fleet.pools)):
        assert [each for each in one if "chat-70b" not in {each.name, getattr(each, "pool", "")}] == [
            each for each in other if "chat-70b" not in {each.name, getattr(each, "pool", "")}
        ]
    assert [each for each in after.inspection.findings if "chat-70b" not in each.pools] == [
        each for each in demo_fleet.inspection.findings if "chat-70b" not in each.pools
    ]
    suppressed = {each.id for each in demo_fleet.inspection.suppressed}
    found = what.changes.findings
    assert suppressed.isdisjoint(each.finding.id for each in (*found.fixed, *found.new))
    assert fleet_json(demo_fleet, NOW, full=True) == saved, "the fleet is not modified"


@pytest.mark.parametrize(("pool", "letter"), [("chat-70b", "A"), ("chat-70b", "B"), ("gemma-27b", "A")])
def test_findings_of_unchanged_pools_are_reused_and_are_those_of_all_rules(
    demo_fleet: Fleet, pool: str, letter: str
) -> None:
    after = converge(demo_fleet, pool, letter).changes.after
    known = {key: each.findings for key, each in demo_fleet.inspection.evaluated.items()}
    same = {key for key, each in after.inspection.evaluated.items() if each.findings is known.get(key)}

    assert {name for _, name in known.keys() - same} == {pool, "fleet"}
    assert after.inspection == inspected(after, NOW).inspection


def test_a_pool_with_one_cohort_does_not_change(demo_fleet: Fleet) -> None:
    what = converge(demo_fleet, "deepseek-v3/decode", "A")

    assert (what.groups, what.restarts, what.ranks) == ((), (), ())
    assert what.changes.after is demo_fleet
    assert what.unchanged == 2


@pytest.mark.parametrize(
    ("fleet", "pool", "letter", "message"),
    [
        (story(), "other", "A", "no pool other"),
        (story(), "chat-70b", "Z", "no cohort Z"),
        (empty_fleet("prod"), "chat-70b", "A", "no pool chat-70b"),
    ],
)
def test_an_unknown_pool_or_cohort_raises_key_error(fleet: Fleet, pool: str, letter: str, message: str) -> None:
    with pytest.raises(KeyError, match=message):
        converge(fleet, pool, letter)


some_settings = st.dictionaries(
    st.sampled_from(["cache_config.block_size", "model_config.max_logprobs", "env.VLLM_X", "speculative_config"]),
    st.sampled_from([None, 16, 32, "auto", True]),
    max_size=4,
)
SMALL = {"version": "0.32.0"}


@tried(max_examples=FEW)
@given(st.lists(st.tuples(some_settings, st.integers(1, 3)), min_size=1, max_size=5), st.booleans())
def test_after_converging_only_settings_that_the_target_does_not_report_differ(
    kinds: list[tuple[dict[str, Any], int]],
    has_leaf: bool,  # noqa: FBT001
) -> None:
    documents = [document(own, base=SMALL) for own, _ in kinds]
    if has_leaf:
        documents.append(document({"speculative_config.method": "ngram"}, base=SMALL))
    members = [
        replica(f"chat-{place}-{number}", document=own)
        for place, own in enumerate(documents)
        for number in range(kinds[place][1] if place < len(kinds) else 1)
    ]
    before = fleet(members, documents)
    for cohort in before.pools[0].cohorts:
        what = converge(before, "chat", cohort.letter)
        assert paths(what.changes.after) <= set(what.unreported)
        assert set(what.restarts).isdisjoint(cohort.replicas)
        same = Baseline("same", "chat", {path: each.value for path, each in cohort.settings.items()})
        assert converge(what.changes.after, "chat", same).restarts == ()


@tried(max_examples=FEW)
@given(st.lists(some_settings, min_size=1, max_size=5), st.sampled_from([16, 32]))
def test_after_converging_to_a_baseline_nothing_deviates(kinds: list[dict[str, Any]], wanted: int) -> None:
    agreed = Baseline("chat", "chat", {"cache_config.block_size": str(wanted), "env.VLLM_X": "null"})
    documents = [document(own, base=SMALL) for own in kinds]
    before = fleet([replica(f"chat-{place}", document=own) for place, own in enumerate(documents)], documents)
    what = converge(before, "chat", agreed)

    assert all(not deviations(agreed, each.settings) for each in what.changes.after.documents.values())
    assert converge(what.changes.after, "chat", agreed).restarts == ()


def test_a_baseline_changes_a_value_outside_of_its_range_to_the_nearer_end() -> None:
    documents = [document({UTILIZATION: share}) for share in (0.85, 0.9, 0.97)]
    before = fleet([replica(f"chat-{place}", document=own) for place, own in enumerate(documents)], documents)
    agreed = Baseline("agreed", "chat", tolerated={UTILIZATION: Tolerance(at_least=0.8, at_most=0.95)})
    what = converge(before, "chat", agreed)

    assert (what.restarts, what.target) == (("http://chat-2:8000",), agreed)
    assert list(what.groups[0].changes) == [
        (UTILIZATION, documents[2].settings[UTILIZATION][:2], ("0.95", State.REPORTED))
    ]
    assert converge(before, "chat", replace(agreed, ignored=("cache_config.*",))).groups == ()


def test_the_usual_value_within_a_range_is_used_with_fresh_replicas_first() -> None:
    documents = [document({UTILIZATION: value}) for value in (0.92, 0.95, 0.5)]
    members = [
        *alike("chat", 2, documents[0]),
        *(replica(f"old-{each}", pool="chat", document=documents[1], fresh=False) for each in range(3)),
        replica("chat-9", document=documents[2]),
    ]
    agreed = Baseline("agreed", "chat", {}, {UTILIZATION: Tolerance((), 0.9, 0.95)})
    (group,) = converge(fleet(members, documents), "chat", agreed).groups

    assert (group.replicas, group.paste.flags) == (("http://chat-9:8000",), ("--gpu-memory-utilization 0.92",))


def test_paths_that_fleet_yaml_ignores_cause_no_restart() -> None:
    agreed = Baseline("agreed", "chat", {"cache_config.block_size": "16"})

    assert converge(pool_of(LARGER), "chat", agreed).restarts == ("http://chat-9:8000",)
    assert converge(pool_of(LARGER, ignore=("*.block_size",)), "chat", agreed).restarts == ()


def test_replicas_with_the_same_changes_are_one_group() -> None:
    usual, odd, other = document(), document(LARGER), document({**LARGER, "a_new_config.seed": 1})
    members = [*alike("chat", 3, usual), replica("chat-8", document=odd), replica("chat-9", document=other)]
    what = converge(fleet(members, [usual, odd, other]), "chat", "A")

    assert [group.replicas for group in what.groups] == [("http://chat-8:8000", "http://chat-9:8000")]


def test_a_section_that_is_null_gets_the_settings_of_the_target_and_back() -> None:
    before = pool_of(
        {"speculative_config.method": "ngram", "speculative_config.model": None}, {"speculative_config": None}
    )
    forth = converge(before, "chat", "B")
    changed = next(
        each for each in forth.changes.after.documents.values() if "speculative_config.method" in each.settings
    )

    assert "speculative_config" not in changed.settings
    assert changed.settings["speculative_config.model"].state is State.NULL
    assert paths(forth.changes.after) == paths(converge(before, "chat", "A").changes.after) == set()


def test_another_version_makes_settings_unknown_that_the_target_does_not_report() -> None:
    what = converge(pool_of({"version": "0.31.0", "a_config.of_old": 1}, {"version": "0.32.0"}), "chat", "A")

    assert moved(what).version == "0.32.0"
    assert "a_config.of_old" not in what.changes.after.documents[moved(what).document].settings
    assert what.groups[0].methods["version"] is ApplyMethod.IMAGE
    assert "A different version has different defaults" in what.notes[0]


def test_what_a_process_measured_is_unknown_after_its_restart() -> None:
    counted = {"cache_config.num_gpu_blocks": setting(100), "instance_id": setting("abc")}
    odd = {"cache_config.prefix_caching_hash_algo": "xxhash"}
    what = converge(pool_of(odd, adapters={"sql": None}, identity=counted), "chat", "A")
    after = moved(what)

    assert (after.started_at, after.adapters, after.contradictions) == (None, {}, ())
    assert (after.sources, after.probes, set(after.identity)) == ((), (), {"instance_id"})
    assert what.notes == ("LoRA adapters of a replica must be loaded again.",)


def test_replicas_that_must_load_adapters_again_are_counted() -> None:
    usual, odd = document(), document({"model_config.max_logprobs": 5})
    members = [*alike("chat", 3, usual), *alike("chat", 2, odd, first=8, adapters={"sql": None})]

    assert converge(fleet(members, [usual, odd]), "chat", "A").notes == (
        "LoRA adapters of 2 replicas must be loaded again.",
    )


def test_served_names_and_role_follow_the_settings_unless_a_label_decides_the_role() -> None:
    usual = document({"served_model_names": ["chat", "chat-2"], "kv_transfer_config.kv_role": "kv_consumer"})
    odd = document({"served_model_names": ["other"], "kv_transfer_config.kv_role": "kv_producer"})
    members = [
        *alike("chat", 3, usual),
        replica("chat-8", document=odd, labels={"pool": "chat", "role": "prefill"}),
        replica("chat-9", document=odd),
    ]
    before = fleet(members, [usual, odd])
    what = converge(before, "chat", "A")
    nothing = Baseline("none", "chat", {"kv_transfer_config.kv_role": "null", "served_model_names": '"chat"'})
    emptied = moved(converge(before, "chat", nothing))

    assert moved(what).served_model_names == ("chat", "chat-2")
    assert (moved(what, "chat-8").role, moved(what).role) == (before.replicas[3].role, "decode")
    assert (emptied.role, emptied.served_model_names) == ("both", ())


def test_the_state_of_a_rollout_is_unknown_if_two_versions_remain() -> None:
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


def test_a_rollout_that_is_reverted_is_not_fixed(demo_fleet: Fleet) -> None:
    back, on = (converge(demo_fleet, "gemma-27b", letter) for letter in "AC")

    assert (back.reverted, on.reverted) == (demo_fleet.inspection.rollouts["gemma-27b"], None)
    assert ("ID-08" in rules(back, "fixed"), "ID-08" in rules(on, "fixed")) == (False, True)
