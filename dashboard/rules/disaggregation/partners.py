"""PD-17 and PD-19, and which disaggregated pools serve one model together."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from dashboard.fleet.formatting import count
from dashboard.rules.connector_options import connectors, native
from dashboard.rules.differences import are_unequal, code
from dashboard.rules.disaggregation.handshake import NIXL
from dashboard.rules.domain import ENCODER_ROLE, ImpactContext
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.remedy import set_to
from dashboard.rules.sentences import setting_name, setting_piece, values_text, write
from dashboard.rules.subject import FleetSubject, Holders, PoolSubject, group_by_native

HOST = "env.VLLM_NIXL_SIDE_CHANNEL_HOST"
# Kubernetes' downward API gives a pod its own address.
POD_ADDRESS = """- name: VLLM_NIXL_SIDE_CHANNEL_HOST
  valueFrom: {fieldRef: {fieldPath: status.podIP}}"""
OWN_ADDRESS = "export VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -i)"
ENCODERS, READERS = ("ec_producer", "ec_both"), ("ec_consumer", "ec_both")
ENCODER_SETTINGS = ("ec_transfer_config.ec_connector", "version", "model_config.model", "model_config.dtype")


def partners(fleet: FleetSubject) -> list[list[PoolSubject]]:
    """Group the disaggregated pools by model: same name without the role, or a common served name."""
    groups: list[tuple[set[str], list[PoolSubject]]] = []
    for subject in (each for each in fleet.subjects if each.domain.disaggregated):
        names, members = model_names(subject), [subject]
        others = []
        for known, pools in groups:
            if known & names:
                names, members = names | known, pools + members
            else:
                others.append((known, pools))
        groups = [*others, (names, members)]
    return [members for _, members in groups]


def model_names(subject: PoolSubject) -> set[str]:
    """Return the names of a pool's model: the pool's own without its role, and the served ones."""
    stem = subject.name.removesuffix("/prefill").removesuffix("/decode")
    return {stem} | {name for each in subject.all_replicas for name in each.served_model_names}


@rule("PD-17", {ImpactContext.DISAGGREGATED: Severity.CRITICAL}, needs=(HOST,), scope=Scope.FLEET, least=1)
def side_channel_on_loopback(fleet: FleetSubject) -> Iterator[Draft]:
    """NIXL's side channel is not reachable from other hosts.

    Each replica announces this address for the handshake. vLLM's default is `localhost`.

    Why it matters:
        - disaggregated: A replica on another host connects to itself or to nothing. The handshake fails, and decode
          computes every prompt a second time.

    How to fix:
        Set `VLLM_NIXL_SIDE_CHANNEL_HOST` to the address of the pod or host that others can reach.

    Exceptions:
        Not evaluated where all replicas of the model are on one host. Hosts are distinguished by the polled addresses.

    Evidence:
        - vllm/envs.py (the default)
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_scheduler.py (the announced address)
        - vllm-project/vllm#27083
        - vllm-project/vllm#53018
        - ai-dynamo/dynamo#1327

    Example:
        A setup with prefill and decode on one host was moved to two hosts without the variable.
    """
    for pools in partners(fleet):
        hosts = _count_hosts(pools)
        channels = {replica: host for pool in pools for replica, host in _local_channels(pool).items()}
        if hosts > 1 and channels:
            holders = group_by_native(channels)
            others = f"the replicas of this model are on {count(hosts, 'host')}"
            yield Draft(
                tuple(sorted(channels)),
                write(setting_piece(HOST), " is ", values_text(holders, last=" and "), f"; {others}."),
                tuple(Evidence(HOST, *each, replicas) for each, replicas in holders.items()),
                Remedy(
                    "Set `VLLM_NIXL_SIDE_CHANNEL_HOST` to an address that other hosts can reach and restart these "
                    "replicas.",
                    (Snippet("env", OWN_ADDRESS), Snippet("yaml", POD_ADDRESS)),
                    any_of=True,
                ),
                Confidence.DERIVED,
            )


def _count_hosts(pools: Sequence[PoolSubject]) -> int:
    """Count the hosts of some pools; all local addresses are one."""
    names = {urlsplit(each.id).hostname or "" for pool in pools for each in pool.all_replicas}
    return len({"localhost" if is_local(name) else name for name in names})


def _local_channels(pool: PoolSubject) -> Mapping[str, str]:
    """Return by replica the side channels that only its own host can reach."""
    known = pool.of_documents(connectors)
    nixl = {replica for replica, found in known.items() if any(each.name in NIXL for each in found)}
    hosts = pool.identity(HOST).items()
    return {replica: host for replica, host in hosts if replica in nixl and isinstance(host, str) and is_local(host)}


def is_local(host: str) -> bool:
    """Tell whether an address is that of the connecting machine: `localhost`, 127.0.0.1, 0.0.0.0, ::1."""
    name = host.strip().strip("[]").lower()
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@rule("PD-19", {ImpactContext.DISAGGREGATED: Severity.CRITICAL}, needs=(ENCODER_ROLE,), scope=Scope.FLEET)
def encoder_settings_differ(fleet: FleetSubject) -> Iterator[Draft]:
    """Multimodal encoders and their readers have different settings.

    Compared are the connector of the encoder cache, the vLLM version, the model's path and its dtype.

    Why it matters:
        - disaggregated: The encoder refuses each transfer with NACK_INCOMPAT. Every replica encodes each image itself,
          and the encoder pool is wasted.

    How to fix:
        Use the same connector, version, `--model` and `--dtype` for encoders and readers.

    Exceptions:
        Connectors with a shared folder or store compare less: suppress what does not apply to them.

    Evidence:
        - vllm/distributed/ec_transfer/ec_connector/cpu/protocol.py (what the fingerprint consists of)
        - vllm/distributed/ec_transfer/ec_connector/cpu/session.py (another fingerprint is refused)

    Example:
        The encoder pool stays on 0.31.0 when the others are upgraded.
    """
    for pools in partners(fleet):
        roles = {replica: role for pool in pools for replica, role in _encoder_roles(pool).items()}
        parts = [{each for each, role in roles.items() if role in part} for part in (ENCODERS, READERS)]
        for path in ENCODER_SETTINGS:
            values = {replica: each for pool in pools for replica, each in pool.identity(path).items()}
            sides = [group_by_native({each: values[each] for each in part & values.keys()}) for part in parts]
            if are_unequal(sides) and not any(pool.is_ignored(path) for pool in pools):
                yield _unequal_encoders(path, sides)


def _encoder_roles(pool: PoolSubject) -> Mapping[str, str]:
    roles = pool.of_documents(lambda settings: native(settings, ENCODER_ROLE))
    return {replica: role for replica, role in roles.items() if isinstance(role, str)}


def _unequal_encoders(path: str, sides: Sequence[Holders]) -> Draft:
    """Draft one setting; the readers are the reference, because they also decode."""
    wanted = next(iter(sides[1]))
    evidence = tuple(
        Evidence(path, *each, replicas, holder, is_reference=holders is sides[1])
        for holder, holders in zip(("encoders", "readers"), sides, strict=True)
        for each, replicas in holders.items()
    )
    odd = {replica for holders in sides for each, ids in holders.items() if each != wanted for replica in ids}
    encoders, readers = (values_text(holders, path) for holders in sides)
    return Draft(
        tuple(sorted(odd)),
        write(setting_piece(path), " is ", encoders, " on encoders and ", readers, " on their readers."),
        evidence,
        set_to([(path, wanted)], f"Set the same {code(setting_name(path))} on both and restart the changed replicas."),
    )
