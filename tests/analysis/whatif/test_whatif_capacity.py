"""KV cache after a restart: that of identical engines, or unknown with the reason."""

from typing import Any

import pytest

from dashboard.analysis.whatif.after import decides
from dashboard.analysis.whatif.result import CapacityForecast, converge
from dashboard.fleet import Baseline, Basis, Engine
from dashboard.views.whatif import total_text
from tests.analysis.whatif.pools import LARGER, pool_of
from tests.builders import alike, devices, document, engine, fleet, replica

USUAL, ODD = document(), document(LARGER)
BOUND = engine(9_000, basis=Basis.ASSUMED)
RANKS = "parallel_config.data_parallel_size"


def capacity(odd: dict[str, Any], usual: dict[str, Any] | None = None, **more: Any) -> CapacityForecast:
    """Return the forecast for a pool of four replicas if one had the settings of the others."""
    return converge(pool_of(odd, usual, **more), "chat", "A").capacity


def of_members(*members: Any) -> CapacityForecast:
    """Return the forecast if these replicas converged to the largest cohort."""
    return converge(fleet(members, [USUAL, ODD]), "chat", "A").capacity


def test_capacity_is_unchanged_if_no_setting_that_decides_it_changes() -> None:
    found = capacity({"model_config.max_logprobs": 5})

    assert (found.ranks, found.unchanged, found.before) == ((), 4, found.after)


def test_the_forecast_is_the_median_of_identical_engines_on_the_same_device() -> None:
    found = of_members(
        *[replica(f"chat-{each}", document=USUAL, engines=(engine(1_000 + each * 100),)) for each in range(3)],
        replica("chat-8", document=USUAL, engines=(engine(5_000),), devices=devices(4, "NVIDIA H200")),
        replica("chat-9", document=ODD, engines=(engine(700),)),
    )
    (rank,) = found.ranks

    assert (rank.before, rank.after, rank.after_basis, rank.peers) == (700, 1_100, Basis.ASSUMED, 3)
    assert (rank.least, rank.most, found.least, found.most) == (1_000, 1_200, 300, 500)
    assert (found.before.value, found.after.value, found.unchanged) == (9_000, 9_400, 4)
    assert "3 identical engines on NVIDIA H100" in rank.reason


def test_a_sum_that_ranks_share_counts_once_per_replica() -> None:
    def sharing(tokens: int) -> tuple[Engine, ...]:
        return tuple(engine(tokens, basis=Basis.ASSUMED, dp_rank=rank, shares_sum=True) for rank in (0, 1))

    members = [replica(f"chat-{each}", document=USUAL, engines=sharing(1_000)) for each in range(3)]
    per_rank = replica("chat-8", document=USUAL, engines=(engine(500), engine(500, dp_rank=1)))
    odd = replica("chat-9", document=ODD, engines=sharing(700))
    what = converge(fleet([*members, per_rank, odd], [USUAL, ODD]), "chat", "A")
    after = next(each for each in what.fleet.replicas if each.name == "chat-9")

    assert (what.capacity.before.value, what.capacity.after.value) == (4_700, 5_000)
    assert (what.capacity.least, what.capacity.most) == (300, 300)
    assert [(each.after, each.peers) for each in what.capacity.ranks] == [(1_000, 3), (1_000, 3)]
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
    ("found", "reason"),
    [
        (capacity(LARGER, devices=()), "Device not reported."),
        (
            capacity(LARGER, devices=devices(4, "NVIDIA A100")),
            "No identical engine on NVIDIA A100 reports its tokens.",
        ),
        (capacity(LARGER, engines=()), "No engine data."),
        (capacity({**LARGER, RANKS: 2}, {RANKS: 1}), "The number of DP ranks changes."),
    ],
)
def test_without_identical_engines_the_capacity_is_unknown(found: CapacityForecast, reason: str) -> None:
    assert [(rank.after, rank.after_basis, rank.reason) for rank in found.ranks] == [(None, Basis.UNKNOWN, reason)]
    assert (found.unknown_after, found.least, found.most) == (1, 0, 0)
    assert found.after.known == 3


def test_engines_with_another_share_of_memory_are_not_identical() -> None:
    documents = [document({"cache_config.gpu_memory_utilization": 0.5}), USUAL, ODD]
    members = [
        replica(f"chat-{place}", document=own, engines=(engine(1_000 * (place + 1)),))
        for place, own in enumerate(documents)
    ]
    agreed = Baseline("agreed", "chat", {"cache_config.block_size": "16"})
    what = converge(fleet(members, documents), "chat", agreed)

    assert [(rank.replica, rank.after) for rank in what.capacity.ranks] == [("http://chat-2:8000", 2_000)]


def test_upper_bounds_are_used_only_if_there_are_no_known_tokens() -> None:
    known = replica("chat-8", document=USUAL, engines=(engine(4_000), engine(None, dp_rank=1)))
    (rank,) = of_members(*alike("chat", 2, USUAL, engines=(BOUND,)), known, replica("chat-9", document=ODD)).ranks
    bounds = capacity(LARGER, others={"engines": (BOUND,)})

    assert (rank.after, rank.peers) == (4_000, 1)
    assert (bounds.ranks[0].after, bounds.ranks[0].peers, bounds.after.at_most) == (9_000, 3, True)


def test_a_process_with_two_addresses_counts_once() -> None:
    found = of_members(
        *alike("chat", 3, USUAL),
        replica("chat-9a", document=ODD, same_process=("http://chat-9b:8000",)),
        replica("chat-9b", document=ODD, same_process=("http://chat-9a:8000",)),
    )

    assert [rank.replica for rank in found.ranks] == ["http://chat-9a:8000"]


def test_a_rank_without_devices_of_its_own_uses_those_of_the_replica() -> None:
    found = capacity(LARGER, engines=(engine(1), engine(2, dp_rank=1)))

    assert [rank.after for rank in found.ranks] == [1_200_000, 1_200_000]


def test_stale_replicas_are_used_only_if_none_is_fresh() -> None:
    odd = replica("chat-9", document=ODD)
    fresh = alike("chat", 2, USUAL, engines=(engine(4_000),))
    stale = alike("chat", 2, USUAL, first=7, fresh=False, engines=(engine(8_000),))

    assert [rank.after for rank in of_members(*fresh, *stale, odd).ranks] == [4_000]
    assert [rank.after for rank in of_members(*stale, odd).ranks] == [8_000]


def test_the_change_of_the_sum_is_within_its_bounds() -> None:
    found = capacity(LARGER, engines=(engine(500),))

    change = int((found.after.value or 0) - (found.before.value or 0))
    assert found.least <= change <= found.most
    assert change == 1_200_000 - 500


def test_a_sum_without_a_known_rank_is_unknown_and_ranks_that_sleep_add_nothing() -> None:
    none = of_members(replica("chat-1", document=USUAL, engines=()), replica("chat-9", document=ODD, engines=()))
    asleep = engine(500)._replace(sleep_level=1)
    odd = replica("chat-9", document=ODD, engines=(asleep, engine(700, dp_rank=1)))
    found = of_members(*alike("chat", 3, USUAL), odd)

    assert (none.before.value, none.after.value, total_text(none)) == (
        None,
        None,
        "Pool: not known now, not known after.",
    )
    assert (found.before.value, found.least) == (3 * 1_200_000 + 700, 1_200_000 - 700)
