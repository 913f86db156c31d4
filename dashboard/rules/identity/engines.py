"""ID-01 to ID-03 and ID-17: ranks of one engine that differ, and ids, addresses and ranks that several replicas use."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import State
from dashboard.fleet.formatting import count, joined
from dashboard.fleet.grouping import grouped
from dashboard.fleet.replies import reporter_of
from dashboard.rules.differences import pool_differences
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.identity.addresses import (
    DP_RANK,
    ENDPOINT,
    NIXL_HOST,
    P2P_HOST,
    P2P_PORT,
    REPLAY,
    Socket,
    event_sockets,
    host_of,
    is_local,
    is_own,
    port_of,
    processes,
    ranks_of,
    side_channels,
    topics,
)
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import name_piece, setting_piece, value_piece, write
from dashboard.rules.subject import FleetSubject, PoolSubject, setting_value
from vllm_fleet_provider.shared.identity import EVENT_TOPIC

MASTER = "parallel_config.data_parallel_master_ip"
RPC_PORT = "parallel_config.data_parallel_rpc_port"
EXTERNAL = "parallel_config.data_parallel_external_lb"
HOST = "replicas.host"
SECTION = "parallel_config."
ENGINE_ID = "kv_transfer_config.engine_id"
POD_NAME = """\
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
args:
  - --kv-transfer-config.engine_id=$(POD_NAME)"""
POD_IP = "env:\n  - name: {name}\n    valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}"
EVENT_FLAGS = {ENDPOINT: "--kv-events-config.endpoint", REPLAY: "--kv-events-config.replay_endpoint"}

Claims = dict[tuple[str, int], list[Socket]]  # by host and port


@rule("ID-01", needs=(MASTER, DP_RANK))
def ranks_of_one_engine_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Ranks of one data-parallel engine have different parallel settings.

    Ranks belong to one engine when they have the same master and port, and different ranks.
    """
    for (master, host), found in _ranks_by_engine(pool).items():
        if not len(set(found.values())) == len(found) > 1:  # two of one rank are two engines with equal settings
            continue
        ranks = tuple(sorted(found))
        part = replace(pool, all_replicas=tuple(each for each in pool.all_replicas if each.id in ranks))
        where = [Evidence(MASTER, *setting_value(master), ranks)]
        where += [Evidence(HOST, json.dumps(host), State.REPORTED, ranks)] if host else []
        paths = {path for member in part.members for path in part.settings(member) if path.startswith(SECTION)}
        for draft in pool_differences(part, sorted(paths)):
            text = write("Ranks of one data-parallel engine differ: ", draft.text)
            yield replace(draft, text=text, evidence=(*draft.evidence, *where))


def _ranks_by_engine(pool: PoolSubject) -> dict[tuple[str, str], dict[str, int]]:
    """Return the ranks of the replicas with one master and port, by these and, if that is the loopback, host."""
    masters, ports = pool.identity(MASTER), pool.identity(RPC_PORT)
    members: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for replica, rank in ranks_of(pool).items():
        master, port = masters.get(replica), port_of(ports.get(replica))
        if port is not None and isinstance(master, str):
            members[f"{master}:{port}", host_of(replica) if is_local(master) else ""][replica] = rank
    return members


@rule("ID-17", needs=(MASTER, DP_RANK), reads_starts=True)
def data_parallel_rank_used_twice(pool: PoolSubject) -> Iterator[Draft]:
    """Two replicas of one data-parallel engine have the same rank.

    Ranks with external load balancing are started one by one. Those with one master and port are one engine; different
    start times show that they are different processes.
    """
    starts = {each.id: each.started_at for each in pool.members}
    external = {replica for replica, value in pool.identity(EXTERNAL).items() if value is True}
    for (master, host), ranks in _ranks_by_engine(pool).items():
        sharing = grouped((ranks[replica], replica) for replica in sorted(ranks.keys() & external))
        for rank, replicas in sharing.items():
            times = {starts[each] for each in replicas}
            if len(replicas) < 2 or None in times or len(times) < len(replicas) or pool.is_ignored(DP_RANK):  # noqa: PLR2004
                continue
            ids, value = tuple(replicas), setting_value(rank)
            where = f" on {count(len(ids), 'replica')} of one data-parallel engine."
            located = [Evidence(HOST, json.dumps(host), State.REPORTED, ids)] if host else []
            yield Draft(
                ids,
                write(setting_piece(DP_RANK), " is ", value_piece(value), where),
                (Evidence(DP_RANK, *value, ids), Evidence(MASTER, *setting_value(master), ids), *located),
                Remedy("Start each of these replicas with its own `--data-parallel-rank`, below the engine's size."),
            )


@rule("ID-02", needs=(ENGINE_ID,), scope=Scope.FLEET)
def engine_id_shared(fleet: FleetSubject) -> Iterator[Draft]:
    """Engines that exchange KV cache have the same engine id."""
    ranks = ranks_of(fleet)
    known: dict[tuple[str, int | None], list[str]] = defaultdict(list)
    for replica, name in fleet.identity(ENGINE_ID).items():
        if isinstance(name, str):
            known[name, ranks.get(replica)].append(replica)
    shared: dict[str, list[str]] = defaultdict(list)
    for (name, _), replicas in known.items():
        if len(different := processes(replicas, fleet)) > 1:
            shared[name] += different
    fix = Remedy(
        "Remove the engine id from `--kv-transfer-config`, or derive it from the pod's name. Restart these replicas.",
        (Snippet("yaml", POD_NAME),),
    )
    for name, replicas in shared.items():
        yield _shared_value(ENGINE_ID, name, tuple(sorted(replicas)), fix)


def _shared_value(path: str, name: str, replicas: tuple[str, ...], fix: Remedy) -> Draft:
    """Draft replicas with one value of a setting that should be each replica's own."""
    value = setting_value(name)
    text = write(setting_piece(path), " is ", value_piece(value), f" on {count(len(replicas), 'replica')}.")
    return Draft(replicas, text, (Evidence(path, *value, replicas),), fix)


@rule("ID-03", needs=(NIXL_HOST, ENDPOINT, EVENT_TOPIC), needs_any=True, scope=Scope.FLEET)
def address_shared(fleet: FleetSubject) -> Iterator[Draft]:
    """Replicas report the same address.

    The rule compares the side channels of NIXL and of the P2P tier, the endpoints of KV events, and the pod in their
    topics. Addresses such as `*` and `localhost` are compared between replicas on the same host only.
    """
    ranks = ranks_of(fleet)
    sockets = (*side_channels(fleet, ranks), *event_sockets(fleet, ranks))
    for of_cluster in grouped((reporter_of(each.replica), each) for each in sockets).values():
        yield from _addresses_shared(fleet, of_cluster)
    for topic, publishers in topics(fleet).items():
        for replicas in grouped((reporter_of(each), each) for each in publishers).values():
            different = processes(replicas, fleet)
            if len(different) > 1 and not _are_ranks_of_one_host(different, replicas, ranks):
                yield _shared_value(EVENT_TOPIC, topic, different, _topic_remedy(topic))


def _addresses_shared(fleet: FleetSubject, sockets: Iterable[Socket]) -> Iterator[Draft]:
    named: Claims = defaultdict(list)
    local: Claims = defaultdict(list)
    for socket in sockets:
        host = host_of(socket.replica)
        if not is_own(socket.host):
            named[socket.host, socket.port].append(socket)
        elif not is_local(host):  # a tunnel to anywhere may begin at this machine's own address
            local[host, socket.port].append(socket)
    yield from (_same_address(shared, host, port) for (host, port), shared in _shared(fleet, named))
    yield from (_same_port(shared, host, port) for (host, port), shared in _shared(fleet, local))


def _shared(fleet: FleetSubject, claims: Claims) -> Iterator[tuple[tuple[str, int], list[Socket]]]:
    """Yield the addresses of several processes; of those that the same ones share on a host only the first port."""
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for (host, port), sockets in sorted(claims.items()):
        different = processes((each.replica for each in sockets), fleet)
        shared = [each for each in sockets if each.replica in different]
        key = host, tuple(sorted((each.replica, each.path) for each in shared))
        if len(different) > 1 and key not in seen:
            seen.add(key)
            yield (host, port), shared


def _same_address(sockets: list[Socket], host: str, port: int) -> Draft:
    replicas, names = _replicas_and_names(sockets)
    address = value_piece(setting_value(f"{host}:{port}"))
    return Draft(
        replicas,
        write(f"{count(len(replicas), 'replica')} have the same address for {names}: ", address, "."),
        _evidence(sockets),
        Remedy("Use the address of each replica's own pod or host and restart the replicas.", _hosts(sockets)),
    )


def _same_port(sockets: list[Socket], host: str, port: int) -> Draft:
    replicas, names = _replicas_and_names(sockets)
    same = write(f" have the same port for {names}: ", value_piece(setting_value(port)), ".")
    return Draft(
        replicas,
        write(f"{count(len(replicas), 'replica')} on ", name_piece(host), same),
        (*_evidence(sockets), Evidence(HOST, json.dumps(host), State.REPORTED, replicas)),
        Remedy("Use one port per replica on this host and restart the changed replicas.", _ports(sockets)),
        severity=Severity.WARNING,
        assumptions=("replicas on one host share its network",),
    )


def _are_ranks_of_one_host(different: Collection[str], replicas: Collection[str], ranks: Mapping[str, int]) -> bool:
    """Return whether processes may share a topic: they are different ranks on one host."""
    places = {(host_of(each), ranks.get(each)) for each in different}
    is_one_host = len({host for host, _ in places}) == 1
    return is_one_host and ranks.keys() >= set(replicas) and len(places) == len(different)


def _topic_remedy(topic: str) -> Remedy:
    _, pod, model = topic.split("@", 2)
    own = "$(POD_IP)" + "".join(pod.rpartition(":")[1:]) if ":" in pod else "$(POD_IP)"
    flag = json.dumps(f"--kv-events-config.topic=kv@{own}@{model}", ensure_ascii=False)
    return Remedy(
        "Use each replica's pod address in its topic, in the form that the router expects. Restart the replicas.",
        (Snippet("yaml", f"{POD_IP.format(name='POD_IP')}\nargs:\n  - {flag}"),),
    )


def _replicas_and_names(sockets: Collection[Socket]) -> tuple[tuple[str, ...], str]:
    return tuple(sorted({each.replica for each in sockets})), joined(list(dict.fromkeys(each.name for each in sockets)))


def _evidence(sockets: Iterable[Socket]) -> tuple[Evidence, ...]:
    found = grouped(((socket.path, socket.value), socket.replica) for socket in sockets)
    return tuple(Evidence(path, value, State.REPORTED, tuple(ids)) for (path, value), ids in found.items())


def _hosts(sockets: Collection[Socket]) -> tuple[Snippet, ...]:
    """Return what gives each replica its own host."""
    names = dict.fromkeys(P2P_HOST if each.path == P2P_PORT else NIXL_HOST for each in sockets if each.path != REPLAY)
    hosts = [Snippet("yaml", POD_IP.format(name=name.removeprefix("env."))) for name in names]
    return (*hosts, *_ports(each for each in sockets if each.path == REPLAY))


def _free_ports(sockets: Iterable[Socket]) -> dict[str, int]:
    """Return by setting the first port behind those of all ranks of these replicas."""
    found: dict[str, int] = defaultdict(int)
    for each in sockets:
        found[each.path] = max(found[each.path], each.free)
    return found


def _ports(sockets: Iterable[Socket]) -> tuple[Snippet, ...]:
    """Return what gives one more replica the next port."""
    return tuple(
        Snippet("flag", f"{EVENT_FLAGS[path]} 'tcp://*:{port}'")
        if path in EVENT_FLAGS
        else Snippet("env", f"export {path.removeprefix('env.')}={port}")
        for path, port in _free_ports(sockets).items()
    )
