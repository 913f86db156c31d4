"""Fingerprints of simulated engines: equal if and only if algorithm, root and block length are equal."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

from dashboard.compare.prefix import RANDOM_WITH
from dashboard.fleet import EngineFingerprint

CANONICAL_TOKENS = 16  # of the block of the canonical digest: vLLM's default
DIGEST = 16  # hex digits
FIXED_ROOT = "vllm-none-hash"  # vllm/v1/core/kv_cache_utils.py, DEFAULT_NONE_HASH_SEED
SEED = "PYTHONHASHSEED"
NO_HASHES = "prefix caching is off, so this engine hashes no blocks"


def seed_policy(
    cache_config: Mapping[str, Any], environment: Mapping[str, str]
) -> Literal["default", "environment", "random"] | None:
    """Return the source of the hash seed, as the provider does; None without hashes."""
    if not cache_config["enable_prefix_caching"]:
        return None
    if SEED in environment:
        return "environment"
    return "random" if cache_config["prefix_caching_hash_algo"].startswith(RANDOM_WITH) else "default"


def fingerprint(cache_config: Mapping[str, Any], environment: Mapping[str, str], process: str) -> EngineFingerprint:
    """Return the fingerprint of an engine with this `CacheConfig`; `process` is a unique name."""
    policy = seed_policy(cache_config, environment)
    if policy is None:
        return EngineFingerprint(None, None, NO_HASHES)
    roots = {"random": process, "default": FIXED_ROOT, "environment": f"seed {environment.get(SEED)}"}
    hashed = cache_config["prefix_caching_hash_algo"], roots[policy]
    return EngineFingerprint(_digest(*hashed, CANONICAL_TOKENS), _digest(*hashed, cache_config["block_size"]), None)


def _digest(algorithm: str, root: str, tokens: int) -> str:
    return sha256(f"{algorithm} {root} {tokens}".encode()).hexdigest()[:DIGEST]
