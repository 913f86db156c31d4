"""ID-03: two replicas say that they are reached at one address."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import count, joined
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.identity.addresses import host_of, is_loopback, is_own, processes
from dashboard.rules.identity.sockets import (
    ENDPOINT,
    EVENT_TOPIC,
    NIXL_HOST,
    P2P_HOST,
    P2P_PORT,
    REPLAY,
    Socket,
    event_sockets,
    side_channels,
    topics,
)
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import FleetSubject

POD_IP = "env:\n  - name: {name}\n    valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}"
HOST = "replicas.host"
EVENT_FLAGS = {ENDPOINT: "--kv-events-config.endpoint", REPLAY: "--kv-events-config.replay_endpoint"}


@rule(
    id="ID-03",
    name="address-shared",
    family=Family.IDENTITY,
    scope=Scope.FLEET,
    severity={
        ImpactContext.MODEL: Severity.WARNING,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
        ImpactContext.DISAGGREGATED: Severity.CRITICAL,
    },
    needs=(NIXL_HOST, ENDPOINT, EVENT_TOPIC),
)
def address_shared(fleet: FleetSubject) -> Iterator[Draft]:
    """Replicas say that they are reached at the same address.

    Looked at are the side channels of NIXL and of the P2P tier, the endpoints of KV events, and the pod in their
    topics. Addresses like `*` and `localhost` are only held against those of replicas on the same host.

    Why it matters:
        - any pool: Whoever looks for one replica finds the other one.
        - kv-events: The router books the blocks of both replicas on one of them, and sends requests to where their
          prefix is not.
        - kv-store: A peer that wants blocks of one replica asks the other, and is refused.
        - disaggregated: Decode replicas fetch from the wrong prefill replica, and requests fail or are computed
          twice.

    How to fix:
        Derive hosts from the address of the pod, and give replicas on one host a port each. vLLM adds the rank to the
        ports by itself where one engine has several data-parallel ranks.

    Exceptions:
        An event endpoint that names a router is one that replicas connect to: it may be the same for all. Replicas
        in containers whose networks are apart may use one port on one host: suppress the finding where whoever
        looks for them is told other ports.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_scheduler.py (host and port, plus the rank)
        - vllm/distributed/kv_events.py (which endpoints are bound, and which are connected to)
        - vllm-project/vllm#55844
        - vllm-project/production-stack#1062

    Example:
        `VLLM_NIXL_SIDE_CHANNEL_HOST` was set by hand to the address of the first pod, and the Deployment was scaled
        to three.
    """
    sockets = [*side_channels(fleet), *event_sockets(fleet)]
    named: dict[tuple[str, int], list[Socket]] = defaultdict(list)
    local: dict[tuple[str, int], list[Socket]] = defaultdict(list)
    for socket in sockets:
        host = host_of(socket.replica)
        if not is_own(socket.host):
            named[socket.host, socket.port].append(socket)
        elif not is_loopback(host):  # a tunnel to anywhere may begin at this machine's own address
            local[host, socket.port].append(socket)
    yield from (_one_address(shared, host, port) for (host, port), shared in _shared(fleet, named))
    yield from (_one_port(shared, host, port) for (host, port), shared in _shared(fleet, local))
    yield from _topics(fleet)


def _shared(
    fleet: FleetSubject, claims: dict[tuple[str, int], list[Socket]]
) -> Iterator[tuple[tuple[str, int], list[Socket]]]:
    """Yield the addresses that different processes claim."""
    for address, sockets in claims.items():
        if len(sockets) > 1:
            different = processes((each.replica for each in sockets), fleet.all_replicas)
            if len(different) > 1:
                yield address, [each for each in sockets if each.replica in different]


def _one_address(sockets: list[Socket], host: str, port: int) -> Draft:
    replicas, nouns = _replicas(sockets), _nouns(sockets)
    address = say(SettingValue(json.dumps(f"{host}:{port}", ensure_ascii=False), State.REPORTED))
    return Draft(
        replicas,
        f"{count(len(replicas), 'replica')} have the same address for {nouns}: {address}.",
        _evidence(sockets),
        Remedy("Give each replica the address of its own pod or host, and restart them.", _hosts(sockets)),
    )


def _one_port(sockets: list[Socket], host: str, port: int) -> Draft:
    replicas, nouns = _replicas(sockets), _nouns(sockets)
    return Draft(
        replicas,
        f"{count(len(replicas), 'replica')} on {host} have the same port for {nouns}: {port}.",
        (*_evidence(sockets), Evidence(HOST, json.dumps(host), State.REPORTED, replicas)),
        Remedy("Give each replica on this host a port of its own, and restart those that change.", _ports(sockets)),
        severity=Severity.WARNING,
        assumptions=("replicas on one host share its network",),
    )


def _topics(fleet: FleetSubject) -> Iterator[Draft]:
    """Yield topics that several replicas publish under; ranks of one engine on one host may."""
    held: dict[str, dict[str, int | None]] = defaultdict(dict)
    for replica, rank, topic in topics(fleet):
        held[topic][replica] = rank
    for topic, ranks in held.items():
        if len(ranks) > 1 and len(replicas := processes(ranks, fleet.all_replicas)) > 1:
            places = {(host_of(each), ranks[each]) for each in replicas}
            is_one_host = len({host for host, _ in places}) == 1
            if not is_one_host or None in ranks.values() or len(places) < len(replicas):
                yield _one_topic(replicas, topic)


def _one_topic(replicas: tuple[str, ...], topic: str) -> Draft:
    value = SettingValue(json.dumps(topic, ensure_ascii=False), State.REPORTED)
    _, pod, model = topic.split("@", 2)
    own = "$(POD_IP)" + "".join(pod.rpartition(":")[1:]) if ":" in pod else "$(POD_IP)"
    flag = json.dumps(f"--kv-events-config.topic=kv@{own}@{model}", ensure_ascii=False)
    return Draft(
        replicas,
        f"{count(len(replicas), 'replica')} publish KV events under the same topic: {say(value)}.",
        (Evidence(EVENT_TOPIC, *value, replicas),),
        Remedy(
            "Write the address of its own pod into the topic of each replica, in the form that the router expects, and "
            "restart them.",
            (Snippet("yaml", f"{POD_IP.format(name='POD_IP')}\nargs:\n  - {flag}"),),
        ),
    )


def _replicas(sockets: Iterable[Socket]) -> tuple[str, ...]:
    return tuple(sorted({each.replica for each in sockets}))


def _nouns(sockets: Iterable[Socket]) -> str:
    return joined(list(dict.fromkeys(each.noun for each in sockets)))


def _evidence(sockets: Iterable[Socket]) -> tuple[Evidence, ...]:
    held: dict[tuple[str, str], list[str]] = defaultdict(list)
    for socket in sockets:
        held[socket.path, socket.value].append(socket.replica)
    return tuple(Evidence(path, value, State.REPORTED, tuple(found)) for (path, value), found in held.items())


def _hosts(sockets: Iterable[Socket]) -> tuple[Snippet, ...]:
    """Return what gives each replica its own host."""
    names = dict.fromkeys(P2P_HOST if each.path == P2P_PORT else NIXL_HOST for each in sockets if each.path != REPLAY)
    hosts = [Snippet("yaml", POD_IP.format(name=name.removeprefix("env."))) for name in names]
    return (*hosts, *_ports(each for each in sockets if each.path == REPLAY))


def _ports(sockets: Iterable[Socket]) -> tuple[Snippet, ...]:
    """Return what gives one more replica the next port."""
    snippets = []
    for path, port in dict.fromkeys((each.path, each.port + 1) for each in sockets):
        flag = EVENT_FLAGS.get(path)
        events = f"{flag} 'tcp://*:{port}'"
        snippets.append(
            Snippet("flag", events) if flag else Snippet("env", f"export {path.removeprefix('env.')}={port}")
        )
    return tuple(snippets)
