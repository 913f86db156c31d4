"""The kinds of routers and KV stores: the routers of vLLM's production-stack and of Dynamo, LMCache, Mooncake's master.

Read in vllm-project/production-stack (src/vllm_router/parsers/parser.py, services/metrics_service), ai-dynamo/dynamo
(components/src/dynamo/frontend, lib/runtime/src/metrics/prometheus_names.rs), LMCache/LMCache
(lmcache/v1/internal_api_server) and kvcache-ai/Mooncake (mooncake-store, its metrics).
"""

from functools import partial
from typing import Any

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName, RouterKind
from dashboard.rules.domain import Router, Store
from dashboard.sources.routers.answers import FactValues, Process, RouterApi, is_count, read_samples, to_count
from dashboard.sources.routers.llm_d import LLM_D
from dashboard.sources.source import mapping, text
from dashboard.vllm.reading import parse_json

MAX_NODES = 5_000  # of JSON; LMCache has some 100 options
HEALTHY = "vllm:healthy_pods_total"  # one sample for each server
# kvaware asks LMCache's controller, which knows chunks and not vLLM's blocks: no value of `router` is right.
LOGICS = {
    "roundrobin": Router.NONE,
    "session": Router.NONE,
    "disaggregated_prefill": Router.NONE,
    "disaggregated_prefill_orchestrated": Router.NONE,
    "prefixaware": Router.APPROXIMATE,
}
KV_AWARE = "kvaware"
BLOCK_SIZE, WORKERS = "dynamo_frontend_model_kv_cache_block_size", "dynamo_frontend_model_workers"
MODES = {
    "kv": Router.KV_EVENTS,
    **dict.fromkeys(
        ("round-robin", "random", "power-of-two", "direct", "least-loaded", "device-aware-weighted"), Router.NONE
    ),
}
NO_EVENTS = "no-router-kv-events"  # it estimates caches from its own decisions
OFF = frozenset({"0", "false", "no", "off"})
CONF, STATUS, VERSION = "/conf?names=chunk_size,pre_caching_hash_algorithm", "/status", "/lmc_version"
CLIENTS = "master_active_clients"


def read_stack_metrics(body: bytes) -> FactValues:
    """Read the replicas that production-stack's router routes to."""
    servers = {labels.get("server", ""): value for _, labels, value in read_samples(body, {HEALTHY})}
    if not servers:
        raise UnreadableError(
            "schema", f"answers /metrics without {HEALTHY}; check that production-stack's router is there"
        )
    return {FactName.ENDPOINTS: sorted(servers), FactName.READY: sum(value > 0 for value in servers.values())}


def read_stack_health(body: bytes) -> FactValues:
    """Read the options of production-stack's router where it has a file of them, which it reads again and again."""
    answer = parse_json(body, MAX_NODES)
    if not isinstance(answer, dict) or "status" not in answer:
        raise UnreadableError("schema", "answers /health with JSON that has no status")
    return _of_logic(text(mapping(answer, "dynamic_config"), "routing_logic"))


def read_stack_process(process: Process) -> FactValues:
    """Read the command line of production-stack's router."""
    return _of_logic(process.option("routing-logic") or "")


def _of_logic(logic: str) -> FactValues:
    found: dict[FactName, Any] = {FactName.ROUTING: LOGICS[logic]} if logic in LOGICS else {}
    return found | ({FactName.KV_STORE: Store.LMCACHE} if logic == KV_AWARE else {})


def read_dynamo_metrics(body: bytes) -> FactValues:
    """Read the block size of Dynamo's frontend, where all of its models have one, and the number of its workers."""
    samples = list(read_samples(body, {BLOCK_SIZE, WORKERS}))
    if not samples:
        raise UnreadableError("schema", f"answers /metrics without {BLOCK_SIZE}; check that Dynamo's frontend is there")
    sizes = {int(value) for name, _, value in samples if name == BLOCK_SIZE and 0 < value < 2**31}
    workers = [int(value) for name, _, value in samples if name == WORKERS and 0 <= value < 2**31]
    found: dict[FactName, Any] = {FactName.BLOCK_SIZE: sizes.pop()} if len(sizes) == 1 else {}
    return found | ({FactName.READY: sum(workers)} if workers else {})


def read_dynamo_process(process: Process) -> FactValues:
    """Read the command line and the environment of Dynamo's frontend; its router drops events of another block size."""
    given = process.environment
    size = to_count(process.option("kv-cache-block-size") or given.get("DYN_KV_CACHE_BLOCK_SIZE"))
    mode = process.option("router-mode") or given.get("DYN_ROUTER_MODE") or "round-robin"
    routing = MODES.get(mode)
    if routing is Router.KV_EVENTS:
        is_off = process.option(NO_EVENTS) is not None or given.get("DYN_ROUTER_USE_KV_EVENTS", "").lower() in OFF
        routing = Router.APPROXIMATE if is_off else routing
    found: dict[FactName, Any] = {FactName.BLOCK_SIZE: size} if is_count(size) else {}
    found |= {FactName.ROUTING: routing} if routing else {}
    return found | ({FactName.OWN_KEYS: False} if routing is Router.KV_EVENTS else {})


PRODUCTION_STACK = RouterApi(8001, {"/metrics": read_stack_metrics, "/health": read_stack_health}, read_stack_process)
DYNAMO = RouterApi(8000, {"/metrics": read_dynamo_metrics}, read_dynamo_process)


def _read_options(path: str, name: str, server: str, body: bytes) -> FactValues:
    """Read the options in force of an LMCache server on which its keys depend; `name` is that of the algorithm."""
    answer = parse_json(body, MAX_NODES)
    if not isinstance(answer, dict) or not is_count(answer.get("chunk_size")):
        raise UnreadableError("schema", f"answers {path} without a chunk_size; check that {server} is there")
    found: dict[FactName, Any] = {FactName.KV_STORE: Store.LMCACHE, FactName.CHUNK_SIZE: answer["chunk_size"]}
    algorithm = text(answer, name)
    return found | ({FactName.KEY_ALGORITHM: algorithm} if algorithm else {})


read_conf = partial(_read_options, "/conf", "pre_caching_hash_algorithm", "LMCache's API server")
read_status = partial(_read_options, STATUS, "hash_algorithm", "LMCache")


def read_version(body: bytes) -> FactValues:
    """Read the version of an LMCache server, a JSON string."""
    answer = parse_json(body, MAX_NODES)
    return {FactName.VERSION: answer} if isinstance(answer, str) and answer else {}


def read_master(body: bytes) -> FactValues:
    """Read the number of clients of a Mooncake master: one for each rank of the replicas."""
    clients = [value for _, _, value in read_samples(body, {CLIENTS})]
    if not clients:
        raise UnreadableError("schema", f"answers /metrics without {CLIENTS}; check that Mooncake's master is there")
    return {FactName.KV_STORE: Store.MOONCAKE, FactName.CLIENTS: int(clients[0]) if 0 <= clients[0] < 2**31 else 0}


# The first is of the server inside vLLM, the second of the multiprocess server.
LMCACHE = RouterApi(
    6999, {CONF: read_conf, STATUS: read_status, VERSION: read_version}, one_of=frozenset({CONF, STATUS, VERSION})
)
MOONCAKE = RouterApi(9003, {"/metrics": read_master})

KINDS = {
    RouterKind.LLM_D: LLM_D,
    RouterKind.PRODUCTION_STACK: PRODUCTION_STACK,
    RouterKind.DYNAMO: DYNAMO,
    RouterKind.LMCACHE: LMCACHE,
    RouterKind.MOONCAKE: MOONCAKE,
}
