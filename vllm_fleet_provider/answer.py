"""Build the bytes of one answer, bounded, with its ETag, from the descriptions of engines and API server."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider import __version__
from vllm_fleet_provider.front import BLOCK_SIZE
from vllm_fleet_provider.shared.inference_config import MAX_UNAVAILABLE, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_BYTES = 2 * 1024 * 1024  # a full answer of vLLM 0.32.0 has 40 KB
TOO_LARGE = f"the answer would have more than {MAX_BYTES:,} bytes"
LEFT_OUT: dict[str, Any] = {"settings": None, "environment": None, "adapters": [], "engines": []}  # in this order
NO_ADAPTERS = {"field": "fleet.adapters", "reason": "this vLLM does not have it"}


@dataclass(frozen=True, slots=True)
class GatheredAnswers:
    """The answers of the engines and the API server. `engines` has one description (`engine.describe`) per rank."""

    engines: tuple[Mapping[str, Any], ...]
    served_model_names: Sequence[str] | None
    parallelism: Mapping[str, Any]
    chat: Mapping[str, Any]
    unavailable: Sequence[Mapping[str, str]] = field(default_factory=list)
    block_size: int | None = None
    set_arguments: Sequence[Mapping[str, str]] | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The DP ranks that a request may name; the first is the default."""
        return tuple(one["engine"]["data_parallel_rank"] for one in self.engines)


@dataclass(frozen=True, slots=True)
class TaggedBody:
    """A body and its ETag; None where the adapters are unknown: an equal body would not prove that nothing changed."""

    body: bytes
    etag: str | None


def answer(
    gathered: GatheredAnswers, adapters: Sequence[Mapping[str, Any]] | None, rank: int, *, full: bool
) -> TaggedBody:
    """Return the answer for one of `gathered.ranks`. Raises ValueError if the shortest answer is too large."""
    chosen = next(one for one in gathered.engines if one["engine"]["data_parallel_rank"] == rank)
    content = {**_seed(gathered, chosen), "fleet": _fleet(gathered, chosen, adapters)}
    if full:
        content["fleet"] |= {"settings": _settings(gathered, chosen), "environment": chosen["environment"]}
    body = _bounded(content)
    has_adapters = content["fleet"]["adapters"] == adapters
    return TaggedBody(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"' if has_adapters else None)


def _seed(gathered: GatheredAnswers, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seed's sections for one rank."""
    engine, sections = chosen["engine"], chosen["sections"]
    own = {**sections["parallelism"], **gathered.parallelism, "data_parallel_rank": engine["data_parallel_rank"]}
    return {
        "model": {"served_model_names": gathered.served_model_names, **sections["model"]},
        "kv_cache": {"num_gpu_blocks": engine["num_gpu_blocks"], **sections["kv_cache"], "groups": engine["groups"]},
        "scheduler": sections["scheduler"],
        "parallelism": own,
        "devices": [
            {name: value for name, value in device.items() if not name.endswith("_parallel_rank") and name != "memory"}
            for device in engine["devices"]
        ],
        "speculative_decoding": sections["speculative_decoding"],
        "lora": sections["lora"],
        "hma": sections["hma"],
    }


def _fleet(
    gathered: GatheredAnswers, chosen: Mapping[str, Any], adapters: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    engines = [one["engine"] for one in gathered.engines]
    lacking = [*gathered.unavailable, *_lacking(gathered), *([NO_ADAPTERS] if adapters is None else [])]
    fleet = {
        "schema_version": SCHEMA_VERSION,
        "provider_version": __version__,
        **chosen["fleet"],
        "started_at": min((one["started_at"] for one in engines if one["started_at"]), default=None),
        "data_parallel_rank": chosen["engine"]["data_parallel_rank"],
        "engines": engines,
        "chat": gathered.chat,
        "adapters": adapters or [],
        "set_arguments": gathered.set_arguments,
        "settings": None,
        "environment": None,
        "unavailable": lacking[: MAX_UNAVAILABLE - len(LEFT_OUT)],
    }
    fleet["prefix_hashing"] = {**chosen["fleet"]["prefix_hashing"], "engines_agree": _agree(engines)}
    return fleet


def _lacking(gathered: GatheredAnswers) -> list[Mapping[str, str]]:
    """Return the unavailable fields of all engines without duplicates."""
    found = {(one["field"], one["reason"]): one for engine in gathered.engines for one in engine["unavailable"]}
    return list(found.values())


def _agree(engines: Sequence[Mapping[str, Any]]) -> bool | None:
    """Return whether all engines of this server hash blocks alike; None if one has no fingerprint."""
    digests = {one["fingerprint"]["engine"] for one in engines}
    return None if None in digests else len(digests) == 1


def _settings(gathered: GatheredAnswers, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's settings with the requested sizes and the effective block size."""
    known = {f"parallel_config.{name}": value for name, value in gathered.parallelism.items()}
    known[BLOCK_SIZE] = gathered.block_size
    own = chosen["settings"]
    return {**own, **{path: value for path, value in known.items() if path in own and value is not None}}


def _bounded(content: dict[str, Any]) -> bytes:
    """Return the body. Fields that make it too large are left out and listed as unavailable. Raises ValueError."""
    fleet, body = content["fleet"], _encoded(content)
    for name, nothing in LEFT_OUT.items():
        if len(body) > MAX_BYTES and fleet[name]:
            fleet["unavailable"].append({"field": f"fleet.{name}", "reason": TOO_LARGE})
            fleet[name] = nothing
            body = _encoded(content)
    if len(body) > MAX_BYTES:
        raise ValueError(TOO_LARGE)
    return body


def _encoded(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
