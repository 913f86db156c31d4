"""Versions of the installed packages that store and transfer KV cache, from their metadata: nothing is imported."""

from __future__ import annotations

from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

if TYPE_CHECKING:
    from vllm_fleet_provider.gathering import Gathering

MAX_LETTERS = 200
Version = Annotated[str, Field(max_length=MAX_LETTERS)]

# `nixl` loads nixl-cu12 or nixl-cu13 by the CUDA version of torch, so these count too: an image with nixl 1.3.1
# loads nixl-cu13 1.3.2 (vllm-project/vllm#51777). On ROCm vLLM loads nixl_rocm (vllm/distributed/nixl_utils.py).
MOONCAKE = "mooncake-transfer-engine"
DISTRIBUTIONS = {
    "lmcache": ("lmcache",),
    "nixl": ("nixl", "nixl-cu12", "nixl-cu13", "nixl-rocm"),
    "mooncake": (
        MOONCAKE,
        *(f"{MOONCAKE}-{kind}" for kind in ("cuda13", "non-cuda", "npu", "rocm", "musa")),
        *(f"{MOONCAKE}-efa{kind}" for kind in ("", "-cuda13", "-non-cuda")),
    ),
}


def components_of(gathering: Gathering) -> dict[str, Any]:
    """Return `fleet.components`: each component's version; None where none of its distributions is installed."""
    return {
        name: gathering.take(f"fleet.components.{name}", partial(_version, distributions), Version | None)
        for name, distributions in DISTRIBUTIONS.items()
    }


def _version(distributions: tuple[str, ...]) -> str | None:
    """Return the version of the installed ones, or `nixl 1.3.1, nixl-cu13 1.3.2` where these differ."""
    found = {name: installed for name in distributions if (installed := _installed(name))}
    versions = set(found.values())
    if len(versions) <= 1:
        return next(iter(versions), None)
    return ", ".join(f"{name} {installed}" for name, installed in found.items())


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
