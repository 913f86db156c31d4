"""CP-05: replicas of one pool are compiled in different ways."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.capacity.graph_sizes import LARGEST, SIZES, SPECULATED, covering, derived
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

EAGER = "model_config.enforce_eager"
GRAPHS = {"compilation_config.cudagraph_mode": "mode of CUDA graphs"}
COMPILED = {
    "compilation_config.mode": "compilation mode",
    "optimization_level": "optimization level",
    "performance_mode": "performance mode",
}
NO_GRAPHS = (SettingValue("[]", State.REPORTED), SettingValue("0", State.REPORTED), SettingValue("null", State.NULL))
LONGEST_PASTE = 100  # characters; nobody wants to paste a list of fifty sizes
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
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(EAGER, *GRAPHS, *COMPILED, LARGEST, SIZES),
)
def compilation_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run the model compiled in different ways, or one of them not compiled at all.

    A replica in eager mode has no CUDA graphs, whatever else it was told: its other options are not compared. Nor are
    sizes of CUDA graphs that vLLM derived from batch limits: where those differ, CP-03 says so. Nor is the largest size
    where no replica can have more requests at once.

    Why it matters:
        - any pool: What is not compiled, or has no CUDA graph for its batch size, starts each step from Python: small
          batches decode more slowly there, and at the same load clients wait longer for some answers than for others.

    How to fix:
        Take `--enforce-eager` away where it was left from looking for a fault. Give every replica of the pool the same
        `--compilation-config` and `--max-cudagraph-capture-size`, or none.

    Exceptions:
        Prefill replicas often run eager while decode replicas do not: they are two pools, and not compared.

    Evidence:
        - vllm/config/vllm.py (eager mode switches CUDA graphs off; batches above the largest size run without; how the
          sizes follow from the batch limits)
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
    yield from _sizes(_with_graphs(compiled))


def _sizes(pool: PoolSubject) -> Iterator[Draft]:
    """Yield where CUDA graphs end at other batch sizes; where they end at the same, which sizes they are for."""
    own = derived(pool)
    harmless = own | covering(pool)
    # A request that speculates is a batch of several tokens.
    speculates = any(told.state is State.REPORTED for told in pool.values(SPECULATED))
    unit = "tokens" if speculates else "requests"
    ends = list(drift(pool, {LARGEST: "largest batch with a CUDA graph"}))
    for draft in ends or drift(pool, {SIZES: "list of batch sizes with CUDA graphs"}):
        if (harmless if ends else own).issuperset(replica for each in draft.evidence for replica in each.replicas):
            continue
        snippets = tuple(each for each in draft.remedy.snippets if len(each.text) <= LONGEST_PASTE)
        effect = _effect(draft, unit) if ends else "; batches in between are filled up to the next size."
        sentence = draft.sentence.removesuffix(".") + effect
        yield replace(draft, sentence=sentence, remedy=draft.remedy._replace(snippets=snippets))


def _with_graphs(pool: PoolSubject) -> PoolSubject:
    """Leave out who has no CUDA graphs at all: that is what its mode says."""
    none = {replica for path in (SIZES, LARGEST) for told in NO_GRAPHS for replica in pool.values(path).get(told, ())}
    return replace(pool, all_replicas=tuple(each for each in pool.all_replicas if each.id not in none))


def _effect(draft: Draft, unit: str) -> str:
    """Say which batches have no CUDA graph; nothing where a size is no number."""
    sizes = [size for each in draft.evidence if type(size := json.loads(each.value)) is int]
    least = f"{min(sizes):,}" if sizes else ""
    return f"; batches above {least} {unit} run without CUDA graphs where it is {least}." if least else "."


def _by_name(told: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    return told._replace(value=MODES.get(told.value.replace(" ", ""), told.value))
