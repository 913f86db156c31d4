"""The settings that decide block hashes and KV cache, and the seed that block hashes start from.

vLLM hashes each block together with its parent; the first parent is made from a seed
(vllm/v1/core/kv_cache_utils.py, resolve_none_hash_seed). Equal tokens have equal hashes only under equal seeds.
"""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Setting, SettingValue, State
from dashboard.vllm.versions import VERSION, reports_change

VERSION_PATH = VERSION
CACHING_PATH = "cache_config.enable_prefix_caching"
ALGORITHM_PATH = "cache_config.prefix_caching_hash_algo"
LENGTH_PATHS = ("cache_config.block_size", "cache_config.hash_block_size", "cache_config.prefix_match_unit")
# The rows of the prefix band, and what stands first wherever settings are listed. What decides the verdict on sharing
# is listed beside it (compare/sharing.py).
PREFIX_PATHS = (VERSION_PATH, CACHING_PATH, ALGORITHM_PATH, *LENGTH_PATHS)
SEED_POLICY_PATH, SEED_PATH = "seed_policy", "env.PYTHONHASHSEED"  # only the provider reports the policy
SEED_PATHS = (SEED_POLICY_PATH, SEED_PATH)
# Equal hashes name equal tokens. Replicas share a prefix only if they also run the same weights, and allocate blocks of
# the same tokens: one hash names 64 tokens here and 128 there where a match unit is finer than the block.
BLOCK_SIZE_PATH = LENGTH_PATHS[0]
MODEL_PATH, REVISION_PATH = "model_config.model", "model_config.revision"
WEIGHTS_PATHS = (MODEL_PATH, REVISION_PATH, "model_config.code_revision", "load_config.load_format")
CONNECTOR_PATH = "kv_transfer_config.kv_connector"

FIXED_SINCE = (0, 29, 0)  # vllm-project/vllm#51875: a fixed seed for collision-resistant algorithms
RANDOM_WITH = "xxhash"  # prefix of the algorithms without a fixed seed (vllm/v1/core/kv_cache_utils.py)
FIXED_WITH = "sha256"  # prefix of the collision-resistant algorithms
LONGEST_SEED = 10  # digits: Python takes seeds up to 4294967295
RANDOM, DEFAULT, ENVIRONMENT = '"random"', '"default"', '"environment"'  # values of the seed policy

Values = Mapping[str, SettingValue]  # by path, only settings that have a value


class SeedKind(StrEnum):
    """The origin of the seed of the block hashes, as sentences name it."""

    FIXED = "the fixed one of vLLM 0.29 and later"
    RANDOM = "random"
    SEED = "from PYTHONHASHSEED"


class HashSeed(NamedTuple):
    """The seed of the block hashes. `path` and `value` decide it; `is_certain`: the seed setting is reported."""

    kind: SeedKind
    path: str
    value: SettingValue
    is_certain: bool


def short_name(path: str) -> str:
    return "vLLM version" if path == VERSION_PATH else path.rpartition(".")[2]


def known_values(settings: Mapping[str, Setting], paths: Iterable[str]) -> Values:
    """Return the values of some paths, without paths that have none."""
    found = {path: lookup_value(settings, path) for path in paths}
    return {path: value for path, value in found.items() if value is not None}


def differing_paths(one: Values, other: Values, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of some paths that have different values on two sides."""
    return tuple(path for path in paths if path in one and path in other and one[path] != other[path])


def hash_seed(values: Values) -> HashSeed | None:
    """Return the seed of the block hashes; None where no setting decides it. A configured seed wins."""
    seed, policy = values.get(SEED_PATH), values.get(SEED_POLICY_PATH)
    if seed is not None and seed.state is State.REPORTED:
        return HashSeed(SeedKind.SEED, SEED_PATH, seed_number(seed), is_certain=True)
    if policy is not None and policy.value == ENVIRONMENT:
        return HashSeed(SeedKind.SEED, SEED_POLICY_PATH, policy, is_certain=True)
    known = policy.value if policy is not None and policy.value in {DEFAULT, RANDOM} else None
    return _unseeded(values, known, is_certain=seed is not None or known is not None)


def random_seed_cause(values: Values) -> str:
    """Return why engines use a random seed unless one is set: `with xxhash`, `before vLLM 0.29`; empty if not."""
    if ALGORITHM_PATH in values and _starts_with(values[ALGORITHM_PATH], RANDOM_WITH):
        return f"with {RANDOM_WITH}"
    is_old = reports_change(values, FIXED_SINCE) is False
    return "before vLLM {}.{}".format(*FIXED_SINCE) if is_old else ""


def is_fixed(algorithm: SettingValue) -> bool:
    """Return whether vLLM 0.29 and later has a fixed seed for a hash algorithm."""
    return _starts_with(algorithm, FIXED_WITH)


def _unseeded(values: Values, policy: str | None, *, is_certain: bool) -> HashSeed | None:
    """Return the seed that vLLM chooses: by the reported policy, else by the version and the algorithm."""
    version, algorithm = values.get(VERSION_PATH), values.get(ALGORITHM_PATH)
    has_fixed = reports_change(values, FIXED_SINCE)
    if version is not None and has_fixed is False and policy != DEFAULT:
        return HashSeed(SeedKind.RANDOM, VERSION_PATH, version, is_certain)
    if algorithm is None:
        return HashSeed(SeedKind.RANDOM, SEED_POLICY_PATH, values[SEED_POLICY_PATH], True) if policy == RANDOM else None
    if policy == RANDOM or (policy is None and _starts_with(algorithm, RANDOM_WITH)):
        return HashSeed(SeedKind.RANDOM, ALGORITHM_PATH, algorithm, is_certain)
    if policy == DEFAULT or (has_fixed and is_fixed(algorithm)):
        return HashSeed(SeedKind.FIXED, ALGORITHM_PATH, algorithm, is_certain)
    return None


def seed_number(seed: SettingValue) -> SettingValue:
    """Return a seed in one spelling: `0` and `00` are the same seed."""
    value = json.loads(seed.value)
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= LONGEST_SEED
    return SettingValue(json.dumps(int(value)), seed.state) if is_number else seed


def _starts_with(algorithm: SettingValue, name: str) -> bool:
    value = json.loads(algorithm.value)
    return isinstance(value, str) and value.startswith(name)
