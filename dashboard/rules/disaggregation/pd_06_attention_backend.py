"""PD-06: prefill and decode have different attention backends."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from dashboard.fleet import State
from dashboard.fleet.formatting import joined
from dashboard.rules.disaggregation.handshake import as_checked
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import unequal
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import Holders, PairSubject, PoolSubject
from dashboard.vllm.canonical import canonical_text

BACKEND = "attention_config.backend"
VARIABLE = "env.VLLM_ATTENTION_BACKEND"  # set it before there was an option for it
NOUN = "attention backend"
ONE_FOR_ALL = Snippet("flag", "--attention-backend FLASH_ATTN")  # the one that most GPUs have


class _Gpu(NamedTuple):
    """A kind of GPU of one side. `generation` is the first number of its compute capability."""

    generation: str
    name: str
    replicas: tuple[str, ...]


@rule(
    id="PD-06",
    name="prefill-decode-attention-backend-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(BACKEND, VARIABLE),
)
def attention_backend_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have different attention backends.

    A backend that vLLM chose by itself is told by nobody: where neither side names one, their GPUs are compared.

    Why it matters:
        - disaggregated: The backend is part of what NIXL compares before it moves KV cache, because it decides how the
          cache lies in memory: the handshake is refused.

    How to fix:
        Force one `--attention-backend` on both pools, one that runs on the GPUs of both.

    Exceptions:
        Connectors other than NIXL do not compare it: there it is a warning. GPUs of two generations for which vLLM
        chooses the same backend need nothing.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (its name is a factor of the compatibility hash)
        - vllm-project/vllm#31787
        - llm-d/llm-d#499

    Example:
        Decode was started with `--attention-backend FLASHINFER` for its GPUs, prefill with `--attention-backend
        FLASH_ATTN`.
    """
    for path in (BACKEND, VARIABLE):
        sides = [_named(side.values(path)) for side in pair.sides]
        if all(sides) and len(sides[0].keys() | sides[1].keys()) > 1 and not pair.is_ignored(path):
            yield from as_checked(pair, [unequal(pair, path, NOUN, sides)])
    if not any(_named(side.values(path)) for side in pair.sides for path in (BACKEND, VARIABLE)):
        yield from _by_generation(pair)


def _named(holders: Holders) -> Holders:
    """Leave out where vLLM chooses: nobody tells what it chose."""
    return {told: ids for told, ids in holders.items() if told.state is State.REPORTED and told.value != '"auto"'}


def _by_generation(pair: PairSubject) -> Iterator[Draft]:
    """Warn where the GPUs of both sides are of different generations: vLLM chooses by that."""
    sides = [_gpus(side) for side in pair.sides]
    if not all(sides) or not {each.generation for each in sides[0]}.isdisjoint(each.generation for each in sides[1]):
        return
    names = [joined(sorted({each.name for each in side})) for side in sides]
    evidence = tuple(
        Evidence("devices", canonical_text(gpu.name), State.REPORTED, gpu.replicas, side.name, side is pair.decode)
        for side, gpus in zip(pair.sides, sides, strict=True)
        for gpu in gpus
    )
    yield Draft(
        tuple(sorted(each.id for side in pair.sides for each in side.members)),
        f"No attention backend is named, and vLLM chooses one by the GPU: {names[0]} on prefill, {names[1]} on decode.",
        evidence,
        Remedy("Name one attention backend that runs on both, and restart those that change.", (ONE_FOR_ALL,)),
        severity=Severity.WARNING,
        assumptions=("vLLM chooses another backend on each",),
    )


def _gpus(side: PoolSubject) -> list[_Gpu]:
    held: dict[tuple[str, str], set[str]] = defaultdict(set)
    for member in side.members:
        for device in member.devices:
            if device.compute_capability is not None:
                held[device.compute_capability.partition(".")[0], device.name].add(member.id)
    return [_Gpu(*kind, tuple(sorted(held[kind]))) for kind in sorted(held)]
