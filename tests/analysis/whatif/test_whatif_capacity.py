"""KV cache after a restart: what like engines hold, or unknown with the reason."""

from typing import Any

import pytest

from dashboard.analysis.whatif import CapacityForecast, converge
from dashboard.analysis.whatif.capacity import decides
from dashboard.fleet import Basis
from tests.builders import alike, devices, document, engine, fleet, replica

USUAL = document()
LARGER = {"cache_config.block_size": 32}


def capacity(odd: dict[str, Any], usual: dict[str, Any] | None = None, **more: Any) -> CapacityForecast:
    """Return the capacity of a pool of three that one more, set up otherwise, converges to."""
    other = document(odd)
    members = [*alike("chat", 3, USUAL, **(usual or {})), replica("chat-9", document=other, **more)]
    return converge(fleet(members, [USUAL, other]), "chat", "A").capacity


def test_capacity_stays_where_nothing_changes_that_decides_it() -> None:
    """A limit of log probabilities takes no memory."""
    told = capacity({"model_config.max_logprobs": 5})

    assert (told.ranks, told.unchanged, told.before) == ((), 4, told.after)


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
def test_what_takes_memory_or_lays_it_out_decides_capacity(path: str) -> None:
    """So no number of before is kept where one of these changes."""
    assert decides(path)
    assert not decides("cache_config.prefix_caching_hash_algo")


@pytest.mark.parametrize(
    ("odd", "more", "reason"),
    [
        (LARGER, {"devices": ()}, "Device not reported."),
        (LARGER, {"devices": devices(4, "NVIDIA A100")}, "No identical engine on NVIDIA A100 reports its tokens."),
        (LARGER, {"engines": ()}, "No engine data."),
        ({**LARGER, "parallel_config.data_parallel_size": 2}, {}, "The number of DP ranks changes."),
    ],
)
def test_without_a_like_engine_it_is_unknown_and_says_why(odd: Any, more: Any, reason: str) -> None:
    """A number that nobody can know is not made up."""
    if "parallel_config.data_parallel_size" in odd:
        usual = document({"parallel_config.data_parallel_size": 1})
        members = [*alike("chat", 3, usual), replica("chat-9", document=document(odd))]
        told = converge(fleet(members, [usual, document(odd)]), "chat", "A").capacity
    else:
        told = capacity(odd, **more)

    assert [(rank.after, rank.after_basis, rank.reason) for rank in told.ranks] == [(None, Basis.UNKNOWN, reason)]
    assert told.unknown_after == 1
    assert (told.least, told.most) == (0, 0)


def test_engines_that_are_set_up_otherwise_are_no_measure() -> None:
    """A baseline says nothing of the share of memory: only who has the same one is like it."""
    from dashboard.fleet import Baseline

    told = [
        document({"cache_config.gpu_memory_utilization": 0.5}),
        document(),
        document(LARGER),
    ]
    members = [
        replica(f"chat-{place}", document=own, engines=(engine(1_000 * (place + 1)),)) for place, own in enumerate(told)
    ]
    what = converge(fleet(members, told), "chat", Baseline("agreed", "chat", {"cache_config.block_size": "16"}))

    assert [(rank.replica, rank.after) for rank in what.capacity.ranks] == [("http://chat-2:8000", 2_000)]


def test_upper_bounds_count_only_where_nobody_knows_better() -> None:
    """What is known of one engine says more than what is at most so of the others."""
    other = document(LARGER)
    bound = engine(9_000, basis=Basis.ASSUMED)
    members = [
        *alike("chat", 2, USUAL, engines=(bound,)),
        replica("chat-8", document=USUAL, engines=(engine(4_000), engine(None, dp_rank=1))),
        replica("chat-9", document=other),
    ]
    (rank,) = converge(fleet(members, [USUAL, other]), "chat", "A").capacity.ranks
    assert (rank.after, rank.peers) == (4_000, 1)

    bounds = capacity(LARGER, {"engines": (bound,)})
    assert (bounds.ranks[0].after, bounds.ranks[0].peers, bounds.is_bound_after) == (9_000, 3, True)


def test_a_process_with_two_addresses_counts_once() -> None:
    """Neither its capacity nor its example counts twice."""
    other = document(LARGER)
    twice = {"same_process": ("http://chat-9a:8000", "http://chat-9b:8000")}
    members = [
        *alike("chat", 3, USUAL),
        replica("chat-9a", document=other, same_process=twice["same_process"][1:]),
        replica("chat-9b", document=other, same_process=twice["same_process"][:1]),
    ]
    told = converge(fleet(members, [USUAL, other]), "chat", "A").capacity

    assert [rank.replica for rank in told.ranks] == ["http://chat-9a:8000"]


def test_ranks_without_devices_of_their_own_run_on_those_of_the_replica() -> None:
    """As elsewhere on the capacity page."""
    told = capacity(LARGER, engines=(engine(1), engine(2, dp_rank=1)))

    assert [rank.after for rank in told.ranks] == [1_200_000, 1_200_000]


def test_stale_replicas_are_an_example_only_where_none_is_fresh() -> None:
    """What was read long ago may have changed."""
    other = document(LARGER)
    odd = replica("chat-9", document=other)
    fresh = [*alike("chat", 2, USUAL, engines=(engine(4_000),))]
    stale = [*alike("chat", 2, USUAL, first=7, fresh=False, engines=(engine(8_000),))]

    (rank,) = converge(fleet([*fresh, *stale, odd], [USUAL, other]), "chat", "A").capacity.ranks
    assert rank.after == 4_000
    (alone,) = converge(fleet([*stale, odd], [USUAL, other]), "chat", "A").capacity.ranks
    assert alone.after == 8_000


def test_the_order_of_ranks_and_their_sums_agree() -> None:
    """The difference of both sums is between the least and the most."""
    told = capacity(LARGER, engines=(engine(500),))

    assert told.least <= told.after - told.before <= told.most
    assert told.after - told.before == 1_200_000 - 500
