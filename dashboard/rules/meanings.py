"""What a value stands for, where one thing can be said in several ways."""

import re
from collections.abc import Mapping

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.connectors import value
from dashboard.rules.holders import NOT_SET
from dashboard.rules.subject import Holders, PoolSubject

CACHE_DTYPE, DTYPE = "cache_config.cache_dtype", "model_config.dtype"
AUTO = SettingValue('"auto"', State.REPORTED)
NO = SettingValue("false", State.REPORTED)
DEFAULT_BRANCH = SettingValue('"main"', State.REPORTED)  # what Hugging Face gives when no revision is asked for
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a Python object: another one in every process
DUMMY = '"dummy"'  # random weights (vllm/config/load.py)
FP8 = {'"fp8"': '"fp8_e4m3"'}  # two names of one format (vllm/config/cache.py)


def effective(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Resolve `auto` to the model's format, as vLLM does unless the checkpoint names another, and `fp8` to its kind."""
    if told == AUTO and isinstance(value(settings, DTYPE), str):
        return SettingValue(settings[DTYPE].value, State.REPORTED)
    return told._replace(value=FP8.get(told.value, told.value))


def branch(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """Take the default branch for what is meant where no revision is asked for."""
    return NOT_SET if told == DEFAULT_BRANCH else told


def weights_format(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """Count every format that reads real weights as `auto`: only `dummy` is another model."""
    return told if told.value == DUMMY else AUTO


def without_empty(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """Count an empty object as not set, and drop the memory addresses that Python writes into an object's name."""
    return NOT_SET if told.value == "{}" else told._replace(value=ADDRESS.sub("", told.value))


def unset_is_false(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """Take `false` for a switch that is not set."""
    return NO if told.state is State.NULL else told


def revisions(pool: PoolSubject, path: str, snapshot: str, unpinned: SettingValue) -> Holders:
    """Return who loaded which revision: what was asked for, else the commit of the hub's snapshot that was loaded.

    `unpinned` is what stands for no revision. Where nobody pins one, it agrees with every commit: it is left out where
    commits are told.
    """

    def loaded(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
        if branch(told, settings) != NOT_SET:
            return told
        return (
            SettingValue(settings[snapshot].value, State.REPORTED)
            if value(settings, snapshot) is not None
            else unpinned
        )

    holders = pool.values(path, loaded)
    is_pinned = pool.values(path, branch).keys() - {NOT_SET}
    commits = {told: replicas for told, replicas in holders.items() if told != unpinned}
    return commits if commits and not is_pinned else holders
