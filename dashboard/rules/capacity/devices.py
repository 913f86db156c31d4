"""CP-07: replicas of one pool on different device types."""

import json
from collections.abc import Iterator

from dashboard.fleet import SettingValue, State
from dashboard.rules.differences import majority
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.sentences import sides_text, value_piece, write
from dashboard.rules.subject import PoolSubject, group_by_value

NAME = "devices.name"
POOL_LENGTH = 100  # characters of a pool's name to paste


@rule("CP-07", {ImpactContext.MODEL: Severity.INFO}, needs=("devices",))
def devices_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run on different device types.

    Why it matters:
        - any pool: Speed, KV cache and vLLM's defaults depend on the device, so equal command lines give unequal
          replicas. Results differ in the last digits.

    How to fix:
        Use one pool per device type: set the label `pool` on the targets.

    Exceptions:
        A pool may be mixed on purpose, behind a router that knows the capacity of each replica.

    Evidence:
        - vllm/engine/arg_utils.py (defaults depend on the device)
        - https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/ (a pool shares one accelerator)

    Example:
        A pool of eight H100 was extended by two L40S. Those two answer three times as slowly.
    """
    names = {each.id: sorted({device.name for device in each.devices}) for each in pool.members if each.devices}
    types = group_by_value({replica: _type(own) for replica, own in names.items()})
    if len(types) <= 1:
        return
    usual = majority(types)
    other = json.dumps(f"{pool.name[:POOL_LENGTH]}-other", ensure_ascii=False)
    sides = sides_text(((write(value_piece(each)), len(ids)) for each, ids in types.items()), "type")
    yield Draft(
        tuple(sorted(replica for each, ids in types.items() if each != usual for replica in ids)),
        write("Devices differ: ", sides, "."),
        tuple(Evidence(NAME, *each, ids, is_reference=each == usual) for each, ids in types.items()),
        Remedy(
            "Use one pool per device type: set the label `pool` on the targets in fleet.yaml.",
            (Snippet("yaml", f"labels:\n  pool: {other}"),),
        ),
    )


def _type(names: list[str]) -> SettingValue:
    """Return the device types of a replica; the id of a finding depends on this spelling."""
    return SettingValue(json.dumps(names[0] if len(names) == 1 else names, ensure_ascii=False), State.REPORTED)
