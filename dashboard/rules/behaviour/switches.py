"""Switches of vLLM's environment, as replies tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashboard.fleet import Told

ON = ("true", "1", '"1"', '"true"', '"True"')  # as canonical JSON; vllm/envs.py reads 1, replies tell true


def is_on(told: Told) -> bool:
    """Tell whether a switch is on."""
    return told.value in ON
