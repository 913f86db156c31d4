"""The dashboard's provider as a plugin of vLLM: its name, which vLLM may load it, and what prints the line for it."""

from __future__ import annotations

from dashboard.normalize.versions import release

NAME = "fleet_config"  # in VLLM_PLUGINS and in both groups of entry points
ASKED = "python -m dashboard.provider"  # prints the line that names what vLLM loads now, and the provider
TRIED_SINCE = (0, 26)  # the first release that the provider was tried with; 0.20.2 loads no endpoint plugins


def is_older(version: str | None) -> bool:
    """Say whether a vLLM is older than any that the provider was tried with; one that is not known is not."""
    numbers = release(version or "")
    return numbers is not None and tuple(map(int, numbers.split(".")[:2])) < TRIED_SINCE
