"""Engines, devices and KV cache groups of one replica."""

import re

from dashboard.fleet import Basis, KVCacheGroup
from dashboard.views.capacity_blocks import NO_DEVICES
from dashboard.web.replica_engines import (
    NO_ENGINES,
    NO_GROUPS,
    devices_table,
    engines_table,
    groups_table,
    served,
)
from tests.builders import HOSTILE, devices, engine, replica


def test_an_engine_says_its_numbers_its_basis_and_the_reason() -> None:
    told = engines_table((engine(basis=Basis.ASSUMED, reason="A bound."),))
    for cell in ("75,000", "≤ 1,200,000", "131,072", "≤ 9.16", "184.0", "46.0", "assumed", "A bound."):
        assert cell in told


def test_every_column_of_an_engine_says_what_it_holds() -> None:
    """Requests are of the length beside them; heads begin alike."""
    heads = [
        re.sub("<[^>]+>", "", each)
        for each in re.findall('<th scope="col"[^>]*>(.*?)</th>', engines_table((engine(),)))
    ]

    assert heads[5:9] == ["Own length", "Requests at own length", "KV GiB", "On each device"]
    assert all(each[0].isupper() for each in heads)


def test_what_is_not_known_is_a_question_mark() -> None:
    bare = engine(None, kv_cache_bytes=None, kv_cache_bytes_per_device=None, basis=Basis.UNKNOWN)
    assert engines_table((bare,)).count('<span class="mute">?</span>') == 6


def test_a_device_says_how_much_of_it_is_kv_cache() -> None:
    told = devices_table(devices(1), (engine(),))
    assert "NVIDIA H100 80GB HBM3" in told
    assert "80.0 GiB" in told
    assert "46.0 GiB" in told
    assert "57 %" in told


def test_a_device_of_which_little_is_known_is_still_shown() -> None:
    (device,) = devices(1)
    told = devices_table((device._replace(total_memory_bytes=None, compute_capability=None),), ())
    assert told.count('<span class="mute">?</span>') == 4


def test_what_only_the_provider_tells_of_a_device_has_columns_where_it_is_told() -> None:
    (device,) = devices(1)
    told = devices_table((device._replace(compute_units=132, tensor_parallel_rank=0, pipeline_parallel_rank=3),), ())
    for cell in (">Compute units</th>", ">132</td>", ">TP rank</th>", ">0</td>", ">PP rank</th>", ">3</td>"):
        assert cell in told
    assert "TP rank" not in devices_table(devices(1), ())
    assert "PP rank" not in devices_table((device._replace(tensor_parallel_rank=1),), ())


def test_a_group_says_what_it_keeps() -> None:
    groups = (
        KVCacheGroup(0, 0, "sliding_window", 16, 65_536, 5, sliding_window=1024, num_kv_heads=8, dtype="bfloat16"),
        KVCacheGroup(0, 1, "chunked_local", 16, None, 5, attention_chunk_size=8192),
    )
    told = groups_table(groups)
    for cell in ("sliding_window", "1,024", "8,192", "64.0 KiB", "bfloat16"):
        assert cell in told


def test_what_no_reply_tells_is_explained() -> None:
    assert NO_ENGINES in engines_table(())
    assert NO_DEVICES in devices_table((), ())
    assert NO_GROUPS in groups_table(())


def test_a_table_is_bounded_and_counts_the_rest() -> None:
    told = engines_table(tuple(engine(dp_rank=rank) for rank in range(500)))
    assert told.count("<tr>") == 65
    assert "436 more are not shown." in told


def test_served_names_and_adapters_are_named_and_bounded() -> None:
    many = replica(served_model_names=tuple(f"m{index}" for index in range(40)), adapters={"sql": None})
    assert "and 28 more" in served(many)
    assert "<code>sql</code>" in served(many)
    assert "LoRA adapters: " in served(replica(pool=None))


def test_foreign_names_are_escaped() -> None:
    bad = replica(served_model_names=(HOSTILE,), adapters={HOSTILE: None})
    group = KVCacheGroup(0, 0, HOSTILE, 16, None, 5, dtype=HOSTILE)
    told = served(bad) + devices_table(devices(1, HOSTILE), ()) + groups_table((group,))
    assert "<img" not in told
    assert "<script" not in told
