"""Devices as configuration endpoints tell them."""

from typing import Annotated

from pydantic import Field

from dashboard.vllm.schemas.base import Count, Text, Wire

MAX_DEVICES = 4096


class ComputeCapability(Wire):
    """CUDA's compute capability."""

    major: Count = Field(description="The number before the point.")
    minor: Count = Field(description="The number after it.")


class DeviceReply(Wire):
    """One accelerator of the engine; a platform without compute capability answers null."""

    rank: Count = Field(description="The worker's rank in the engine.")
    name: Text = Field(description="As the platform calls it (current_platform.get_device_name).")
    total_memory_bytes: Count | None = Field(default=None, description="Bytes of its memory (get_device_total_memory).")
    compute_capability: ComputeCapability | None = Field(default=None, description="Null where the platform has none.")
    num_compute_units: Count | None = Field(
        default=None, description="Multiprocessors (num_compute_units); threads on a CPU."
    )


Devices = Annotated[tuple[DeviceReply, ...], Field(max_length=MAX_DEVICES)]
