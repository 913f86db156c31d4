"""The answers of JSON endpoints and gRPC as `Reply`: foreign models in, our own types out."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dashboard.errors import UnreadableError
from dashboard.fleet import EngineReport, Reply, Setting, Source
from dashboard.vllm import control, endpoints
from dashboard.vllm.fields import read_config, settings_of
from dashboard.vllm.provider_reply import devices_of, groups_of, read_provider, unknown_kinds
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply
from vllm_fleet_provider.shared.paths import flatten
from vllm_fleet_provider.shared.types import MAX_INTEGER


def read_version(payload: Any) -> Reply:
    """GET /version: the whole text, as NIXL compares it."""
    reply = endpoints.VersionReply.model_validate(payload)
    versions = [(name, version) for name, version in reply.model_dump().items() if version is not None]
    settings, identity = settings_of({}, Source.VERSION, versions)
    return Reply(Source.VERSION, settings, identity, version=reply.version)


def read_models(payload: Any) -> Reply:
    """GET /v1/models. Cards with a parent are LoRA adapters, loaded and unloaded while the server runs.

    Raises UnreadableError for another server than vLLM.
    """
    cards = endpoints.ServedModelsReply.model_validate(payload).data
    refuse_owner(card.owned_by for card in cards)
    served = [card for card in cards if card.parent is None]
    pairs = _name_pairs([card.id for card in served])
    if served:
        numbers = (("model_config.model", served[0].root), ("model_config.max_model_len", served[0].max_model_len))
        pairs += [(path, value) for path, value in numbers if value is not None]
    settings, identity = settings_of({}, Source.MODELS, pairs)
    return Reply(
        Source.MODELS,
        settings,
        identity,
        served_model_names=tuple(card.id for card in served),
        adapters={card.id: card.root for card in cards if card.parent is not None},
    )


def _name_pairs(names: Sequence[str]) -> list[tuple[str, Any]]:
    return [("served_model_names", list(names)), ("model_config.served_model_name", names[0])] if names else []


def read_kv_event_sources(payload: Any) -> Reply:
    """GET /kv_event_sources. The first rank is read for all; `{}` means that nothing is published."""
    sources = endpoints.KV_EVENT_SOURCES.validate_python(payload)
    first = sources[min(sources)].model_dump(exclude_unset=True) if sources else {}
    nothing = [] if sources else [("kv_events_config", None)]
    settings, identity = settings_of(first, Source.KV_EVENT_SOURCES, nothing)
    return Reply(Source.KV_EVENT_SOURCES, settings, identity)


def read_server_info(payload: Any) -> Reply:
    """GET /server_info?config_format=json. `num_gpu_blocks` there is the sum over the API server's engines.

    The Rust frontend reports its own options under the name `vllm_config`, and nothing of the engine.
    """
    info = endpoints.ServerInfoReply.model_validate(payload)
    if "transport_mode" in info.vllm_config:
        return Reply(Source.SERVER_INFO, *settings_of(info.vllm_config, Source.SERVER_INFO))
    settings, identity = read_config(flatten(info.vllm_config), info.vllm_env, Source.SERVER_INFO)
    rank = _count(identity, "parallel_config.data_parallel_rank") or 0
    number = _count_engines(settings, identity)
    blocks = _count(identity, "cache_config.num_gpu_blocks")
    first = EngineReport(
        dp_rank=rank,
        num_gpu_blocks=blocks if number == 1 else None,
        kv_cache_size_tokens=_count(identity, "cache_config.kv_cache_size_tokens"),
        max_concurrency=_number(identity, "cache_config.kv_cache_max_concurrency"),
    )
    if number is None or number == 1:
        return Reply(Source.SERVER_INFO, settings, identity, engines=(first,))
    others = (EngineReport(rank + place, blocks_of_all=blocks) for place in range(1, number))
    return Reply(Source.SERVER_INFO, settings, identity, engines=(first._replace(blocks_of_all=blocks), *others))


def _count_engines(settings: Mapping[str, Setting], identity: Mapping[str, Setting]) -> int | None:
    """Return the number of engines behind the API server: with external load balancing not those of all ranks."""
    number = _count(settings, "parallel_config.data_parallel_size")
    if number is not None and _is_on(identity, "parallel_config.data_parallel_external_lb"):
        return 1
    if number is not None and _is_on(identity, "parallel_config.data_parallel_hybrid_lb"):
        number = _count(identity, "parallel_config.data_parallel_size_local")
    elif _count(identity, "parallel_config.data_parallel_rank"):
        return number if number == 1 else None
    return number if number is not None and 0 < number <= endpoints.MAX_RANKS else None


def _is_on(identity: Mapping[str, Setting], path: str) -> bool:
    return path in identity and identity[path].value == "true"


def _count(settings: Mapping[str, Setting], path: str) -> int | None:
    number = _number(settings, path)
    return int(number) if number is not None else None


def _number(settings: Mapping[str, Setting], path: str) -> float | None:
    """Return a number of zero or more; None where there is none. Raise UnreadableError for an impossible number."""
    setting = settings.get(path)
    value = json.loads(setting.value) if setting else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MAX_INTEGER:
        raise UnreadableError("schema", f"/server_info says {path}={value}, which no server can mean")
    return value


def read_grpc_server_info(payload: Any) -> Reply:
    """vllm.Control/GetServerInfo: of several engines only the sum of the blocks is reported."""
    info = endpoints.GrpcServerInfo.model_validate(payload)
    settings, identity = settings_of(info.model_dump(exclude_unset=True), Source.GRPC)
    size = info.parallelism.get("data_parallel_size", 1)
    number = min(info.parallelism.get("data_parallel_size_local", size), endpoints.MAX_RANKS)
    blocks = info.total_kv_blocks
    engines = [EngineReport(rank, blocks_of_all=blocks) for rank in range(number)] if number > 1 else []
    engines = engines or [EngineReport(0, blocks)]
    return Reply(Source.GRPC, settings, identity, version=info.engine_version, engines=tuple(engines))


def read_grpc_model_info(payload: Any) -> Reply:
    """vllm.Control/GetModelInfo."""
    info = endpoints.GrpcModelInfo.model_validate(payload)
    names = (info.served_model_name, *info.served_model_aliases)
    settings, identity = settings_of(info.model_dump(), Source.GRPC, _name_pairs(names))
    return Reply(Source.GRPC, settings, identity, served_model_names=names)


def read_grpc_loras(payload: Any) -> Reply:
    """vllm.Control/ListLoras: those that are loaded."""
    adapters = endpoints.GrpcLoras.model_validate(payload).adapters
    return Reply(Source.GRPC, adapters={each.lora_name: each.source_path for each in adapters})


def read_grpc_kv_event_sources(payload: Any) -> Reply:
    """vllm.Control/GetKvEventSources. The first rank is read for all, as of /kv_event_sources."""
    sources = endpoints.GrpcKVEventSources.model_validate(payload).sources
    first = min(sources, key=lambda each: each.data_parallel_rank, default=None)
    more = ("kv_events_config.enable_kv_cache_events", True) if first else ("kv_events_config", None)
    fields = first.model_dump(exclude_unset=True) if first else {}
    return Reply(Source.GRPC, *settings_of(fields, Source.GRPC, [more]))


def read_inference_config(payload: Any) -> Reply:
    """GET /inference/v1/config, /v1/config and /v1/server/config: the answer of one engine, or of our provider."""
    reply = InferenceConfigReply.model_validate(payload)
    if reply.fleet is not None:
        return read_provider(reply, reply.fleet)
    names = reply.model.served_model_names or ()
    settings, identity = settings_of(reply.model_dump(exclude_unset=True), Source.CONFIG_API, _name_pairs(names))
    rank = reply.parallelism.data_parallel_rank or 0
    return Reply(
        Source.CONFIG_API,
        settings,
        identity,
        served_model_names=names,
        engines=(EngineReport(rank, reply.kv_cache.num_gpu_blocks),),
        devices=devices_of(rank, reply.devices),
        kv_cache_groups=groups_of(rank, reply.kv_cache.groups),
        not_understood=unknown_kinds(reply.kv_cache.groups),
    )


def read_kv_cache(payload: Any, source: Source = Source.CONFIG_API) -> Reply:
    """GET /v1/server/kv-cache, and .../kv-cache of the public plugins: runtime numbers of one engine.

    The plugins' tokens are blocks x block_size, and never used as capacity.
    """
    reply = endpoints.KVCacheReply.model_validate(payload)
    return Reply(
        source,
        engines=(EngineReport(0, reply.num_gpu_blocks, reply.kv_cache_size_tokens),),
        kv_cache_groups=groups_of(0, reply.groups),
        not_understood=unknown_kinds(reply.groups),
    )


def read_plugin_config(payload: Any) -> Reply:
    """GET .../config of the public plugins."""
    reply = endpoints.PluginConfigReply.model_validate(payload)
    names = reply.model.served_names
    more = [*_name_pairs(names), *(_extra_pairs(reply.kv_transfer) if reply.kv_transfer else ())]
    settings, identity = settings_of(reply.model_dump(exclude_unset=True), Source.PLUGIN, more)
    return Reply(Source.PLUGIN, settings, identity, served_model_names=names)


def _extra_pairs(transfer: endpoints.PluginKVTransfer) -> list[tuple[str, Any]]:
    """Return what the plugin reports of the connector under another name."""
    pairs: list[tuple[str, Any]] = []
    if "extra_config" in transfer.model_fields_set:
        pairs += flatten({"kv_transfer_config": {"kv_connector_extra_config": transfer.extra_config}}).items()
    places = ("HOST", transfer.nixl_side_channel_host), ("PORT", transfer.nixl_side_channel_port)
    return pairs + [(f"env.VLLM_NIXL_SIDE_CHANNEL_{name}", value) for name, value in places if value is not None]


def read_plugin_devices(payload: Any) -> Reply:
    """GET .../devices of the public plugins: those of the API server's first engine."""
    return Reply(Source.PLUGIN, devices=devices_of(0, endpoints.PluginDevicesReply.model_validate(payload).devices))


_PLUGIN_READERS: Mapping[str, Callable[[Any], Reply]] = {
    "config": read_plugin_config,
    "devices": read_plugin_devices,
    "kv-cache": partial(read_kv_cache, source=Source.PLUGIN),
}
READERS: Mapping[str, Callable[[Any], Reply]] = {
    "/version": read_version,
    "/v1/models": read_models,
    "/kv_event_sources": read_kv_event_sources,
    "/server_info": read_server_info,
    control.SERVER_INFO: read_grpc_server_info,
    control.MODEL_INFO: read_grpc_model_info,
    control.LORAS: read_grpc_loras,
    control.KV_EVENT_SOURCES: read_grpc_kv_event_sources,
    "/inference/v1/config": read_inference_config,
    "/v1/config": read_inference_config,
    "/v1/server/config": read_inference_config,
    "/v1/server/kv-cache": read_kv_cache,
    **{
        f"/plugins/{plugin}-server-introspection/{name}": reader
        for plugin in ("llm-d", "vllm")
        for name, reader in _PLUGIN_READERS.items()
    },
}


BY_OWNER = {"sglang": "SGLang", "llamacpp": "llama.cpp", "tensorrt_llm": "TensorRT-LLM", "lmdeploy": "LMDeploy"}
BY_METRICS = {  # by the beginning of the names
    b"sglang:": "SGLang",
    b"tgi_": "Text Generation Inference",
    b"llamacpp:": "llama.cpp",
    b"trtllm_": "TensorRT-LLM",
    b"lmdeploy:": "LMDeploy",
}
METRIC = re.compile(rb"^(?:# (?:HELP|TYPE) )?(%b)" % b"|".join(map(re.escape, BY_METRICS)), re.MULTILINE)


def refuse_owner(owners: Iterable[str | None]) -> None:
    """Raise UnreadableError where all models belong to one other server: a gateway in front of vLLM lists several."""
    if len(found := set(owners)) == 1 and (name := BY_OWNER.get(found.pop() or "")):
        raise _refused(name)


def refuse_metrics(page: bytes) -> None:
    """Raise UnreadableError where a page of /metrics without a metric of vLLM has those of another server."""
    if match := METRIC.search(page):
        raise _refused(BY_METRICS[match[1]])


def _refused(name: str) -> UnreadableError:
    return UnreadableError("not_vllm", f"Not vLLM ({name}): it is compared with nothing. Remove it from the targets.")
