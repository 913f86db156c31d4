"""What stands around the bars: outliers, bounds, what is not known and why."""

from dashboard.fleet import Basis, Replica
from dashboard.report.capacity.ranks import GIB, Measure, outliers_of, ranks_of
from dashboard.web.capacity_notes import NO_DEVICES, device_shares, lines, outlier_entries
from tests.builders import HOSTILE, alike, devices, document, down, engine, fleet, replica

DOCUMENT = document()
TOKENS = Measure.TOKENS


def short(number: int) -> list[Replica]:
    """Replicas that hold less and less."""
    return [replica(f"short-{place}", engines=(engine(800_000 - place * 16),)) for place in range(number)]


def test_outliers_are_listed_the_furthest_first() -> None:
    ranks = ranks_of(fleet([*alike("chat", 9, DOCUMENT), *short(3)], [DOCUMENT]), None)
    found = outlier_entries(ranks, outliers_of(ranks, TOKENS), TOKENS)
    assert found.index("short-2") < found.index("short-1") < found.index("short-0")
    assert 'href="replica?replica=http%3A%2F%2Fshort-0%3A8000"' in found


def test_many_outliers_are_counted() -> None:
    ranks = ranks_of(fleet([*alike("chat", 30, DOCUMENT), *short(9)], [DOCUMENT]), None)
    found = outlier_entries(ranks, outliers_of(ranks, TOKENS), TOKENS)
    assert found.count("<li") == 7
    assert "3 more, in the table of ranks" in found


def test_no_outlier_is_no_list() -> None:
    assert outlier_entries((), {}, TOKENS) == ""


def test_bounds_unknown_and_silent_are_told_with_their_reason() -> None:
    members = [
        replica("bound", engines=(engine(basis=Basis.ASSUMED, reason="A bound."),)),
        replica("dark", engines=(engine(None, basis=Basis.UNKNOWN, reason="No blocks."),)),
    ]
    told = lines(ranks_of(fleet(members), None), [down("gone")], TOKENS, 5)
    assert "Hatched, 1 rank: at most. A bound." in told
    assert "1 rank is not known: " in told
    assert ">dark</a>. No blocks." in told
    assert "No engine is known of " in told
    assert ">gone</a>." in told
    assert "5 more stand in the table of ranks." in told


def test_many_unknown_ranks_are_counted() -> None:
    members = [replica(f"r{place}", engines=(engine(None, basis=Basis.UNKNOWN),)) for place in range(9)]
    told = lines(ranks_of(fleet(members), None), [], TOKENS, 0)
    assert "9 ranks are not known: " in told
    assert "and 6 more." in told


def test_pale_bars_are_explained() -> None:
    members = [replica("old", fresh=False), replica("z", same_process=("http://a:8000",))]
    told = lines(ranks_of(fleet(members), None), [], TOKENS, 0)
    assert "they were last read too long ago: " in told
    assert "they are second addresses of one process: " in told


def test_a_calm_pool_needs_no_small_print() -> None:
    assert lines(ranks_of(fleet([replica()]), None), [], TOKENS, 0) == ""


def test_devices_of_one_kind_share_a_row() -> None:
    told = device_shares(ranks_of(fleet([replica("a"), replica("b")]), None))
    assert "H100 ×8" in told
    assert "46.0 of 80 GiB" in told
    assert 'style="width:57.50%"' in told


def test_a_device_that_holds_less_has_a_row_of_its_own() -> None:
    less = replica("less", engines=(engine(kv_cache_bytes_per_device=30 * GIB),), devices=devices(1))
    told = device_shares(ranks_of(fleet([*alike("chat", 2, DOCUMENT), less], [DOCUMENT]), None))
    assert "H100 ×8" in told
    assert ">less<" in told
    assert "30.0 of 80 GiB" in told


def test_it_is_said_of_how_many_ranks_the_rows_are() -> None:
    told = device_shares(ranks_of(fleet([replica("a"), replica("b", devices=())]), None))
    assert "1 of 2 ranks tells devices and KV cache bytes." in told
    assert "ranks tell" not in device_shares(ranks_of(fleet([replica("a"), replica("b")]), None))


def test_a_row_counts_the_devices_whose_bytes_are_told_as_the_table_of_pools_does() -> None:
    silent = engine(kv_cache_bytes_per_device=None, kv_cache_bytes=None)
    told = device_shares(ranks_of(fleet([replica("a"), replica("b", engines=(silent,))]), None))
    assert "H100 ×4" in told
    assert "1 of 2 ranks tells devices and KV cache bytes." in told
    none = device_shares(ranks_of(fleet([replica(each, engines=(silent,)) for each in "ab"]), None))
    assert "H100 ×8" in none
    assert "not known of 80 GiB" in none
    assert "0 of 2 ranks tell devices and KV cache bytes." in none


def test_a_cpu_is_not_called_a_gpu() -> None:
    """Of two NUMA nodes, one that holds less has a row of its own."""
    members = [replica(f"c-{place}", devices=devices(2, "cpu")) for place in range(2)]
    less = replica("less", engines=(engine(kv_cache_bytes_per_device=30 * GIB),), devices=devices(2, "cpu"))
    told = device_shares(ranks_of(fleet([*members, less]), None))
    assert ">less, device 0<" in told
    assert "GPU" not in told


def test_without_devices_the_page_says_why() -> None:
    assert NO_DEVICES in device_shares(ranks_of(fleet([replica(devices=())]), None))


def test_foreign_names_are_escaped() -> None:
    ranks = ranks_of(fleet([replica(HOSTILE, engines=(engine(None, basis=Basis.UNKNOWN, reason=HOSTILE),))]), None)
    told = lines(ranks, [down(HOSTILE)], TOKENS, 0) + device_shares(ranks)
    assert "<img" not in told
    assert "<script" not in told
