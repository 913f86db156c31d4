"""Builders of core types with defaults: a test passes only the values that it is about."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from typing import Any

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.compare import compare_pool
from dashboard.fleet import (
    Basis,
    Device,
    Document,
    Engine,
    EngineFingerprint,
    Failure,
    FailureKind,
    Pool,
    ProbeResult,
    Replica,
    ReplicaState,
    Role,
    Setting,
    Source,
    State,
    WorkerMemory,
)
from dashboard.rules.domain import PoolDeclaration, Router
from dashboard.rules.policy import Policy

NOW = datetime(2026, 3, 2, 11, 42, 13, tzinfo=UTC)
POLLED_AT = NOW - timedelta(seconds=8)
GIB = 2**30
# Settings that have to be equal to share KV cache, in addition to the hashes.
SAME_KV: Mapping[str, Any] = {
    "model_config.model": "org/llama",
    "model_config.revision": None,
    "cache_config.kv_cache_layout": "NHD",
}
HASHING = Policy({"*": PoolDeclaration(router=Router.PREFIX_HASH)})
_GENERATIONS = count(1)
CONFIG: Mapping[str, Any] = {
    "version": "0.32.0",
    "cache_config.block_size": 16,
    "cache_config.cache_dtype": "auto",
    "cache_config.enable_prefix_caching": True,
    "cache_config.gpu_memory_utilization": 0.92,
    "cache_config.hash_block_size": 16,
    "cache_config.kv_offloading_size": None,
    "cache_config.prefix_caching_hash_algo": "sha256_cbor",
    "cache_config.prefix_match_unit": None,
    "compilation_config.cudagraph_capture_sizes": list(range(1, 52)),
    "kv_events_config.publisher": "zmq",
    "model_config.dtype": "bfloat16",
    "model_config.max_logprobs": 20,
    "model_config.max_model_len": 131072,
    "parallel_config.tensor_parallel_size": 4,
    "scheduler_config.max_num_batched_tokens": 8192,
    "scheduler_config.max_num_seqs": 256,
}


def setting(value: Any, state: State | None = None, source: Source = Source.SERVER_INFO) -> Setting:
    """A setting as normalizing writes it: None is null unless a state is given."""
    return Setting(json.dumps(value), state or (State.NULL if value is None else State.REPORTED), source)


def document(settings: Mapping[str, Any] | None = None, *, base: Mapping[str, Any] = CONFIG) -> Document:
    """A document with default settings, some of them replaced. A `Setting` is used unchanged."""
    whole = {
        path: value if isinstance(value, Setting) else setting(value)
        for path, value in {**base, **(settings or {})}.items()
    }
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:12]
    version = json.loads(whole["version"].value) if "version" in whole else None
    return Document(digest, version, whole)


def engine(tokens: int | None = 1_200_000, *, dp_rank: int = 0, basis: Basis = Basis.REPORTED, **more: Any) -> Engine:
    """An engine of a uniform model: blocks of 16 tokens."""
    given = {
        "dp_rank": dp_rank,
        "num_gpu_blocks": None if tokens is None else tokens // 16,
        "block_size": 16,
        "kv_cache_size_tokens": tokens,
        "max_concurrency": None if tokens is None else tokens / 131072,
        "kv_cache_bytes": 184 * GIB,
        "kv_cache_bytes_per_device": 46 * GIB,
        "naive_tokens": tokens,
        "max_model_len": 131072,
        "basis": basis,
    }
    return Engine(**{**given, **more})


def hashing(*digests: str | EngineFingerprint | None) -> tuple[Engine, ...]:
    """An engine per digest of its block hashes. None: the engine reports no digest."""
    fingerprints = [EngineFingerprint(each, each) if isinstance(each, str) else each for each in digests]
    return tuple(engine(dp_rank=rank, fingerprint=each) for rank, each in enumerate(fingerprints))


def devices(count: int = 4, name: str = "NVIDIA H100 80GB HBM3", *, dp_rank: int = 0) -> tuple[Device, ...]:
    """The accelerators of one engine."""
    return tuple(Device(dp_rank, rank, name, 80 * GIB, "9.0") for rank in range(count))


def memory(**gib: float | None) -> WorkerMemory:
    """The memory of a device of 80 GiB, of which 72 are requested; parts in GiB by the first word of their name."""
    parts = {"total": 80, "free": 79, "requested": 72, "weights": 30, "non_torch": 2, "activation": 3, "cuda_graph": 1}
    whole: dict[str, float | None] = {**parts, **gib}
    whole.setdefault("available", 72 - sum(whole[part] or 0 for part in list(parts)[3:]))
    sizes: dict[str, Any] = {f"{name}_bytes": None if each is None else int(each * GIB) for name, each in whole.items()}
    return WorkerMemory()._replace(**sizes)


def replica(
    name: str = "chat-0", *, pool: str | None = "chat", document: Document | None = None, **more: Any
) -> Replica:
    """A replica that is up, with one engine on four H100."""
    given: dict[str, Any] = {
        "id": f"http://{name}:8000",
        "name": name,
        "labels": {"pool": pool} if pool else {},
        "pool": pool,
        "role": Role.BOTH,
        "state": ReplicaState.UP,
        "failure": None,
        "fresh": True,
        "version": document.version if document else None,
        "started_at": NOW - timedelta(days=2),
        "observed_at": POLLED_AT,
        "document": document.id if document else None,
        "identity": {},
        "sources": (Source.SERVER_INFO, Source.METRICS, Source.VERSION, Source.MODELS),
        "contradictions": (),
        "served_model_names": (pool,) if pool else (),
        "adapters": {},
        "engines": (engine(),),
        "devices": devices(),
        "kv_cache_groups": (),
        "probes": (probe(),),
    }
    return Replica(**{**given, **more})


def down(
    name: str = "chat-9",
    *,
    pool: str | None = "chat",
    kind: FailureKind = FailureKind.REFUSED,
    detail: str = "Nothing listens there.",
    **more: Any,
) -> Replica:
    """A replica that sent no usable reply."""
    nothing = {"engines": (), "devices": (), "sources": (), "fresh": False, "version": None, "observed_at": None}
    failure = Failure(kind, detail)
    return replica(
        name,
        pool=pool,
        state=ReplicaState.DOWN,
        failure=failure,
        **{**nothing, "probes": (probe(failure=failure, status=None, raw=b""),), **more},
    )


def probe(path: str = "/metrics", *, source: Source = Source.METRICS, **more: Any) -> ProbeResult:
    """The result of one GET."""
    given = {"status": 200, "size_bytes": 2048, "raw": b"vllm:cache_config_info 1.0\n", "elapsed_seconds": 0.012}
    return ProbeResult(path=path, source=source, observed_at=POLLED_AT, **{**given, **more})


def fleet(
    replicas: Iterable[Replica] = (),
    documents: Iterable[Document] = (),
    *,
    ignore: tuple[str, ...] = (),
    name: str = "prod-eu",
    polled_at: datetime = POLLED_AT,
    **more: Any,
) -> Fleet:
    """A fleet as `assemble` makes it of a poll. Every call makes a new generation. `more` are its other fields."""
    known = {each.id: each for each in documents}
    made_before = more.keys() & {
        *("policy", "routers", "recent", "sightings", "lives", "letters", "traffic", "traffic_window"),
    }
    before = {each: more.pop(each) for each in made_before}
    number = next(_GENERATIONS)
    read = Fleet(name, number, polled_at, replicas=tuple(replicas), documents=known, ignored=ignore, **before)
    return replace(assemble(read, polled_at), **more)


def compared(
    members: Iterable[Replica], documents: Mapping[str, Document], ignore: tuple[str, ...] = ()
) -> tuple[Pool, ...]:
    """The compared pools of some replicas."""
    by_name: dict[str, list[Replica]] = {}
    for member in members:
        if member.pool:
            by_name.setdefault(member.pool, []).append(member)
    return tuple(
        replace(compare_pool(name, own[0].role, own, documents, ignore), cluster=own[0].labels.get("cluster", ""))
        for name, own in by_name.items()
    )


def alike(pool: str, number: int, document: Document, *, first: int = 1, **more: Any) -> list[Replica]:
    """Replicas `pool-01`, `pool-02` and so on that share one document."""
    label = pool.replace("/", "-")
    return [
        replica(f"{label}-{index:02}", pool=pool, document=document, **more) for index in range(first, first + number)
    ]


def story() -> Fleet:
    """Five pools: one split in three, two that agree, one in an upgrade; one replica down, one read in part."""
    return replace(_story(), generation=next(_GENERATIONS))


@cache  # it takes longer than most pages
def _story() -> Fleet:
    chat = document()
    hashed = document({"cache_config.prefix_caching_hash_algo": "xxhash", "cache_config.kv_offloading_size": 64})
    blocks = document(
        {
            "cache_config.block_size": 32,
            "cache_config.gpu_memory_utilization": 0.88,
            "compilation_config.cudagraph_capture_sizes": list(range(1, 28)),
            "model_config.max_logprobs": 5,
            "scheduler_config.max_num_batched_tokens": 2048,
        }
    )
    gemma = document({"parallel_config.tensor_parallel_size": 1, "model_config.max_model_len": 32768})
    prefill = document({"parallel_config.tensor_parallel_size": 8, "cache_config.cache_dtype": "fp8_e4m3"})
    decode = document({"parallel_config.tensor_parallel_size": 8})
    old = document({"version": "0.31.0", "parallel_config.tensor_parallel_size": 1})
    new = document({"parallel_config.tensor_parallel_size": 1})
    wide: dict[str, Any] = {"devices": devices(8, "NVIDIA H200")}
    one: dict[str, Any] = {"engines": (engine(660_000),), "devices": devices(1)}
    small: dict[str, Any] = {"engines": (engine(440_000, basis=Basis.ASSUMED),), "devices": devices(1, "NVIDIA L40S")}
    bare = {"engines": (engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None),), "devices": ()}
    refused = Failure(FailureKind.UNAUTHORIZED, "/v1/config answers 401: no key is given for this target.")
    members = [
        *alike("chat-70b", 15, chat),
        replica("chat-70b-16", pool="chat-70b", document=hashed),
        replica("chat-70b-17", pool="chat-70b", document=blocks),
        down(
            "chat-70b-18",
            pool="chat-70b",
            kind=FailureKind.TIMEOUT,
            detail="No answer within 5 s.",
            observed_at=NOW - timedelta(minutes=14),
        ),
        *alike("gemma-27b", 8, gemma, **one),
        *alike("deepseek-v3/prefill", 2, prefill, role=Role.PREFILL, **wide),
        *alike("deepseek-v3/decode", 2, decode, role=Role.DECODE, **wide),
        *alike("embed-8b", 5, new, **small),
        *[replica(f"embed-8b-{index:02}", pool="embed-8b", document=old, **small) for index in range(6, 10)],
        replica("embed-8b-10", pool="embed-8b", state=ReplicaState.PARTIAL, failure=refused, document=old, **bare),
    ]
    return fleet(members, [chat, hashed, blocks, gemma, prefill, decode, old, new], policy=HASHING)


HOSTILE = "<script>alert(1)</script>![x](http://198.51.100.7/x.png)\"'><img src=x onerror=alert(1)>\n=1+1"


def hostile() -> Fleet:
    """A fleet in which whatever a server or an operator can name is an attack."""
    documents = [document({"model_config.tokenizer": HOSTILE, HOSTILE: index}) for index in range(2)]
    members = [
        replica(f"{HOSTILE}{index}", pool=HOSTILE, document=each, devices=devices(1, HOSTILE))
        for index, each in enumerate(documents)
    ]
    refused = down(f"{HOSTILE}9", pool=HOSTILE, detail=HOSTILE)
    return fleet([*members, refused], documents, name=HOSTILE)
