"""Devices as configuration endpoints tell them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dashboard.schemas.base import Count, Text, Wire

MAX_DEVICES = 4096


class ComputeCapability(Wire):
    """CUDA's compute capability."""

    major: Count
    minor: Count


class DeviceReply(Wire):
    """One accelerator of the engine; a platform without compute capability answers null."""

    rank: Count
    name: Text
    total_memory_bytes: Count | None = None
    compute_capability: ComputeCapability | None = None
    num_compute_units: Count | None = None


Devices = Annotated[tuple[DeviceReply, ...], Field(max_length=MAX_DEVICES)]
