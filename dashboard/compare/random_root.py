"""Where each engine process makes up the root of its block hashes, unless PYTHONHASHSEED is set."""

import json

from dashboard.compare.prefix import ALGORITHM_PATH, VERSION_PATH, FindingContext
from dashboard.fleet import State
from dashboard.vllm.versions import has_change

FIXED_SINCE = (0, 29, 0)  # vllm-project/vllm#51875: a fixed seed for algorithms that resist collisions
RANDOM_WITH = "xxhash"  # how the names of algorithms begin that do not (vllm/v1/core/kv_cache_utils.py)
SEED_POLICY_PATH, SEED_PATH = "seed_policy", "env.PYTHONHASHSEED"
SEED_PATHS = (SEED_POLICY_PATH, SEED_PATH)  # where the first hash of a chain comes from
_RANDOM = '"random"'


def is_random(told: FindingContext) -> bool:
    """Say whether settings tell that each engine process makes up its root: no seed is set, or that it is random."""
    if SEED_POLICY_PATH in told:
        return told[SEED_POLICY_PATH].value == _RANDOM
    return SEED_PATH in told and told[SEED_PATH].state is State.NULL and bool(made_up(told))


def is_doubtful(told: FindingContext) -> bool:
    """Say whether a root is made up unless a seed is set, and nobody tells whether one is."""
    return not told.keys() & set(SEED_PATHS) and bool(made_up(told))


def made_up(told: FindingContext) -> str:
    """Say where roots are made up without a seed: `with xxhash`, `before vLLM 0.29`; nothing where not, or not told."""
    if str(_value(told, ALGORITHM_PATH)).startswith(RANDOM_WITH):
        return f"with {RANDOM_WITH}"
    is_old = has_change(str(_value(told, VERSION_PATH)), FIXED_SINCE) is False
    return "before vLLM {}.{}".format(*FIXED_SINCE) if is_old else ""


def _value(told: FindingContext, path: str) -> object:
    return json.loads(told[path].value) if path in told else None
