"""Switches of vLLM's environment, as replies tell them."""

from dashboard.fleet import SettingValue

ON = ("true", "1", '"1"', '"true"', '"True"')  # as canonical JSON; vllm/envs.py reads 1, replies tell true


def is_on(told: SettingValue) -> bool:
    """Tell whether a switch is on."""
    return told.value in ON
