"""PD-21 to PD-23: facts that connectors' options repeat, or that both sides of a transfer need."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dashboard.compare.holders import Holders
from dashboard.fleet import Role, Setting, SettingValue, State
from dashboard.fleet.pieces import value
from dashboard.rules import remedy
from dashboard.rules.connector_options import CONNECTOR, EXTRA, connectors, option, reports_options
from dashboard.rules.differences import pair_differences, pool_differences, value_evidence
from dashboard.rules.disaggregation.handshake import HISTORY, NIXL, NixlFact, has_group, holds, reports_nixl
from dashboard.rules.disaggregation.transfer import PP, TP
from dashboard.rules.domain import OFFLOADING
from dashboard.rules.findings import Confidence, Draft, Evidence, Severity, UnevaluatedReplicas
from dashboard.rules.identity.addresses import DP_SIZE
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import setting_piece, values_text, write
from dashboard.rules.subject import NO, YES, PairSubject, PoolSubject, group_by_native
from dashboard.rules.value_equivalence import option_values
from dashboard.vllm.versions import answer_at

# What vllm-ascend's Mooncake connectors repeat of both roles, by option.
REPEATED = {"tp_size": TP, "dp_size": DP_SIZE, "pp_size": PP}
PARTITION, STATED_PARTITION = "env.VLLM_PP_LAYER_PARTITION", "prefill.pp_layer_partition"
NUMBER = re.compile(r"\d{1,9}", re.ASCII)
REPEAT = "State what the pools run with in the connector's options of these replicas and restart them."
CROSS_LAYERS = "enable_cross_layers_blocks"
LEASE, TIMEOUT = "kv_lease_duration", "env.VLLM_NIXL_ABORT_REQUEST_TIMEOUT"
DEFAULT_LEASE = SettingValue("30", State.REPORTED)  # seconds (nixl/base_scheduler.py, __init__)


@rule("PD-21", needs=(CONNECTOR,), scope=Scope.PAIR)
def connector_options_contradict_pools(pair: PairSubject) -> Iterator[Draft]:
    """Connector options state different parallel sizes than those that prefill or decode runs with.

    vllm-ascend's Mooncake connectors repeat the sizes of both roles under `prefill` and `decode`. The rule compares
    `tp_size`, `dp_size` and `pp_size` with what the pool of that role reports. A difference in
    `prefill.pp_layer_partition` is a warning.
    """
    for role, pool in zip((Role.PREFILL, Role.DECODE), pair.sides, strict=True):
        for name, path in REPEATED.items():
            known = pool.values(path)
            wrong = {each: ids for each, ids in _stated(pair, f"{role}.{name}").items() if each not in known}
            if known and wrong:
                yield from _contradiction(pair, f"{role}.{name}", wrong, path, pool)
    yield from _partition_not_repeated(pair)


def _stated(pair: PairSubject, name: str) -> Holders:
    """Group the members of both sides by an option that they set; a number may be text."""

    def read(settings: Mapping[str, Setting]) -> Any:
        found = option(settings, name)
        return int(found) if isinstance(found, str) and NUMBER.fullmatch(found) else found

    known = {replica: each for side in pair.sides for replica, each in side.of_documents(read).items()}
    return group_by_native({replica: each for replica, each in known.items() if each is not None})


def _contradiction(
    pair: PairSubject, name: str, wrong: Holders, path: str, pool: PoolSubject, severity: Severity | None = None
) -> Iterator[Draft]:
    """Yield replicas with an option that differs from a setting of a pool."""
    stated, known = f"{EXTRA}.{name}", pool.values(path)
    if pair.is_ignored(stated) or pair.is_ignored(path):
        return
    replicas = tuple(sorted(replica for ids in wrong.values() for replica in ids))
    reference = (Evidence(path, *each, ids, pool.name, is_reference=True) for each, ids in known.items())
    options = write(setting_piece(stated), " is ", values_text(wrong, stated))
    yield Draft(
        replicas,
        write(options, "; ", setting_piece(path), " of ", value(pool.name), " is ", values_text(known, path), "."),
        (*value_evidence(stated, wrong), *reference),
        remedy.set_to([(stated, next(iter(known)))], REPEAT),
        severity=severity,
    )


def _partition_not_repeated(pair: PairSubject) -> Iterator[Draft]:
    """Yield members whose connector is given prefill's sizes, but not how prefill splits its layers."""
    partitions = (each.value for each in pair.prefill.values(PARTITION) if each.state is State.REPORTED)
    known = {_plain_text(json.loads(each)) for each in partitions}
    sizes = [each.value for each in pair.prefill.values(PP) if each.state is State.REPORTED]
    is_split = any(each.isdigit() and each != "1" for each in sizes)
    if not known or not is_split:
        return

    def read(settings: Mapping[str, Setting]) -> Any:
        return any(name.startswith("prefill.") for each in connectors(settings) for name in each.options) or None

    concerned = {replica for side in pair.sides for replica, found in side.of_documents(read).items() if found}
    texts = {
        replica: option(side.settings(member), STATED_PARTITION)
        for side in pair.sides
        for member in side.members
        if (replica := member.id) in concerned
    }
    wrong = group_by_native({replica: text for replica, text in texts.items() if _plain_text(text) not in known})
    if wrong:
        yield from _contradiction(pair, STATED_PARTITION, wrong, PARTITION, pair.prefill, Severity.WARNING)


def _plain_text(partition: Any) -> str:
    """Return `33,28` for this text with spaces and for a list."""
    parts = partition if isinstance(partition, list) else str(partition).split(",")
    return ",".join(str(part).strip() for part in parts)


@rule("PD-22", needs=(CONNECTOR,), scope=Scope.PAIR)
def prefill_decode_cross_layer_blocks_differ(pair: PairSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Prefill or decode alone stores the KV cache of all layers in one block.

    NIXL's option `enable_cross_layers_blocks` has no effect inside a MultiConnector with a connector that needs a block
    per layer.
    """
    is_hashed = holds(NixlFact.HASHES_CROSS_LAYERS, *pair.sides)
    if not reports_nixl(pair) or is_hashed is False or has_group(pair, "mamba"):
        return
    path = f"{EXTRA}.{CROSS_LAYERS}"
    known = [side.of_documents(_combines_layers) for side in pair.sides]
    sides = [group_by_native({replica: each for replica, each in own.items() if each is not None}) for own in known]
    for draft in pair_differences(pair, {path: sides}):
        if is_hashed is None:
            ids = tuple(each.id for each in pair.all_replicas)
            yield UnevaluatedReplicas(ids, "Whether NIXL of these vLLM versions compares it is unknown.")
            return
        replicas = tuple(sorted(replica for side in sides for replica in side.get(YES, ())))
        fix = remedy.set_to([(path, NO)], f"Remove `{CROSS_LAYERS}` in both pools and restart these replicas.")
        yield replace(draft, replicas=replicas, remedy=fix, confidence=Confidence.DERIVED)


def _combines_layers(settings: Mapping[str, Setting]) -> bool | None:
    """Return whether NIXL's option has an effect; None without NIXL, and where options are not reported."""
    found = connectors(settings)
    nixl = next((each for each in found if each.name in NIXL), None)
    if nixl is None or (CROSS_LAYERS not in nixl.options and not reports_options(settings)):
        return None
    is_set = str(nixl.options.get(CROSS_LAYERS)).lower() == "true"
    return is_set and all(each is nixl or each.name == OFFLOADING for each in found)


@rule("PD-23", needs=(CONNECTOR,))
def transfer_lease_differs(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Prefill replicas keep finished KV cache for decode for different times.

    Compared are NIXL's `kv_lease_duration`, by default 30 seconds, and before vLLM 0.22
    `VLLM_NIXL_ABORT_REQUEST_TIMEOUT`.
    """
    if pool.pool.role is Role.DECODE:
        return
    nixl = pool.only({replica for replica, own in pool.connectors.items() if any(each.name in NIXL for each in own)})
    leases = {each.id: answer_at(HISTORY[NixlFact.LEASES_BLOCKS], each.version) for each in nixl.members}
    if unknown := tuple(sorted(replica for replica, answer in leases.items() if answer is None)):
        is_all = len(unknown) == len(leases)
        yield UnevaluatedReplicas(unknown, "Which of both these vLLM versions use is unknown." if is_all else "")
    leasing = nixl.only({replica for replica, answer in leases.items() if answer})
    lengths = option_values(leasing, [LEASE], lambda own, _: DEFAULT_LEASE if own.state is State.NULL else own)
    yield from pool_differences(leasing, lengths)
    yield from pool_differences(nixl.only({each for each, answer in leases.items() if answer is False}), (TIMEOUT,))
