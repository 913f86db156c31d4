"""The devices of an engine: each worker says what it runs on, and where it stands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dashboard.vllm.schemas.inference_config import EngineDevice

if TYPE_CHECKING:
    from collections.abc import Callable

    from dashboard.provider.gathering import Gathering


def devices_of(core: Any, gathering: Gathering) -> list[dict[str, Any]]:
    """Ask the workers of an engine core, by its own executor; an empty list where they do not say.

    Without a timeout: an answer that comes after it would be taken for the answer to the executor's next call
    (vllm/v1/executor/multiproc_executor.py).
    """
    told = gathering.take("devices", lambda: core.model_executor.collective_rpc(worker_reader()), list[dict[str, Any]])
    devices = [
        gathering.take(f"devices[{place}]", partial(_device, one), dict[str, Any])
        for place, one in enumerate(told or ())
    ]
    return [device for device in devices if device is not None]


def worker_reader() -> Callable[[Any], dict[str, Any]]:
    """Return the function that each worker runs.

    It is sent by value, because nested functions are; so a worker on another machine needs nothing installed. It never
    raises: one worker that fails while others answer would leave their answers for the executor's next call.
    """

    def read(worker: Any) -> dict[str, Any]:
        def tried(call: Callable[[], Any]) -> Any:
            try:
                return call()
            except Exception:  # noqa: BLE001  see above
                return None

        def platform() -> Any:
            from vllm.platforms import current_platform  # noqa: PLC0415  in the worker only

            return current_platform

        def group(name: str) -> Any:
            from vllm.distributed import parallel_state  # noqa: PLC0415  in the worker only

            return getattr(parallel_state, name)().rank_in_group

        index = tried(lambda: worker.device.index) or 0
        capability = tried(lambda: platform().get_device_capability(index))
        return {
            "rank": tried(lambda: int(worker.rank)),
            "name": tried(lambda: str(platform().get_device_name(index))),
            "total_memory_bytes": tried(lambda: int(platform().get_device_total_memory(index))),
            "compute_capability": tried(lambda: {"major": int(capability.major), "minor": int(capability.minor)}),
            "num_compute_units": tried(lambda: int(platform().num_compute_units(index))),
            "tensor_parallel_rank": tried(lambda: int(group("get_tp_group"))),
            "pipeline_parallel_rank": tried(lambda: int(group("get_pp_group"))),
        }

    return read


def _device(told: dict[str, Any]) -> dict[str, Any]:
    return EngineDevice.model_validate(told).model_dump(mode="json")
