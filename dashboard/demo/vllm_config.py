"""The `VllmConfig` and environment of a simulated server, from the template of its version."""

import json
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Any

from dashboard.demo.describe import Configuration, Value

# By minor version: patch releases are assumed to answer alike.
TEMPLATES = {"0.12": "0.12.0", "0.20": "0.20.2", "0.32": "0.32.0"}

# vLLM's default sizes of CUDA graphs: 1, 2, 4, then in steps of 8 and of 16 up to `max_cudagraph_capture_size`.
SIZES, LARGEST = "compilation_config.cudagraph_capture_sizes", "compilation_config.max_cudagraph_capture_size"
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
# What a section has once one of its keys is set.
SECTIONS = {"kv_transfer_config": NIXL, "kv_events_config": KV_EVENTS}


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
    given = dict(configuration.settings)
    for path, value in given.items():
        _set(config, path, value, configuration.version)
    for name, text in configuration.environment:
        _set_variable(answer.get("vllm_env", {}), name, text)
    _follow(config, given.keys())
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
    if configuration.kv_role:
        config["kv_transfer_config"] = NIXL | {"kv_role": configuration.kv_role}
    if configuration.kv_events:
        config["kv_events_config"] = KV_EVENTS


def _set(config: dict[str, Any], path: str, value: Value, version: str) -> None:
    """Set a setting; ValueError if the version does not have it. An option that was off has any key."""
    *parents, name = path.split(".")
    section, is_open = config, False
    for depth, parent in enumerate(parents):
        if parent not in section and not is_open:
            raise ValueError(f"vLLM {version} has no setting {path}")
        section.setdefault(parent, {})
        if section[parent] is None:
            section[parent], is_open = dict(SECTIONS.get(parent, {})), True
        is_open = is_open or depth > 0  # objects below a section have any key
        section = section[parent]
    if name not in section and not is_open:
        raise ValueError(f"vLLM {version} has no setting {path}")
    section[name] = list(value) if isinstance(value, tuple) else value


def _set_variable(environment: dict[str, Any], name: str, text: str) -> None:
    """Set a variable of vLLM as it reads it; others, such as PYTHONHASHSEED, are not reported."""
    if name not in environment and name != "VLLM_PLUGINS":
        return
    usual = environment.get(name)
    if isinstance(usual, bool):
        environment[name] = text.lower() in {"1", "true"}
    elif isinstance(usual, list) or name == "VLLM_PLUGINS":
        environment[name] = text.split(",")
    elif isinstance(usual, int | float):
        environment[name] = type(usual)(text)
    else:
        environment[name] = text


def _follow(config: dict[str, Any], given: Collection[str]) -> None:
    """Set the settings that vLLM derives from others, if the version has them; `given` are the paths that are set."""
    cache_config, scheduler, compilation = (
        config[section] for section in ("cache_config", "scheduler_config", "compilation_config")
    )
    batched = scheduler["max_num_batched_tokens"]
    scheduler["max_num_encoder_input_tokens"] = scheduler["encoder_cache_size"] = batched
    if SIZES not in given:
        ceiling = min(2 * scheduler["max_num_seqs"], CAPTURE_SIZES[-1])
        if LARGEST in given:
            ceiling = compilation["max_cudagraph_capture_size"]
        compilation["cudagraph_capture_sizes"] = [size for size in CAPTURE_SIZES if size <= ceiling]
    compilation["max_cudagraph_capture_size"] = compilation["cudagraph_capture_sizes"][-1]
    if "compile_ranges_endpoints" in compilation:
        compilation["compile_ranges_endpoints"] = [batched]
    if "user_specified_block_size" in cache_config:
        cache_config["user_specified_block_size"] = "cache_config.block_size" in given
    if "effective_attention_block_size" in cache_config:
        cache_config["effective_attention_block_size"] = cache_config["block_size"]
