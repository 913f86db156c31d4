"""Hosts, ports and topics that replicas report, and which of them mean another machine on each replica."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Replica
from dashboard.rules.domain import EVENTS, tiers_of
from dashboard.rules.subject import FleetSubject, Subject
from vllm_fleet_provider.shared.identity import EVENT_TOPIC, TOPIC

DP_SIZE = "parallel_config.data_parallel_size"
DP_RANK = "parallel_config.data_parallel_rank"
LOCAL_SIZE = "parallel_config.data_parallel_size_local"  # ranks that this replica starts on its own host
MAX_LOCAL_RANKS = 1024
MAX_PORT = 65_535
NIXL, P2P = "Nixl", "p2p"  # part of connector names, and the kind of a tier
NIXL_HOST, NIXL_PORT = "env.VLLM_NIXL_SIDE_CHANNEL_HOST", "env.VLLM_NIXL_SIDE_CHANNEL_PORT"
P2P_HOST, P2P_PORT = "env.VLLM_P2P_SIDE_CHANNEL_HOST", "env.VLLM_P2P_SIDE_CHANNEL_PORT"
ENDPOINT, REPLAY = "kv_events_config.endpoint", "kv_events_config.replay_endpoint"

_ID = re.compile(r"(?:[^/]*\+)?[a-z]+://(\[[^\]]*\]|[^:/]*)")
_ENDPOINT = re.compile(r"tcp://(?P<host>\[[^\]]*\]|[^\s:]*|::):(?P<port>\d{1,5})", re.ASCII)


class Socket(NamedTuple):
    """One address that a replica listens at, with its setting and value as JSON text.

    `free` is the first port behind those of all its ranks.
    """

    replica: str
    name: str
    host: str
    port: int
    path: str
    value: str
    free: int


def side_channels(fleet: FleetSubject, ranks: Mapping[str, int]) -> Iterator[Socket]:
    """Yield the addresses of NIXL and the P2P tier of each rank; vLLM adds the data-parallel rank to the port."""
    numbers = _local_ranks(fleet)
    known = {path: fleet.identity(path) for path in (NIXL_HOST, NIXL_PORT, P2P_HOST, P2P_PORT)}
    for pool in fleet.subjects:
        found = pool.connectors
        for member in pool.members if any(found.values()) else ():
            first = ranks.get(member.id, 0)
            offsets = range(first, first + numbers.get(member.id, 1))
            for connector in found[member.id]:
                if NIXL in connector.name:
                    host, base = known[NIXL_HOST].get(member.id), known[NIXL_PORT].get(member.id)
                    yield from _socket(member.id, "the NIXL side channel", host, base, offsets, NIXL_PORT)
                if P2P in (kinds := tiers_of(connector)):
                    place = kinds.index(P2P)
                    host = _of_tier(member, place, "host") or known[P2P_HOST].get(member.id)
                    base = _of_tier(member, place, "port") or known[P2P_PORT].get(member.id)
                    yield from _socket(member.id, "the P2P tier", host, base, offsets, P2P_PORT)


def event_sockets(fleet: FleetSubject, ranks: Mapping[str, int]) -> Iterator[Socket]:
    """Yield the bound event endpoints of replicas that are a whole engine.

    Ranks report a port with or without their rank added, by version. To an endpoint with a host, publishers connect:
    several may.
    """
    publishes = fleet.identity(EVENTS)
    for path, name in ((ENDPOINT, "KV events"), (REPLAY, "KV event replay")):
        for replica, value in fleet.identity(path).items():
            if publishes.get(replica) is not True or replica in ranks or (found := endpoint_of(value)) is None:
                continue
            host, port = found
            if path == REPLAY or is_own(host):
                yield Socket(replica, name, host, port, path, json.dumps(value), port + 1)


def topics(fleet: FleetSubject) -> dict[str, list[str]]:
    """Return the replicas by topic, of topics with a pod: `kv@10.0.0.5:8000@chat`."""
    publishes = fleet.identity(EVENTS)
    found: dict[str, list[str]] = defaultdict(list)
    for replica, topic in fleet.identity(EVENT_TOPIC).items():
        names_pod = isinstance(topic, str) and (match := TOPIC.match(topic)) is not None and match["pod"]
        if names_pod and publishes.get(replica) is True:
            found[topic].append(replica)
    return found


def _of_tier(replica: Replica, place: int, key: str) -> Any:
    """Return the host or port of a tier's own options, which override the environment."""
    end = f"secondary_tiers.{place}.{key}"
    own = (each for path, each in replica.identity.items() if path.endswith(end) and is_comparable(each.state))
    return next((json.loads(setting.value) for setting in own), None)


def _local_ranks(fleet: FleetSubject) -> dict[str, int]:
    """Return how many data-parallel ranks a replica starts on its host; without those that do not report it."""
    sizes = fleet.identity(DP_SIZE)
    return {
        replica: min(number, sizes[replica], MAX_LOCAL_RANKS)
        for replica, number in fleet.identity(LOCAL_SIZE).items()
        if type(number) is int and number > 0 and type(sizes.get(replica)) is int and sizes[replica] > 0
    }


def _socket(replica: str, name: str, host: Any, base: Any, offsets: range, path: str) -> Iterator[Socket]:
    """Yield the address of each rank; the ports are the base and a rank."""
    for offset in offsets if isinstance(host, str) and host and port_of(base) else ():
        if port_of(port := base + offset):
            text = json.dumps(f"{host}:{port}", ensure_ascii=False)
            yield Socket(replica, name, host, port, path, text, base + offsets.stop)


def ranks_of(subject: Subject) -> dict[str, int]:
    """Return the data-parallel ranks of the replicas that are part of an engine with several."""
    sizes = {each: size for each, size in subject.identity(DP_SIZE).items() if type(size) is int and size > 1}
    ranks = subject.identity(DP_RANK) if sizes else {}
    return {each: rank for each in sizes if type(rank := ranks.get(each)) is int and rank >= 0}


def host_of(replica: str) -> str:
    """Return the host in a replica's id; empty if it has none."""
    found = _ID.match(replica)
    return found[1] if found else ""


def is_own(host: str) -> bool:
    """Return whether a replica listens at a host of its own machine: any, `*`, or a local one."""
    return host in {"", "*"} or is_local(host)


def is_local(host: str) -> bool:
    """Return whether a host is the machine that uses it: `localhost`, 127.0.0.1, ::1, 0.0.0.0."""
    name = host.strip().strip("[]").lower()
    try:
        address = ip_address(name)
    except ValueError:
        return name == "localhost"
    return address.is_loopback or address.is_unspecified


def endpoint_of(value: Any) -> tuple[str, int] | None:
    """Return host and port of `tcp://host:port`; None for all else, and for port 0, which the system replaces."""
    found = _ENDPOINT.fullmatch(value) if isinstance(value, str) else None
    return (found["host"], port) if found and (port := port_of(int(found["port"]))) else None


def port_of(value: Any) -> int | None:
    """Return a valid port; None for all else."""
    is_port = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT
    return value if is_port else None


def processes(replicas: Iterable[str], fleet: FleetSubject) -> tuple[str, ...]:
    """Return the sorted addresses of different processes: of those that share one only the first."""
    wanted = set(replicas)
    if len(wanted) <= 1:
        return tuple(wanted)
    same = {key: fleet.by_id[key].same_process for key in wanted}
    return tuple(sorted(each for each, others in same.items() if not any(it < each and it in wanted for it in others)))
