"""The devices of an engine and their parallel ranks, as its workers report them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider.gathering import MISSING, found
from vllm_fleet_provider.shared.inference_config import EngineDevice

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllm_fleet_provider.gathering import Gathering

GIVEN = "vLLM does not measure the parts where the size of the KV cache is given"
NOT_MEASURED = "this kind of worker, or this vLLM, does not keep the missing parts"


def devices_of(core: Any, gathering: Gathering) -> list[dict[str, Any]]:
    """Return what the workers of an engine core report through its executor; empty if they do not answer.

    There is no timeout: a late answer would be read as the answer to the executor's next call
    (vllm/v1/executor/multiproc_executor.py).
    """
    read = worker_reader()
    answers = gathering.take("devices", lambda: core.model_executor.collective_rpc(read), list[dict[str, Any]])
    devices = [
        gathering.take(f"devices[{number}]", partial(_device, core, answer), dict[str, Any])
        for number, answer in enumerate(answers or ())
    ]
    return [device for device in devices if device is not None]


def worker_reader() -> Callable[[Any], dict[str, Any]]:
    """Return the function that each worker runs.

    Nested functions are pickled by value, so a worker on another machine needs nothing installed. It never raises: if
    one worker failed, the answers of the others would be read as answers to the executor's next call.
    """
    read_memory = memory_reader()

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
            "memory": tried(lambda: read_memory(worker)),
        }

    return read


def memory_reader() -> Callable[[Any], dict[str, int | None]]:
    """Return the function that reads what a worker measured at its start, pickled as `worker_reader` says.

    Since 0.27 a worker keeps all memory that it holds as `total_consumed`, and its peak includes the CUDA graphs
    (vllm/v1/worker/gpu_worker.py, determine_available_memory).
    """

    def read(worker: Any) -> dict[str, int | None]:
        from vllm import envs  # noqa: PLC0415  in the worker only

        def number(path: str) -> int | None:
            value: Any = worker
            for name in path.split("."):
                value = getattr(value, name, None)
            return None if value is None else int(value)

        weights, consumed = number("model_runner.model_memory_usage"), number("total_consumed")
        graphs, peak = number("cudagraph_memory_estimate"), number("peak_activation_memory")
        other, requested = number("non_torch_memory"), number("requested_memory")
        if graphs is not None and not envs.VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS:
            graphs = 0  # estimated, but not set aside
        if weights is not None and consumed is not None:
            other = consumed - weights
            peak = None if peak is None or graphs is None else peak - graphs
        return {
            "total_bytes": number("init_snapshot.total_memory"),
            "free_bytes": number("init_snapshot.free_memory"),
            "requested_bytes": number("requested_cpu_memory") if requested is None else requested,
            "weights_bytes": weights,
            "non_torch_bytes": other,
            "activation_bytes": peak,
            "cuda_graph_bytes": graphs,
            "available_bytes": number("available_kv_cache_memory_bytes"),
        }

    return read


def _device(core: Any, answer: dict[str, Any]) -> dict[str, Any]:
    measured = answer["memory"] or {}
    memory = {name: value if value is None or value >= 0 else None for name, value in measured.items()}
    if None in memory.values() or not memory:
        is_given = found(core, "vllm_config.cache_config.kv_cache_memory_bytes") not in {None, MISSING}
        memory["reason"] = GIVEN if is_given else NOT_MEASURED
    return EngineDevice.model_validate(answer | {"memory": memory}).model_dump(mode="json")
