"""The default fleet tells the story that it is meant to tell."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from dashboard.demo import default_fleet, targets
from dashboard.demo.answers import Process
from dashboard.demo.describe import Behaviour, DemoReplica, Speaks
from dashboard.demo.pages import render

FLEET = default_fleet()
NOW = 1_795_000_000.0


def _pool(name: str) -> list[DemoReplica]:
    return [replica for replica in FLEET if replica.name.startswith(name)]


def _config(replica: DemoReplica) -> dict[str, Any]:
    replica = replace(replica, behaviour=Behaviour.NORMAL)
    process = Process.start(replica, render(replica.configuration, frozenset(Speaks)), NOW - replica.uptime_seconds)
    config: dict[str, Any] = json.loads(process.answer("GET", "/server_info", None, NOW).body)["vllm_config"]
    return config


def _settings(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for section, fields in config.items():
        if isinstance(fields, dict):
            yield from ((f"{section}.{name}", value) for name, value in fields.items())


def test_forty_two_replicas_in_five_pools() -> None:
    pools = Counter(replica.labels.get("pool") or replica.labels["role"] for replica in FLEET)
    assert pools == {"chat-70b": 17, "gemma-27b": 8, "prefill": 2, "decode": 8, "qwen3-8b": 7}


def test_addresses_and_names_are_unique_at_any_size() -> None:
    for fleet in (FLEET, default_fleet(1000)):
        assert len({replica.address for replica in fleet}) == len(fleet)
        assert len({replica.name for replica in fleet}) == len(fleet)


def test_two_chat_replicas_do_not_share_prefixes_with_the_others() -> None:
    caches = [_config(replica)["cache_config"] for replica in _pool("chat-70b")]
    told = Counter((cache["prefix_caching_hash_algo"], cache["block_size"]) for cache in caches)
    assert told == {("sha256_cbor", 16): 15, ("xxhash", 16): 1, ("sha256_cbor", 32): 1}


def test_the_chat_pool_differs_in_a_page_full_of_settings() -> None:
    """Beside what tells processes apart: ids, ports, folders, capacity."""
    identity = {"num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency", "user_specified_block_size"}
    identity |= {"master_port", "_coord_store_port", "local_cache_dir", "topic"}
    pool = [dict(_settings(_config(replica))) for replica in _pool("chat-70b")]
    differ = [path for path in pool[0] if len({json.dumps(config[path]) for config in pool}) > 1]
    differ = [path for path in differ if path.rpartition(".")[2] not in identity]
    assert sorted(differ) == [
        "cache_config.block_size",
        "cache_config.effective_attention_block_size",
        "cache_config.gpu_memory_utilization",
        "cache_config.kv_offloading_size",
        "cache_config.prefix_caching_hash_algo",
        "compilation_config.compile_ranges_endpoints",
        "compilation_config.cudagraph_capture_sizes",
        "compilation_config.max_cudagraph_capture_size",
        "model_config.max_logprobs",
        "scheduler_config.encoder_cache_size",
        "scheduler_config.max_num_batched_tokens",
        "scheduler_config.max_num_encoder_input_tokens",
        "scheduler_config.max_num_seqs",
    ]


def test_the_largest_pool_and_the_data_parallel_ones_have_the_provider_and_the_hybrid_one_in_part() -> None:
    """So chat tells everything; the replica that somebody tried another hash on has development mode on as well."""
    having = {replica.name for replica in FLEET if Speaks.PROVIDER in replica.speaks}
    whole = {replica.name for pool in ("chat-70b", "deepseek-v3") for replica in _pool(pool)}
    assert having == whole | {"gemma-27b-03", "gemma-27b-04", "gemma-27b-05"}
    assert [one.name for one in _pool("chat-70b") if Speaks.SERVER_INFO in one.speaks] == ["chat-70b-11"]


def test_the_provider_makes_development_mode_needless_on_most_replicas() -> None:
    """It stayed on where somebody experiments, and on what prefills, behind a policy of the network."""
    both = [replica.name for replica in FLEET if {Speaks.PROVIDER, Speaks.SERVER_INFO} <= replica.speaks]
    assert both == ["chat-70b-11", "gemma-27b-03", "deepseek-v3-prefill-1", "deepseek-v3-prefill-2"]


def test_one_hybrid_replica_tries_the_next_version_and_one_goes_without_prefix_cache() -> None:
    pool = _pool("gemma-27b")
    assert [one.name for one in pool if one.configuration.version == "0.32.1"] == ["gemma-27b-04"]
    caching = {one.name: _config(one)["cache_config"]["enable_prefix_caching"] for one in pool}
    assert [name for name, is_on in caching.items() if not is_on] == ["gemma-27b-03"]


def test_all_that_serve_deepseek_were_told_to_hash_alike_and_prefill_has_two_ranks_at_an_address() -> None:
    caches = [_config(replica)["cache_config"] for replica in _pool("deepseek-v3")]
    assert {(cache["prefix_caching_hash_algo"], cache["block_size"]) for cache in caches} == {("xxhash", 64)}
    parallel = [_config(replica)["parallel_config"] for replica in _pool("deepseek-v3-prefill")]
    told = {
        (one["data_parallel_size"], one["data_parallel_size_local"], one["data_parallel_external_lb"])
        for one in parallel
    }
    assert told == {(2, 2, False)}


def test_blocks_times_block_size_promise_four_times_what_gemma_holds() -> None:
    cache = _config(_pool("gemma-27b")[0])["cache_config"]
    assert cache["num_gpu_blocks"] * cache["block_size"] > 4 * cache["kv_cache_size_tokens"]


def test_one_of_eight_decode_ranks_is_eighteen_percent_short() -> None:
    decode = _pool("deepseek-v3-decode")
    assert [replica.dp_rank for replica in decode] == list(range(8))
    blocks = [_config(replica)["cache_config"]["num_gpu_blocks"] for replica in decode]
    assert round(blocks.pop(5) / median(blocks), 2) == 0.82
    assert max(blocks) / min(blocks) < 1.01


def test_decode_ranks_have_an_api_server_each() -> None:
    parallel = [_config(replica)["parallel_config"] for replica in _pool("deepseek-v3-decode")]
    assert [one["data_parallel_rank"] for one in parallel] == list(range(8))
    assert {(one["data_parallel_size"], one["data_parallel_external_lb"]) for one in parallel} == {(8, True)}


def test_prefill_produces_what_decode_consumes() -> None:
    roles = {replica.name: _config(replica)["kv_transfer_config"]["kv_role"] for replica in _pool("deepseek-v3")}
    assert {role for name, role in roles.items() if "prefill" in name} == {"kv_producer"}
    assert {role for name, role in roles.items() if "decode" in name} == {"kv_consumer"}


def test_the_upgrade_went_from_one_replica_to_the_next() -> None:
    pool = _pool("qwen3-8b")
    assert [one.configuration.version for one in pool] == ["0.32.0"] * 4 + ["0.20.2"] * 3
    started = [-one.uptime_seconds for one in pool]
    assert started[:4] == sorted(started[:4])
    assert max(started[4:]) < min(started[:4])


def test_one_replica_each_is_down_slow_nonsense_and_wants_a_key() -> None:
    odd = Counter(replica.behaviour for replica in FLEET)
    assert odd == {Behaviour.NORMAL: 39, Behaviour.DOWN: 1, Behaviour.SLOW: 1, Behaviour.HTML: 1}
    assert [replica.name for replica in FLEET if replica.api_key] == ["qwen3-8b-03"]


def test_some_replicas_speak_only_the_open_endpoints_or_what_others_made() -> None:
    """A fleet on the way: pools without the provider, some replicas with nothing, some with endpoints of others."""
    assert sum(not replica.speaks for replica in FLEET) >= 5
    others = {endpoint for replica in FLEET for endpoint in replica.speaks if Speaks.PROVIDER not in replica.speaks}
    assert others == set(Speaks) - {Speaks.PROVIDER}


def test_fewer_replicas_are_the_beginning_of_the_story() -> None:
    assert default_fleet(5) == FLEET[:5]


def test_a_thousand_replicas_hold_some_thirty_documents() -> None:
    fleet = default_fleet(1000)
    assert len(fleet) == 1000

    documents = {(replica.configuration, replica.speaks, replica.api_key) for replica in fleet}
    assert 30 <= len(documents) <= 60
    assert sum(Speaks.PROVIDER in replica.speaks for replica in fleet) > 600
    assert len({replica.labels.get("pool") for replica in fleet}) > 100


def test_the_seed_decides_identity_and_nothing_else() -> None:
    other = default_fleet(seed=1)
    assert default_fleet() == FLEET
    assert [one.configuration for one in other] == [one.configuration for one in FLEET]
    assert all(
        _config(one)["instance_id"] != _config(two)["instance_id"] for one, two in zip(other, FLEET, strict=True)
    )


def test_targets_are_in_the_shape_of_file_sd() -> None:
    found = targets(FLEET, 8000)
    assert found[0] == {"targets": ["127.1.0.1:8000"], "labels": {"name": "chat-70b-01", "pool": "chat-70b"}}
    assert found[27]["labels"] == {"name": "deepseek-v3-decode-0", "role": "decode"}
    assert len(found) == len(FLEET)
