"""Documents, replicas and their KV cache after a restart, as far as they can be known."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from dashboard.capacity.engines import max_model_len_of
from dashboard.capacity.outliers import devices_of
from dashboard.compare.encoding import lookup_setting, lookup_value
from dashboard.compare.equality import NOT_SET
from dashboard.compare.prefix import ALGORITHM_PATH, BLOCK_SIZE_PATH, ENVIRONMENT, SEED_PATH, SEED_POLICY_PATH
from dashboard.fleet import Basis, Document, Engine, Replica, Role, Setting, SettingChange, Source
from dashboard.fleet.formatting import count, joined, middle_cut, one_line
from dashboard.rules.apply_method import FOLLOWS_FROM, derived_paths
from dashboard.rules.capacity.graphs import LARGEST, SIZES
from dashboard.rules.connector_options import CONNECTOR, EXTRA
from dashboard.vllm.lookahead import LOOKAHEAD
from dashboard.vllm.merging import document_id, version_of
from dashboard.vllm.replica import ROLE_OF, ROLES

VERSION = "version"
ROLE = "kv_transfer_config.kv_role"
SERVED_NAMES = "served_model_names"
# Identity settings that the engine counts and resolves at start (vllm_fleet_provider.shared.identity); others stay.
COUNTED = frozenset(
    {
        "cache_config.num_gpu_blocks",
        "cache_config.num_cpu_blocks",
        "cache_config.kv_cache_size_tokens",
        "cache_config.kv_cache_max_concurrency",
    }
)
# What decides how much KV cache an engine gets and how many tokens that is: globs over paths. vLLM loads the weights,
# runs the largest batch once, captures CUDA graphs, and gives the KV cache what is left of its share of the memory
# (vllm/v1/worker/gpu_worker.py, determine_available_memory); how many tokens that is follows from the layout of blocks
# (vllm/v1/core/kv_cache_utils.py). All of it changes between versions.
DECIDES_CAPACITY = (
    "version",
    # the share of memory, and how the cache is laid out in it
    "cache_config.block_size",
    "cache_config.cache_dtype",
    "cache_config.gpu_memory_utilization",
    "cache_config.kv_cache_dtype_skip_layers",
    "cache_config.kv_cache_layout",
    "cache_config.kv_cache_memory_bytes",
    "cache_config.kv_sharing_fast_prefill",
    "cache_config.mamba_*",
    "cache_config.num_gpu_blocks_override",
    "cache_config.swa_bounded_replay",
    "scheduler_config.disable_hybrid_kv_cache_manager",
    "kv_transfer_config.kv_connector",
    # the size of the weights
    "lora_config",
    "lora_config.*",
    "model_config.dtype",
    "model_config.hf_overrides",
    "model_config.max_model_len",
    "model_config.model",
    "model_config.quantization*",
    "model_config.disable_sliding_window",
    "offload_config.*",
    "parallel_config.*parallel_size",
    "parallel_config.enable_eplb",
    "parallel_config.enable_expert_parallel",
    "parallel_config.eplb_config.*",
    "speculative_config",
    "speculative_config.*",
    # the largest batch and the CUDA graphs
    "attention_config.*",
    "compilation_config.cudagraph_*",
    "compilation_config.max_cudagraph_capture_size",
    "compilation_config.mode",
    "model_config.enforce_eager",
    "model_config.multimodal_config*",
    "optimization_level",
    "parallel_config.enable_dbo",
    "parallel_config.ubatch_size",
    "scheduler_config.async_scheduling",
    "scheduler_config.encoder_cache_size",
    "scheduler_config.max_num_batched_tokens",
    "scheduler_config.max_num_encoder_input_tokens",
    "scheduler_config.max_num_seqs",
    "env.VLLM_ATTENTION_BACKEND",
    "env.VLLM_MEMORY_PROFILER_*",
)
RANKS = "parallel_config.data_parallel_size"
LONGEST_NAME = 44  # characters of a device's name that a sentence shows
REMEMBERED = 4096  # paths; a configuration has some 600


# What vLLM derives from other settings at start (vllm/config/vllm.py, vllm/v1/core/kv_cache_utils.py; the provider's
# seed policy).
DERIVED_FROM = {
    **FOLLOWS_FROM,
    SIZES: (*FOLLOWS_FROM[SIZES], LARGEST),
    SEED_POLICY_PATH: (SEED_PATH, VERSION, ALGORITHM_PATH),
    LOOKAHEAD: ("speculative_config.method", "speculative_config.disable_lookahead_block_hashes"),
    "cache_config.hash_block_size": (BLOCK_SIZE_PATH, "cache_config.prefix_match_unit"),
    "cache_config.effective_attention_block_size": (BLOCK_SIZE_PATH, "parallel_config.decode_context_parallel_size"),
    "cache_config.cache_hit_alignment_tokens": (BLOCK_SIZE_PATH, "cache_config.prefix_match_unit"),
    "compilation_config.mode": ("model_config.enforce_eager",),
    "compilation_config.cudagraph_mode": ("model_config.enforce_eager",),
    CONNECTOR: ("cache_config.kv_offloading_size",),
    f"{EXTRA}.cpu_bytes_to_use": ("cache_config.kv_offloading_size",),
}


class PoolRestart(NamedTuple):
    """Replicas of one pool that restart with other settings, and those that stay.

    The `changes`, and the `documents` afterwards, are by the ids of the replicas.
    """

    restarting: tuple[Replica, ...]
    staying: tuple[Replica, ...]
    changes: Mapping[str, tuple[SettingChange, ...]]
    documents: Mapping[str, Document]


class RankForecast(NamedTuple):
    """KV cache of one DP rank in tokens, before and after; None is unknown.

    `after` is the median of identical engines on the same device: assumed for this `reason`, between `least` and
    `most`.
    """

    dp_rank: int
    before: int | None
    after: int | None = None
    least: int | None = None
    most: int | None = None
    reason: str = ""


def document_after(document: Document, changes: Sequence[SettingChange], target: Mapping[str, Setting]) -> Document:
    """Return a document with changed settings.

    A different version has different defaults: settings that the target does not report become unknown.
    """
    settings = dict(document.settings)
    for change in changes:
        _set(settings, change, target)
    changed = {each.path for each in changes}
    if VERSION in changed:
        settings = {
            path: setting
            for path, setting in settings.items()
            if path in changed or lookup_setting(target, path) is not None
        }
    ordered = MappingProxyType(dict(sorted(settings.items())))
    return Document(document_id(ordered), version_of(ordered), ordered)


def with_derived(before: Document, after: Document, changed: Collection[str], others: Iterable[Document]) -> Document:
    """Return a document afterwards with what vLLM derives from its `changed` settings.

    That is what another document of the pool has, where its settings are the same; otherwise it becomes unknown. What
    a replica sets itself stays.
    """
    own = before.settings
    is_set = FOLLOWS_FROM.keys() - derived_paths(own)
    settings = dict(after.settings)
    for path, sources in DERIVED_FROM.items():
        if path not in settings or path in is_set or path in changed or not set(sources).intersection(changed):
            continue
        wanted = [lookup_value(after.settings, each) for each in sources]
        like = (each for each in others if [lookup_value(each.settings, source) for source in sources] == wanted)
        known = next((found for each in like if (found := lookup_setting(each.settings, path))), None)
        if known is not None:
            settings[path] = known
        elif path == SEED_POLICY_PATH and SEED_PATH in changed and lookup_value(settings, SEED_PATH) != NOT_SET:
            settings[path] = settings[path]._replace(value=ENVIRONMENT)
        else:
            del settings[path]
    if settings == after.settings:
        return after
    ordered = MappingProxyType(settings)
    return Document(document_id(ordered), after.version, ordered)


def _set(settings: dict[str, Setting], change: SettingChange, target: Mapping[str, Setting]) -> None:
    """Set the value of a path; a section above it that is null or one value gets the settings of the target."""
    own = lookup_setting(settings, change.path)
    section = change.path
    while section := section.rpartition(".")[0]:
        if section in settings:
            del settings[section]
            settings.update({path: setting for path, setting in target.items() if path.startswith(f"{section}.")})
    settings[change.path] = Setting(*change.after, own.source if own else Source.SERVER_INFO)


def replica_after(
    replica: Replica, document: Document, changes: Sequence[SettingChange], engines: tuple[Engine, ...]
) -> Replica:
    """Return a replica with these `engines` after its restart. What its process measured becomes unknown.

    That is: its start time, adapters, contradictions and sources, and its KV cache groups if its KV cache changes.
    """
    values = {each.path: each.after.value for each in changes}
    identity = dict(replica.identity)
    for path in (*values, *COUNTED):
        identity.pop(path, None)
    role, names = replica.role, replica.served_model_names
    if ROLE in values and replica.labels.get("role", "").lower() not in ROLES:
        wanted = json.loads(values[ROLE])
        role = ROLE_OF.get(wanted, Role.BOTH) if isinstance(wanted, str) else Role.BOTH
    if SERVED_NAMES in values:
        wanted = json.loads(values[SERVED_NAMES])
        names = tuple(map(str, wanted)) if isinstance(wanted, list) else ()
    return replace(
        replica,
        version=document.version if VERSION in values else replica.version,
        role=role,
        started_at=None,
        document=document.id,
        identity=identity,
        sources=(),
        contradictions=(),
        served_model_names=names,
        adapters={},
        engines=engines,
        kv_cache_groups=() if any(map(decides, values)) else replica.kv_cache_groups,
        probes=(),
    )


def forecast_ranks(restart: PoolRestart, documents: Mapping[str, Document]) -> Mapping[str, tuple[RankForecast, ...]]:
    """Return the forecast of each rank by replica; none where no setting that decides capacity changes.

    Peers are the fresh ones of the replicas that stay, or all of them if none is fresh. Equal replicas share
    one forecast.
    """
    read = [each for each in restart.staying if each.document is not None and not each.is_second_address]
    read = [each for each in read if each.fresh] or read
    peers: dict[tuple[str, tuple[str, ...], bool], Sequence[int]] = {}

    def forecast(replica: Replica, engine: Engine, document: Document, changed: Collection[str]) -> RankForecast:
        rank = RankForecast(engine.dp_rank, engine.kv_cache_size_tokens)
        names = devices_of(replica, engine.dp_rank)
        if not names or RANKS in changed:
            return rank
        kind = (document.id, names, engine.shares_sum)
        if kind not in peers:
            peers[kind] = _peer_tokens(read, documents, document, names, shares_sum=engine.shares_sum)
        if not (tokens := peers[kind]):
            return rank
        shown = joined([middle_cut(one_line(name), LONGEST_NAME) for name in names])
        reason = f"Based on {count(len(tokens), 'identical engine')} on {shown}."
        return rank._replace(after=int(median(tokens)), least=min(tokens), most=max(tokens), reason=reason)

    shared: dict[object, tuple[RankForecast, ...]] = {}
    forecasts: dict[str, tuple[RankForecast, ...]] = {}
    for replica in restart.restarting:
        document, changes = restart.documents[replica.id], restart.changes[replica.id]
        key = (document.id, changes, replica.engines, tuple((each.dp_rank, each.name) for each in replica.devices))
        if key not in shared:
            changed = {each.path for each in changes}
            own = tuple(forecast(replica, each, document, changed) for each in replica.engines)
            shared[key] = (own or (RankForecast(0, None),)) if any(map(decides, changed)) else ()
        forecasts[replica.id] = shared[key]
    return forecasts


def _peer_tokens(
    staying: Sequence[Replica],
    documents: Mapping[str, Document],
    after: Document,
    names: tuple[str, ...],
    *,
    shares_sum: bool,
) -> Sequence[int]:
    """Return the tokens of engines with such a document on these devices; upper bounds only if all are.

    With `shares_sum`: those of engines that report one sum per replica.
    """
    keys = {str(replica.document) for replica in staying}
    same = {key for key in keys if not _contradict(after.settings, documents[key].settings)}
    known = [
        (engine.kv_cache_size_tokens, engine.basis)
        for replica in staying
        if replica.document in same
        for engine in replica.adding_engines
        if engine.kv_cache_size_tokens is not None
        and engine.shares_sum is shares_sum
        and devices_of(replica, engine.dp_rank) == names
    ]
    sure = [each for each in known if each[1] is not Basis.ASSUMED] or known
    return tuple(tokens for tokens, _ in sure)


def _contradict(one: Mapping[str, Setting], other: Mapping[str, Setting]) -> bool:
    """Return whether two documents have different values of a setting that decides capacity."""
    paths = {path for path in (*one, *other) if one.get(path) != other.get(path) and decides(path)}
    values = ((lookup_value(one, path), lookup_value(other, path)) for path in paths)
    return any(own is not None and theirs is not None and own != theirs for own, theirs in values)


@lru_cache(maxsize=REMEMBERED)
def decides(path: str) -> bool:
    return any(fnmatchcase(path, glob) for glob in DECIDES_CAPACITY)


def engines_after(
    engines: Sequence[Engine], ranks: Sequence[RankForecast], settings: Mapping[str, Setting]
) -> tuple[Engine, ...]:
    """Return engines with their forecasts: blocks and bytes become unknown, without forecasts only fingerprints."""
    if not ranks or not engines:
        return tuple(each._replace(fingerprint=None) for each in engines)
    max_model_len = max_model_len_of(settings)
    return tuple(
        Engine(
            dp_rank=rank.dp_rank,
            num_gpu_blocks=None,
            block_size=None,
            kv_cache_size_tokens=rank.after,
            max_concurrency=None,
            kv_cache_bytes=None,
            kv_cache_bytes_per_device=None,
            naive_tokens=None,
            max_model_len=max_model_len,
            basis=Basis.UNKNOWN if rank.after is None else Basis.ASSUMED,
            reason=rank.reason,
            shares_sum=engine.shares_sum,
        )
        for engine, rank in zip(engines, ranks, strict=True)
    )
