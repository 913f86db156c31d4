"""One notion of equality per concept: values that mean the same for rules, prefix sharing, KV transfer and baselines.

A function takes a value with the settings of its replica and returns the value that counts for a comparison.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from dashboard.fleet import Setting, SettingValue, State
from vllm_fleet_provider.shared.identity import SNAPSHOT_PATHS, hub_id

MODEL, REVISION, DTYPE_PATH = "model_config.model", "model_config.revision", "model_config.dtype"
TOKENIZER, DRAFT_MODEL = "model_config.tokenizer", "speculative_config.model"
CONFIG_FILE, CACHE_DTYPE = "model_config.hf_config_path", "cache_config.cache_dtype"
AUTO = SettingValue('"auto"', State.REPORTED)
NOT_SET = SettingValue("null", State.NULL)
DEFAULT_BRANCH = SettingValue('"main"', State.REPORTED)  # of Hugging Face where no revision is set
DUMMY = '"dummy"'  # random weights (vllm/config/load.py)
FP8 = {'"fp8"': '"fp8_e4m3"'}  # two names of one format (vllm/config/cache.py)

# The value that counts for a comparison, given the other settings of the same replica; None: it is compared with none.
MeaningOf = Callable[[SettingValue, Mapping[str, Setting]], SettingValue | None]


def without_owner(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Return the name of a model, tokenizer, adapter or file without its owner or the folders above it.

    A mirror, or a copy below another mount, has the same content. A snapshot in the hub's cache has the name of its id.
    """
    name = json.loads(value.value)
    if not isinstance(name, str):
        return value
    return SettingValue(json.dumps(hub_id(name).rstrip("/").rpartition("/")[2], ensure_ascii=False), value.state)


def default_branch(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count the branch `main` as not set."""
    return NOT_SET if value == DEFAULT_BRANCH else value


def own_code_revision(revision: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Count the model's own revision as not set: the code has it by default."""
    own = settings.get(REVISION)
    default = DEFAULT_BRANCH if own is None or own.state is State.NULL else SettingValue(own.value, own.state)
    return NOT_SET if revision == default else revision


def random_weights(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count every load format except `dummy` as `auto`: all of them read the real weights."""
    return value if value.value == DUMMY else AUTO


def resolved_kv_dtype(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Resolve `auto` to the model's dtype, as vLLM does unless the checkpoint names another, and `fp8` to its kind."""
    dtype = settings.get(DTYPE_PATH)
    if value == AUTO and dtype is not None and dtype.state is State.REPORTED:
        return SettingValue(dtype.value, State.REPORTED)
    return value._replace(value=FP8.get(value.value, value.value))


# The settings besides the revision that decide the weights, with what counts of their values.
WEIGHTS: Mapping[str, Callable[[SettingValue, Mapping[str, Setting]], SettingValue]] = {
    MODEL: without_owner,
    "model_config.code_revision": own_code_revision,
    "load_config.load_format": random_weights,
}


class Revision(NamedTuple):
    """The revision of a model that is loaded. `is_pinned`: by name, else it is the commit of a snapshot's folder."""

    value: SettingValue
    is_pinned: bool


def loaded_revision(settings: Mapping[str, Setting]) -> Revision | None:
    """Return the revision of the model: of a snapshot in the hub's cache its commit, else the configured one."""
    snapshot, own = settings.get(SNAPSHOT_PATHS[MODEL]), settings.get(REVISION)
    if snapshot is not None and snapshot.state is State.REPORTED:
        return Revision(SettingValue(snapshot.value, State.REPORTED), is_pinned=False)
    if own is None or own.state not in {State.REPORTED, State.NULL}:
        return None
    return Revision(default_branch(SettingValue(own.value, own.state), settings), is_pinned=True)


def is_same_revision(one: Revision, other: Revision) -> bool | None:
    """Return whether two revisions are the same; None where a replica without one may have loaded that commit."""
    if one.value == other.value:
        return True
    is_open = NOT_SET in (one.value, other.value) and not (one.is_pinned and other.is_pinned)
    return None if is_open else False


def named_revision(value: SettingValue, settings: Mapping[str, Setting], path: str = MODEL) -> SettingValue | None:
    """Return the revision of the model, or of the tokenizer at `path`: that of a snapshot its commit, a folder none."""
    snapshot, name = settings.get(SNAPSHOT_PATHS[path]), settings.get(path)
    if snapshot is not None and snapshot.state is State.REPORTED:
        return SettingValue(snapshot.value, State.REPORTED)
    # Of a folder a document has the last part only; an id without an owner looks like one.
    is_folder = name is not None and "/" not in name.value
    return None if is_folder and value.state is State.NULL else default_branch(value, settings)


# Values that mean the same, by path.
BY_PATH: Mapping[str, MeaningOf] = {
    MODEL: without_owner,
    TOKENIZER: without_owner,
    DRAFT_MODEL: without_owner,
    CONFIG_FILE: without_owner,
    REVISION: named_revision,
    "model_config.tokenizer_revision": partial(named_revision, path=TOKENIZER),
    CACHE_DTYPE: resolved_kv_dtype,
}


def counted(path: str, value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the value that counts for a comparison of a path; None where it is equal to any."""
    meaning = BY_PATH.get(path)
    return value if meaning is None else meaning(value, settings)
