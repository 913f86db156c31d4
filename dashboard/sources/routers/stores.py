"""The servers of KV stores: LMCache's internal API, Mooncake's master.

Read in LMCache/LMCache (lmcache/v1/internal_api_server) and kvcache-ai/Mooncake (mooncake-store, its metrics).
"""

from collections.abc import Mapping
from typing import Any

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName
from dashboard.rules.domain import Store
from dashboard.sources.routers.answers import FactValues, RouterApi, is_count, read_samples
from dashboard.sources.values import text
from dashboard.vllm.reading import parse_json

MAX_NODES = 5_000  # of JSON; LMCache has some 100 options
CONF, STATUS, VERSION = "/conf?names=chunk_size,pre_caching_hash_algorithm", "/status", "/lmc_version"
CLIENTS = "master_active_clients"


def read_conf(body: bytes) -> FactValues:
    """Read the options of an LMCache server on which its keys depend."""
    answer = parse_json(body, MAX_NODES)
    if not isinstance(answer, dict) or not is_count(answer.get("chunk_size")):
        raise UnreadableError("schema", "answers /conf without a chunk_size; check that LMCache's API server is there")
    return _of_options(answer, "pre_caching_hash_algorithm")


def _of_options(answer: Mapping[str, Any], name: str) -> FactValues:
    found: dict[FactName, Any] = {FactName.KV_STORE: Store.LMCACHE, FactName.CHUNK_SIZE: answer["chunk_size"]}
    algorithm = text(answer, name)
    return found | ({FactName.KEY_ALGORITHM: algorithm} if algorithm else {})


def read_status(body: bytes) -> FactValues:
    """Read the options in force of LMCache's multiprocess server."""
    answer = parse_json(body, MAX_NODES)
    if not isinstance(answer, dict) or not is_count(answer.get("chunk_size")):
        raise UnreadableError("schema", "answers /status without a chunk_size; check that LMCache is there")
    return _of_options(answer, "hash_algorithm")


def read_version(body: bytes) -> FactValues:
    """Read the version of an LMCache server, a JSON string."""
    answer = parse_json(body, MAX_NODES)
    return {FactName.VERSION: answer} if isinstance(answer, str) and answer else {}


def read_master(body: bytes) -> FactValues:
    """Read the number of clients of a Mooncake master: one for each rank of the replicas."""
    clients = [each.value for each in read_samples(body, {CLIENTS})]
    if not clients:
        raise UnreadableError("schema", f"answers /metrics without {CLIENTS}; check that Mooncake's master is there")
    return {FactName.KV_STORE: Store.MOONCAKE, FactName.CLIENTS: int(clients[0]) if 0 <= clients[0] < 2**31 else 0}


# The first is of the server inside vLLM, the second of the multiprocess server.
LMCACHE = RouterApi(
    6999, {CONF: read_conf, STATUS: read_status, VERSION: read_version}, one_of=frozenset({CONF, STATUS, VERSION})
)
MOONCAKE = RouterApi(9003, {"/metrics": read_master})
