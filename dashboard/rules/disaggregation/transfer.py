"""PD-09, PD-11, PD-12, PD-14, PD-18 and PD-20 to PD-23: whether KV cache of prefill can be transferred to decode."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dashboard.compare.encoding import lookup_value
from dashboard.compare.holders import Holders
from dashboard.compare.prefix import CACHING_PATH
from dashboard.fleet import Role, Setting, SettingValue, State
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Text, join_texts, value
from dashboard.rules import differences, remedy
from dashboard.rules.connector_options import CONNECTOR, EXTRA, SECTION, connectors, option, reports_options
from dashboard.rules.disaggregation.handshake import HISTORY, NIXL, NixlFact, has_group, has_nixl, holds, reports_nixl
from dashboard.rules.domain import OFFLOADING, tiers_of
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet, UnevaluatedReplicas
from dashboard.rules.identity.addresses import DP_SIZE
from dashboard.rules.registry import Scope, rule
from dashboard.rules.routing.blocks import BLOCK_SIZE, DCP, is_size
from dashboard.rules.sentences import setting_piece, values_text, write
from dashboard.rules.subject import NO, YES, PairSubject, PoolSubject, group_by_native, setting_value
from dashboard.rules.value_equivalence import option_values
from dashboard.vllm.versions import answer_at

PULL = {"NixlConnector": "NixlPullConnector"}  # two names of one connector
# Connectors that keep KV cache in the replica.
LOCAL = frozenset(
    {"SimpleCPUOffloadConnector", "DecodeBenchConnector", "HiSparseConnector", "ExampleHiddenStatesConnector"}
)
TP, PP = "parallel_config.tensor_parallel_size", "parallel_config.pipeline_parallel_size"
BUFFER = f"{SECTION}.kv_buffer_device"
LENGTH = "model_config.max_model_len"
GROUPS = "kv_cache_groups"
# Settings that decide the groups and have their own rules.
OTHER_RULES = ("scheduler_config.disable_hybrid_kv_cache_manager", "speculative_config.method", "version")
# Other settings that decide the groups, the likeliest first.
CAUSES = (
    "model_config.disable_sliding_window",
    "model_config.hf_overrides",
    "model_config.model_impl",
    "model_config.model",
)
BLOCKS = "engines.num_gpu_blocks"


@rule("PD-09", needs=(CONNECTOR,), scope=Scope.PAIR)
def prefill_decode_connector_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have no common connector.

    The connectors inside a MultiConnector are compared one by one. `NixlConnector` equals `NixlPullConnector`; push and
    pull are two protocols.
    """
    sides = [side.conclude(_shared_connectors) for side in pair.subjects]
    protocols = [[frozenset(PULL.get(name, name) for name in _names(each)) for each in side] for side in sides]
    if pair.is_ignored(CONNECTOR) or not any(each for side in protocols for each in side):
        return
    if any(one.isdisjoint(other) for one in protocols[0] for other in protocols[1]):
        draft = differences.pair_difference(pair, CONNECTOR, sides)
        wanted = next((name for each in sides[1] for name in _names(each)), None)
        sentence = "Use a common connector in both pools and restart the changed replicas."
        how = remedy.set_to([(CONNECTOR, setting_value(wanted))], sentence)
        yield replace(draft, text=differences.extended(draft.text, "; none in common."), remedy=how)


def _shared_connectors(settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the names of a document's connectors that share KV cache; None where unknown."""
    connector = lookup_value(settings, CONNECTOR)
    if connector is None:
        return None
    found = connectors(settings)
    if not found and connector.state is State.REPORTED:
        return None  # a MultiConnector with unreported content
    if any(each.name == OFFLOADING for each in found) and not reports_options(settings):
        return None  # a shared tier is not reported
    names = {each.name for each in found if each.name not in LOCAL and (each.name != OFFLOADING or tiers_of(each))}
    return setting_value((names.pop() if len(names) == 1 else sorted(names)) or None)


def _names(connector: SettingValue) -> list[str]:
    names = json.loads(connector.value) or []
    return [names] if isinstance(names, str) else names


@rule("PD-11", needs=(TP, DCP), scope=Scope.PAIR)
def prefill_decode_parallel_sizes_clash(pair: PairSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Prefill and decode have incompatible parallel sizes.

    Different sizes are supported as long as one is a multiple of the other. Until 0.13 NIXL also needs as many tensor
    parallel ranks on decode as on prefill, or more.
    """
    needing = _needing_ranks(pair)
    if unknown := tuple(sorted(replica for replica, needs in needing.items() if needs is None)):
        yield UnevaluatedReplicas(unknown)
    fewer = "NIXL of this vLLM version needs as many ranks on decode as on prefill" if any(needing.values()) else ""
    tensor = _undivided(pair, TP) or fewer or _replicated_heads(pair)
    is_mamba_unequal = has_group(pair, "mamba") and any(ours != theirs for ours, theirs in _sizes(pair, DCP))
    context = _undivided(pair, DCP) or ("a model with Mamba layers needs equal sizes" if is_mamba_unequal else "")
    for path, reason in ((TP, tensor), (DCP, context)):
        for draft in differences.pair_differences(pair, [path] if reason else []):
            yield replace(draft, text=differences.extended(draft.text, f"; {reason}."), confidence=Confidence.DERIVED)


def _sizes(pair: PairSubject, path: str) -> Iterator[tuple[int, int]]:
    """Yield each size of prefill with each of decode."""
    known = [[json.loads(each.value) for each in side.values(path)] for side in pair.subjects]
    prefill, decode = ([size for size in sizes if is_size(size)] for sizes in known)
    yield from ((ours, theirs) for ours in prefill for theirs in decode)


def _needing_ranks(pair: PairSubject) -> dict[str, bool | None]:
    """Return per decode replica whether its NIXL needs prefill's ranks; None: unknown. Empty where it has them."""
    if not reports_nixl(pair) or not any(ours > theirs for ours, theirs in _sizes(pair, TP)):
        return {}
    return {each.id: answer_at(HISTORY[NixlFact.ASSERTS_RANKS], each.version) for each in pair.decode.members}


def _undivided(pair: PairSubject, path: str) -> str:
    is_broken = any(max(both) % min(both) for both in _sizes(pair, path))
    return "the larger is not a multiple of the smaller" if is_broken else ""


def _replicated_heads(pair: PairSubject) -> str:
    """Return a reason where prefill has more ranks than KV heads, and decode fewer ranks than prefill."""
    if has_group(pair, "mla") or has_group(pair, "mamba"):
        return ""
    heads = min(_total_heads(pair.decode), default=0)
    is_broken = heads and any(ours > max(theirs, heads) for ours, theirs in _sizes(pair, TP))
    return f"prefill replicates the model's {heads:,} KV heads" if is_broken else ""


def _total_heads(side: PoolSubject) -> Iterator[int]:
    """Yield the model's KV heads where a side shows them: with one head a rank, some may be replicated."""
    sizes = side.identity(TP)
    for member in side.members:
        size = sizes.get(member.id)
        for group in member.kv_cache_groups:
            if isinstance(size, int) and group.num_kv_heads is not None and group.num_kv_heads > 1:
                yield group.num_kv_heads * size


@rule("PD-12", needs=(BLOCK_SIZE,), scope=Scope.PAIR)
def prefill_decode_block_size_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode use different block sizes.

    NIXL can copy blocks into larger ones, but not in every configuration: where it cannot, the finding is critical.
    """
    for draft in differences.pair_differences(pair, [BLOCK_SIZE]):
        if reason := _refusal(pair):
            text = differences.extended(draft.text, f"; {reason}.")
            yield replace(draft, text=text, severity=Severity.CRITICAL, confidence=Confidence.DERIVED)
        else:
            yield draft


def _refusal(pair: PairSubject) -> str:
    """Return why the connector refuses different sizes; empty where it supports them."""
    if not has_nixl(pair):
        return "only NIXL supports different sizes"
    if any(theirs % ours for ours, theirs in _sizes(pair, BLOCK_SIZE)):
        return "decode's is not a multiple of prefill's"
    if any('"cpu"' in each.value for side in pair.subjects for each in side.values(BUFFER)):
        return "a buffer in CPU memory needs equal sizes"
    if any(ours > theirs for ours, theirs in _sizes(pair, TP)) and not has_group(pair, "mla"):
        return "more tensor parallel ranks on prefill than on decode need equal sizes"
    if has_group(pair, "mamba") and any(each.value == "true" for each in pair.decode.values(CACHING_PATH)):
        return "Mamba layers with prefix caching need equal sizes"
    return ""


@rule("PD-14", needs=(GROUPS,), scope=Scope.PAIR)
def prefill_decode_kv_cache_groups_differ(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have different KV cache groups.

    The rule compares kinds, layers, windows and head sizes of the first engine's groups: they do not depend on the
    number of GPUs.
    """
    has_other_rule = any(_differ(pair, path) for path in OTHER_RULES)
    is_split = any(each.value not in ("1", "null") for side in pair.subjects for each in side.values(PP))
    sides = [_groups(side) for side in pair.subjects]
    if has_other_rule or is_split or not differences.are_unequal(sides):
        return
    prefill, decode = map(_groups_text, sides)
    yield replace(
        differences.pair_difference(pair, GROUPS, sides),
        text=write("KV cache groups differ: ", prefill, " on prefill and ", decode, " on decode."),
        remedy=remedy.set_to(
            [(path, next(iter(pair.decode.values(path)))) for path in CAUSES if _differ(pair, path)],
            "Use the same model options in both pools and restart the changed replicas.",
        ),
        confidence=Confidence.DERIVED,
    )


def _differ(pair: PairSubject, path: str) -> bool:
    return differences.are_unequal([side.values(path) for side in pair.subjects])


def _groups(side: PoolSubject) -> Holders:
    """Group members by their first engine's groups, without what depends on GPUs or has its own rule."""
    names = ("spec_type", "layers", "sliding_window", "head_size")
    found: dict[str, list[dict[str, Any]]] = {}
    for replica, groups in side.first_engine_groups.items():
        plain = [{name: getattr(group, name) for name in names} for group in groups]
        found[replica] = sorted(plain, key=lambda group: repr(sorted(group.items(), key=str)))
    return group_by_native(found)


def _groups_text(holders: Holders) -> Text:
    """Return the groups of most members: `5 layers FullAttentionSpec`."""
    groups: list[dict[str, Any]] = json.loads(next(iter(holders)).value)
    return join_texts((value(f"{count(each['layers'], 'layer')} {each['spec_type']}"),) for each in groups)


@rule("PD-18", needs=(LENGTH,), scope=Scope.PAIR)
def prefill_decode_lengths_differ(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode accept requests of different lengths."""
    sizes = list(_sizes(pair, LENGTH))
    if any(ours > theirs for ours, theirs in sizes):
        yield from differences.pair_differences(pair, [LENGTH])
    elif any(ours < theirs for ours, theirs in sizes) and not pair.is_ignored(LENGTH):
        sides = [side.values(LENGTH) for side in (pair.decode, pair.prefill)]
        yield differences.two_sided(LENGTH, sides, pair.pools[::-1], ("decode", "prefill"))


@rule("PD-20", needs=("engines",), least=1)
def rank_blocks_differ(pool: PoolSubject, *, blocks: int = 1000) -> Iterator[Draft]:
    """DP ranks of one replica have very different numbers of blocks.

    Each rank measures its free memory at start. `blocks` is the tolerated difference.
    """
    for member in pool.members:
        sizes = {each.dp_rank: each.num_gpu_blocks for each in member.engines if each.num_gpu_blocks is not None}
        first, last = min(sizes.values(), default=0), max(sizes.values(), default=0)
        if member.is_second_address or last - first <= blocks:
            continue
        yield Draft(
            (member.id,),
            write(
                *("DP ranks have ", value(f"{first:,}"), " to ", value(f"{last:,}")),
                f" blocks, a difference of {last - first:,}.",
            ),
            tuple(
                Evidence(BLOCKS, json.dumps(number), State.REPORTED, (member.id,), f"DP rank {rank}")
                for rank, number in sizes.items()
            ),
            Remedy(
                "Set the number of blocks of the smallest rank on all ranks and restart the replica.",
                (Snippet("flag", f"--num-gpu-blocks-override {first}"),),
            ),
        )


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
    for role, pool in zip((Role.PREFILL, Role.DECODE), pair.subjects, strict=True):
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

    known = {replica: each for side in pair.subjects for replica, each in side.of_documents(read).items()}
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
        (*differences.value_evidence(stated, wrong), *reference),
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

    def read(settings: Mapping[str, Setting]) -> list[Any]:
        is_given = any(name.startswith("prefill.") for each in connectors(settings) for name in each.options)
        return [option(settings, STATED_PARTITION)] if is_given else []

    stated = {replica: own[0] for side in pair.subjects for replica, own in side.of_documents(read).items() if own}
    wrong = group_by_native({replica: text for replica, text in stated.items() if _plain_text(text) not in known})
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
    is_hashed = holds(NixlFact.HASHES_CROSS_LAYERS, *pair.subjects)
    if not reports_nixl(pair) or is_hashed is False or has_group(pair, "mamba"):
        return
    path = f"{EXTRA}.{CROSS_LAYERS}"
    known = [side.of_documents(_combines_layers) for side in pair.subjects]
    sides = [group_by_native({replica: each for replica, each in own.items() if each is not None}) for own in known]
    for draft in differences.pair_differences(pair, {path: sides}):
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
    yield from differences.pool_differences(leasing, lengths)
    yield from differences.pool_differences(
        nixl.only({each for each, answer in leases.items() if answer is False}), (TIMEOUT,)
    )
