"""Answers of a simulated server as byte templates: rendered once per configuration, slots filled per replica."""

import json
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from dashboard.demo.describe import Configuration, Speaks
from dashboard.demo.memory import kv_cache_groups
from dashboard.demo.provider import PLUGIN_NAMES, config_info, provider_answers
from dashboard.demo.vllm_config import server_info, template
from vllm_fleet_provider.shared.digests import EngineDigests

JSON = b"application/json"
NO_BODY = b""
PROMETHEUS = b"text/plain; version=1.0.0; charset=utf-8"

OF_ENGINE = 'engine="<<dp_rank>>"'
COUNTED = re.compile(r"} <<(?!created>>)(\w+)>>$", re.MULTILINE)  # by each engine
SLOT = re.compile(rb'"<<=(\w+)>>"|<<(\w+)>>')
KV_EVENT_SOURCES_SINCE = (0, 32)
PROVIDER_SINCE = (0, 32)  # endpoint plugins (vllm-project/vllm#47454)


class DemoPage(NamedTuple):
    """A body split at its slots: `pieces` has one item more than `slots`."""

    content_type: bytes
    pieces: tuple[bytes, ...]
    slots: tuple[str, ...]

    def body(self, values: Mapping[str, bytes]) -> bytes:
        """Return the body with the values of its slots."""
        parts = [b""] * (2 * len(self.slots) + 1)
        parts[::2] = self.pieces
        parts[1::2] = map(values.__getitem__, self.slots)
        return b"".join(parts)


class RenderedPages(NamedTuple):
    """The answers of replicas of one configuration, by path, their `VllmConfig`, and the digests of their settings.

    The first replica that starts computes `digests`, by engine; none without the provider.
    """

    pages: Mapping[str, DemoPage]
    config: Mapping[str, Any]
    digests: dict[int, EngineDigests]


def render(configuration: Configuration, speaks: frozenset[Speaks]) -> RenderedPages:
    """Return the answers of a replica with this configuration and these configuration endpoints."""
    server = server_info(configuration)
    config = server["vllm_config"]
    _open(server.get("vllm_env", {}), speaks)
    answers: dict[str, Any] = {"/version": {"version": configuration.version}, "/load": {"server_load": "<<=load>>"}}
    answers["/v1/models"] = _models(config["model_config"])
    if _release(configuration.version) >= KV_EVENT_SOURCES_SINCE:
        answers["/kv_event_sources"] = {"<<dp_rank>>": events} if (events := config["kv_events_config"]) else {}
    if Speaks.SERVER_INFO in speaks:
        answers[Speaks.SERVER_INFO] = server
    for endpoint in speaks & {Speaks.INFERENCE_CONFIG, Speaks.CONFIG}:
        answers[endpoint] = _inference_config(configuration, config)
    if Speaks.PLUGIN in speaks:
        answers |= {f"{Speaks.PLUGIN}/{name}": answer for name, answer in _plugin(configuration, config).items()}
    has_provider = Speaks.PROVIDER in speaks and _release(configuration.version) >= PROVIDER_SINCE
    if has_provider:
        answers |= provider_answers(configuration, server, _inference_config(configuration, config))
    pages = {str(path): _cut(JSON, _dump(answer)) for path, answer in answers.items()}
    metrics = _metrics(configuration, config["cache_config"])
    if has_provider:
        metrics += config_info(configuration.ranks_per_server).encode()
    pages["/metrics"] = _cut(PROMETHEUS, metrics)
    pages["/health"] = _cut(NO_BODY, b"")
    return RenderedPages(pages, config, {})


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _dump(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


def _cut(content_type: bytes, body: bytes) -> DemoPage:
    parts = SLOT.split(body)  # literal, name of a value, name inside a string, literal, ...
    slots = tuple((value or inside).decode() for value, inside in zip(parts[1::3], parts[2::3], strict=True))
    return DemoPage(content_type, tuple(parts[::3]), slots)


def _open(environment: dict[str, Any], speaks: frozenset[Speaks]) -> None:
    """Set the variables of vLLM's environment that open the endpoints."""
    plugins = {Speaks.PLUGIN: (Speaks.PLUGIN.rpartition("/")[2],), Speaks.PROVIDER: PLUGIN_NAMES}
    if named := [name for endpoint, names in plugins.items() if endpoint in speaks for name in names]:
        environment.setdefault("VLLM_PLUGINS", named)
    environment["VLLM_SERVER_DEV_MODE"] = Speaks.SERVER_INFO in speaks


def _metrics(configuration: Configuration, cache_config: dict[str, Any]) -> bytes:
    """Return the page of metrics; each field of `CacheConfig` is a label of `vllm:cache_config_info`."""
    labels = {name: str(value).replace("<<=", "<<") for name, value in cache_config.items()} | {"engine": "<<dp_rank>>"}
    line = ",".join(f'{name}="{labels[name]}"' for name in sorted(labels))
    page = template(configuration.version, "metrics.txt").replace("<<cache_config>>", line)
    return _of_engines(page, configuration.ranks_per_server).encode()


def _of_engines(page: str, engines: int) -> str:
    """Return a page with each run of an engine's lines repeated for every engine."""
    lines: list[str] = []
    for is_of_engine, run in groupby(page.splitlines(keepends=True), lambda line: OF_ENGINE in line):
        own = list(run)
        lines += own
        for engine in range(1, engines if is_of_engine else 1):
            named = "".join(own).replace(OF_ENGINE, f'engine="<<{engine_slot(engine, "rank")}>>"')
            lines.append(COUNTED.sub(rf"}} <<{engine_slot(engine, '')}\1>>", named))
    return "".join(lines)


def engine_slot(engine: int, name: str) -> str:
    """Return the slot of what an engine counted. Templates are of a server with one engine."""
    return f"engine_{engine}_{name}" if engine else name


def _models(model: dict[str, Any]) -> dict[str, Any]:
    permission = {
        "id": "modelperm-<<permission>>",
        "object": "model_permission",
        "created": "<<=now>>",
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    served = {
        "id": model["served_model_name"],
        "object": "model",
        "created": "<<=now>>",
        "owned_by": "vllm",
        "root": model["model"],
        "parent": None,
        "max_model_len": model["max_model_len"],
        "permission": [permission],
    }
    return {"object": "list", "data": [served]}


def _inference_config(configuration: Configuration, config: dict[str, Any]) -> dict[str, Any]:
    model, cache, parallel = (config[section] for section in ("model_config", "cache_config", "parallel_config"))
    offloading = cache["kv_offloading_size"]
    kept = ("num_gpu_blocks", "num_cpu_blocks", "gpu_memory_utilization", "cache_dtype", "enable_prefix_caching")
    ranks = ("data_parallel_rank", "data_parallel_rank_local", "data_parallel_master_ip", "data_parallel_master_port")
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local")
    return {
        "model": {
            "served_model_names": [model["served_model_name"]],
            "dtype": model["dtype"].removeprefix("torch."),
            **_some(model, "quantization", "max_model_len", "max_logprobs"),
        },
        "kv_cache": {
            **_some(cache, *kept, "prefix_caching_hash_algo"),
            "kv_offloading_enabled": offloading is not None,
            "kv_offloading_backend": cache["kv_offloading_backend"] if offloading is not None else None,
            "kv_offloading_size_gib": offloading,
            "groups": kv_cache_groups(configuration, cache["block_size"]),
        },
        "scheduler": {
            **_some(config["scheduler_config"], "max_num_batched_tokens", "max_num_seqs"),
            "max_num_partial_prefills": 1,
            **_some(config["scheduler_config"], "enable_chunked_prefill", "policy"),
        },
        "parallelism": {
            **_some(parallel, *sizes, *ranks, "data_parallel_rpc_port"),
            "expert_parallel_enabled": parallel["enable_expert_parallel"],
            "prefill_context_parallel_size": parallel["prefill_context_parallel_size"],
        },
        "devices": _devices(configuration),
        "speculative_decoding": {
            "enabled": False,
            **dict.fromkeys(("method", "num_speculative_tokens", "draft_model")),
        },
        "lora": {
            "enabled": False,
            **dict.fromkeys(("max_lora_rank", "max_loras", "max_cpu_loras", "lora_dtype")),
        },
        "hma": {"enabled": not config["scheduler_config"]["disable_hybrid_kv_cache_manager"]},
    }


def _plugin(configuration: Configuration, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    model, cache, parallel = (config[section] for section in ("model_config", "cache_config", "parallel_config"))
    dtype = model["dtype"].removeprefix("torch.")
    return {
        "config": {
            "model": {
                "name": model["model"],
                "served_names": [model["served_model_name"]],
                "dtype": dtype,
                **_some(model, "quantization", "max_model_len"),
            },
            "kv_cache": {
                "gpu_memory_utilization": cache["gpu_memory_utilization"],
                "dtype": dtype,
                "enable_prefix_caching": cache["enable_prefix_caching"],
            },
            "scheduler": _some(
                config["scheduler_config"], "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "policy"
            ),
            "parallelism": _some(
                parallel, "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_rank"
            ),
            "features": {"speculative_decoding": False, "lora": False, "hma": True},
            "kv_transfer": None,
        },
        "devices": {"devices": _devices(configuration)},
        "kv-cache": {
            "kv_cache_size_tokens": "<<=naive_tokens>>",  # blocks times block size, also for hybrids
            "max_concurrency": "<<=naive_concurrency>>",
            "num_gpu_blocks": "<<=num_gpu_blocks>>",
            "num_cpu_blocks": None,
            "groups": [],
        },
    }


def _some(section: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: section[name] for name in names}


def _devices(configuration: Configuration) -> list[dict[str, Any]]:
    gpu = configuration.gpu
    major, minor = gpu.compute_capability
    return [
        {
            "rank": rank,
            "name": gpu.name,
            "total_memory_bytes": gpu.total_memory_bytes,
            "compute_capability": {"major": major, "minor": minor},
            "num_compute_units": gpu.compute_units,
        }
        for rank in range(configuration.tensor_parallel_size)
    ]
