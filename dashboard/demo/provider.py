"""The answers of the provider inside a simulated vLLM, with slots for values that differ between replicas."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

from dashboard import __version__
from dashboard.demo.describe import Configuration
from dashboard.demo.hashing import seed_policy
from dashboard.demo.memory import kv_cache_groups
from dashboard.vllm.field_reference import known_flags
from vllm_fleet_provider.shared.digests import HELP, SERIES, EngineDigests
from vllm_fleet_provider.shared.inference_config import SCHEMA_VERSION
from vllm_fleet_provider.shared.paths import flatten

PLUGIN_NAMES = ("lora_filesystem_resolver", "fleet_config")  # in VLLM_PLUGINS, as docs/provider.md names them
PATHS = ("/inference/v1/config", "/v1/config")
YES, NO = frozenset({"true", "1"}), frozenset({"false", "0", ""})
NO_ENGINE = -1
NIXL = "1.5.1"
DIGEST = 16  # hex digits of the SHA-256 of the chat template
GONE = {"field": "scheduler.max_num_partial_prefills", "reason": "this vLLM does not have it"}
LAYOUT = "LBHNC"  # of the workers, on every backend of the demo; the API server has null
# Settings with one value per engine; the API server has their sum or the first engine's value.
OWN_SETTINGS = {
    "cache_config.num_gpu_blocks": "num_gpu_blocks",
    "cache_config.kv_cache_size_tokens": "kv_cache_size_tokens",
    "cache_config.kv_cache_max_concurrency": "max_concurrency",
    "parallel_config.data_parallel_rank": "rank",
    "parallel_config.data_parallel_rank_local": "rank",
    "parallel_config.data_parallel_index": "rank",
}


def page_name(path: str, query: str, first_rank: int) -> str:
    """Return the name of the page for a path and a query; no page has this name if a parameter is wrong."""
    asked = parse_qs(query)
    full = asked.get("full", [""])[-1].lower()
    rank = asked.get("data_parallel_rank", [str(first_rank)])[-1]
    is_right = full in YES | NO and rank.isdecimal()
    return _name(path, int(rank) - first_rank if is_right else NO_ENGINE, full=full in YES)


def full_page(engine: int) -> str:
    """Return the name of the page with the settings of an engine."""
    return _name(PATHS[0], engine, full=True)


def config_info(engines: int) -> str:
    """Return the lines of `vllm_fleet_config_info` on the page of metrics."""
    lines = [f"# HELP {SERIES} {HELP}\n# TYPE {SERIES} gauge\n"]
    for engine in range(engines):
        digests = "".join(f',{name}="<<engine_{engine}_{name}>>"' for name in EngineDigests._fields[1:])
        lines.append(f'{SERIES}{{engine="<<engine_{engine}_rank>>"{digests}}} 1.0\n')
    return "".join(lines)


def provider_answers(
    configuration: Configuration, server: Mapping[str, Any], seed: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name of a page, answer) for each path, engine and value of `full`.

    `server` is the answer of /server_info, `seed` has the sections of other configuration endpoints.
    """
    for engine in range(configuration.ranks_per_server):
        short = _answer(configuration, server, seed, engine)
        asked = {"settings": _settings(server["vllm_config"], engine), "environment": server["vllm_env"]}
        full = {**short, "fleet": short["fleet"] | asked}
        for path in PATHS:
            yield _name(path, engine, full=False), short
            yield _name(path, engine, full=True), full


def _name(path: str, engine: int, *, full: bool) -> str:
    return f"{path} {engine} {'full' if full else 'short'}"


def _answer(
    configuration: Configuration, server: Mapping[str, Any], seed: Mapping[str, Any], engine: int
) -> dict[str, Any]:
    """Return the answer for one engine of the server, in the schema's order."""
    config = server["vllm_config"]
    rank, is_async = _slot(engine, "rank"), config["scheduler_config"]["async_scheduling"]
    return {
        **seed,
        "kv_cache": {**seed["kv_cache"], "num_gpu_blocks": _slot(engine, "num_gpu_blocks")},
        "scheduler": {**seed["scheduler"], "max_num_partial_prefills": None},
        "parallelism": {**seed["parallelism"], "data_parallel_rank": rank, "data_parallel_rank_local": rank},
        "fleet": {
            "schema_version": SCHEMA_VERSION,
            "provider_version": __version__,
            "vllm_version": configuration.version,
            "components": {"lmcache": None, "nixl": NIXL if config["kv_transfer_config"] else None, "mooncake": None},
            "started_at": "<<started_iso>>",
            "data_parallel_rank": rank,
            "engines": [_engine(configuration, config, seed, each) for each in range(configuration.ranks_per_server)],
            # vllm/config/vllm.py, max_concurrent_batches: without pipeline parallelism.
            "scheduling": {"concurrent_batches": 2 if is_async else 1, "async_scheduling": is_async},
            "prefix_hashing": _prefix_hashing(configuration, config["cache_config"]),
            "kv_events": _kv_events(config["kv_events_config"]),
            "kv_transfer": _kv_transfer(configuration, config),
            "model": {
                name: config["model_config"][name]
                for name in ("revision", "code_revision", "tokenizer", "tokenizer_revision")
            },
            "chat": _chat(configuration, config),
            "adapters": [],
            "set_arguments": list(_arguments(configuration, server["vllm_env"])),
            "settings": None,
            "environment": None,
            "unavailable": [GONE],
        },
    }


def _engine(
    configuration: Configuration, config: Mapping[str, Any], seed: Mapping[str, Any], engine: int
) -> dict[str, Any]:
    return {
        "data_parallel_rank": _slot(engine, "rank"),
        "num_gpu_blocks": _slot(engine, "num_gpu_blocks"),
        "kv_cache_size_tokens": _slot(engine, "kv_cache_size_tokens"),
        "max_concurrency": _slot(engine, "max_concurrency"),
        "max_model_len": config["model_config"]["max_model_len"],
        "kv_cache_bytes_per_device": _slot(engine, "kv_cache_bytes_per_device"),
        "kv_cache_available_bytes": _slot(engine, "available_bytes"),
        "groups": kv_cache_groups(configuration, config["cache_config"]["block_size"]),
        "devices": [
            {
                **device,
                "tensor_parallel_rank": device["rank"],
                "pipeline_parallel_rank": 0,
                "memory": _slot(engine, "memory"),
            }
            for device in seed["devices"]
        ],
        "fingerprint": {name: _slot(engine, name) for name in ("canonical", "engine", "reason")},
        "started_at": "<<started_iso>>",
    }


def _arguments(configuration: Configuration, environment: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the arguments that the replica was started with, as `vllm serve MODEL --FLAG ...` has them."""
    flags = known_flags()
    given = {
        "--model": True,
        "--served-model-name": True,
        "--tensor-parallel-size": configuration.tensor_parallel_size > 1,
        "--data-parallel-size": configuration.data_parallel_size > 1,
        "--kv-transfer-config.kv_role": configuration.kv_role is not None,
        "--kv-events-config.enable_kv_cache_events": configuration.kv_events,
    }
    for path, value in configuration.settings:
        flag = flags.get(path, f"--{path.replace('_', '-', path.partition('.')[0].count('_'))}")
        given[flag.replace("--", "--no-", 1) if value is False else flag] = True
    for name, is_given in given.items():
        if is_given:
            yield {"argument": name, "source": "command_line"}
    opening = ["VLLM_PLUGINS", *(["VLLM_SERVER_DEV_MODE"] if environment.get("VLLM_SERVER_DEV_MODE") else [])]
    for name in dict.fromkeys((*opening, *dict(configuration.environment))):
        yield {"argument": name, "source": "environment"}


def _prefix_hashing(configuration: Configuration, cache: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "enabled": cache["enable_prefix_caching"],
        "algorithm": cache["prefix_caching_hash_algo"],
        "hash_block_size": cache["block_size"],
        "match_unit": cache["prefix_match_unit"],
        "alignment": cache["block_size"],
        "lookahead_tokens": 0,  # a vLLM before 0.33
        "seed_policy": seed_policy(cache, dict(configuration.environment)),
        "engines_agree": "<<=engines_agree>>",
    }


def _kv_events(events: Mapping[str, Any] | None) -> dict[str, Any]:
    if events is None:
        return {"enabled": False, "publisher": None, "endpoint": None, "topic": None}
    return {"enabled": events["enable_kv_cache_events"]} | {
        name: events[name] for name in ("publisher", "endpoint", "topic")
    }


def _kv_transfer(configuration: Configuration, config: Mapping[str, Any]) -> dict[str, Any]:
    transfer = config["kv_transfer_config"]
    if transfer is None:
        return dict.fromkeys(("connector", "role", "engine_id", "compatibility"))
    model = config["model_config"]
    return {
        "connector": transfer["kv_connector"],
        "role": transfer["kv_role"],
        "engine_id": transfer["engine_id"],
        "compatibility": {
            "model": model["model"],
            "dtype": model["dtype"].removeprefix("torch."),
            "cache_dtype": config["cache_config"]["cache_dtype"],
            "attention_backend": None,
            "hybrid_kv_cache_manager": not config["scheduler_config"]["disable_hybrid_kv_cache_manager"],
            "kv_cache_layout": LAYOUT,
            "num_kv_heads": 1 if configuration.model.mla else configuration.model.kv_heads,
            "head_size": configuration.model.head_size,
            "num_hidden_layers": configuration.model.layers,
        },
    }


def _chat(configuration: Configuration, config: Mapping[str, Any]) -> dict[str, Any]:
    template = f"the chat template of {configuration.model.path}"
    return {
        "template_digest": sha256(template.encode()).hexdigest()[:DIGEST],
        "template_content_format": "auto",
        "tool_call_parser": None,
        "reasoning_parser": config["structured_outputs_config"]["reasoning_parser"],
        "enable_auto_tool_choice": False,
    }


def _settings(config: Mapping[str, Any], engine: int) -> dict[str, Any]:
    """Return every setting of an engine by its path."""
    own = {path: _slot(engine, name) for path, name in OWN_SETTINGS.items()}
    return flatten(config) | own | {"cache_config.kv_cache_layout": LAYOUT}


def _slot(engine: int, name: str) -> str:
    return f"<<=engine_{engine}_{name}>>"
