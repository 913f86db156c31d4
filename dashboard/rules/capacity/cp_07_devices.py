"""CP-07: replicas of one pool run on different devices."""

import json
from collections import defaultdict
from collections.abc import Iterator

from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import count, joined
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import MOST_SIDES, majority, say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import Holders, PoolSubject

NAME = "devices.name"
OWN_POOL = "labels:\n  pool: {pool}"
LONGEST_POOL = 100


@rule(
    id="CP-07",
    name="devices-differ",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.INFO},
    needs=("devices",),
)
def devices_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run on different kinds of devices.

    Why it matters:
        - any pool: Speed, KV cache and vLLM's own defaults follow the device, so equal command lines give unequal
          replicas; and the last digits of their results differ.

    How to fix:
        Make a pool for each kind of device: give the targets the label `pool`.

    Exceptions:
        A pool may be mixed on purpose, behind a router that knows how much each replica can do.

    Evidence:
        - vllm/engine/arg_utils.py (defaults depend on the device)
        - https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/ (a pool shares one accelerator)

    Example:
        A pool grew from eight H100 to ten replicas when two L40S were free. Those two answer three times as slowly.
    """
    kinds = _kinds(pool)
    if len(kinds) > 1:
        usual = majority(kinds)
        odd = [told for told in kinds if told != usual]
        replicas = tuple(sorted(replica for told in odd for replica in kinds[told]))
        evidence = (Evidence(NAME, *told, holders, is_reference=told == usual) for told, holders in kinds.items())
        sides = [f"{say(told)} on {len(kinds[told]):,}" for told in kinds]
        more = [count(len(sides) - MOST_SIDES, "more kind")] if len(sides) > MOST_SIDES else []
        sentence = f"Replicas run on different devices: {joined(sides[:MOST_SIDES] + more)}."
        yield Draft(replicas, sentence, tuple(evidence), _remedy(pool))


def _kinds(pool: PoolSubject) -> Holders:
    """Return per set of device names who has it, the most frequent first."""
    held: dict[SettingValue, list[str]] = defaultdict(list)
    for member in pool.members:
        if names := sorted({device.name for device in member.devices}):
            value = names[0] if len(names) == 1 else names
            held[SettingValue(json.dumps(value, ensure_ascii=False), State.REPORTED)].append(member.id)
    return {told: tuple(held[told]) for told in sorted(held, key=lambda told: (-len(held[told]), told))}


def _remedy(pool: PoolSubject) -> Remedy:
    own = json.dumps(f"{pool.name[:LONGEST_POOL]}-other", ensure_ascii=False)
    text = OWN_POOL.format(pool=own)
    return Remedy(
        "Give the targets of each kind of device a pool of their own, in fleet.yaml.", (Snippet("yaml", text),)
    )
