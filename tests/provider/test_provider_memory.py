"""What a worker of a GPU keeps of its measurements, by running vLLM's own code of each version without a GPU.

The figures are made up: a device of 80 GiB, of which 1 is in use; 90% requested. The weights take 30, NCCL and the
like 2, another process 1 while the server starts, the activations 4 at their peak, CUDA graphs 1.
"""

import contextlib
import dataclasses
import gc
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.provider.engines import thing
from tests.provider.vllm_modules import module
from vllm_fleet_provider.devices import GIVEN, NOT_MEASURED, devices_of, memory_reader
from vllm_fleet_provider.gathering import Gathering

GIB = 2**30
SOURCE = Path(__file__).parent / "source"
VERSIONS = sorted(path.stem for path in SOURCE.glob("*.txt"))
BEFORE = {"free_memory": 79, "total_memory": 80, "torch_peak": 0, "torch_allocated": 0, "non_torch_memory": 1}
LOADED = {"free_memory": 47, "total_memory": 80, "torch_peak": 30, "torch_allocated": 30, "non_torch_memory": 3}
PROFILED = {"free_memory": 46, "total_memory": 80, "torch_peak": 34, "torch_allocated": 30, "non_torch_memory": 4}
EXPECTED = {
    "total_bytes": 80,
    "free_bytes": 79,
    "requested_bytes": 72,
    "weights_bytes": 30,
    "non_torch_bytes": 3,
    "activation_bytes": 4,
    "cuda_graph_bytes": 1,
    "available_bytes": 34,
}
PARTS = ("weights_bytes", "non_torch_bytes", "activation_bytes", "cuda_graph_bytes", "available_bytes")


class Snapshots:
    """Stands for vLLM's MemorySnapshot: each measurement is the next reading."""

    def __init__(self, *readings: dict[str, int]) -> None:
        self.readings = list(readings)

    def __call__(self, device: object = None, *, auto_measure: bool = True) -> Any:
        taken = thing("MemorySnapshot", device_=device, timestamp=0.0)

        def measure() -> None:
            vars(taken).update({name: value * GIB for name, value in self.readings.pop(0).items()})

        def minus(one: Any, other: Any) -> SimpleNamespace:
            names = (*BEFORE, "timestamp")
            return SimpleNamespace(**{name: getattr(one, name) - getattr(other, name) for name in names})

        type(taken).__sub__ = minus
        taken.measure = measure
        if auto_measure:
            measure()
        return taken


def profiled(version: str, monkeypatch: pytest.MonkeyPatch, *, applied: bool = True, given: int | None = None) -> Any:
    """A worker of a version after its profile run."""
    snapshots = Snapshots(BEFORE, LOADED, PROFILED)
    envs = module("vllm.envs", VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=applied)
    for name, each in {"vllm": module("vllm", envs=envs), "vllm.envs": envs}.items():
        monkeypatch.setitem(sys.modules, name, each)
    torch = MagicMock()
    torch.accelerator.memory_stats.return_value = {"allocated_bytes.all.peak": 34 * GIB}
    names: dict[str, Any] = {
        "contextlib": contextlib,
        "dataclass": dataclasses.dataclass,
        "field": dataclasses.field,
        "gc": gc,
        "torch": torch,
        "Generator": list,
        "MemorySnapshot": snapshots,
        "envs": envs,
        "current_platform": SimpleNamespace(is_cuda_alike=lambda: True, is_xpu=lambda: False),
        "CUDAGraphMode": SimpleNamespace(NONE=0),
        "maybe_apply_startup_plan": lambda _: None,
        "maybe_rocm_profiling_fallback": lambda _: None,
        "set_current_vllm_config": lambda _: contextlib.nullcontext(),
        "reserve_mm_ipc_gpu_memory": lambda size, *_: size,
    }
    exec(compile((SOURCE / f"{version}.txt").read_text(), version, "exec"), names)  # noqa: S102  vLLM's own code, committed here
    worker = names["Worker"]()
    worker.init_snapshot = snapshots()
    worker.requested_memory = 72 * GIB
    worker.device = thing("device", index=0)
    worker.rank = 0
    worker.parallel_config = SimpleNamespace(_api_process_count=1)
    worker.model_config = MagicMock()
    worker.cache_config = SimpleNamespace(kv_cache_memory_bytes=given, gpu_memory_utilization=0.9)
    worker.vllm_config = SimpleNamespace(compilation_config=SimpleNamespace(cudagraph_mode=1))
    worker.use_v2_model_runner = False
    worker.randomize_dummy_inputs = False
    worker._scoped_allocator_max_split = lambda **_: contextlib.nullcontext()
    worker._reserve_mm_ipc_gpu_memory = lambda size: size
    worker.model_runner = SimpleNamespace(
        model_memory_usage=30 * GIB, profile_run=lambda **_: None, profile_cudagraph_memory=lambda: GIB
    )
    worker.determine_available_memory()
    return worker


def read(worker: Any) -> dict[str, int | None]:
    """What is read of a worker, in GiB."""
    return {name: value and value // GIB for name, value in memory_reader()(worker).items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_parts_of_each_version_are_what_it_measured_and_sum_to_what_it_requested(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(profiled(version, monkeypatch))

    assert found == EXPECTED
    assert sum(found[part] or 0 for part in PARTS) == found["requested_bytes"]


@pytest.mark.parametrize("version", VERSIONS)
def test_graphs_that_are_estimated_only_take_no_memory_from_the_kv_cache(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(profiled(version, monkeypatch, applied=False))

    assert found == EXPECTED | {"cuda_graph_bytes": 0, "available_bytes": 35}


def reported(worker: Any, monkeypatch: pytest.MonkeyPatch, *, given: int | None) -> dict[str, Any]:
    """The memory of a device in an answer."""
    monkeypatch.setitem(sys.modules, "vllm.platforms", ModuleType("vllm.platforms"))
    core = thing(
        "EngineCore",
        vllm_config=thing("VllmConfig", cache_config=thing("CacheConfig", kv_cache_memory_bytes=given)),
        model_executor=thing("Executor", collective_rpc=lambda read: [{**read(worker), "name": "x"}]),
    )
    (device,) = devices_of(core, Gathering())
    memory: dict[str, Any] = device["memory"]
    return memory


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_that_was_measured_in_full_needs_no_reason(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reported(profiled(version, monkeypatch), monkeypatch, given=None)

    assert found == {name: size * GIB for name, size in EXPECTED.items()} | {"reason": None}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_given_size_leaves_the_parts_unknown_with_the_reason(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = profiled(version, monkeypatch, given=20 * GIB)
    device = reported(worker, monkeypatch, given=20 * GIB)
    measured = reported(worker, monkeypatch, given=None)

    known = {name for name, value in device.items() if value is not None}
    assert known == {"total_bytes", "free_bytes", "requested_bytes", "weights_bytes", "reason"}
    assert (device["reason"], measured["reason"]) == (GIVEN, NOT_MEASURED)
