"""The simulated fleet: five pools with findings, and its options: what pools share, and suppressed findings."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from itertools import count, islice
from typing import Any

from dashboard.demo.describe import (
    NO_REQUESTS,
    Behaviour,
    Configuration,
    DemoReplica,
    Gpu,
    Model,
    Prefixes,
    Speaks,
    Value,
    Workload,
)

Settings = dict[str, Value]

H100 = Gpu("NVIDIA H100 80GB HBM3", 84_942_979_072, (9, 0), 132)
H200 = Gpu("NVIDIA H200", 150_121_545_728, (9, 0), 132)
L40S = Gpu("NVIDIA L40S", 47_697_362_944, (8, 9), 142)

# Sizes from the models' config.json and safetensors indexes.
LLAMA_70B = Model("meta-llama/Llama-3.3-70B-Instruct", 80, 8, 128, dense_bytes=141_107_412_992)
GEMMA_27B = Model("google/gemma-3-27b-it", 62, 16, 128, dense_bytes=54_864_812_032, sliding_window=1024, full_every=6)
DEEPSEEK_V3 = Model(
    "deepseek-ai/DeepSeek-V3", 61, 128, 576, 17_200_000_000, 671_300_000_000, mla=True, quantization="fp8"
)
QWEN3_8B = Model("Qwen/Qwen3-8B", 36, 8, 128, dense_bytes=16_381_516_800)

# Requests of each pool: agents and assistants with a few long instructions, then documents that are seldom asked twice.
CHAT = Workload(
    per_minute=100,
    prefixes=(Prefixes(0.45, 20, 6000, 700), Prefixes(0.35, 40, 1500, 500), Prefixes(0.2, 200, 6000, 300)),
    output_tokens=450,
    seconds_per_output_token=0.028,
    prefill_tokens_per_second=10_000,
    engines=17,
    router="prefix-hash",
    hash_algorithm="sha256_cbor",
)
GEMMA = Workload(
    per_minute=75,
    prefixes=(Prefixes(0.5, 30, 2400, 900), Prefixes(0.3, 10, 1200, 250), Prefixes(0.2, 250, 3000, 400)),
    output_tokens=300,
    seconds_per_output_token=0.02,
    prefill_tokens_per_second=9000,
    engines=8,
    router="approximate",
)
REASONING = (Prefixes(0.4, 12, 9000, 1200), Prefixes(0.4, 40, 3000, 800), Prefixes(0.2, 200, 12_000, 900))
PREFILL = Workload(
    per_minute=80, prefixes=REASONING, seconds_per_output_token=0.5, prefill_tokens_per_second=12_000, engines=4
)
# Running requests fill 9 tenths of the KV cache of a decode rank: one with less has too little.
DECODE = Workload(
    per_minute=40,
    prefixes=REASONING,
    output_tokens=2200,
    seconds_per_output_token=0.0315,
    prefill_tokens_per_second=4000,
    engines=8,
    router="prefix-hash",
    block_size=64,
)
# A model that is hardly used.
QWEN = Workload(
    per_minute=0.7,
    prefixes=(Prefixes(0.7, 5, 480, 220), Prefixes(0.3, 20, 320, 150)),
    output_tokens=200,
    seconds_per_output_token=0.022,
    prefill_tokens_per_second=8000,
    engines=7,
    router="approximate",
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
ADDRESSES_PER_BLOCK = 250  # 127.1.x.1 to 127.1.x.250
PREFILL_RANKS, DECODE_RANKS = 2, 8
SHORT_RANK = 5
# Taken by a forgotten process on the device of one decode rank: about 18% of that rank's KV cache.
FORGOTTEN_BYTES = 6_170_000_000
UPGRADED = 4  # of the pool in an upgrade
API_KEY = "demo-key"
SUPPRESSED_FOR = timedelta(days=30)

CHAT_SETTINGS: Settings = {
    "model_config.max_model_len": 65_536,
    "cache_config.gpu_memory_utilization": 0.92,
    "cache_config.prefix_caching_hash_algo": "sha256_cbor",
    "scheduler_config.max_num_batched_tokens": 8192,
}
OTHER_HASH: Settings = {
    "cache_config.prefix_caching_hash_algo": "xxhash",
    "cache_config.kv_offloading_size": 64.0,
}
OTHER_BLOCKS: Settings = {
    "cache_config.block_size": 32,
    "cache_config.gpu_memory_utilization": 0.88,
    "scheduler_config.max_num_batched_tokens": 2048,
    "scheduler_config.max_num_seqs": 128,
    "model_config.max_logprobs": 5,
}
NO_PREFIX_CACHE: Settings = {"cache_config.enable_prefix_caching": False}
NEXT_VERSION = "0.32.1"
SERVER_INFO = frozenset({Speaks.SERVER_INFO})
INFERENCE_CONFIG = frozenset({Speaks.INFERENCE_CONFIG})
CONFIG = frozenset({Speaks.CONFIG})
PLUGIN = frozenset({Speaks.PLUGIN})
PROVIDER = frozenset({Speaks.PROVIDER})


def default_fleet(replicas: int | None = None, seed: int = 0) -> tuple[DemoReplica, ...]:
    """Return the simulated fleet, or `replicas` replicas, with further clusters of the same pools if needed.

    Every second cluster allows more requests at once and upgrades from an older version. `seed` determines the
    arbitrary values: ids, ports, start times to the second, traffic, the last bytes of memory.
    """
    story = list(_cluster(0))
    fleet = story if replicas is None else list(islice((one for n in count() for one in _cluster(n)), replicas))
    return tuple(_placed(replica, index, seed) for index, replica in enumerate(fleet))


def _cluster(number: int) -> Iterator[DemoReplica]:
    """Yield the replicas of one cluster, without addresses. The first has no label `cluster`."""
    variant: Settings = {"scheduler_config.max_num_seqs": 512} if number % 2 else {}
    old = "0.12.0.post2" if number % 2 else "0.20.2"
    for one in (*_chat(variant), *_gemma(variant), *_deepseek(variant), *_qwen(variant, old)):
        if number == 0:
            yield one
            continue
        pool, role = one.configuration.served_name, one.labels.get("role")
        cluster, pool = f"c{number + 1:02}", f"{pool}/{role}" if role else pool
        yield replace(one, name=f"{cluster}/{one.name}", labels={**one.labels, "cluster": cluster, "pool": pool})


def _placed(replica: DemoReplica, index: int, seed: int) -> DemoReplica:
    block, host = divmod(index, ADDRESSES_PER_BLOCK)
    labels = {**replica.labels, "image": f"vllm/vllm-openai:v{replica.configuration.version}"}
    placed = replace(replica, address=f"127.1.{block}.{host + 1}", labels=labels, seed=seed)
    return replace(placed, uptime_seconds=replica.uptime_seconds + placed.draw("uptime", 240))


def _chat(variant: Settings) -> Iterator[DemoReplica]:
    """Seventeen replicas of a 70B model: 4 has a different block size, 11 a different hash algorithm, 17 is slow.

    All have the provider; replica 11 also has development mode.
    """
    usual = Configuration(
        "chat-70b",
        LLAMA_70B,
        H100,
        tensor_parallel_size=4,
        kv_events=True,
        settings=_settings(CHAT_SETTINGS, variant),
    )
    exceptions: dict[int, dict[str, Any]] = {
        4: {"configuration": _changed(usual, OTHER_BLOCKS), "uptime_seconds": 3 * HOUR, "before": usual},
        11: {
            "speaks": PROVIDER | SERVER_INFO,
            "configuration": _changed(usual, OTHER_HASH),
            "uptime_seconds": 2 * DAY,
        },
        17: {"behaviour": Behaviour.SLOW},
    }
    for number in range(1, 18):
        one = DemoReplica(
            "", f"chat-70b-{number:02}", usual, labels={"pool": "chat-70b"}, speaks=PROVIDER, workload=CHAT
        )
        yield replace(one, **{"uptime_seconds": 9 * DAY - number * 5 * MINUTE} | exceptions.get(number, {}))


def _gemma(variant: Settings) -> Iterator[DemoReplica]:
    """Eight replicas of a hybrid model, whose naive estimate is four times the capacity. One is down.

    Three have the provider: 3 is for experiments (no prefix cache, and a public plugin that reports the naive
    estimate), 4 has the next version, and 5 has the old version and the same hashes as 4. The router forgot 7.
    """
    settings = _settings(
        {"model_config.max_model_len": 32_768, "scheduler_config.max_num_batched_tokens": 8192}, variant
    )
    usual = Configuration("gemma-27b", GEMMA_27B, H100, tensor_parallel_size=2, settings=settings)
    exceptions: dict[int, dict[str, Any]] = {
        1: {"speaks": INFERENCE_CONFIG},
        3: {
            "speaks": PROVIDER | SERVER_INFO | PLUGIN,
            "configuration": _changed(usual, NO_PREFIX_CACHE),
            "uptime_seconds": 6 * DAY,
        },
        4: {
            "speaks": PROVIDER,
            "configuration": replace(usual, version=NEXT_VERSION),
            "uptime_seconds": 2 * HOUR,
            "before": usual,
        },
        5: {"speaks": PROVIDER},
        6: {"speaks": CONFIG},
        7: {"workload": NO_REQUESTS},
        8: {"behaviour": Behaviour.DOWN},
    }
    for number in range(1, 9):
        one = DemoReplica("", f"gemma-27b-{number:02}", usual, labels={"pool": "gemma-27b"}, workload=GEMMA)
        yield replace(one, **{"uptime_seconds": 16 * DAY - number * 5 * MINUTE} | exceptions.get(number, {}))


def _deepseek(variant: Settings) -> Iterator[DemoReplica]:
    """Two prefill replicas with two DP ranks each, and eight decode DP ranks with one address each.

    All have equal flags and the provider. With `xxhash` each rank uses a random hash seed, so no two hash alike.
    """
    shared: Settings = {
        "model_config.max_model_len": 65_536,
        "cache_config.block_size": 64,
        "cache_config.prefix_caching_hash_algo": "xxhash",
        "parallel_config.enable_expert_parallel": True,
    }
    prefill = Configuration(
        "deepseek-v3",
        DEEPSEEK_V3,
        H200,
        tensor_parallel_size=4,
        data_parallel_size=PREFILL_RANKS,
        ranks_per_server=PREFILL_RANKS,
        kv_role="kv_producer",
        settings=_settings(
            shared, {"scheduler_config.max_num_batched_tokens": 16_384, "model_config.enforce_eager": True}
        ),
    )
    decode = replace(
        prefill,
        tensor_parallel_size=1,
        data_parallel_size=DECODE_RANKS,
        ranks_per_server=1,
        kv_role="kv_consumer",
        settings=_settings(shared, {"parallel_config.all2all_backend": "deepep_low_latency"}, variant),
    )
    for number in (1, 2):
        both = PROVIDER | SERVER_INFO
        one = DemoReplica("", f"deepseek-v3-prefill-{number}", prefill, labels={"role": "prefill"}, speaks=both)
        yield replace(one, uptime_seconds=5 * DAY + number * 5 * MINUTE, workload=PREFILL)
    for rank in range(DECODE_RANKS):
        one = DemoReplica(
            "", f"deepseek-v3-decode-{rank}", decode, labels={"role": "decode"}, speaks=PROVIDER, dp_rank=rank
        )
        taken = FORGOTTEN_BYTES if rank == SHORT_RANK else 0
        yield replace(one, uptime_seconds=5 * DAY, memory_taken_bytes=taken, workload=DECODE)


def _qwen(variant: Settings, old_version: str) -> Iterator[DemoReplica]:
    """Seven replicas in a rollout. One requires an API key, and the last is not vLLM."""
    settings = _settings(
        {"model_config.max_model_len": 32_768, "scheduler_config.max_num_batched_tokens": 2048}, variant
    )
    new = Configuration("qwen3-8b", QWEN3_8B, L40S, settings=settings)
    old = replace(new, version=old_version)
    exceptions: dict[int, dict[str, Any]] = {
        1: {"speaks": SERVER_INFO},
        2: {"speaks": INFERENCE_CONFIG},
        3: {"api_key": API_KEY},
        4: {"speaks": PLUGIN},
        5: {"speaks": SERVER_INFO},
        7: {"behaviour": Behaviour.HTML},
    }
    for number in range(1, 8):
        upgraded = number <= UPGRADED
        uptime = (55 - 12 * number) * MINUTE if upgraded else 33 * DAY - number * 5 * MINUTE
        one = DemoReplica("", f"qwen3-8b-{number:02}", new if upgraded else old, labels={"pool": "qwen3-8b"})
        one = replace(one, uptime_seconds=uptime, workload=QWEN, before=old if upgraded else None)
        yield replace(one, **exceptions.get(number, {}))


def _changed(configuration: Configuration, settings: Settings) -> Configuration:
    return replace(configuration, settings=_settings(dict(configuration.settings), settings))


def _settings(*parts: Settings) -> tuple[tuple[str, Value], ...]:
    merged: Settings = {}
    for part in parts:
        merged |= part
    return tuple(merged.items())


def demo_options(today: date) -> dict[str, Any]:
    """Return the keys `pools` and `suppress` of the options."""
    return {
        "pools": {
            "*chat-70b": {"router": "prefix-hash", "expects": {"hash_algorithm": "sha256_cbor"}},
            "*gemma-27b": {"router": "approximate"},
            "*deepseek-v3/decode": {"router": "prefix-hash"},
            "*deepseek-v3/prefill": {"router": "none"},  # decode ranks are chosen by prefix, prefill replicas by load
        },
        "suppress": [
            {
                "rule": "CO-14",
                "pool": "*deepseek-v3/*",
                "owner": "platform team",
                "reason": "A network policy lets only the dashboard reach these ports.",
                "until": str(today + SUPPRESSED_FOR),
            },
            {
                "rule": "RT-13",
                "pool": "*gemma-27b",
                "owner": "inference team",
                "reason": "One replica runs without the prefix cache for a month, to compare latencies.",
                "until": str(today + SUPPRESSED_FOR),
            },
        ],
    }
