"""The field reference: what vLLM's source declares, and the committed data."""

import re
from pathlib import Path

import pytest

from dashboard.rules.catalogue import ALL_RULES
from dashboard.vllm.field_reference import declarations, known_flags, known_paths, known_sentences, known_versions
from tests.tools.field_reference import Declared, Source, declared, spans
from tests.tools.unset_variables import Computed

EXCERPTS = Path(__file__).parent / "source"  # of vLLM, Apache-2.0
VERSIONS = ("0.12.0", "0.20.2", "0.33.0")
CREATED = Computed("EngineArgs.create_engine_config")
BUFFER = Computed("kv_buffer_device_default_factory")
MISSING = "missing"

# Written by hand from the excerpts: the default in each of VERSIONS, and the flag of the newest.
DEFAULTS = {
    "cache_config.gpu_memory_utilization": (0.9, 0.92, 0.92, "--gpu-memory-utilization"),
    "cache_config.block_size": (None, None, None, "--block-size"),
    "cache_config.cache_dtype": ("auto", "auto", "auto", "--kv-cache-dtype"),
    "cache_config.prefix_caching_hash_algo": ("sha256", "sha256", "sha256", "--prefix-caching-hash-algo"),
    "cache_config.enable_prefix_caching": (CREATED, CREATED, CREATED, "--enable-prefix-caching"),
    "cache_config.kv_offloading_size": (None, None, None, "--kv-offloading-size"),
    "cache_config.kv_offloading_backend": (None, "native", "native", "--kv-offloading-backend"),
    "cache_config.prefix_match_unit": (MISSING, MISSING, None, "--prefix-match-unit"),
    "cache_config.num_gpu_blocks": (None, None, None, None),
    "cache_config.mamba_ssm_cache_dtype": ("auto", "auto", "auto", "--mamba-ssm-cache-dtype"),
    "scheduler_config.async_scheduling": (False, None, None, "--async-scheduling"),
    "scheduler_config.max_num_seqs": (CREATED, CREATED, CREATED, "--max-num-seqs"),
    "scheduler_config.max_num_batched_tokens": (CREATED, CREATED, CREATED, "--max-num-batched-tokens"),
    "scheduler_config.policy": ("fcfs", "fcfs", "fcfs", "--scheduling-policy"),
    "scheduler_config.max_num_partial_prefills": (1, 1, MISSING, None),
    "parallel_config.tensor_parallel_size": (1, 1, 1, "--tensor-parallel-size"),
    "parallel_config.eplb_config.window_size": (1000, 1000, 1000, None),
    "parallel_config.world_size": (*[Computed("set by vLLM")] * 3, None),
    "compilation_config.mode": (None, None, None, None),
    "compilation_config.cudagraph_capture_sizes": (None, None, None, "--cudagraph-capture-sizes"),
    "compilation_config.pass_config.fuse_norm_quant": (None, None, None, None),
    "kv_events_config.publisher": (None, None, None, None),
    "kv_transfer_config.kv_role": (None, None, None, None),
    "kv_transfer_config.kv_buffer_device": ("cuda", BUFFER, BUFFER, None),
    "model_config.max_logprobs": (20, 20, 20, "--max-logprobs"),
    "tool_call_parser": (None, None, None, "--tool-call-parser"),
    "env.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": (True, True, True, None),
    "env.VLLM_NIXL_SIDE_CHANNEL_PORT": (5600, 5600, 5600, None),
    "env.VLLM_SERVER_DEV_MODE": (False, False, False, None),
    "env.VLLM_DISABLE_COMPILE_CACHE": (*[Computed("disable_compile_cache")] * 3, None),
    "env.VLLM_CPU_KVCACHE_SPACE": (None, None, None, None),
}
TYPES = {
    "cache_config.mamba_ssm_cache_dtype": "Literal['auto', 'float32', 'float16', 'bfloat16']",
    "cache_config.num_gpu_blocks": "int | None",
    "kv_transfer_config.kv_role": "Literal['kv_producer', 'kv_both', 'kv_consumer'] | None",
    "kv_transfer_config": "KVTransferConfig | None",
    "env.VLLM_SERVER_DEV_MODE": "bool",
}


def source(version: str) -> Source:
    """The excerpts of a version by the names of their files."""
    parts = re.split(r"^##### (.*)$", (EXCERPTS / f"{version}.txt").read_text(), flags=re.MULTILINE)
    return Source(dict(zip(parts[1::2], parts[2::2], strict=True)))


FOUND = {version: declared(source(version)) for version in VERSIONS}


@pytest.mark.parametrize("path", DEFAULTS)
def test_defaults_and_flags_are_those_of_the_source(path: str) -> None:
    found = [FOUND[version].get(path) for version in VERSIONS]

    *defaults, flag = DEFAULTS[path]
    assert [each.default if each else MISSING for each in found] == defaults
    assert next((each for each in found[-1].flags), None) == flag if found[-1] else flag is None


@pytest.mark.parametrize("path", TYPES)
def test_a_type_lists_the_values_of_its_alias(path: str) -> None:
    assert FOUND["0.33.0"][path].type == TYPES[path]


@pytest.mark.parametrize("path", DEFAULTS)
def test_the_committed_data_agrees_with_the_source(path: str) -> None:
    for version in VERSIONS:
        known = [each for each in declarations(path) if is_in(version, each.since, each.until)]
        own = FOUND[version].get(path)
        assert bool(known) is (own is not None)
        if own is not None and isinstance(own.default, Computed):
            assert (known[-1].default, known[-1].computed) == (None, own.default.symbol)


def is_in(version: str, since: str, until: str | None) -> bool:
    order = known_versions().index
    return order(since) <= order(version) and (until is None or order(version) <= order(until))


def test_equal_declarations_of_consecutive_versions_are_one_span() -> None:
    old, new = Declared("float", 0.9), Declared("float", 0.92, ("--share",))
    found = {"0.1.0": {"a": old}, "0.2.0": {"a": old, "b": old}, "0.3.0": {"a": new}, "0.4.0": {"a": new, "b": old}}

    assert spans(found) == {
        "a": [
            {"since": "0.1.0", "type": "float", "default": 0.9},
            {"since": "0.3.0", "type": "float", "default": 0.92, "flags": ["--share"]},
        ],
        "b": [
            {"since": "0.2.0", "type": "float", "default": 0.9, "until": "0.2.0"},
            {"since": "0.4.0", "type": "float", "default": 0.9},
        ],
    }


def test_defaults_that_changed_are_shown_by_version() -> None:
    utilization = declarations("cache_config.gpu_memory_utilization")
    scheduling = declarations("scheduler_config.async_scheduling")

    assert list(dict.fromkeys(each.default for each in utilization)) == ["0.9", "0.92"]
    assert list(dict.fromkeys(each.default for each in scheduling)) == ["false", "null"]


def test_every_setting_that_rules_need_has_one_sentence_of_at_most_20_words() -> None:
    sentences = known_sentences()

    needed = {each for rule in ALL_RULES for each in rule.needs} & known_paths().keys()
    assert needed - sentences.keys() == set()
    assert sentences.keys() - known_paths().keys() == set()
    assert [each for each in sentences.values() if len(each.split()) > 20 or not each.endswith(".")] == []


def test_every_minor_version_and_the_settings_of_rules_are_known() -> None:
    assert [version.rpartition(".")[0] for version in known_versions()] == [f"0.{minor}" for minor in range(12, 34)]
    assert len(known_paths()) > 1_000
    assert known_flags()["cache_config.block_size"] == "--block-size"
