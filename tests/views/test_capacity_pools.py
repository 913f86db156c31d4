"""The capacity of each pool is added up once, and says how sure it is."""

from dashboard.fleet import Basis, KVCacheGroup, Replica
from dashboard.views.capacity_data import PoolCapacity, pools_of, ranks_of
from tests.builders import GIB, alike, document, engine, fleet, replica

DOCUMENT = document()


def pool(*members: Replica, length: int | None = None) -> PoolCapacity:
    """The only pool of these replicas."""
    (found,) = pools_of(ranks_of(fleet(members, [DOCUMENT]), length))
    return found


def test_ranks_are_added_up() -> None:
    found = pool(replica("a", engines=(engine(100), engine(200, dp_rank=1))), replica("b", engines=(engine(300),)))
    assert (found.ranks, found.tokens.value, found.tokens.known) == (3, 600, 3)
    assert found.bytes.value == 3 * 184 * GIB
    assert found.basis is Basis.REPORTED
    assert not found.tokens.at_most


def test_one_process_behind_two_addresses_is_added_once() -> None:
    found = pool(replica("a", same_process=("http://b:8000",)), replica("b", same_process=("http://a:8000",)))
    assert (found.ranks, found.tokens.value) == (1, 1_200_000)


def test_old_values_are_not_added() -> None:
    assert pool(replica("a"), replica("b", fresh=False)).tokens.value == 1_200_000


def test_one_upper_bound_makes_the_sum_an_upper_bound() -> None:
    found = pool(replica("a"), replica("b", engines=(engine(basis=Basis.ASSUMED),)))
    assert (found.basis, found.tokens.at_most, found.requests.at_most) == (Basis.ASSUMED, True, True)
    assert not found.bytes.at_most


def test_unknown_ranks_are_counted_beside() -> None:
    unknown = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None, reason="Because.")
    found = pool(replica("a"), replica("b", engines=(unknown,)))
    assert (found.ranks, found.tokens.known, found.bytes.known, found.basis) == (2, 1, 1, Basis.REPORTED)
    assert found.reasons == ("Because.",)


def test_nothing_known_is_no_sum() -> None:
    found = pool(replica("a", engines=(engine(None, basis=Basis.UNKNOWN),)))
    assert (found.tokens.value, found.requests.value, found.basis, found.naive) == (None, None, Basis.UNKNOWN, None)


def test_what_is_not_served_is_counted() -> None:
    found = pool(*alike("chat", 2, DOCUMENT), length=262_144)
    assert (found.not_served, found.requests.value) == (2, None)


def test_naive_tokens_stand_beside_those_that_vllm_tells() -> None:
    """An assumed number is the naive one itself and says nothing of it."""
    told = replica("a", engines=(engine(100, naive_tokens=630),))
    assumed = replica("b", engines=(engine(5_000, basis=Basis.ASSUMED),))
    found = pool(told, assumed)
    assert (found.naive, found.naive_of) == (630, 100)


def test_groups_that_keep_less_are_counted() -> None:
    kinds = ["full_attention", *["sliding_window"] * 5]
    groups = tuple(KVCacheGroup(0, place, kind, 16, 1, 1, sliding_window=64) for place, kind in enumerate(kinds))
    assert pool(replica("a", kv_cache_groups=groups)).window == (5, 6)
    assert pool(replica("a")).window == (0, 0)


def test_a_replica_without_a_pool_is_in_no_sum() -> None:
    assert pools_of(ranks_of(fleet([replica(pool=None)]), None)) == ()


def test_ranks_that_share_a_sum_add_it_once() -> None:
    """Their own shares are unknown: each is bound by the sum of all."""
    both = tuple(engine(1_572_864, basis=Basis.ASSUMED, dp_rank=rank, shares_sum=True) for rank in (0, 1))
    found = pool(replica("a", engines=both), replica("b", engines=(engine(1000),)))

    assert (found.ranks, found.tokens.value, found.tokens.known, found.tokens.at_most) == (3, 1_573_864, 3, True)
