"""PD-10, PD-17 and PD-19: how the pools that serve one model together work with each other."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from dashboard.compare.encoding import lookup_value
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import Pool, Replica, Role, Setting, State
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Text, value
from dashboard.fleet.replies import address_of
from dashboard.rules.connector_options import ROLE, connectors, native
from dashboard.rules.differences import are_unequal, two_sided, value_evidence
from dashboard.rules.disaggregation.handshake import NIXL
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.identity.addresses import NIXL_HOST, is_local
from dashboard.rules.registry import Scope, rule
from dashboard.rules.remedy import set_to
from dashboard.rules.sentences import setting_piece, values_text, write
from dashboard.rules.subject import FleetSubject, PoolSubject, group_by_native, setting_value
from dashboard.vllm.replica import ENCODER_ROLE

PRODUCER, CONSUMER, BOTH = "kv_producer", "kv_consumer", "kv_both"
LABELS = ("role", "llm-d.ai/role")  # of the target: ours, and llm-d's
LABELLED = {str(Role.PREFILL): PRODUCER, str(Role.DECODE): CONSUMER}
ROLE_REMEDY = (
    "Set the role of the label on these replicas, with a connector where they have none. Or correct the label."
)
LABEL_REMEDY = (
    "Set the labels `pool` and `role` (prefill, decode or both) on each of these targets in fleet.yaml. Or let these"
    " replicas report their configuration."
)
COMPARED_AS_EQUAL = (
    "These replicas are compared as if they were interchangeable, so other findings may ask prefill and decode replicas"
    " to become equal. Prefill and decode settings are not compared."
)
# Kubernetes' downward API gives a pod its own address.
POD_ADDRESS = """- name: VLLM_NIXL_SIDE_CHANNEL_HOST
  valueFrom: {fieldRef: {fieldPath: status.podIP}}"""
REACHABLE = "Set `VLLM_NIXL_SIDE_CHANNEL_HOST` to an address that other hosts can reach and restart these replicas."
OWN_ADDRESS = "export VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -i)"
OWN_FOLDERS = (
    "Readers look for encoded media in another folder than encoders write to. They encode each image themselves."
)
ENCODERS, READERS = ("ec_producer", "ec_both"), ("ec_consumer", "ec_both")
ENCODER_CONNECTOR = "ec_transfer_config.ec_connector"
# Connectors that write to a shared folder, and the folder without the option (ec_connector/example_connector.py).
FOLDER_CONNECTORS, DEFAULT_FOLDER = ("ECExampleConnector", "ECSharedStorageConnector"), "/tmp"  # noqa: S108
ENCODER_EXTRA = "ec_transfer_config.ec_connector_extra_config"
FOLDER = f"{ENCODER_EXTRA}.shared_storage_path"
ENCODER_SETTINGS = (ENCODER_CONNECTOR, "version", "model_config.model", "model_config.dtype")


@dataclass(frozen=True, slots=True)
class _WithRole:
    """A member with known roles: its own, and those of the connectors inside a MultiConnector."""

    replica: Replica
    pool: PoolSubject
    roles: frozenset[str]

    @property
    def only(self) -> str:
        """Return its only role; empty where it has both or none."""
        return next(iter(self.roles)) if len(self.roles) == 1 and BOTH not in self.roles else ""

    @property
    def contradicted(self) -> str:
        """Return the role of its label where it has another one; else empty."""
        label = next((self.replica.labels[each] for each in LABELS if each in self.replica.labels), "").lower()
        wanted = LABELLED.get(label, "")
        return wanted if self.roles.isdisjoint({wanted, BOTH}) else ""


def partners(fleet: FleetSubject) -> list[list[PoolSubject]]:
    """Group the disaggregated pools of a cluster by model: same name without the role, or a common served name."""
    groups: list[tuple[set[tuple[str, str]], list[PoolSubject]]] = []
    for subject in (each for each in fleet.subjects if each.domain.disaggregated):
        names, members = model_names(subject.pool, subject.all_replicas), [subject]
        others = []
        for known, pools in groups:
            if known & names:
                names, members = names | known, pools + members
            else:
                others.append((known, pools))
        groups = [*others, (names, members)]
    return [members for _, members in groups]


def model_names(pool: Pool, replicas: Iterable[Replica]) -> set[tuple[str, str]]:
    """Return the cluster and name of a pool's model: the pool's own name without its role, and the served ones."""
    stem = pool.name.removesuffix("/prefill").removesuffix("/decode").removesuffix("/encoder")
    names = {stem}.union(*{replica.served_model_names for replica in replicas})
    return {(pool.cluster, name) for name in names}


@rule("PD-10", needs=(ROLE,), scope=Scope.FLEET, least=1)
def prefill_decode_roles_do_not_fit(fleet: FleetSubject) -> Iterator[Draft]:
    """Prefill and decode replicas have roles that do not fit together.

    A replica's role contradicts its label; a pool mixes producers with consumers; a model has one kind and not the
    other; or replicas report no role, while others of their model prefill or decode.
    """
    for pools in partners(fleet):
        known = [each for pool in pools for each in _members(pool)]
        for label, wanted in sorted(LABELLED.items(), key=lambda item: item[1]):
            if wrong := [each for each in known if each.contradicted == wanted]:
                yield _mislabelled(wrong, label)
        right = [each for each in known if not each.contradicted]
        for pool in pools:
            yield from _mixed(pool, [each for each in right if each.pool is pool])
        silent = {pool.name: _without_role(pool) for pool in _of_one_model(fleet, pools)}
        if len(right) == len(known) and not any(silent.values()):
            yield from _without_partner(fleet, pools, right)
        yield from (_unknown(name, replicas, pools, known) for name, replicas in silent.items() if replicas)


def _members(pool: PoolSubject) -> Iterator[_WithRole]:
    roles = pool.of_documents(_roles)
    for member in pool.members:
        if (own := roles[member.id]) is not None:
            yield _WithRole(member, pool, own)


def _roles(settings: Mapping[str, Setting]) -> frozenset[str] | None:
    """Return the roles of a document's connectors; None where not reported."""
    if lookup_value(settings, ROLE) is None:
        return None
    return frozenset(each.role for each in connectors(settings) if each.role in (PRODUCER, CONSUMER, BOTH))


def _holders(members: Sequence[_WithRole]) -> Holders:
    return group_by_value({each.replica.id: setting_value("+".join(sorted(each.roles)) or None) for each in members})


def _mislabelled(members: Sequence[_WithRole], label: str) -> Draft:
    own = values_text(_holders(members))
    text = write(setting_piece(ROLE), " is ", own, "; the label is ", value(label), ".")
    return _draft(members, text, set_to([(ROLE, setting_value(LABELLED[label]))], ROLE_REMEDY))


def _draft(members: Sequence[_WithRole], text: Text, fix: Remedy) -> Draft:
    return Draft(tuple(each.replica.id for each in members), text, value_evidence(ROLE, _holders(members)), fix)


def _mixed(pool: PoolSubject, members: Sequence[_WithRole]) -> Iterator[Draft]:
    """Yield a pool with producers and consumers."""
    producers, consumers = ([each for each in members if each.only == role] for role in (PRODUCER, CONSUMER))
    if not producers or not consumers:
        return
    labels = (Snippet("yaml", f"labels: {_labels(f'{pool.name}/{label}', label)}") for label in LABELLED)
    have = write(f"One pool has {len(producers):,} replicas with ", value(PRODUCER))
    yield Draft(
        tuple(each.replica.id for each in min(producers, consumers, key=len)),
        write(have, f" and {len(consumers):,} replicas with ", value(CONSUMER), "."),
        value_evidence(ROLE, _holders(producers + consumers)),
        Remedy("Split the pool in fleet.yaml, one pool for each role.", tuple(labels), any_of=True),
        severity=Severity.WARNING,
    )


def _of_one_model(fleet: FleetSubject, pools: Sequence[PoolSubject]) -> list[PoolSubject]:
    """Return the pools without a role that serve a model with prefill or decode replicas."""
    if all(str(pool.pool.role) not in LABELLED for pool in pools):
        return []
    names = set().union(*(model_names(each.pool, each.all_replicas) for each in pools))
    both = (each for each in fleet.subjects if each.pool.role is Role.BOTH)
    return [each for each in both if names & model_names(each.pool, each.all_replicas)]


def _without_role(pool: PoolSubject) -> list[str]:
    """Return the members with neither a label nor a reported role."""
    missing = pool.of_documents(lambda settings: lookup_value(settings, ROLE) is None)
    return [each.id for each in pool.members if missing[each.id] and not any(label in each.labels for label in LABELS)]


def _unknown(name: str, replicas: Sequence[str], pools: Sequence[PoolSubject], known: Sequence[_WithRole]) -> Draft:
    """Return replicas that may be prefill or decode replicas."""
    named = {str(pool.pool.role): pool.name for pool in pools if str(pool.pool.role) in LABELLED}
    address = json.dumps(address_of(replicas[0]))
    texts = [
        f"targets:\n  - url: {address}\n    labels: {_labels(named.get(role, f'{name}/{role}'), role)}"
        for role in LABELLED
    ]
    verb = "reports" if len(replicas) == 1 else "report"
    others = " or ".join(sorted(named))
    return Draft(
        tuple(replicas),
        write(f"{count(len(replicas), 'replica')} {verb} no role; other replicas of this model {others}."),
        (Evidence(ROLE, "null", State.ABSENT, tuple(replicas)), *value_evidence(ROLE, _holders(known))),
        Remedy(LABEL_REMEDY, tuple(Snippet("yaml", text) for text in texts), any_of=True),
        severity=Severity.WARNING,
        why=COMPARED_AS_EQUAL,
    )


def _labels(pool: str, role: str) -> str:
    return f"{{pool: {json.dumps(pool, ensure_ascii=False)}, role: {role}}}"


def _without_partner(
    fleet: FleetSubject, pools: Sequence[PoolSubject], members: Sequence[_WithRole]
) -> Iterator[Draft]:
    """Yield producers without consumers, or the reverse; nothing while a replica of unknown role could be one."""
    unknown = {each.id for pool in pools for each in pool.all_replicas}.difference(each.replica.id for each in members)
    without_pool = any(each.pool is None for each in fleet.all_replicas)
    kinds = {each.only for each in members}
    if without_pool or unknown or len(kinds) != 1 or not (kind := kinds.pop()):
        return
    other, partner = (CONSUMER, "decode") if kind == PRODUCER else (PRODUCER, "prefill")
    text = write("All replicas of this model have ", value(kind), f"; no {partner} replica is known.")
    sentence = f"List the {partner} replicas in fleet.yaml. Where there are none, start some with the other role."
    draft = _draft(members, text, set_to([(ROLE, setting_value(other))], sentence))
    yield replace(draft, assumptions=("no other replica serves this model",))


@rule("PD-17", needs=(NIXL_HOST,), scope=Scope.FLEET, least=1)
def side_channel_on_loopback(fleet: FleetSubject) -> Iterator[Draft]:
    """NIXL's side channel is not reachable from other hosts.

    Each replica announces this address for the handshake. vLLM's default is `localhost`.
    """
    for pools in partners(fleet):
        hosts = {urlsplit(each.id).hostname or "" for pool in pools for each in pool.all_replicas}
        number = len({"localhost" if is_local(name) else name for name in hosts})
        channels = {replica: host for pool in pools for replica, host in _local_channels(pool).items()}
        if number > 1 and channels:
            holders = group_by_native(channels)
            others = f"the replicas of this model are on {count(number, 'host')}"
            yield Draft(
                tuple(sorted(channels)),
                write(setting_piece(NIXL_HOST), " is ", values_text(holders, last=" and "), f"; {others}."),
                value_evidence(NIXL_HOST, holders),
                Remedy(
                    REACHABLE,
                    (Snippet("env", OWN_ADDRESS), Snippet("yaml", POD_ADDRESS)),
                    any_of=True,
                ),
                Confidence.DERIVED,
            )


def _local_channels(pool: PoolSubject) -> Mapping[str, str]:
    """Return by replica the side channels that only its own host can reach."""
    known = pool.connectors
    nixl = {replica for replica, found in known.items() if any(each.name in NIXL for each in found)}
    hosts = pool.identity(NIXL_HOST).items()
    return {replica: host for replica, host in hosts if replica in nixl and isinstance(host, str) and is_local(host)}


@rule("PD-19", needs=(ENCODER_ROLE,), scope=Scope.FLEET)
def encoder_settings_differ(fleet: FleetSubject) -> Iterator[Draft]:
    """Multimodal encoders and their readers have different settings.

    The rule compares the connector of the encoder cache, the vLLM version, the model's path and its dtype, and the
    folder of connectors that share one: a difference in it is a warning.
    """
    for pools in partners(fleet):
        roles = {
            replica: role
            for pool in pools
            for replica, role in pool.of_documents(lambda settings: native(settings, ENCODER_ROLE)).items()
        }
        parts = [{each for each, role in roles.items() if role in part} for part in (ENCODERS, READERS)]
        for path in (*ENCODER_SETTINGS, FOLDER):
            values = {replica: each for pool in pools for replica, each in _encoder_values(pool, path).items()}
            sides = [group_by_native({each: values[each] for each in part & values.keys()}) for part in parts]
            if are_unequal(sides) and not any(pool.is_ignored(path) for pool in pools):
                # The readers are the reference, because they also decode.
                draft = two_sided(path, sides, ("encoders", "readers"), ("encoders", "their readers"))
                yield replace(draft, severity=Severity.WARNING, why=OWN_FOLDERS) if path == FOLDER else draft


def _encoder_values(pool: PoolSubject, path: str) -> Mapping[str, Any]:
    """Return by replica what is compared; the folder only of connectors that have one and report their options."""
    if path != FOLDER:
        return pool.identity(path)

    def folder(settings: Mapping[str, Setting]) -> Any:
        is_reported = any(each == ENCODER_EXTRA or each.startswith(f"{ENCODER_EXTRA}.") for each in settings)
        if native(settings, ENCODER_CONNECTOR) not in FOLDER_CONNECTORS or not is_reported:
            return None
        return DEFAULT_FOLDER if native(settings, FOLDER) is None else native(settings, FOLDER)

    return {replica: each for replica, each in pool.of_documents(folder).items() if each is not None}
