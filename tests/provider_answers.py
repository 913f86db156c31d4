"""Provider answers for captured servers, built from their other answers."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from dashboard.fleet import Source
from dashboard.vllm.fields import CONFIG_API, NEGATED, SWITCHES
from tests.captured import INFERENCE_CONFIG, MODELS, PLUGIN, SERVER_INFO, VERSION, Capture
from vllm_fleet_provider.shared.inference_config import SCHEMA_VERSION
from vllm_fleet_provider.shared.paths import flatten
from vllm_fleet_provider.shared.redaction import redact

STARTED_AT = "2026-03-02T09:00:00Z"
CPU = {"rank": 0, "name": "cpu", "total_memory_bytes": 25276510208, "compute_capability": None, "num_compute_units": 1}
# Settings that are in no configuration of vLLM.
PROVIDER_ONLY = {
    "seed_policy",
    "chat_template_digest",
    "chat_template_content_format",
    "tool_call_parser",
    "enable_auto_tool_choice",
    "concurrent_batches",
}


def provider_answer(
    server: Capture, *, full: bool = True, fingerprints: Sequence[str | None] = ("one root",)
) -> dict[str, Any]:
    """Return the JSON of GET /inference/v1/config, with `?full=true` by default, as a new object.

    `fingerprints`: a text per DP rank, taken in turn. Equal texts give equal `canonical` digests, and equal `engine`
    digests where the block sizes are equal too; None, and an engine without prefix caching, give none.
    """
    answer = server.json(INFERENCE_CONFIG) if INFERENCE_CONFIG in server.answers else _seed(server)
    if server.version not in {"0.12.0", "0.20.2"}:
        answer["scheduler"]["max_num_partial_prefills"] = None  # removed since
    answer["fleet"] = _fleet(server, answer, fingerprints)
    if full:
        reported = server.json(SERVER_INFO)
        answer["fleet"]["settings"] = flatten(redact(reported["vllm_config"]))
        answer["fleet"]["environment"] = redact(reported.get("vllm_env", {}))
    return json.loads(json.dumps(answer))  # type: ignore[no-any-return]


def provider_body(server: Capture, *, full: bool = True, fingerprints: Sequence[str | None] = ("one root",)) -> bytes:
    """The same as a body."""
    return json.dumps(provider_answer(server, full=full, fingerprints=fingerprints)).encode()


def with_provider(
    server: Capture, *, full: bool = True, fingerprints: Sequence[str | None] = ("one root",)
) -> dict[str, bytes]:
    """All answers of the server by path: it has the provider and no /server_info."""
    others = {path: body for path, body in server.answers.items() if path != SERVER_INFO}
    return {**others, INFERENCE_CONFIG: provider_body(server, full=full, fingerprints=fingerprints)}


def fingerprint(text: str | None, block_size: int) -> dict[str, str | None]:
    """The fingerprint of an engine's block hashes."""
    if text is None:
        return {"canonical": None, "engine": None, "reason": "Prefix caching is off: no blocks are hashed."}
    canonical, engine = (
        hashlib.sha256(each.encode()).hexdigest()[:16] for each in (text, f"{text}, blocks of {block_size}")
    )
    return {"canonical": canonical, "engine": engine, "reason": None}


def lookahead(server: Capture) -> int:
    """Tokens after a block that its hash also covers: `first_block_hash` of this capture differs from that of llama."""
    return int((server.version, server.case) == ("0.33.0", "llama_eagle"))


def _seed(server: Capture) -> dict[str, Any]:
    """The part of the answer without `fleet`, for captures without a configuration API."""
    config = server.json(SERVER_INFO)["vllm_config"]
    answer: dict[str, Any] = {"model": {"served_model_names": _served(server)}, "kv_cache": {}, "scheduler": {}}
    for name, path in CONFIG_API.items():
        (section, field), (above, below) = name.split("."), path.split(".")
        value = (config[above] or {}).get(below)
        answer.setdefault(section, {})[field] = not value if name in NEGATED else value
    for field in ("num_cpu_blocks", "kv_offloading_backend"):
        answer["kv_cache"][field] = config["cache_config"].get(field)
    for switch, above in SWITCHES[Source.CONFIG_API]:
        section, field = switch.split(".")
        answer[section][field] = config[above] is not None
    answer["kv_cache"]["num_gpu_blocks"] = _blocks(server)
    path = f"{PLUGIN}/devices"
    answer["devices"] = server.json(path)["devices"] if path in server.answers else [CPU]
    return answer


def _fleet(server: Capture, answer: dict[str, Any], fingerprints: Sequence[str | None]) -> dict[str, Any]:
    config = server.json(SERVER_INFO)["vllm_config"]
    cache, model = config["cache_config"], config["model_config"]
    events, transfer = config["kv_events_config"] or {}, config["kv_transfer_config"] or {}
    return {
        "schema_version": SCHEMA_VERSION,
        "provider_version": "1.0.0",
        "vllm_version": server.json(VERSION)["version"],
        "started_at": STARTED_AT,
        "data_parallel_rank": 0,
        "engines": [_engine(server, rank, answer, fingerprints) for rank in range(_ranks(server))],
        "scheduling": {
            "concurrent_batches": 1,
            "async_scheduling": config["scheduler_config"].get("async_scheduling"),
        },
        "prefix_hashing": {
            "enabled": cache["enable_prefix_caching"],
            "algorithm": cache["prefix_caching_hash_algo"],
            "hash_block_size": cache["block_size"],
            "match_unit": cache.get("prefix_match_unit"),
            "alignment": cache["block_size"],
            "lookahead_tokens": lookahead(server),
            "seed_policy": "random" if cache["prefix_caching_hash_algo"] == "xxhash" else "default",
            "engines_agree": len(set(fingerprints)) == 1,
        },
        "kv_events": {
            "enabled": events.get("enable_kv_cache_events", False),
            **{name: events.get(name) for name in ("publisher", "endpoint", "topic")},
        },
        "kv_transfer": {
            "connector": transfer.get("kv_connector"),
            "role": transfer.get("kv_role"),
            "engine_id": transfer.get("engine_id"),
            "compatibility": None,
        },
        "model": {name: model[name] for name in ("revision", "code_revision", "tokenizer", "tokenizer_revision")},
        "chat": {
            "template_digest": None,
            "template_content_format": "auto",
            "tool_call_parser": None,
            "reasoning_parser": None,
            "enable_auto_tool_choice": False,
        },
        "adapters": [{"name": card["id"], "path": card["root"]} for card in _cards(server) if card["parent"]],
        "unavailable": [],
    }


def _engine(server: Capture, rank: int, answer: dict[str, Any], fingerprints: Sequence[str | None]) -> dict[str, Any]:
    cache = server.json(SERVER_INFO)["vllm_config"]["cache_config"]
    groups = answer["kv_cache"].get("groups", [])
    pages = [group["page_size_bytes"] * len(group["layer_names"]) for group in groups]
    text = fingerprints[rank % len(fingerprints)] if cache["enable_prefix_caching"] else None
    return {
        "data_parallel_rank": rank,
        "num_gpu_blocks": _blocks(server),
        "kv_cache_size_tokens": server.logged["kv_cache_size_tokens"][rank],
        "max_concurrency": cache.get("kv_cache_max_concurrency") or server.logged["max_concurrency"][rank],
        "max_model_len": server.logged["max_model_len"][rank],
        "kv_cache_bytes_per_device": _blocks(server) * max(pages) if pages else None,
        "groups": groups,
        "devices": [
            {**device, "tensor_parallel_rank": device["rank"], "pipeline_parallel_rank": 0}
            for device in answer["devices"]
        ],
        "fingerprint": fingerprint(text, cache["block_size"]),
        "started_at": STARTED_AT,
    }


def _ranks(server: Capture) -> int:
    return int(server.json(SERVER_INFO)["vllm_config"]["parallel_config"]["data_parallel_size"])


def _blocks(server: Capture) -> int:
    """One engine's: /server_info gives the sum."""
    return int(server.json(SERVER_INFO)["vllm_config"]["cache_config"]["num_gpu_blocks"]) // _ranks(server)


def _cards(server: Capture) -> list[dict[str, Any]]:
    return list(server.json(MODELS)["data"])


def _served(server: Capture) -> list[str]:
    return [card["id"] for card in _cards(server) if not card["parent"]]
