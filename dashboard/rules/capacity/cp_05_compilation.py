"""CP-05: replicas of one pool are compiled in different ways."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.rules.domain import Facet
from dashboard.rules.drift import drift
from dashboard.rules.findings import Family, Severity
from dashboard.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dashboard.models import Setting, Told
    from dashboard.rules.findings import Draft
    from dashboard.rules.subject import PoolSubject

EAGER = "model_config.enforce_eager"
GRAPHS = {"compilation_config.cudagraph_mode": "mode of CUDA graphs"}
COMPILED = {
    "compilation_config.mode": "compilation mode",
    "compilation_config.cudagraph_capture_sizes": "list of batch sizes with CUDA graphs",
    "optimization_level": "optimization level",
    "performance_mode": "performance mode",
}
# vllm/config/compilation.py, CUDAGraphMode: a configuration shows the numbers, a command line takes the names.
MODES = {
    "0": '"NONE"',
    "1": '"PIECEWISE"',
    "2": '"FULL"',
    "[2,0]": '"FULL_DECODE_ONLY"',
    "[2,1]": '"FULL_AND_PIECEWISE"',
}


@rule(
    id="CP-05",
    name="compilation-differs",
    family=Family.CAPACITY,
    severity={Facet.MODEL: Severity.WARNING},
    needs=(EAGER, *GRAPHS, *COMPILED),
)
def compilation_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run the model compiled in different ways, or one of them not compiled at all.

    A replica in eager mode has no CUDA graphs, whatever else it was told: its other options are not compared.

    Why it matters:
        - any pool: Without CUDA graphs, or with graphs for fewer batch sizes, a replica needs much longer for each
          token, and the slowest replica decides what users see.

    How to fix:
        Take `--enforce-eager` away where it was left from looking for a fault. Give every replica of the pool the same
        `--compilation-config` and `--cudagraph-capture-sizes`, or none.

    Exceptions:
        Prefill replicas often run eager while decode replicas do not: they are two pools, and not compared.

    Evidence:
        - vllm/config/vllm.py (eager mode switches CUDA graphs off; the other options are derived from one level)
        - vllm/config/compilation.py (what each mode does)

    Example:
        Somebody added `--enforce-eager` to one replica to see a stack trace. It now decodes at half the speed of the
        other fifteen.
    """
    yield from drift(pool, {EAGER: "eager mode"})
    eager = {replica for told, ids in pool.values(EAGER).items() if told.value == "true" for replica in ids}
    compiled = replace(pool, all_replicas=tuple(each for each in pool.all_replicas if each.id not in eager))
    yield from drift(compiled, COMPILED)
    yield from drift(compiled, GRAPHS, _by_name)


def _by_name(told: Told, _: Mapping[str, Setting]) -> Told:
    return told._replace(value=MODES.get(told.value.replace(" ", ""), told.value))
