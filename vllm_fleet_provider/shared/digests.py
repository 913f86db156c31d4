"""The digests of `vllm_fleet_config_info`, computed from an answer of our provider.

The provider computes them from its own answer, and whoever reads that answer gets the same ones. Replicas with an equal
`document` have equal settings, so the full answer of one of them is enough.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from vllm_fleet_provider.shared.identity import split_identity
from vllm_fleet_provider.shared.inference_config import EngineInfo, FleetExtension, InferenceConfigReply
from vllm_fleet_provider.shared.paths import flatten, refuse_overlaps
from vllm_fleet_provider.shared.spelling import canonical_text, tidy
from vllm_fleet_provider.shared.types import Group

SERIES = "vllm_fleet_config_info"
HELP = "Digests of the configuration of this engine (vllm-fleet-dashboard); empty: unknown."
# Increase it when any answer gets another digest: a change here, of the identity settings, or of the spelling.
SCHEME = "3"  # 3: with the draft model's length, without ports and variables of other devices
DIGEST = 16  # hex digits of the SHA-256: 64 bits
# As `fleet.unavailable` names what an empty list does not mean.
ADAPTERS = "fleet.adapters"
GROUPS = frozenset({"kv_cache.groups", "fleet.engines"})
KEPT = ("document", "block_hash", "kv_layout")  # until a restart; adapters are loaded while a server runs
DIGESTS = f"{SERIES}."  # begins the name of a digest: vllm_fleet_config_info.document, of other engines with their rank


class EngineDigests(NamedTuple):
    """The labels of one engine's series, by their names; None: unknown. Only digests of equal `scheme` are comparable.

    `document`: of all settings except identity settings. `block_hash`: `fleet.engines[].fingerprint.engine`.
    `kv_layout`: of the engine's KV cache groups. `adapters`: of the loaded LoRA adapters.
    """

    engine: int
    document: str | None = None
    block_hash: str | None = None
    kv_layout: str | None = None
    adapters: str | None = None
    scheme: str = SCHEME


def digest_answer(answer: InferenceConfigReply) -> EngineDigests | None:
    """Return the digests of the engine that an answer with `full=true` describes; None without `fleet`.

    `document` is None for an answer without settings. Raises ValueError for impossible settings.
    """
    fleet = answer.fleet
    if fleet is None:
        return None
    rank = fleet.data_parallel_rank or 0
    engine = next((each for each in fleet.engines if each.data_parallel_rank == rank), None)
    adapters = ((each.name, each.path) for each in fleet.adapters)
    return (_digest_engine(fleet, engine) if engine else EngineDigests(rank))._replace(
        document=_digest_document(answer, fleet) if fleet.settings else None,
        adapters=None if ADAPTERS in _lacking(fleet) else digest_adapters(adapters),
    )


def kept_digests(found: Iterable[EngineDigests]) -> dict[str, str]:
    """Return by name the digests of this scheme that engines keep until they restart: what an answer proves or not."""
    return {
        f"{DIGESTS}{name}{f'[{each.engine}]' if each.engine else ''}": digest
        for each in found
        if each.scheme == SCHEME
        for name, digest in zip(KEPT, (each.document, each.block_hash, each.kv_layout), strict=True)
        if digest is not None
    }


def digests_of(answer: InferenceConfigReply) -> dict[str, str]:
    """Return the kept digests of all engines that an answer with `full=true` describes; of others without `document`.

    Raises as `digest_answer` does.
    """
    own, fleet = digest_answer(answer), answer.fleet
    if own is None or fleet is None:
        return {}
    others = (_digest_engine(fleet, each) for each in fleet.engines if each.data_parallel_rank != own.engine)
    return kept_digests((own, *others))


def differing_digests(reported: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Return the names of the digests that a server reports on /metrics and its answer does not have."""
    return [name for name, digest in reported.items() if own.get(name, digest) != digest]


def has_digests(own: Mapping[str, str], reported: Mapping[str, str]) -> bool:
    """Return whether an answer has the digests that its server reports; it has the settings of one engine only."""
    documents = {name for name in reported if name.startswith(f"{DIGESTS}document")}
    return not differing_digests(reported, own) and reported.keys() - own.keys() < documents


def _digest_engine(fleet: FleetExtension, engine: EngineInfo) -> EngineDigests:
    has_groups = engine.groups or _lacking(fleet).isdisjoint(GROUPS)
    return EngineDigests(
        engine.data_parallel_rank,
        block_hash=engine.fingerprint.engine,
        kv_layout=_digest_groups(engine.groups) if has_groups else None,
    )


def _lacking(fleet: FleetExtension) -> set[str]:
    return {each.field for each in fleet.unavailable}


def digest_adapters(adapters: Iterable[tuple[str, str | None]]) -> str:
    """Return the digest of loaded LoRA adapters, as (name, path) in any order."""
    return _digest(sorted((name, path or "") for name, path in adapters))


def reported_settings(answer: InferenceConfigReply, fleet: FleetExtension) -> dict[str, Any]:
    """Return `fleet.settings` by path, with what only the engine or the API server knows.

    Raises ValueError where the settings are no configuration.
    """
    settings = flatten(fleet.settings or {})
    resolved = {  # set by the engine: null in the API server's own configuration
        "cache_config.hash_block_size": fleet.prefix_hashing.hash_block_size,
        "cache_config.cache_hit_alignment_tokens": fleet.prefix_hashing.alignment,
    }
    missing = {path: value for path, value in resolved.items() if settings.get(path, ...) is None}
    whole = {**settings, **missing, **own_settings(answer, fleet)}
    refuse_overlaps(whole)
    return whole


def device_names(answer: InferenceConfigReply, fleet: FleetExtension) -> frozenset[str]:
    """Return the names of the accelerators of an answer."""
    return frozenset(
        each.name for devices in (answer.devices, *(one.devices for one in fleet.engines)) for each in devices
    )


def own_settings(answer: InferenceConfigReply, fleet: FleetExtension) -> dict[str, Any]:
    """Return settings by path that vLLM's configuration lacks; an unavailable one is no setting.

    A component that is not installed is null, as are chat template and parser of tool calls of a server without them.
    """
    values = {
        "version": fleet.vllm_version,
        "served_model_names": list(answer.model.served_model_names or ()) or None,
        "seed_policy": fleet.prefix_hashing.seed_policy,
        "chat_template_content_format": fleet.chat.template_content_format,
        "enable_auto_tool_choice": fleet.chat.enable_auto_tool_choice,
        "concurrent_batches": fleet.scheduling.concurrent_batches,
    }
    lacking = _lacking(fleet)
    optional = {"chat_template_digest": "template_digest", "tool_call_parser": "tool_call_parser"}
    chat = {
        path: getattr(fleet.chat, name)
        for path, name in optional.items()
        if name in fleet.chat.model_fields_set and f"fleet.chat.{name}" not in lacking
    }
    return {path: value for path, value in values.items() if value is not None} | chat | _component_versions(fleet)


def _component_versions(fleet: FleetExtension) -> dict[str, str | None]:
    """Return the version of each component by path; none from a provider before schema 1.3."""
    lacking = _lacking(fleet)
    reported = fleet.components.model_dump(exclude_unset=True) if fleet.components else {}
    return {f"components.{name}": each for name, each in reported.items() if f"fleet.components.{name}" not in lacking}


def _digest_document(answer: InferenceConfigReply, fleet: FleetExtension) -> str:
    settings, variables, _ = split_identity(
        reported_settings(answer, fleet), fleet.environment or {}, device_names(answer, fleet)
    )
    settings |= {f"env.{name}": value for name, value in variables.items()}
    values = {path: tidy(path, value) for path, value in settings.items()}
    return _digest([values, fleet.prefix_hashing.lookahead_tokens])


def _digest_groups(groups: Iterable[Group]) -> str:
    return _digest([group.model_dump(mode="json", exclude_none=True) for group in groups])


def _digest(content: Any) -> str:
    return hashlib.sha256(canonical_text(content).encode()).hexdigest()[:DIGEST]
