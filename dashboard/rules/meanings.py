"""What a value stands for, where one thing can be said in several ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.models import State, Told
from dashboard.rules.connectors import value
from dashboard.rules.holders import NOT_SET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboard.models import Setting

CACHE_DTYPE, DTYPE = "cache_config.cache_dtype", "model_config.dtype"
AUTO = Told('"auto"', State.REPORTED)
DEFAULT_BRANCH = Told('"main"', State.REPORTED)  # what Hugging Face gives when no revision is asked for
FP8 = {'"fp8"': '"fp8_e4m3"'}  # two names of one format (vllm/config/cache.py)


def effective(told: Told, settings: Mapping[str, Setting]) -> Told:
    """Resolve `auto` to the model's format, as vLLM does unless the checkpoint names another, and `fp8` to its kind."""
    if told == AUTO and isinstance(value(settings, DTYPE), str):
        return Told(settings[DTYPE].value, State.REPORTED)
    return told._replace(value=FP8.get(told.value, told.value))


def branch(told: Told, _settings: Mapping[str, Setting]) -> Told:
    """Take the default branch for what is meant where no revision is asked for."""
    return NOT_SET if told == DEFAULT_BRANCH else told
