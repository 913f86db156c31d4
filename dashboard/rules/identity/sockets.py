"""Where replicas say that they can be reached by each other and by routers: side channels and KV events."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Replica
from dashboard.rules.connectors import connectors
from dashboard.rules.domain import tiers_of
from dashboard.rules.identity.addresses import DP_RANK, DP_SIZE, endpoint_of, is_own, port_of, rank_of
from dashboard.rules.subject import FleetSubject
from dashboard.vllm.identity import TOPIC

NIXL, P2P = "Nixl", "p2p"  # part of the connectors' names, and the kind of a tier
NIXL_HOST, NIXL_PORT = "env.VLLM_NIXL_SIDE_CHANNEL_HOST", "env.VLLM_NIXL_SIDE_CHANNEL_PORT"
P2P_HOST, P2P_PORT = "env.VLLM_P2P_SIDE_CHANNEL_HOST", "env.VLLM_P2P_SIDE_CHANNEL_PORT"
PUBLISHES = "kv_events_config.enable_kv_cache_events"
ENDPOINT, REPLAY, EVENT_TOPIC = (
    "kv_events_config.endpoint",
    "kv_events_config.replay_endpoint",
    "kv_events_config.topic",
)


class Socket(NamedTuple):
    """One address that a replica listens at. `path` and `value` are the setting that says so, as JSON text."""

    replica: str
    noun: str
    host: str
    port: int
    path: str
    value: str


def side_channels(fleet: FleetSubject) -> Iterator[Socket]:
    """Yield where NIXL and the P2P tier listen; each data-parallel rank one port further (vLLM adds its rank)."""
    offsets = _offsets(fleet)
    told = {path: fleet.identity(path) for path in (NIXL_HOST, NIXL_PORT, P2P_HOST, P2P_PORT)}
    for pool in fleet.subjects:
        known = {key: connectors(pool.documents[key].settings) for key in {str(each.document) for each in pool.members}}
        for member in pool.members:
            offset = offsets.get(member.id, 0)
            for connector in known[str(member.document)]:
                if NIXL in connector.name:
                    host, base = told[NIXL_HOST].get(member.id), told[NIXL_PORT].get(member.id)
                    yield from _socket(member.id, "the NIXL side channel", host, base, offset, NIXL_PORT)
                if P2P in (kinds := tiers_of(connector)):
                    place = kinds.index(P2P)
                    host = _of_tier(member, place, "host") or told[P2P_HOST].get(member.id)
                    base = _of_tier(member, place, "port") or told[P2P_PORT].get(member.id)
                    yield from _socket(member.id, "the P2P tier", host, base, offset, P2P_PORT)


def event_sockets(fleet: FleetSubject) -> Iterator[Socket]:
    """Yield where events are published and repeated, of replicas that are one whole engine.

    Ranks count their ports up from what they tell, or tell the counted one, by version. An endpoint that names a host
    is one that the publisher connects to: many may.
    """
    publishes, offsets = fleet.identity(PUBLISHES), _offsets(fleet)
    for path, noun in ((ENDPOINT, "KV events"), (REPLAY, "repeated KV events")):
        for replica, value in fleet.identity(path).items():
            found = endpoint_of(value)
            if publishes.get(replica) is not True or found is None or replica in offsets:
                continue
            host, port = found
            if path == REPLAY or is_own(host):
                yield Socket(replica, noun, host, port, path, json.dumps(value))


def topics(fleet: FleetSubject) -> Iterator[tuple[str, int | None, str]]:
    """Yield (replica, its data-parallel rank if any, topic) for topics that name a pod: `kv@10.0.0.5:8000@chat`."""
    publishes, offsets = fleet.identity(PUBLISHES), _offsets(fleet)
    for replica, topic in fleet.identity(EVENT_TOPIC).items():
        names_pod = isinstance(topic, str) and (match := TOPIC.match(topic)) is not None and match["pod"]
        if names_pod and publishes.get(replica) is True:
            yield replica, offsets.get(replica), topic


def _of_tier(replica: Replica, place: int, key: str) -> Any:
    """Return the host or port that a tier was given; it counts before the environment."""
    end = f"secondary_tiers.{place}.{key}"
    given = (
        setting for path, setting in replica.identity.items() if path.endswith(end) and is_comparable(setting.state)
    )
    return next((json.loads(setting.value) for setting in given), None)


def _socket(replica: str, noun: str, host: Any, base: Any, offset: int, path: str) -> Iterator[Socket]:
    if isinstance(host, str) and host and port_of(base) and port_of(port := base + offset):
        yield Socket(replica, noun, host, port, path, json.dumps(f"{host}:{port}", ensure_ascii=False))


def _offsets(fleet: FleetSubject) -> dict[str, int]:
    """Return the data-parallel rank of those that have one."""
    sizes = fleet.identity(DP_SIZE)
    told = {replica: rank_of(sizes.get(replica), rank) for replica, rank in fleet.identity(DP_RANK).items()}
    return {replica: rank for replica, rank in told.items() if rank is not None}
