"""The dashboard's provider as a plugin of vLLM: its name, which vLLM may load it, and what prints the line for it."""

from dashboard.vllm.versions import has_change

NAME = "fleet_config"  # in VLLM_PLUGINS and in both groups of entry points
ASKED = "python -m dashboard.provider"  # prints the line that names what vLLM loads now, and the provider
TRIED_SINCE = (0, 26, 0)  # the first release that the provider was tried with; 0.20.2 loads no endpoint plugins


def is_older(version: str | None) -> bool:
    """Say whether a vLLM is older than any that the provider was tried with; one that is not known is not."""
    return has_change(version, TRIED_SINCE) is False
