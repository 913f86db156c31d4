"""CO-13: replicas of one pool may compute the same answer with other rounding."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import count, joined, middle_cut, one_line
from dashboard.rules.behaviour.switches import is_on
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import MOST_SIDES, drift
from dashboard.rules.findings import Confidence, Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import Holders, PoolSubject
from dashboard.vllm.canonical import canonical_text

BACKEND = "attention_config.backend"
TENSOR_PARALLEL = "parallel_config.tensor_parallel_size"
BATCH_INVARIANT = "env.VLLM_BATCH_INVARIANT"
DEVICES = "devices"
LONGEST_NAME = 60  # characters
SAME_MODE = Snippet("env", "export VLLM_BATCH_INVARIANT=1")
EFFECT = "; the same request may get a slightly different answer."


@rule(
    id="CO-13",
    name="numerics-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.INFO},
    needs=(TENSOR_PARALLEL, BACKEND, DEVICES),
)
def numerics_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool add up in a different order, so that answers may differ in the last digits.

    Looked at are the accelerators, the attention backend and tensor parallelism. Nothing is said where batch invariance
    is on everywhere: whoever turns it on has decided about this.

    Why it matters:
        - any pool: Even with temperature 0 the same request can get different words on different replicas: harmless
          for chats, confusing for tests and evaluations that expect one answer.

    How to fix:
        Where answers must be the same, use one kind of accelerator, the same `--tensor-parallel-size` and
        `--attention-backend`, and `VLLM_BATCH_INVARIANT=1` on every replica; it costs speed.

    Exceptions:
        Pools that mix accelerators on purpose: disable the rule.

    Evidence:
        - vllm/v1/attention/selector.py (the backend is chosen per device where none is set)
        - vllm-project/vllm#44189
        - vllm-project/vllm#48613
        - vllm-project/vllm#11526

    Example:
        Three replicas run on H100 and two on L40S. A regression test with temperature 0 passes or fails depending on
        which one answers.
    """
    switches = pool.values(BATCH_INVARIANT)
    if switches and all(is_on(told) for told in switches):
        return
    for draft in drift(pool, {BACKEND: "attention backend", TENSOR_PARALLEL: "tensor parallel size"}):
        sentence = draft.sentence.removesuffix(".") + EFFECT
        yield replace(draft, sentence=sentence, confidence=Confidence.DERIVED)
    devices = _devices(pool)
    if len(devices) > 1 and not pool.is_ignored(DEVICES):
        yield _other_devices(devices)


def _devices(pool: PoolSubject) -> Holders:
    """Return the kinds of accelerators, with the replicas that run on them, the most frequent first."""
    held: dict[frozenset[str], list[str]] = defaultdict(list)
    for member in pool.members:
        if member.devices:
            held[frozenset(device.name for device in member.devices)].append(member.id)
    told = {canonical_text(sorted(names)): tuple(ids) for names, ids in held.items()}
    order = sorted(told, key=lambda kinds: (-len(told[kinds]), kinds))
    return {SettingValue(kinds, State.REPORTED): told[kinds] for kinds in order}


def _other_devices(devices: Holders) -> Draft:
    """Draft that the pool has several kinds of accelerators; those that are not the most frequent are odd."""
    usual, *others = devices
    sides = [f"{_names(told)} on {len(ids):,}" for told, ids in devices.items()]
    more = [count(len(sides) - MOST_SIDES, "other kind")] if len(sides) > MOST_SIDES else []
    evidence = (Evidence(DEVICES, *told, ids, is_reference=told == usual) for told, ids in devices.items())
    sentence = f"Replicas run on different accelerators, {joined(sides[:MOST_SIDES] + more)}{EFFECT}"
    wanted = "If answers must be the same, make a pool for each kind of accelerator"
    return Draft(
        tuple(sorted(replica for told in others for replica in devices[told])),
        sentence,
        tuple(evidence),
        Remedy(f"{wanted}, and turn on batch invariance on every replica.", (SAME_MODE,)),
        Confidence.DERIVED,
    )


def _names(told: SettingValue) -> str:
    return joined([middle_cut(one_line(name), LONGEST_NAME) for name in json.loads(told.value)])
