"""The `VllmConfig` and environment of a simulated server, from the template of its version."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from dashboard.demo.describe import Configuration

# By minor version: patch releases are assumed to answer alike.
TEMPLATES = {"0.12": "0.12.0", "0.20": "0.20.2", "0.32": "0.32.0"}

# vLLM's default sizes of CUDA graphs: 1, 2, 4, then in steps of 8 and of 16 up to `max_cudagraph_capture_size`.
CAPTURE_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))

NIXL: dict[str, Any] = {
    "kv_connector": "NixlConnector",
    "engine_id": "<<engine_id>>",
    "kv_buffer_device": "cuda",
    "kv_role": None,
    "kv_port": 14579,
    "kv_connector_extra_config": {},
    "kv_connector_module_path": None,
    "enable_permute_local_kv": False,
    "kv_load_failure_policy": "fail",
}
KV_EVENTS: dict[str, Any] = {
    "enable_kv_cache_events": True,
    "publisher": "zmq",
    "endpoint": "tcp://*:5557",
    "replay_endpoint": None,
    "buffer_steps": 10_000,
    "hwm": 100_000,
    "max_queue_size": 100_000,
    "topic": "kv@<<host_ip>>@<<model>>",
}


@cache
def template(version: str, name: str) -> str:
    """Return a template of a version's answers."""
    release = ".".join(version.split(".")[:2])
    return (files("dashboard.demo") / "templates" / TEMPLATES[release] / name).read_text(encoding="utf-8")


def server_info(configuration: Configuration) -> dict[str, Any]:
    """Return the answer to `/server_info?config_format=json`, with slots for values that differ per replica."""
    answer: dict[str, Any] = json.loads(template(configuration.version, "server_info.json"))
    config = answer["vllm_config"]
    _describe(config, configuration)
    for path, value in configuration.settings:
        section, name = path.split(".")
        if name not in config[section]:
            raise ValueError(f"vLLM {configuration.version} has no setting {path}")
        config[section][name] = list(value) if isinstance(value, tuple) else value
    _follow(config, block_size_given="cache_config.block_size" in dict(configuration.settings))
    if system := answer.get("system_env"):
        system["nvidia_gpu_models"] = "\n".join(
            f"GPU {index}: {configuration.gpu.name}" for index in range(configuration.tensor_parallel_size)
        )
    return answer


def _describe(config: dict[str, Any], configuration: Configuration) -> None:
    model, parallel = config["model_config"], config["parallel_config"]
    model["model"] = model["tokenizer"] = configuration.model.path
    model["served_model_name"] = configuration.served_name
    model["quantization"] = configuration.model.quantization
    parallel["tensor_parallel_size"] = parallel["world_size"] = configuration.tensor_parallel_size
    parallel["distributed_executor_backend"] = "mp" if configuration.tensor_parallel_size > 1 else "uni"
    parallel["data_parallel_size"] = configuration.data_parallel_size
    parallel["data_parallel_size_local"] = configuration.ranks_per_server
    parallel["data_parallel_external_lb"] = configuration.data_parallel_size > configuration.ranks_per_server
    if configuration.ranks_per_server > 1:
        parallel["data_parallel_rank_local"] = None  # the API server has no rank of its own
    if "is_moe_model" in parallel:
        parallel["is_moe_model"] = configuration.model.expert_bytes > 0
    config["compilation_config"]["cudagraph_capture_sizes"] = list(CAPTURE_SIZES)
    if configuration.kv_role:
        config["kv_transfer_config"] = NIXL | {"kv_role": configuration.kv_role}
    if configuration.kv_events:
        config["kv_events_config"] = KV_EVENTS


def _follow(config: dict[str, Any], *, block_size_given: bool) -> None:
    """Set the settings that vLLM derives from others, if the version has them."""
    cache_config, scheduler, compilation = (
        config[section] for section in ("cache_config", "scheduler_config", "compilation_config")
    )
    batched = scheduler["max_num_batched_tokens"]
    scheduler["max_num_encoder_input_tokens"] = scheduler["encoder_cache_size"] = batched
    compilation["max_cudagraph_capture_size"] = compilation["cudagraph_capture_sizes"][-1]
    if "compile_ranges_endpoints" in compilation:
        compilation["compile_ranges_endpoints"] = [batched]
    if "user_specified_block_size" in cache_config:
        cache_config["user_specified_block_size"] = block_size_given
    if "effective_attention_block_size" in cache_config:
        cache_config["effective_attention_block_size"] = cache_config["block_size"]
