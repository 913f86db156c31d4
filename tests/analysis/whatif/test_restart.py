"""The fleet after restarts with other settings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.analysis.whatif import restarted_fleet
from dashboard.compare.encoding import lookup_value
from dashboard.documents.fleet import fleet_json
from dashboard.fleet import State
from tests.analysis.whatif.pools import like_cohort, pool_of, set_to
from tests.builders import NOW, alike, document, fleet, replica, setting

FEW = tried().max_examples // 5  # examples: each evaluates all rules on two fleets


def paths(fleet: Fleet, pool: str = "chat") -> set[str]:
    """Return the settings that differ in a pool."""
    return {each.path for own in fleet.pools if own.name == pool for each in own.differences}


def test_restarts_in_one_pool_change_no_other_pool_and_not_the_fleet_itself(demo_fleet: Fleet) -> None:
    saved = fleet_json(demo_fleet, NOW, full=True)
    what = like_cohort(demo_fleet, "chat-70b")
    after = what.after

    assert what.rules("ended") == ["RT-01", "RT-05", "SH-02", "CP-03", "CO-14", "CP-02", "CO-12"]
    assert what.rules("new") == what.rules("unknown") == []
    assert paths(after, "chat-70b") == set()
    for one, other in ((after.replicas, demo_fleet.replicas), (after.pools, demo_fleet.pools)):
        assert [each for each in one if "chat-70b" not in {each.name, getattr(each, "pool", "")}] == [
            each for each in other if "chat-70b" not in {each.name, getattr(each, "pool", "")}
        ]
    assert [each for each in after.inspection.findings if "chat-70b" not in each.pools] == [
        each for each in demo_fleet.inspection.findings if "chat-70b" not in each.pools
    ]
    suppressed = {each.id for each in demo_fleet.inspection.suppressed}
    assert suppressed.isdisjoint(each.id for each in (*what.ended, *what.new))
    assert fleet_json(demo_fleet, NOW, full=True) == saved


@pytest.mark.parametrize(("pool", "letter"), [("chat-70b", "A"), ("chat-70b", "B"), ("gemma-27b", "A")])
def test_findings_of_unchanged_pools_are_reused_and_are_those_of_all_rules(
    demo_fleet: Fleet, pool: str, letter: str
) -> None:
    after = like_cohort(demo_fleet, pool, letter).after
    known = {key: each.findings for key, each in demo_fleet.inspection.evaluated.items()}
    same = {key for key, each in after.inspection.evaluated.items() if each.findings is known.get(key)}

    assert {name for _, name in known.keys() - same} == {pool, "fleet"}
    assert after.inspection == inspected(after, NOW).inspection


def test_without_a_restart_the_fleet_is_the_same(demo_fleet: Fleet) -> None:
    assert like_cohort(demo_fleet, "deepseek-v3/decode").after is demo_fleet
    assert restarted_fleet(before := empty_fleet("prod"), []) is before


some_settings = st.dictionaries(
    st.sampled_from(["cache_config.block_size", "model_config.max_logprobs", "env.VLLM_X", "speculative_config"]),
    st.sampled_from([None, 16, 32, "auto", True]),
    max_size=4,
)
SMALL = {"version": "0.32.0"}


@tried(max_examples=FEW)
@given(st.lists(st.tuples(some_settings, st.integers(1, 3)), min_size=1, max_size=5), st.booleans())
def test_afterwards_only_settings_that_the_cohort_does_not_report_differ(
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
        after = like_cohort(before, letter=cohort.letter).after
        assert all(lookup_value(cohort.settings, path) is None for path in paths(after))


def test_a_section_that_is_null_gets_the_settings_of_the_cohort_and_back() -> None:
    before = pool_of(
        {"speculative_config.method": "ngram", "speculative_config.model": None}, {"speculative_config": None}
    )
    forth = like_cohort(before, letter="B").after
    changed = next(each for each in forth.documents.values() if "speculative_config.method" in each.settings)

    assert "speculative_config" not in changed.settings
    assert changed.settings["speculative_config.model"].state is State.NULL
    assert paths(forth) == paths(like_cohort(before).after) == set()


def test_another_version_makes_settings_unknown_that_the_cohort_does_not_report() -> None:
    what = like_cohort(pool_of({"version": "0.31.0", "a_config.of_old": 1}, {"version": "0.32.0"}))

    assert what.moved().version == "0.32.0"
    assert "a_config.of_old" not in what.after.documents[str(what.moved().document)].settings


def test_what_a_process_measured_is_unknown_after_its_restart() -> None:
    counted = {"cache_config.num_gpu_blocks": setting(100), "instance_id": setting("abc")}
    odd = {"cache_config.prefix_caching_hash_algo": "xxhash"}
    after = like_cohort(pool_of(odd, adapters={"sql": None}, identity=counted)).moved()

    assert (after.started_at, after.adapters, after.contradictions) == (None, {}, ())
    assert (after.sources, after.probes, set(after.identity)) == ((), (), {"instance_id"})


def test_served_names_and_role_follow_the_settings_unless_a_label_decides_the_role() -> None:
    usual = document({"served_model_names": ["chat", "chat-2"], "kv_transfer_config.kv_role": "kv_consumer"})
    odd = document({"served_model_names": ["other"], "kv_transfer_config.kv_role": "kv_producer"})
    members = [
        *alike("chat", 3, usual),
        replica("chat-8", document=odd, labels={"pool": "chat", "role": "prefill"}),
        replica("chat-9", document=odd),
    ]
    before = fleet(members, [usual, odd])
    what = like_cohort(before)
    emptied = set_to(before, {"kv_transfer_config.kv_role": None, "served_model_names": "chat"}).moved()

    assert what.moved().served_model_names == ("chat", "chat-2")
    assert (what.moved("chat-8").role, what.moved().role) == (before.replicas[3].role, "decode")
    assert (emptied.role, emptied.served_model_names) == ("both", ())
