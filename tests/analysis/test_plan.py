"""The fix plan: which findings are one cause, and what each change is predicted to do."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.analysis import pricing
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.analysis.causes import Cause, Plan
from dashboard.analysis.patch import Patch, Variable
from dashboard.analysis.plan import plan_of, planned
from dashboard.fleet import FactName, RouterConfig, RouterFact, RouterKind, SettingValue, State
from dashboard.rules.domain import Expectations, PoolDeclaration, Router
from dashboard.rules.policy import Policy
from tests.analysis.whatif.pools import LARGER, pool_of
from tests.builders import POLLED_AT, alike, document, fleet, replica

PREFIX_HASH = Policy({"*": PoolDeclaration(router=Router.PREFIX_HASH)})
HASH, SEED = "cache_config.prefix_caching_hash_algo", "env.PYTHONHASHSEED"
BLOCKS, SEQS = {"cache_config.block_size": 16}, "scheduler_config.max_num_seqs"


def value(number: int) -> SettingValue:
    return SettingValue(str(number), State.REPORTED)


@pytest.fixture(scope="module")
def demo_plan(demo_fleet: Fleet) -> Plan:
    return plan_of(demo_fleet)


def summary(found: Plan) -> list[tuple[str, str, list[str], int]]:
    """Severity, key, rules of the findings and number of replicas of each cause."""
    return [
        (each.severity, each.key, sorted({one.rule for one in each.findings}), len(each.replicas))
        for each in found.causes
    ]


def with_fixes(found: Plan) -> list[Cause]:
    return [each for each in found.causes if each.fixes]


def test_the_causes_of_the_demo_are_few_and_the_worst_come_first(demo_plan: Plan) -> None:
    assert [each for each in summary(demo_plan) if each[0] == "critical"] == [
        ("critical", "cache_config.block_size", ["RT-01"], 1),
        ("critical", HASH, ["RT-05"], 1),
        ("critical", SEED, ["RT-06"], 10),
    ]
    ranks = [each.severity.rank for each in demo_plan.causes]
    assert ranks == sorted(ranks)
    assert len(demo_plan.causes) < len({one.id for each in demo_plan.causes for one in each.findings})


def test_every_active_finding_has_a_cause(demo_fleet: Fleet, demo_plan: Plan) -> None:
    found = {each.id for cause in demo_plan.causes for each in cause.findings}

    assert found == {each.id for each in demo_fleet.inspection.findings}
    assert all(demo_plan.causes_of(key) for key in found)


def test_a_cause_without_a_setting_has_no_prediction(demo_plan: Plan) -> None:
    (unreachable,) = (each for each in demo_plan.causes if each.key == "ID-05")

    assert unreachable.fixes == ()
    assert len(unreachable.replicas) == 4


def test_a_restart_has_the_flags_of_the_rest_of_the_pool() -> None:
    (cause,) = with_fixes(plan_of(pool_of(LARGER, BLOCKS, policy=PREFIX_HASH)))
    (fix,) = cause.fixes

    assert cause.key == "cache_config.block_size"
    assert fix.replicas == ("http://chat-9:8000",)
    assert [each.patch.flags for each in fix.groups] == [(("--block-size", "16"),)]
    assert fix.fixed == cause.findings
    assert not fix.new


def test_values_without_a_majority_are_choices_of_one_cause() -> None:
    (cause,) = with_fixes(plan_of(pool_of(LARGER, BLOCKS, number=1, policy=PREFIX_HASH)))

    assert [[each.patch.flags for each in fix.groups] for fix in cause.fixes] == [
        [(("--block-size", "16"),)],
        [(("--block-size", "32"),)],
    ]


def test_alternatives_of_a_remedy_are_choices_in_its_order() -> None:
    own = document({HASH: "xxhash", SEED: None, "version": "0.32.0"})
    (cause,) = with_fixes(plan_of(fleet(alike("chat", 3, own), [own], policy=PREFIX_HASH)))

    assert cause.key == SEED
    assert [[each.patch for each in fix.groups] for fix in cause.fixes] == [
        [Patch(variables=(Variable("PYTHONHASHSEED", "0"),))],
        [Patch(flags=(("--prefix-caching-hash-algo", "sha256_cbor"),))],
    ]
    assert [len(fix.replicas) for fix in cause.fixes] == [3, 3]


def test_an_ignored_setting_is_not_changed() -> None:
    expects = Policy({"*": PoolDeclaration(router=Router.KV_EVENTS, expects=Expectations(block_size=16))})
    found = plan_of(pool_of(LARGER, BLOCKS, policy=expects, ignore=("cache_config.block_size",)))

    assert not [each for each in found.causes if each.fixes]


def test_what_a_router_says_still_holds_after_a_restart() -> None:
    """The router's block size is another one than all replicas have: a batch limit does not end that."""
    usual, odd = document(BLOCKS), document({**BLOCKS, SEQS: 8})
    fact = RouterFact(FactName.BLOCK_SIZE, "64", "http://epp:9090", POLLED_AT)
    router = RouterConfig("http://epp:9090", RouterKind.LLM_D, ("chat",), (fact,))
    members = [*alike("chat", 3, usual), replica("chat-9", document=odd)]
    found = plan_of(fleet(members, [usual, odd], policy=PREFIX_HASH, routers=(router,)))

    (limits,) = (each for each in found.causes if SEQS in each.key)
    assert {each.rule for each in limits.fixes[0].fixed} == {"CP-03"}
    assert any("RT-02" in {one.rule for one in each.findings} for each in found.causes)


def test_changes_of_different_pools_have_the_same_effect_together_as_alone(
    demo_fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = plan_of(demo_fleet)
    batched = pricing._batches
    monkeypatch.setattr(
        pricing, "_batches", lambda changes: [[(n, *rest)] for each in batched(changes) for n, *rest in each]
    )

    assert plan_of(demo_fleet) == together


def test_the_plan_of_a_pool_has_its_causes_whole(demo_plan: Plan) -> None:
    own = demo_plan.of_pool("deepseek-v3/decode", ())

    assert SEED in [each.key for each in own.causes]
    assert all("deepseek-v3/decode" in {pool for one in each.findings for pool in one.pools} for each in own.causes)


def test_before_the_first_poll_there_is_no_plan() -> None:

    assert plan_of(empty_fleet("prod")) == Plan()


def test_equal_replicas_of_one_pool_change_as_is_wanted_of_each() -> None:
    own = document(BLOCKS)
    found = fleet(alike("chat", 3, own), [own])
    first, second, third = found.replicas
    wanted = {first.id: {SEQS: value(64)}, second.id: {SEQS: value(128)}}
    restart = pricing._restart(found, [first, second, third], wanted, {})
    change = pricing.PlannedChange({"chat": wanted}, {"chat": restart}, [], [])

    assert [(each.replicas, each.patch.flags) for each in pricing._groups(change)] == [
        ((first.id,), (("--max-num-seqs", "64"),)),
        ((second.id,), (("--max-num-seqs", "128"),)),
    ]
    assert restart.staying == (third,)
    assert restart.documents[first.id].settings[SEQS].value == "64"
    assert restart.documents[second.id].settings[SEQS].value == "128"


def test_a_restart_without_another_setting_keeps_the_causes_as_objects_and_they_are_those_of_a_new_plan() -> None:
    docs = [document(), document({"cache_config.block_size": 32})]
    members = [*alike("chat", 3, docs[0]), *alike("chat", 1, docs[1], first=9)]
    before = planned(fleet(members, docs))
    restarted = [replace(members[0], started_at=POLLED_AT - timedelta(hours=1)), *members[1:]]
    after = fleet(restarted, docs)
    changed = fleet([replace(members[0], document=docs[1].id), *members[1:]], docs)

    kept = plan_of(planned(after, before)).causes
    assert kept
    assert all(now is then for now, then in zip(kept, plan_of(before).causes, strict=True))
    assert kept == plan_of(planned(after)).causes
    assert plan_of(planned(changed, before)).causes == plan_of(planned(changed)).causes
