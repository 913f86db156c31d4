"""KV cache after a restart: that of identical engines, or unknown with the reason."""

from typing import Any

import pytest

from dashboard.analysis.whatif.after import decides
from dashboard.fleet import Basis, Engine
from tests.analysis.whatif.pools import LARGER, Restarted, like_cohort, pool_of, set_to
from tests.builders import alike, devices, document, engine, fleet, replica

USUAL, ODD = document(), document(LARGER)
BOUND = engine(9_000, basis=Basis.ASSUMED)
RANKS = "parallel_config.data_parallel_size"


def one_odd(odd: dict[str, Any], usual: dict[str, Any] | None = None, **more: Any) -> Restarted:
    """Restart one of four replicas with the settings of the others."""
    return like_cohort(pool_of(odd, usual, **more))


def of_members(*members: Any) -> Restarted:
    """Restart those of these replicas that are in no largest cohort with its settings."""
    return like_cohort(fleet(members, [USUAL, ODD]))


def test_capacity_is_unchanged_if_no_setting_that_decides_it_changes() -> None:
    found = one_odd({"model_config.max_logprobs": 5})

    assert found.ranks == []
    assert found.after.capacity == found.before.capacity


def test_the_forecast_is_the_median_of_identical_engines_on_the_same_device() -> None:
    found = of_members(
        *[replica(f"chat-{each}", document=USUAL, engines=(engine(1_000 + each * 100),)) for each in range(3)],
        replica("chat-8", document=USUAL, engines=(engine(5_000),), devices=devices(4, "NVIDIA H200")),
        replica("chat-9", document=ODD, engines=(engine(700),)),
    )
    (rank,) = found.ranks

    assert (rank.before, rank.after) == (700, 1_100)
    assert (rank.least, rank.most, found.change_of_tokens) == (1_000, 1_200, (300, 500))
    assert found.after.total.tokens.value == 9_400
    assert "3 identical engines on NVIDIA H100" in rank.reason


def test_a_sum_that_ranks_share_counts_once_per_replica() -> None:
    def sharing(tokens: int) -> tuple[Engine, ...]:
        return tuple(engine(tokens, basis=Basis.ASSUMED, dp_rank=rank, shares_sum=True) for rank in (0, 1))

    members = [replica(f"chat-{each}", document=USUAL, engines=sharing(1_000)) for each in range(3)]
    per_rank = replica("chat-8", document=USUAL, engines=(engine(500), engine(500, dp_rank=1)))
    odd = replica("chat-9", document=ODD, engines=sharing(700))
    what = of_members(*members, per_rank, odd)
    after = what.moved()

    assert (what.before.total.tokens.value, what.after.total.tokens.value) == (4_700, 5_000)
    assert what.change_of_tokens == (300, 300)
    assert [(each.after, "3 identical engines" in each.reason) for each in what.ranks] == [(1_000, True)] * 2
    assert sum(each.kv_cache_size_tokens or 0 for each in after.adding_engines) == 1_000


@pytest.mark.parametrize(
    "path",
    [
        "version",
        "cache_config.block_size",
        "cache_config.gpu_memory_utilization",
        "model_config.enforce_eager",
        "parallel_config.tensor_parallel_size",
        "speculative_config.method",
        "compilation_config.cudagraph_mode",
        "scheduler_config.max_num_batched_tokens",
    ],
)
def test_settings_that_need_memory_or_lay_it_out_decide_the_capacity(path: str) -> None:
    assert decides(path)
    assert not decides("cache_config.prefix_caching_hash_algo")


@pytest.mark.parametrize(
    "found",
    [
        one_odd(LARGER, devices=()),
        one_odd(LARGER, devices=devices(4, "NVIDIA A100")),
        one_odd(LARGER, engines=()),
        one_odd({**LARGER, RANKS: 2}, {RANKS: 1}),
    ],
)
def test_without_identical_engines_the_capacity_is_unknown(found: Restarted) -> None:
    assert [rank.after for rank in found.ranks] == [None]
    assert found.change_of_tokens == (0, 0)
    assert found.after.total.tokens.known == 3


def test_engines_with_another_share_of_memory_are_not_identical() -> None:
    documents = [document({"cache_config.gpu_memory_utilization": 0.5}), USUAL, ODD]
    members = [
        replica(f"chat-{place}", document=own, engines=(engine(1_000 * (place + 1)),))
        for place, own in enumerate(documents)
    ]
    what = set_to(fleet(members, documents), {"cache_config.block_size": 16})

    assert [(each, rank.after) for each, (rank,) in what.forecasts.items()] == [("http://chat-2:8000", 2_000)]


def test_upper_bounds_are_used_only_if_there_are_no_known_tokens() -> None:
    known = replica("chat-8", document=USUAL, engines=(engine(4_000), engine(None, dp_rank=1)))
    (rank,) = of_members(*alike("chat", 2, USUAL, engines=(BOUND,)), known, replica("chat-9", document=ODD)).ranks
    bounds = one_odd(LARGER, others={"engines": (BOUND,)})

    assert (rank.after, "1 identical engine" in rank.reason) == (4_000, True)
    assert (bounds.ranks[0].after, bounds.after.total.tokens.at_most) == (9_000, True)
    assert "3 identical engines" in bounds.ranks[0].reason


def test_a_process_with_two_addresses_counts_once() -> None:
    found = of_members(
        *alike("chat", 3, USUAL),
        replica("chat-9a", document=ODD, same_process=("http://chat-9b:8000",)),
        replica("chat-9b", document=ODD, same_process=("http://chat-9a:8000",)),
    )

    assert list(found.forecasts) == ["http://chat-9a:8000"]


def test_a_rank_without_devices_of_its_own_uses_those_of_the_replica() -> None:
    found = one_odd(LARGER, engines=(engine(1), engine(2, dp_rank=1)))

    assert [rank.after for rank in found.ranks] == [1_200_000, 1_200_000]


def test_stale_replicas_are_used_only_if_none_is_fresh() -> None:
    odd = replica("chat-9", document=ODD)
    fresh = alike("chat", 2, USUAL, engines=(engine(4_000),))
    stale = alike("chat", 2, USUAL, first=7, fresh=False, engines=(engine(8_000),))

    assert [rank.after for rank in of_members(*fresh, *stale, odd).ranks] == [4_000]
    assert [rank.after for rank in of_members(*stale, odd).ranks] == [8_000]


def test_the_change_of_the_sum_is_within_its_bounds() -> None:
    found = one_odd(LARGER, engines=(engine(500),))

    before, after = (int(side.total.tokens.value or 0) for side in (found.before, found.after))
    least, most = found.change_of_tokens
    change = after - before
    assert least <= change <= most
    assert change == 1_200_000 - 500


def test_ranks_that_sleep_add_nothing() -> None:
    asleep = engine(500)._replace(sleep_level=1)
    odd = replica("chat-9", document=ODD, engines=(asleep, engine(700, dp_rank=1)))
    found = of_members(*alike("chat", 3, USUAL), odd)

    assert (found.before.total.tokens.value, found.change_of_tokens[0]) == (3 * 1_200_000 + 700, 1_200_000 - 700)
