"""ID-02: two engines that exchange KV cache have one id."""

import json
from collections import defaultdict
from collections.abc import Iterator

from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import count
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.identity.addresses import DP_RANK, DP_SIZE, processes, rank_of
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import FleetSubject

ENGINE_ID = "kv_transfer_config.engine_id"
POD_NAME = """\
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
args:
  - --kv-transfer-config.engine_id=$(POD_NAME)"""


@rule(
    id="ID-02",
    name="engine-id-shared",
    family=Family.IDENTITY,
    scope=Scope.FLEET,
    severity={ImpactContext.MODEL: Severity.CRITICAL},
    needs=(ENGINE_ID,),
)
def engine_id_shared(fleet: FleetSubject) -> Iterator[Draft]:
    """Engines that exchange KV cache have the same engine id.

    Why it matters:
        - any pool: Peers tell engines apart by this id alone. With two of one name they reuse the connection of the
          first for the second, and the transfer fails or brings the wrong blocks.

    How to fix:
        Leave `engine_id` out of `--kv-transfer-config`: vLLM then makes a random one. Where it must be known, derive
        it from the name of the pod.

    Exceptions:
        Ranks of one data-parallel engine may be given one id: vLLM appends the rank. Two addresses of one process
        have one id by nature; ID-07 tells of them.

    Evidence:
        - vllm/config/kv_transfer.py (a random id unless one is given)
        - vllm/v1/engine/core.py (the data-parallel rank is appended)
        - vllm-project/vllm#39907
        - vllm-project/vllm#42928

    Example:
        The id `decode` stands in the YAML of a Deployment with three replicas. Prefill connects to one of them, and
        what is meant for the other two fails.
    """
    for name, replicas in _sharing(fleet).items():
        value = SettingValue(json.dumps(name, ensure_ascii=False), State.REPORTED)
        yield Draft(
            tuple(sorted(replicas)),
            f"{count(len(replicas), 'replica')} have the same engine id for KV transfer: {say(value)}.",
            (Evidence(ENGINE_ID, *value, tuple(sorted(replicas))),),
            Remedy(
                "Leave the engine id out of --kv-transfer-config, or derive it from the name of the pod; restart these "
                "replicas.",
                (Snippet("yaml", POD_NAME),),
            ),
        )


def _sharing(fleet: FleetSubject) -> dict[str, list[str]]:
    """Return the replicas by an engine id that several have; the ranks of one engine, which vLLM sets apart, may."""
    sizes, ranks = fleet.identity(DP_SIZE), fleet.identity(DP_RANK)
    held: dict[tuple[str, int | None], list[str]] = defaultdict(list)
    for replica, name in fleet.identity(ENGINE_ID).items():
        if isinstance(name, str):
            held[name, rank_of(sizes.get(replica), ranks.get(replica))].append(replica)
    sharing: dict[str, list[str]] = defaultdict(list)
    for (name, _), replicas in held.items():
        if len(replicas) > 1 and len(different := processes(replicas, fleet.all_replicas)) > 1:
            sharing[name] += different
    return sharing
