"""One replica, read from its snapshot: state, pool, role, times, and the merged replies."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias, TypeVar

from dashboard.fleet import (
    CLUSTER,
    Contradiction,
    Device,
    Document,
    Engine,
    EngineReport,
    Failure,
    FailureKind,
    KVCacheGroup,
    ProbeResult,
    Replica,
    ReplicaState,
    Reply,
    Role,
    Setting,
    Snapshot,
    Source,
    State,
)
from dashboard.fleet.grouping import grouped
from dashboard.vllm.canonical import setting
from dashboard.vllm.merging import TRUST, merge, merge_engines
from vllm_fleet_provider.shared.digests import differing_digests

Placed = TypeVar("Placed", "Device", "KVCacheGroup")

ROLES = frozenset(map(str, Role))
ROLE_OF = {"kv_producer": Role.PREFILL, "kv_consumer": Role.DECODE}
ENCODER_ROLE = "ec_transfer_config.ec_role"
# Settings and values with which an instance runs no language model (vllm/config/vllm.py, _resolve_mm_encoder_only).
ENCODES_ONLY = {ENCODER_ROLE: '"ec_producer"', "model_config.multimodal_config.mm_encoder_only": "true"}
NO_CACHE = Failure(
    FailureKind.SCHEMA,
    "The answers have no cache configuration: /metrics has no vllm:cache_config_info. Is the engine still starting?",
)
RUST_FRONTEND = Failure(
    FailureKind.FRONTEND,
    "The Rust frontend (VLLM_USE_RUST_FRONTEND=1) reports no KV cache, no block hashes and no engine settings over "
    "HTTP, and loads no endpoint plugin. Start it with --grpc-port and set the label grpc_port, or start the Python "
    "API server instead.",
)
MOST_ADDRESSES = 32  # that are listed of one process
RUST_VERSION = "rust_frontend_version"  # a setting of the Rust frontend alone
REPORTS_CACHE = frozenset({Source.PROVIDER, Source.METRICS, Source.SERVER_INFO, Source.GRPC, Source.CONFIG_API})
_seconds = lru_cache(maxsize=8)(datetime.timestamp)  # all replicas of a poll are compared with one time


# From the document, the reports of the engines, and the KV cache groups.
ComputeEngines: TypeAlias = Callable[[Document, tuple[EngineReport, ...], tuple[KVCacheGroup, ...]], tuple[Engine, ...]]


def read_document(snapshot: Snapshot) -> Document:
    return merge(_settings(sorted(snapshot.probes.values(), key=_trust)))[0]


def read_replica(
    snapshot: Snapshot, since: datetime, compute_engines: ComputeEngines, scraped_at: float | None = None
) -> Replica:
    """Merge the replies of one replica, which is fresh where it was read or scraped at `since` or later.

    `scraped_at` is when Prometheus scraped a replica last that was not asked, in seconds since 1970.
    """
    results = sorted(snapshot.probes.values(), key=_trust)
    other = _other_server(results)
    replies = [result.reply for result in results if result.reply and not other]
    document, contradictions = merge([] if other else _settings(results))
    target = snapshot.target
    names = _served_names(replies)
    role = _role(target.labels, document.settings)
    state, failure = (ReplicaState.DOWN, other) if other else _state(snapshot, results)
    reports, token_contradictions = merge_engines(
        tuple((reply.source, reply.engines) for reply in replies if reply.engines)
    )
    devices = next((reply.devices for reply in replies if reply.devices), ())
    groups = next((reply.kv_cache_groups for reply in replies if reply.kv_cache_groups), ())
    groups = _on_engines(groups, reports)
    observed_at = read_at(results, scraped_at)
    return Replica(
        id=target.id,
        name=target.labels.get("name") or target.id.partition("://")[2] or target.id,
        labels=target.labels,
        pool=None if other else pool_key(target.labels, names, role),
        role=role,
        state=state,
        failure=failure,
        fresh=is_fresh(observed_at, since, scraped_at),
        version=next((reply.version for reply in replies if reply.version), None),
        started_at=_started_at(replies),
        observed_at=observed_at,
        document=document.id if document.settings else None,
        identity=_identity(replies),
        sources=tuple(dict.fromkeys(reply.source for reply in replies)),
        contradictions=(*contradictions, *token_contradictions, *_wrong_digests(replies)),
        served_model_names=names,
        adapters=_adapters(replies),
        engines=compute_engines(document, reports, groups),
        devices=_on_engines(devices, reports),
        kv_cache_groups=groups,
        probes=tuple(snapshot.probes.values()),
        set_arguments=next((reply.arguments for reply in replies if reply.arguments is not None), None),
        target_stale=target.stale,
        same_digest_as=snapshot.same_digest_as,
    )


def with_same_process(replicas: Sequence[Replica]) -> tuple[Replica, ...]:
    """Return replicas with the other addresses of their `instance_id`: one process behind several addresses."""
    reported = [(replica.identity.get("instance_id"), replica.id) for replica in replicas]
    addresses = grouped(
        (each.value, key) for each, key in reported if each and each.state is State.REPORTED and each.value != '""'
    )
    few = (  # of which the first by name is always one: the others are second addresses
        (sharing, sharing if len(sharing) <= MOST_ADDRESSES else sorted(sharing)[:MOST_ADDRESSES])
        for sharing in addresses.values()
        if len(sharing) > 1
    )
    others = {
        address: tuple(other for other in named if other != address) for sharing, named in few for address in sharing
    }
    return tuple(
        replica
        if replica.same_process == others.get(replica.id, ())
        else replace(replica, same_process=others.get(replica.id, ()))
        for replica in replicas
    )


def read_at(results: Iterable[ProbeResult], scraped_at: float | None) -> datetime | None:
    """Return when a replica was read or scraped last; None where no probe ever had a reply."""
    times = [each.observed_at for each in results if each.reply]
    return datetime.fromtimestamp(scraped_at, UTC) if times and scraped_at is not None else max(times, default=None)


def is_fresh(observed_at: datetime | None, since: datetime, scraped_at: float | None) -> bool:
    """Return whether a replica was read or scraped at `since` or later; `observed_at` is None without any reply."""
    if observed_at is None or scraped_at is None:
        return observed_at is not None and observed_at >= since
    return scraped_at >= _seconds(since)


def _settings(results: Iterable[ProbeResult]) -> list[Mapping[str, Setting]]:
    return [result.reply.settings for result in results if result.reply]


def _trust(result: ProbeResult) -> tuple[int, str]:
    """Order results by trust, then by path. Only the answer shows the source: our provider shares paths with others."""
    return TRUST[result.reply.source if result.reply else result.source], result.path


def _identity(replies: Sequence[Reply]) -> Mapping[str, Setting]:
    """Merge identity settings; mostly the most trusted reply has them all, and nothing is copied."""
    merged: Mapping[str, Setting] = {}
    for reply in replies:
        if not reply.identity.keys() <= merged.keys():
            merged = {**reply.identity, **merged} if merged else reply.identity
    return merged


def _other_server(results: Sequence[ProbeResult]) -> Failure | None:
    """Return the failure of a server that is not vLLM: its answers mean nothing. One with engine data is vLLM."""
    if any(each.reply and not each.failure and each.reply.source in REPORTS_CACHE for each in results):
        return None
    failures = (each.failure for each in results if each.failure)
    return next((each for each in failures if each.kind is FailureKind.NOT_VLLM), None)


def _state(snapshot: Snapshot, results: Sequence[ProbeResult]) -> tuple[ReplicaState, Failure | None]:
    """Return state and failure. A reply with a failure is an earlier one: it does not make a replica reachable."""
    answered = any(result.reply and not result.failure for result in results)
    metrics = snapshot.probes.get("/metrics")
    failures = [result.failure for result in (metrics, *results) if result and result.failure]
    if failures or not answered:
        return ReplicaState.PARTIAL if answered else ReplicaState.DOWN, next(iter(failures), None)
    if not any(result.reply and result.reply.engines and result.reply.source in REPORTS_CACHE for result in results):
        is_rust = any(result.reply and RUST_VERSION in result.reply.settings for result in results)
        return ReplicaState.PARTIAL, RUST_FRONTEND if is_rust else NO_CACHE
    return ReplicaState.UP, None


def _served_names(replies: Sequence[Reply]) -> tuple[str, ...]:
    """Return all served names: /v1/models and the configuration endpoints list them, metrics have the first."""
    names = [reply.served_model_names for reply in replies if reply.served_model_names]
    return max(names, key=len, default=())


def _started_at(replies: Sequence[Reply]) -> datetime | None:
    """Return the start of the process: from /metrics at every poll, from the provider for several API processes."""
    times = {reply.source: reply.started_at for reply in replies if reply.started_at}
    return times.get(Source.METRICS, next(iter(times.values()), None))


def _wrong_digests(replies: Sequence[Reply]) -> Iterator[Contradiction]:
    """Yield the digests that /metrics reports and the provider's answer does not have."""
    known = {each.source: each.digests for each in replies if each.digests}
    reported, own = known.get(Source.METRICS, {}), known.get(Source.PROVIDER, {})
    for name in differing_digests(reported, own):
        values = ((own[name], Source.PROVIDER), (reported[name], Source.METRICS))
        yield Contradiction(name, *(setting(name, digest, source) for digest, source in values))


def _adapters(replies: Sequence[Reply]) -> Mapping[str, str | None]:
    """Return the LoRA adapters: from /v1/models at every poll, else from the provider or gRPC."""
    adapters: dict[Source, dict[str, str | None]] = defaultdict(dict)
    for reply in reversed(replies):
        adapters[reply.source] |= reply.adapters
    return next((adapters[each] for each in (Source.MODELS, Source.PROVIDER, Source.GRPC) if each in adapters), {})


def _role(labels: Mapping[str, str], settings: Mapping[str, Setting]) -> Role:
    label = labels.get("role", "").lower()
    if label in ROLES:
        return Role(label)
    if any(path in settings and settings[path].value == value for path, value in ENCODES_ONLY.items()):
        return Role.ENCODER
    kv_role = settings.get("kv_transfer_config.kv_role")
    if kv_role is None or not kv_role.value.startswith('"'):
        return Role.BOTH
    return ROLE_OF.get(json.loads(kv_role.value), Role.BOTH)


def pool_key(labels: Mapping[str, str], names: Sequence[str], role: Role) -> str | None:
    """Return the key of the pool: `cluster/name`, without the label `cluster` the name alone."""
    name = labels.get("pool")
    if not name and names:
        name = names[0] if role is Role.BOTH else f"{names[0]}/{role}"
    cluster = labels.get(CLUSTER)
    return f"{cluster}/{name}" if cluster and name else name or None


def _on_engines(parts: tuple[Placed, ...], engines: tuple[EngineReport, ...]) -> tuple[Placed, ...]:
    """Return devices or KV cache groups with the ranks of known engines: an unknown rank means the first."""
    ranks = [engine.dp_rank for engine in engines]
    return tuple(one if one.dp_rank in ranks or not ranks else one._replace(dp_rank=ranks[0]) for one in parts)
