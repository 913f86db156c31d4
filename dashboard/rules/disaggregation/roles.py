"""PD-10: roles of prefill and decode replicas that do not fit together."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dashboard.fleet import Replica, Role, Setting, SettingValue, State
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import value
from dashboard.rules.connector_options import ROLE, connectors
from dashboard.rules.disaggregation.partners import model_names, partners
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.remedy import set_to
from dashboard.rules.sentences import setting_piece, values_text, write
from dashboard.rules.subject import FleetSubject, PoolSubject, group_by_value, reported, setting_value

PRODUCER, CONSUMER, BOTH = "kv_producer", "kv_consumer", "kv_both"
LABELS = ("role", "llm-d.ai/role")  # of the target: ours, and llm-d's
LABELLED = {str(Role.PREFILL): PRODUCER, str(Role.DECODE): CONSUMER}
PARTNER = {PRODUCER: "decode", CONSUMER: "prefill"}
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


@dataclass(frozen=True, slots=True)
class _Member:
    """A member with known roles: its own, and those of the connectors inside a MultiConnector."""

    replica: Replica
    pool: PoolSubject
    roles: frozenset[str]

    @property
    def only(self) -> str:
        """Return its only role; empty where it has both or none."""
        return next(iter(self.roles)) if len(self.roles) == 1 and BOTH not in self.roles else ""


@rule("PD-10", {ImpactContext.DISAGGREGATED: Severity.CRITICAL}, needs=(ROLE,), scope=Scope.FLEET, least=1)
def prefill_decode_roles_do_not_fit(fleet: FleetSubject) -> Iterator[Draft]:
    """Prefill and decode replicas have roles that do not fit together.

    A replica's role contradicts its label; a pool mixes producers with consumers; a model has one kind and not the
    other; or replicas report no role, while others of their model prefill or decode.

    Why it matters:
        - disaggregated: A prompt that is sent to a replica with another role fails, or is computed by one replica
          alone. Disaggregation has no effect.

    How to fix:
        Set `kv_producer` on prefill replicas and `kv_consumer` on decode replicas, label them `prefill` and `decode`,
        and list both kinds in fleet.yaml.

    Exceptions:
        Replicas with `kv_both` do either. Where fleet.yaml lists one kind only on purpose, suppress the finding.

    Evidence:
        - vllm/config/kv_transfer.py (the three roles)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py (roles are asserted)
        - llm-d/llm-d-router#220

    Example:
        A manifest for decode was copied for a second prefill replica: its label is prefill, its role `kv_consumer`.
    """
    for pools in partners(fleet):
        known = [each for pool in pools for each in _members(pool)]
        wrong = {each.replica.id: wanted for each in known if (wanted := _contradicted_label(each))}
        for wanted in sorted(set(wrong.values())):
            yield _mislabelled([each for each in known if wrong.get(each.replica.id) == wanted], wanted)
        right = [each for each in known if each.replica.id not in wrong]
        for pool in pools:
            yield from _mixed(pool, [each for each in right if each.pool is pool])
        silent = {pool.name: _without_role(pool) for pool in _of_one_model(fleet, pools)}
        if not wrong and not any(silent.values()):
            yield from _without_partner(fleet, pools, right)
        yield from (_unknown(name, replicas, pools, known) for name, replicas in silent.items() if replicas)


def _members(pool: PoolSubject) -> Iterator[_Member]:
    roles = pool.of_documents(_roles)
    for member in pool.members:
        if (own := roles[member.id]) is not None:
            yield _Member(member, pool, own)


def _roles(settings: Mapping[str, Setting]) -> frozenset[str] | None:
    """Return the roles of a document's connectors; None where not reported."""
    if reported(settings, ROLE) is None:
        return None
    inner = {each.role for each in connectors(settings) if each.role}
    return frozenset(inner & {PRODUCER, CONSUMER, BOTH})


def _contradicted_label(member: _Member) -> str:
    """Return the role of a member's label where it has another one; else empty."""
    label = next((member.replica.labels[each] for each in LABELS if each in member.replica.labels), "").lower()
    wanted = LABELLED.get(label, "")
    return wanted if wanted and member.roles.isdisjoint({wanted, BOTH}) else ""


def _mislabelled(members: Sequence[_Member], wanted: str) -> Draft:
    label = next(label for label, role in LABELLED.items() if role == wanted)
    roles = values_text(group_by_value({each.replica.id: _role(each) for each in members}))
    return Draft(
        tuple(each.replica.id for each in members),
        write(setting_piece(ROLE), " is ", roles, "; the label is ", value(label), "."),
        _evidence(members),
        set_to([(ROLE, setting_value(wanted))], ROLE_REMEDY),
    )


def _mixed(pool: PoolSubject, members: Sequence[_Member]) -> Iterator[Draft]:
    """Yield a pool with producers and consumers."""
    kinds = {role: [each for each in members if each.only == role] for role in (PRODUCER, CONSUMER)}
    if not all(kinds.values()):
        return
    few = min(kinds.values(), key=len)
    labels = (Snippet("yaml", f"labels: {_labels(f'{pool.name}/{label}', label)}") for label in LABELLED)
    numbers = [write(f"{len(kinds[role]):,} replicas with ", value(role)) for role in (PRODUCER, CONSUMER)]
    yield Draft(
        tuple(each.replica.id for each in few),
        write("One pool has ", numbers[0], " and ", numbers[1], "."),
        _evidence(kinds[PRODUCER] + kinds[CONSUMER]),
        Remedy("Split the pool in fleet.yaml, one pool for each role.", tuple(labels), any_of=True),
        severity=Severity.WARNING,
    )


def _of_one_model(fleet: FleetSubject, pools: Sequence[PoolSubject]) -> list[PoolSubject]:
    """Return the pools without a role that serve a model with prefill or decode replicas."""
    if all(pool.pool.role is Role.BOTH for pool in pools):
        return []
    names = set().union(*map(model_names, pools))
    return [each for each in fleet.subjects if each.pool.role is Role.BOTH and names & model_names(each)]


def _without_role(pool: PoolSubject) -> list[str]:
    """Return the members with neither a label nor a reported role."""
    missing = pool.of_documents(lambda settings: reported(settings, ROLE) is None)
    return [each.id for each in pool.members if missing[each.id] and not any(label in each.labels for label in LABELS)]


def _unknown(name: str, replicas: Sequence[str], pools: Sequence[PoolSubject], known: Sequence[_Member]) -> Draft:
    """Draft replicas that may be prefill or decode replicas."""
    named = {str(pool.pool.role): pool.name for pool in pools if pool.pool.role is not Role.BOTH}
    texts = [
        f"targets:\n  - url: {json.dumps(replicas[0])}\n    labels: {_labels(named.get(role, f'{name}/{role}'), role)}"
        for role in LABELLED
    ]
    verb = "reports" if len(replicas) == 1 else "report"
    others = " or ".join(sorted(named))
    return Draft(
        tuple(replicas),
        write(f"{count(len(replicas), 'replica')} {verb} no role; other replicas of this model {others}."),
        (Evidence(ROLE, "null", State.ABSENT, tuple(replicas)), *_evidence(known)),
        Remedy(LABEL_REMEDY, tuple(Snippet("yaml", text) for text in texts), any_of=True),
        severity=Severity.WARNING,
        why=COMPARED_AS_EQUAL,
    )


def _labels(pool: str, role: str) -> str:
    return f"{{pool: {json.dumps(pool, ensure_ascii=False)}, role: {role}}}"


def _without_partner(fleet: FleetSubject, pools: Sequence[PoolSubject], members: Sequence[_Member]) -> Iterator[Draft]:
    """Yield producers without consumers, or the reverse; nothing while a replica of unknown role could be one."""
    everyone = {each.id for pool in pools for each in pool.all_replicas}
    unknown = everyone - {each.replica.id for each in members}
    without_pool = any(each.pool is None for each in fleet.all_replicas)
    kinds = {each.only for each in members}
    if without_pool or unknown or len(kinds) != 1 or not (kind := kinds.pop()):
        return
    other = CONSUMER if kind == PRODUCER else PRODUCER
    yield Draft(
        tuple(each.replica.id for each in members),
        write("All replicas of this model have ", value(kind), f"; no {PARTNER[kind]} replica is known."),
        _evidence(members),
        set_to(
            [(ROLE, setting_value(other))],
            f"List the {PARTNER[kind]} replicas in fleet.yaml. Where there are none, start some with the other role.",
        ),
        assumptions=("no other replica serves this model",),
    )


def _role(member: _Member) -> SettingValue:
    return setting_value("+".join(sorted(member.roles)) or None)


def _evidence(members: Sequence[_Member]) -> tuple[Evidence, ...]:
    holders = group_by_value({each.replica.id: _role(each) for each in members})
    return tuple(Evidence(ROLE, *each, replicas) for each, replicas in holders.items())
