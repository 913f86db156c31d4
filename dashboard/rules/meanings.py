"""What a value stands for, where one thing can be said in several ways."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dashboard.fleet import State, Told
from dashboard.rules.connectors import value
from dashboard.rules.holders import NOT_SET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboard.fleet import Setting
    from dashboard.rules.subject import Holders, PoolSubject

CACHE_DTYPE, DTYPE = "cache_config.cache_dtype", "model_config.dtype"
AUTO = Told('"auto"', State.REPORTED)
NO = Told("false", State.REPORTED)
DEFAULT_BRANCH = Told('"main"', State.REPORTED)  # what Hugging Face gives when no revision is asked for
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a Python object: another one in every process
DUMMY = '"dummy"'  # random weights (vllm/config/load.py)
FP8 = {'"fp8"': '"fp8_e4m3"'}  # two names of one format (vllm/config/cache.py)


def effective(told: Told, settings: Mapping[str, Setting]) -> Told:
    """Resolve `auto` to the model's format, as vLLM does unless the checkpoint names another, and `fp8` to its kind."""
    if told == AUTO and isinstance(value(settings, DTYPE), str):
        return Told(settings[DTYPE].value, State.REPORTED)
    return told._replace(value=FP8.get(told.value, told.value))


def branch(told: Told, _settings: Mapping[str, Setting]) -> Told:
    """Take the default branch for what is meant where no revision is asked for."""
    return NOT_SET if told == DEFAULT_BRANCH else told


def weights_format(told: Told, _settings: Mapping[str, Setting]) -> Told:
    """Count every format that reads real weights as `auto`: only `dummy` is another model."""
    return told if told.value == DUMMY else AUTO


def without_empty(told: Told, _settings: Mapping[str, Setting]) -> Told:
    """Count an empty object as not set, and drop the memory addresses that Python writes into an object's name."""
    return NOT_SET if told.value == "{}" else told._replace(value=ADDRESS.sub("", told.value))


def unset_is_false(told: Told, _settings: Mapping[str, Setting]) -> Told:
    """Take `false` for a switch that is not set."""
    return NO if told.state is State.NULL else told


def revisions(pool: PoolSubject, path: str, snapshot: str, unpinned: Told) -> Holders:
    """Return who loaded which revision: what was asked for, else the commit of the hub's snapshot that was loaded.

    `unpinned` is what stands for no revision. Where nobody pins one, it agrees with every commit: it is left out where
    commits are told.
    """

    def loaded(told: Told, settings: Mapping[str, Setting]) -> Told:
        if branch(told, settings) != NOT_SET:
            return told
        return Told(settings[snapshot].value, State.REPORTED) if value(settings, snapshot) is not None else unpinned

    holders = pool.values(path, loaded)
    is_pinned = pool.values(path, branch).keys() - {NOT_SET}
    commits = {told: replicas for told, replicas in holders.items() if told != unpinned}
    return commits if commits and not is_pinned else holders
