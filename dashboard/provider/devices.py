"""The devices of an engine and their parallel ranks, as its workers report them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dashboard.vllm.schemas.inference_config import EngineDevice

if TYPE_CHECKING:
    from collections.abc import Callable

    from dashboard.provider.gathering import Gathering


def devices_of(core: Any, gathering: Gathering) -> list[dict[str, Any]]:
    """Return what the workers of an engine core report through its executor; empty if they do not answer.

    There is no timeout: a late answer would be read as the answer to the executor's next call
    (vllm/v1/executor/multiproc_executor.py).
    """
    read = worker_reader()
    answers = gathering.take("devices", lambda: core.model_executor.collective_rpc(read), list[dict[str, Any]])
    devices = [
        gathering.take(f"devices[{number}]", partial(_device, answer), dict[str, Any])
        for number, answer in enumerate(answers or ())
    ]
    return [device for device in devices if device is not None]


def worker_reader() -> Callable[[Any], dict[str, Any]]:
    """Return the function that each worker runs.

    Nested functions are pickled by value, so a worker on another machine needs nothing installed. It never raises: if
    one worker failed, the answers of the others would be read as answers to the executor's next call.
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


def _device(answer: dict[str, Any]) -> dict[str, Any]:
    return EngineDevice.model_validate(answer).model_dump(mode="json")
