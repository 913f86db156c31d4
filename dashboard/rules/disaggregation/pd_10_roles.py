"""PD-10: the roles of prefill and decode replicas do not fit together."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Replica, Role, Setting, SettingValue, State
from dashboard.fleet.formatting import count
from dashboard.rules.connectors import ROLE, connectors
from dashboard.rules.disaggregation.partners import names_of, partners
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.holders import held, told_of
from dashboard.rules.registry import Scope, rule
from dashboard.rules.remedy import set_to
from dashboard.rules.subject import FleetSubject, PoolSubject

PRODUCER, CONSUMER, BOTH = "kv_producer", "kv_consumer", "kv_both"
LABELS = ("role", "llm-d.ai/role")  # of the target: ours, and the one of llm-d
LABELLED = {str(Role.PREFILL): PRODUCER, str(Role.DECODE): CONSUMER}
ROLE_REMEDY = (
    "Give these replicas the role that their label says, with a connector where they have none, or mend the label."
)
PARTNER = {PRODUCER: "decode", CONSUMER: "prefill"}
LABEL_REMEDY = (
    "Give each of them the labels `pool` and `role` in fleet.yaml: prefill, decode, or both. Or let these replicas tell"
    " their configuration."
)
TAKEN_FOR_EQUAL = (
    "They are compared with each other as if they were interchangeable: other findings may ask prefill and decode"
    " replicas to become equal, and what must be the same on both sides is not compared."
)


@dataclass(frozen=True, slots=True)
class _Member:
    """A member whose roles are known: its own, and those of the connectors inside a MultiConnector."""

    replica: Replica
    pool: PoolSubject
    roles: frozenset[str]

    @property
    def only(self) -> str:
        """Return the one thing that it does; empty where it does both or nothing."""
        return next(iter(self.roles)) if len(self.roles) == 1 and BOTH not in self.roles else ""


@rule(
    id="PD-10",
    name="prefill-decode-roles-do-not-fit",
    family=Family.DISAGGREGATION,
    scope=Scope.FLEET,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(ROLE,),
    least=1,
)
def roles_do_not_fit(fleet: FleetSubject) -> Iterator[Draft]:
    """Prefill and decode replicas have roles that do not fit together.

    A replica's role is other than its label says; a pool mixes replicas that produce with replicas that consume; a
    model has the one kind and not the other; or replicas tell no role, while others of their model prefill or decode.

    Why it matters:
        - disaggregated: A router that sends a prompt to a replica which does not do that part gets an error, or an
          answer that one replica computed alone: disaggregation is paid for and not used.

    How to fix:
        Give prefill replicas `kv_producer` and decode replicas `kv_consumer`, label them `prefill` and `decode`, and
        list both kinds in fleet.yaml.

    Exceptions:
        Replicas with `kv_both` do either. Where only one kind is listed in fleet.yaml on purpose, suppress the finding.

    Evidence:
        - vllm/config/kv_transfer.py (the three roles)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py (roles are asserted)
        - llm-d/llm-d-router#220

    Example:
        A manifest for decode was copied for a second prefill replica: its label says prefill, its role `kv_consumer`.
    """
    for pools in partners(fleet):
        known = [each for pool in pools for each in _members(pool)]
        wrong = {each.replica.id: wanted for each in known if (wanted := _contradicted(each))}
        for wanted in sorted(set(wrong.values())):
            yield _mislabelled([each for each in known if wrong.get(each.replica.id) == wanted], wanted)
        sound = [each for each in known if each.replica.id not in wrong]
        for pool in pools:
            yield from _mixed(pool, [each for each in sound if each.pool is pool])
        silent = {pool.name: _silent(pool) for pool in _of_one_model(fleet, pools)}
        if not wrong and not any(silent.values()):
            yield from _alone(fleet, pools, sound)
        yield from (_unknown(name, replicas, pools, known) for name, replicas in silent.items() if replicas)


def _members(pool: PoolSubject) -> Iterator[_Member]:
    roles = pool.of_documents(_roles)
    for member in pool.members:
        if (own := roles[member.id]) is not None:
            yield _Member(member, pool, own)


def _roles(settings: Mapping[str, Setting]) -> frozenset[str] | None:
    """Return the roles of a document's connectors, those inside a MultiConnector; None where none is told."""
    told = lookup_setting(settings, ROLE)
    if told is None or not is_comparable(told.state):
        return None
    inner = {each.role for each in connectors(settings) if each.role}
    return frozenset(inner & {PRODUCER, CONSUMER, BOTH})


def _contradicted(member: _Member) -> str:
    """Return the role that a member should have by its label and has not; empty where they agree."""
    label = next((member.replica.labels[each] for each in LABELS if each in member.replica.labels), "").lower()
    wanted = LABELLED.get(label, "")
    return wanted if wanted and member.roles.isdisjoint({wanted, BOTH}) else ""


def _mislabelled(members: Sequence[_Member], wanted: str) -> Draft:
    label = next(label for label, role in LABELLED.items() if role == wanted)
    evidence = _evidence(members)
    roles = " or ".join(say(told) for told in held({each.replica.id: _told(each) for each in members}))
    return Draft(
        tuple(each.replica.id for each in members),
        f"Label says {label}, but the role is {roles}.",
        evidence,
        set_to([(ROLE, told_of(wanted))], ROLE_REMEDY),
    )


def _mixed(pool: PoolSubject, members: Sequence[_Member]) -> Iterator[Draft]:
    """Yield a pool whose replicas are not interchangeable: some only produce, some only consume."""
    kinds = {role: [each for each in members if each.only == role] for role in (PRODUCER, CONSUMER)}
    if not all(kinds.values()):
        return
    few = min(kinds.values(), key=len)
    labels = (Snippet("yaml", f"labels: {_labels(f'{pool.name}/{label}', label)}") for label in LABELLED)
    yield Draft(
        tuple(each.replica.id for each in few),
        f"One pool holds replicas that only produce KV cache ({len(kinds[PRODUCER]):,}) and replicas that only"
        f" consume it ({len(kinds[CONSUMER]):,}).",
        _evidence(kinds[PRODUCER] + kinds[CONSUMER]),
        Remedy("Make two pools of them in fleet.yaml, one for each role.", tuple(labels), any_of=True),
        severity=Severity.WARNING,
    )


def _of_one_model(fleet: FleetSubject, pools: Sequence[PoolSubject]) -> list[PoolSubject]:
    """Return the pools that no role is known of and that go by a name of a model with prefill or decode replicas."""
    if all(pool.pool.role is Role.BOTH for pool in pools):
        return []
    names = set().union(*map(names_of, pools))
    return [each for each in fleet.subjects if each.pool.role is Role.BOTH and names & names_of(each)]


def _silent(pool: PoolSubject) -> list[str]:
    """Return the members of which neither a label nor an answer tells the role."""
    untold = pool.of_documents(
        lambda settings: (told := lookup_setting(settings, ROLE)) is None or not is_comparable(told.state)
    )
    return [each.id for each in pool.members if untold[each.id] and not any(label in each.labels for label in LABELS)]


def _unknown(name: str, replicas: Sequence[str], pools: Sequence[PoolSubject], known: Sequence[_Member]) -> Draft:
    """Draft replicas that may be prefill or decode replicas, and are taken for neither."""
    named = {str(pool.pool.role): pool.name for pool in pools if pool.pool.role is not Role.BOTH}
    texts = [
        f"targets:\n  - url: {json.dumps(replicas[0])}\n    labels: {_labels(named.get(role, f'{name}/{role}'), role)}"
        for role in LABELLED
    ]
    verb = "tells" if len(replicas) == 1 else "tell"
    return Draft(
        tuple(replicas),
        f"{count(len(replicas), 'replica')} {verb} no role, while others of this model {' or '.join(sorted(named))}.",
        (Evidence(ROLE, "null", State.ABSENT, tuple(replicas)), *_evidence(known)),
        Remedy(LABEL_REMEDY, tuple(Snippet("yaml", text) for text in texts), any_of=True),
        severity=Severity.WARNING,
        why=TAKEN_FOR_EQUAL,
    )


def _labels(pool: str, role: str) -> str:
    return f"{{pool: {json.dumps(pool, ensure_ascii=False)}, role: {role}}}"


def _alone(fleet: FleetSubject, pools: Sequence[PoolSubject], members: Sequence[_Member]) -> Iterator[Draft]:
    """Yield replicas whose other half is nowhere; nothing while anybody of whom the role is not known could be it."""
    everyone = {each.id for pool in pools for each in pool.all_replicas}
    unknown = everyone - {each.replica.id for each in members}
    homeless = any(each.pool is None for each in fleet.all_replicas)
    kinds = {each.only for each in members}
    if homeless or unknown or len(kinds) != 1 or not (kind := kinds.pop()):
        return
    other = CONSUMER if kind == PRODUCER else PRODUCER
    doing = "produces" if kind == PRODUCER else "consumes"
    yield Draft(
        tuple(each.replica.id for each in members),
        f"Every replica of this model only {doing} KV cache; no {PARTNER[kind]} replica is known.",
        _evidence(members),
        set_to(
            [(ROLE, told_of(other))],
            f"List the {PARTNER[kind]} replicas in fleet.yaml; where there are none, start some with the other role.",
        ),
        assumptions=("no other replica serves this model",),
    )


def _told(member: _Member) -> SettingValue:
    return told_of("+".join(sorted(member.roles)) or None)


def _evidence(members: Sequence[_Member]) -> tuple[Evidence, ...]:
    holders = held({each.replica.id: _told(each) for each in members})
    return tuple(Evidence(ROLE, *told, replicas) for told, replicas in holders.items())
