"""Fingerprints of simulated engines: equal where algorithm, root and block length are equal, and nowhere else."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

from dashboard.compare.prefix import RANDOM_WITH
from dashboard.fleet import Fingerprint

CANONICAL_TOKENS = 16  # of the block that all engines hash alike, whatever their own block size: vLLM's default
DIGEST = 16  # hex digits
FIXED_ROOT = "vllm-none-hash"  # vllm/v1/core/kv_cache_utils.py, DEFAULT_NONE_HASH_SEED
NO_HASHES = "prefix caching is off, so this engine hashes no blocks"


def seed_policy(cache_config: Mapping[str, Any]) -> Literal["default", "random"] | None:
    """Say where the root comes from, as the provider does; None where nothing is hashed."""
    if not cache_config["enable_prefix_caching"]:
        return None
    return "random" if cache_config["prefix_caching_hash_algo"].startswith(RANDOM_WITH) else "default"


def fingerprint(cache_config: Mapping[str, Any], process: str) -> Fingerprint:
    """Return what an engine with this `CacheConfig` hashes known blocks to; `process` is the only one of its name."""
    policy = seed_policy(cache_config)
    if policy is None:
        return Fingerprint(None, None, NO_HASHES)
    hashed = cache_config["prefix_caching_hash_algo"], process if policy == "random" else FIXED_ROOT
    return Fingerprint(_digest(*hashed, CANONICAL_TOKENS), _digest(*hashed, cache_config["block_size"]), None)


def _digest(algorithm: str, root: str, tokens: int) -> str:
    return sha256(f"{algorithm} {root} {tokens}".encode()).hexdigest()[:DIGEST]
