"""How an engine hashes blocks, and its fingerprint: the digest of known blocks by the engine's own functions."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from importlib import import_module
from inspect import getattr_static
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from vllm_fleet_provider.gathering import MISSING, at, found
from vllm_fleet_provider.shared.types import Count, LimitedText, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllm_fleet_provider.gathering import Gathering

CANONICAL_TOKENS = 16  # tokens of a block, to compare engines of any block size: vLLM's default (vllm/config/cache.py)
MAX_TOKENS = 2**20  # of a block: hashing it takes 0.1 s
DIGEST = 16  # hex digits: 64 bits, which do not reveal the hashes
DOMAIN = b"vllm-fleet-fingerprint-1"  # increase the number if the blocks or the digest change
SEED = "PYTHONHASHSEED"
_PLACE = "fleet.prefix_hashing."
_ENABLED = "vllm_config.cache_config.enable_prefix_caching"
_LENGTH: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1, le=MAX_TOKENS)])
_TOKENS: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=0, le=MAX_TOKENS)])
NO_HASHES = "prefix caching is off, so this engine hashes no blocks"
FOR_CONNECTOR = "prefix caching is off; the KV connector makes this engine hash blocks"


def configured_hashing(vllm_config: Any, gathering: Gathering) -> dict[str, Any]:
    """Return the fields of `fleet.prefix_hashing` that a configuration has; only the engine knows the others."""
    fields = {
        "enabled": ("enable_prefix_caching", bool),
        "algorithm": ("prefix_caching_hash_algo", LimitedText),
        "match_unit": ("prefix_match_unit", Size | None),
    }
    known = {
        name: gathering.take(_PLACE + name, partial(at, vllm_config, f"cache_config.{path}"), shape)
        for name, (path, shape) in fields.items()
    }
    known["lookahead_tokens"] = gathering.take(_PLACE + "lookahead_tokens", lambda: _lookahead(vllm_config), Count)
    return {**known, **dict.fromkeys(("hash_block_size", "alignment", "seed_policy"))}


def hashing_of(core: Any, gathering: Gathering) -> dict[str, Any]:
    """Return `fleet.prefix_hashing` of an engine core."""
    own = {
        "hash_block_size": (lambda: _hash_block_size(core), Size | None),
        "alignment": (lambda: core.scheduler.kv_cache_config.cache_hit_alignment_tokens, Size | None),
        "seed_policy": (lambda: _seed_policy(core), LimitedText | None),
    }
    known = {name: gathering.take(_PLACE + name, read, shape) for name, (read, shape) in own.items()}
    return {**configured_hashing(found(core, "vllm_config"), gathering), **known}


def fingerprint_of(core: Any, gathering: Gathering) -> dict[str, str | None]:
    """Return the digests at the canonical and at the engine's block length; null, with a reason, without hashes."""
    if not _hashes(core):
        return {"canonical": None, "engine": None, "reason": NO_HASHES}
    canonical = gathering.take(
        "fleet.engines.fingerprint.canonical", lambda: _digest(core, CANONICAL_TOKENS), LimitedText
    )
    own = gathering.take("fleet.engines.fingerprint.engine", lambda: _digest(core, _hash_block_size(core)), LimitedText)
    return {"canonical": canonical, "engine": own, "reason": _remark(core, is_whole=bool(canonical and own))}


def _remark(core: Any, *, is_whole: bool) -> str | None:
    if not is_whole:
        return "this vLLM hashes blocks in a way that the provider does not know"
    return FOR_CONNECTOR if found(core, _ENABLED) is False else None


def _hashes(core: Any) -> bool:
    """Return whether the engine hashes blocks: only then it has a root (vllm/v1/engine/core.py)."""
    hasher = found(core, "request_block_hasher")
    # A version without this attribute hashes blocks if prefix caching is on.
    return found(core, _ENABLED) is True if hasher is MISSING else hasher is not None


def _hash_block_size(core: Any) -> int:
    """Return the tokens that one hash covers; its place depends on the version."""
    places = ("scheduler.kv_cache_config.hash_block_size", "scheduler.hash_block_size")
    lengths = [length for place in places if (length := found(core, place)) is not MISSING and length is not None]
    return _LENGTH.validate_python(lengths[0] if lengths else core.vllm_config.cache_config.block_size, strict=True)


def _lookahead(vllm_config: Any) -> int:
    """Return how many tokens after a block its hash also covers; 0 for a vLLM without lookahead."""
    if vllm_config is MISSING:
        raise AttributeError("vllm_config")
    # Looked up statically: an AttributeError inside the property would look like a vLLM without it.
    if getattr_static(vllm_config, "num_hash_lookahead_tokens", MISSING) is MISSING:
        return 0
    return _TOKENS.validate_python(vllm_config.num_hash_lookahead_tokens, strict=True)


def _digest(core: Any, tokens: int) -> str:
    """Return the digest of the hashes of the blocks 0..n-1 and n..2n-1 of a text request with the tokens 0, 1, 2, ...

    Extra keys as in vllm/v1/core/kv_cache_utils.py, get_request_block_hasher: none without lookahead.
    """
    hash_tokens = import_module("vllm.v1.core.kv_cache_utils").hash_block_tokens
    function, ahead = _function(core), _lookahead(core.vllm_config)

    def hash_of(number: int, parent: Any) -> Any:
        end = (number + 1) * tokens
        extra_keys = (None, *range(end, end + ahead)) if ahead else None
        return hash_tokens(function, parent, range(number * tokens, end), extra_keys)

    first = hash_of(0, None)
    second = hash_of(1, first)
    both = b"".join(_framed(block_hash) for block_hash in (first, second))
    return hashlib.sha256(DOMAIN + both).hexdigest()[:DIGEST]


def _framed(block_hash: Any) -> bytes:
    """Return a hash after its length. Before vLLM 0.11 hashes were not bytes."""
    text = block_hash if isinstance(block_hash, bytes) else repr(block_hash).encode()
    return len(text).to_bytes(8) + text


def _function(core: Any) -> Callable[[Any], bytes]:
    """Return the hash function, looked up as the engine core does."""
    engine = import_module("vllm.v1.engine.core")
    found: Callable[[Any], bytes] = engine.get_hash_fn_by_name(core.vllm_config.cache_config.prefix_caching_hash_algo)
    return found


def _seed_policy(core: Any) -> str | None:
    """Return the source of the hash seed (vllm/v1/core/kv_cache_utils.py, resolve_none_hash_seed)."""
    if not _hashes(core):
        return None
    if SEED in os.environ:
        return "environment"
    utils = import_module("vllm.v1.core.kv_cache_utils")
    default = getattr(utils, "DEFAULT_NONE_HASH_SEED", None)
    is_default = default is not None and _function(core)(default) == utils.NONE_HASH
    return "default" if is_default else "random"
