"""What a difference costs: affected replicas beside the unaffected ones of their pool."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Plan
from dashboard.analysis.effect import (
    Effect,
    avoidable_of,
    avoidable_tokens,
    by_effect,
    dominant_of,
    effect_of,
    effects_of_cause,
    effects_of_prefixes,
    effects_on,
    in_one_rate,
    together,
    without_fed,
)
from dashboard.analysis.plan import plan_of
from dashboard.fleet.traffic import Traffic
from dashboard.rules.findings import Remedy
from tests.builders import alike, document, fleet, replica
from tests.findings_builder import finding, with_findings
from tests.used import PROMPT_TOKENS, REQUESTS, traffic, with_traffic

REST = Traffic(900, queries=1e6, hits=6e5, requests=1000, prompt_tokens=1e6)
AFFECTED = Traffic(
    900, queries=2e5, hits=2e4, requests=200, prompt_tokens=2.5e5, prefill_seconds=90, computed_tokens=1.8e5
)


def test_what_is_lost_is_the_difference_of_the_rates_of_the_affected_tokens() -> None:
    effect = Effect("chat", AFFECTED, REST)
    assert effect.avoidable_tokens == pytest.approx(2e5 * 0.5 / 15)  # a minute
    assert effect.avoidable_seconds == pytest.approx(2e5 * 0.5 * (90 / 1.8e5) / 200)  # a request
    assert effect.missing == ""


def test_what_a_connector_had_is_not_computed_again() -> None:
    own = AFFECTED._replace(external_queries=1.8e5, external_hits=4e4)  # 10% here, 20% there
    assert Effect("chat", own, REST).avoidable_tokens == pytest.approx(2e5 * 0.3 / 15)
    assert Effect("chat", own._replace(external_hits=1e308), REST).avoidable_tokens == 0, "never more than all"


def test_what_a_cold_cache_recomputes_cannot_be_avoided() -> None:
    used = with_traffic(fleet(alike("chat", 4, document()), [document()]), {"chat-01": 0.1}, 0.6)
    low = finding(used, ["chat-01"])
    wait = replace(low, remedy=Remedy("Wait until an hour after the start."))

    assert avoidable_tokens(effects_of_prefixes(with_findings(used, low))) == pytest.approx(20_000)
    assert effects_of_prefixes(with_findings(used, wait)) == ()


def test_a_better_rate_than_that_of_the_rest_loses_nothing() -> None:
    assert Effect("chat", REST, AFFECTED).avoidable_tokens == 0


@pytest.mark.parametrize(
    ("affected", "rest", "missing"),
    [
        (AFFECTED, Traffic(), "Unaffected replicas: Not read twice yet."),
        (
            AFFECTED._replace(requests=19),
            REST,
            "Affected replicas: Not enough traffic: 19 requests (minimum 20) in 15 min.",
        ),
        (
            AFFECTED,
            REST._replace(queries=None, hits=None),
            "Unaffected replicas: /metrics has no counters of the prefix cache or of requests.",
        ),
        (
            AFFECTED._replace(queries=None, hits=None, refused=("hits rose by more than queries",)),
            REST,
            "Affected replicas: Not counted: hits rose by more than queries.",
        ),
    ],
)
def test_without_a_rate_on_both_sides_there_is_no_estimate(affected: Traffic, rest: Traffic, missing: str) -> None:
    effect = Effect("chat", affected, rest)
    assert (effect.avoidable_tokens, effect.avoidable_seconds, effect.missing) == (None, None, missing)


def test_pools_without_estimate_leave_the_sum_to_the_others() -> None:
    without = Effect("code", AFFECTED, Traffic())
    assert avoidable_tokens([Effect("chat", AFFECTED, REST), without]) == pytest.approx(2e5 * 0.5 / 15)
    assert avoidable_tokens([without]) is None


def test_all_replicas_of_a_pool_got_all_of_its_prompts() -> None:
    members = alike("chat", 2, document())
    built = with_traffic(fleet(members, [document()]), {}, 0.5)

    assert effect_of(built, "chat", [each.id for each in members]).prompt_share == 1
    assert effect_of(fleet(members, [document()]), "chat", [each.id for each in members]).prompt_share is None


def test_a_process_with_two_addresses_counts_once_and_each_address_has_its_traffic() -> None:
    one = replica("chat-1", document=document(), same_process=("http://chat-2:8000",))
    two = replica("chat-2", document=document(), same_process=("http://chat-1:8000",))
    other = replica("chat-3", document=document())
    built = with_traffic(fleet([one, two, other], [document()]), {}, 0.5)
    each = traffic(0.5)

    assert built.traffic_of([two.id]) == each
    assert built.traffic_of([two.id, other.id]).requests == 2 * REQUESTS
    assert built.traffic_of([two.id, one.id, other.id]).requests == 2 * REQUESTS


def test_a_replica_with_more_than_half_of_the_tokens_of_three_or_more_decides_their_rate() -> None:
    members = alike("chat", 4, document())
    most, *rest = (each.id for each in members)
    built = with_traffic(fleet(members, [document()]), {most: traffic(0.5, requests=4 * REQUESTS)}, 0.5)

    assert dominant_of(built, [most, *rest]) == (most, 4 / 7)
    assert dominant_of(built, [most, rest[0]]) is None
    assert dominant_of(built, rest) is None
    assert dominant_of(with_traffic(built, {}), [most, *rest]) is None


def test_where_all_replicas_are_affected_there_is_none_to_compare_with() -> None:
    members = alike("chat", 2, document())
    known = with_traffic(fleet(members, [document()]), {"chat": 0.1})
    (effect,) = effects_on(known, [each.id for each in members], ["chat"])
    assert (effect.missing, effect.avoidable_tokens) == ("No unaffected replica in the pool to compare with.", None)


def test_sums_of_several_pools_come_before_their_ratio() -> None:
    both = together([Effect("chat", AFFECTED, REST), Effect("code", REST, AFFECTED)])
    assert both.affected.hit_rate == both.rest.hit_rate == pytest.approx(6.2e5 / 1.2e6)
    assert not both.is_whole


@pytest.fixture(name="split")
def _split(demo_fleet: Fleet) -> Fleet:
    """The simulated fleet: its replica with another hash algorithm finds less than the one with larger blocks."""
    return with_traffic(demo_fleet, {"chat-70b-11": 0.01, "chat-70b-04": 0.3}, 0.6)


def test_the_plan_by_effect_has_the_most_recomputed_tokens_first_and_then_its_own_order(split: Fleet) -> None:
    usual, sorted_ = plan_of(split), by_effect(split, plan_of(split))
    first, second, *others = (each.key for each in sorted_.causes)
    assert (first, second) == ("cache_config.prefix_caching_hash_algo", "cache_config.block_size")
    assert others == [each.key for each in usual.causes if each.key not in {first, second}]


def test_only_causes_of_prefixes_that_are_not_found_have_an_estimate(split: Fleet) -> None:
    found = {each.key: avoidable_of(split, each) for each in plan_of(split).causes}
    offloading = next(key for key in found if "kv_offloading" in key)
    assert found["cache_config.block_size"] is not None
    assert found[offloading] is None  # it is on the replica with the other hash algorithm, too


def test_a_cause_is_measured_in_each_of_its_pools_or_in_one(split: Fleet) -> None:
    cause = next(each for each in plan_of(split).causes if len({split.by_id[own].pool for own in each.replicas}) > 1)
    pools = [each.pool for each in effects_of_cause(split, cause)]
    assert len(pools) > 1
    assert [each.pool for each in effects_of_cause(split, cause, pools[1])] == pools[1:2]


def test_what_a_pool_recomputes_counts_each_replica_with_findings_on_prefixes_once(split: Fleet) -> None:
    effects = [each for each in effects_of_prefixes(split) if each.pool == "chat-70b"]
    assert sum(each.affected.queries or 0 for each in effects) == pytest.approx(2 * PROMPT_TOKENS)
    causes = [avoidable_of(split, each) or 0 for each in plan_of(split).causes]
    assert avoidable_tokens(effects) == pytest.approx(sum(causes))


SIDES = ("decode", "prefill")
CHAT = ("chat-01", "chat-02", "chat-03", "chat-04")


def test_nothing_is_compared_with_replicas_that_have_another_finding_on_prefixes_whatever_it_is() -> None:
    used = with_traffic(
        fleet(alike("chat", 4, document()), [document()]), {"chat-01": 0.1, "chat-02": 0.3, "chat-03": 0.2}, 0.6
    )
    block, low, usual = (
        finding(used, names, rule=rule, id=rule)
        for rule, names in (("RT-01", ["chat-01"]), ("EF-01", ["chat-02"]), ("RT-06", CHAT))
    )
    accepted = finding(used, ["chat-03"], rule="RT-05", id="RT-05")
    other = finding(used, ["chat-03"], rule="CO-14", id="CO-14")
    found = with_findings(used, block, low, usual, other)
    found = replace(found, inspection=replace(found.inspection, suppressed=(accepted,)))

    for each in (block, low, other):
        (effect,) = effects_on(found, each.replicas, each.pools)
        assert effect.rest.hit_rate == pytest.approx(0.6), each.rule
    total = sum(
        effect.avoidable_tokens or 0 for each in (block, low) for effect in effects_on(found, each.replicas, each.pools)
    )
    assert avoidable_tokens(effects_of_prefixes(found)) == pytest.approx(total)
    (whole,) = effects_on(found, usual.replicas, usual.pools)
    assert (whole.is_whole, whole.missing) == (True, "No unaffected replica in the pool to compare with.")


def test_a_low_hit_rate_without_other_finding_is_in_the_order_by_effect() -> None:
    used = with_traffic(fleet(alike("chat", 4, document()), [document()]), {"chat-01": 0.1, "chat-02": 0.3}, 0.6)
    low, block = finding(used, ["chat-01"], rule="EF-01"), finding(used, ["chat-02"], rule="RT-01")
    found = with_findings(used, low, block)
    causes = tuple(Cause(each.rule, (each,)) for each in (block, low))

    assert [each.key for each in by_effect(found, Plan(causes)).causes] == ["EF-01", "RT-01"]


def test_a_replica_that_restarted_has_its_share_of_the_prompts_by_its_own_shorter_window() -> None:
    young = traffic(0.5, requests=REQUESTS / 15)._replace(seconds=60)
    used = with_traffic(fleet(alike("chat", 4, document()), [document()]), {"chat-01": young}, 0.5)
    ids = [each.id for each in used.replicas]

    assert effect_of(used, "chat", ids[:1]).prompt_share == pytest.approx(0.25)
    assert effect_of(used, "chat", ids[:2]).prompt_share == pytest.approx(0.5)
    assert effect_of(used, "none", ids).affected == Traffic()


def test_prompts_of_a_decode_pool_count_on_the_prefill_side_and_its_misses_are_not_computed_again(
    demo_fleet: Fleet,
) -> None:
    used = with_traffic(demo_fleet, {"deepseek-v3/decode": 0.1}, 0.6)
    decode, prefill = ([each.id for each in used.replicas if each.pool == f"deepseek-v3/{role}"] for role in SIDES)

    assert without_fed(used, [*decode, *prefill]) == prefill
    assert without_fed(used, decode) == decode
    effects = effects_on(used, [decode[0], prefill[0]], [f"deepseek-v3/{role}" for role in SIDES])
    assert effects[0].avoidable_tokens is None
    assert effects[0].missing.startswith("The replicas decode")
    assert in_one_rate(effects) == [effects[1]]
    assert in_one_rate(effects[:1]) == [effects[0]]
