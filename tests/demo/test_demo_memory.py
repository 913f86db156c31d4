"""The capacity of simulated engines equals vLLM's."""

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.demo.describe import Configuration, Gpu, Model
from dashboard.demo.memory import capacity_of, kv_cache_groups

CAPTURES = Path(__file__).parents[1] / "captures" / "0.32.0"
CASES = ["deepseek_mla", "gemma3", "gemma3_long", "gpt_oss", "llama", "llama_tp2", "qwen3_xxhash"]
GPU = Gpu("test", 80_000_000_000, (9, 0), 132)


def _read(case: str, name: str) -> Any:
    return json.loads((CAPTURES / case / name).read_text())


@pytest.mark.parametrize("case", CASES)
def test_capacity_equals_the_startup_log_of_a_real_server(case: str) -> None:
    config = _read(case, "server_info.json")["vllm_config"]
    kv_cache = _read(case, "inference_config.json")["kv_cache"]
    log = _read(case, "launch.json")["startup_log"]
    found = capacity_of(kv_cache["num_gpu_blocks"], kv_cache["groups"], config)
    assert found.kv_cache_size_tokens == log["kv_cache_size_tokens"][0]
    assert round(found.max_concurrency, 2) == log["max_concurrency"][0]


@pytest.mark.parametrize(
    ("case", "model", "tensor_parallel_size"),
    [
        ("llama", Model("m", 4, 2, 32, 0), 1),
        ("llama_tp2", Model("m", 4, 2, 32, 0), 2),
        ("gemma3", Model("m", 6, 2, 32, 0, sliding_window=512, full_every=6), 1),
        ("deepseek_mla", Model("m", 4, 16, 576, 0, mla=True), 1),
    ],
)
def test_groups_equal_those_of_a_real_server(case: str, model: Model, tensor_parallel_size: int) -> None:
    groups = _read(case, "inference_config.json")["kv_cache"]["groups"]
    configuration = Configuration("m", model, GPU, tensor_parallel_size=tensor_parallel_size)
    assert kv_cache_groups(configuration, groups[0]["block_size"]) == groups
