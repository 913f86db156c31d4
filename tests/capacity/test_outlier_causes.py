"""The memory of a device by part, and the part that explains why an engine is short."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.capacity.outliers import (
    MemoryCause,
    MemoryPart,
    Parts,
    available_bytes,
    main_cause,
    memory_parts,
    usual_parts,
)
from dashboard.fleet import Device, WorkerMemory
from tests.builders import GIB, engine, memory

USED = 30 * GIB
SIZES = st.integers(0, 2**40)


def parts(used: int | None = USED, dp_rank: int = 0, **gib: Any) -> Parts | None:
    devices = [Device(0, 0, "A", memory=memory(**gib))]
    return memory_parts(engine(dp_rank=dp_rank, kv_cache_bytes_per_device=used), devices)


def known(**gib: Any) -> Parts:
    found = parts(**gib)
    assert found is not None
    return found


def test_the_parts_are_what_the_worker_measured_and_add_up_to_the_device() -> None:
    assert {part: size / GIB for part, size in known().items()} == {
        MemoryPart.WEIGHTS: 30,
        MemoryPart.OTHER: 2,
        MemoryPart.ACTIVATIONS: 3,
        MemoryPart.GRAPHS: 1,
        MemoryPart.UNEXPLAINED: 0,
        MemoryPart.UNUSED: 6,
        MemoryPart.KV_CACHE: 30,
        MemoryPart.NOT_REQUESTED: 8,
    }
    assert known(available=30)[MemoryPart.UNEXPLAINED] == 6 * GIB
    assert known(used=None)[MemoryPart.UNUSED] == 0


@given(*[SIZES] * 6, st.none() | SIZES)
def test_whatever_was_measured_adds_up_or_is_unknown(
    total: int, requested: int, weights: int, other: int, activations: int, available: int, used: int | None
) -> None:
    measured = WorkerMemory(total, total, requested, weights, other, activations, 0, available)
    found = memory_parts(engine(kv_cache_bytes_per_device=used), [Device(0, 0, "A", memory=measured)])
    fits = weights + other + activations + available <= requested <= total

    assert (found is not None) is fits
    if found is not None:
        assert sum(found.values()) == total
        assert min(found.values()) >= 0
        assert available_bytes(found) == available


@pytest.mark.parametrize("missing", ["total", "requested", "weights", "non_torch", "activation", "cuda_graph"])
def test_a_part_that_was_not_measured_leaves_all_unknown(missing: str) -> None:
    gone: dict[str, Any] = {missing: None}
    assert parts(available=30, **gone) is None


def test_without_a_measurement_of_this_engine_nothing_is_known() -> None:
    assert parts(dp_rank=1) is None
    assert parts(available=None) is None
    assert memory_parts(engine(), [Device(0, 0, "A")]) is None


def test_the_smallest_device_of_an_engine_counts() -> None:
    devices = [Device(0, rank, "A", memory=memory(weights=weights)) for rank, weights in enumerate((30, 33, 31))]
    found = memory_parts(engine(), devices)

    assert found is not None
    assert found[MemoryPart.WEIGHTS] == 33 * GIB


def test_the_usual_parts_are_those_of_one_engine() -> None:
    engines = [known(weights=weights) for weights in (30, 34, 31, 38)]

    assert usual_parts(engines) == engines[1]
    assert usual_parts(engines[:3]) == engines[2]


@pytest.mark.parametrize(
    ("own", "cause"),
    [
        (known(non_torch=8), MemoryCause(MemoryPart.OTHER, 6 * GIB, 6 * GIB)),
        (known(weights=33, non_torch=4), MemoryCause(MemoryPart.WEIGHTS, 3 * GIB, 5 * GIB)),
        (known(weights=31, activation=4, cuda_graph=2), None),  # a third each
        (known(requested=62, available=26), MemoryCause(MemoryPart.NOT_REQUESTED, 10 * GIB, 10 * GIB)),
        (known(weights=20), None),  # more KV cache
        (known(), None),
    ],
)
def test_the_cause_is_the_part_that_explains_half_of_the_gap(own: Parts, cause: MemoryCause | None) -> None:
    assert main_cause(own, known()) == cause
