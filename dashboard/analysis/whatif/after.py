"""The fleet after the restart: its documents, replicas and findings, as far as they can be known."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Document, Engine, Replica, Role, Setting, SettingChange, SettingValue, Source
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Family, Finding, Inspection, Outcome
from dashboard.rules.registry import Scope
from dashboard.vllm.facts import ROLE_OF, ROLES
from dashboard.vllm.merging import document_id, version_of

Changes = tuple[SettingChange, ...]  # of one document, its own values and those to set
Evaluated = TypeVar("Evaluated", bound="Finding | Outcome")

OF_POOLS = tuple(rule for rule in ALL_RULES if rule.scope is not Scope.FLEET)
OF_FLEETS = tuple(rule for rule in ALL_RULES if rule.scope is Scope.FLEET)
VERSION = "version"
ROLE = "kv_transfer_config.kv_role"
SERVED_NAMES = "served_model_names"
# Identity settings that the engine counts and resolves at start (vllm/identity.py); the others stay.
COUNTED = frozenset(
    {
        "cache_config.num_gpu_blocks",
        "cache_config.num_cpu_blocks",
        "cache_config.kv_cache_size_tokens",
        "cache_config.kv_cache_max_concurrency",
    }
)


def document_after(document: Document, changes: Changes, target: Mapping[str, Setting]) -> Document:
    """Return a document with changed settings.

    Another version has other defaults: settings that the target does not report become unknown.
    """
    if not changes:
        return document
    settings = dict(document.settings)
    for change in changes:
        _set(settings, change, target)
    if any(each.path == VERSION for each in changes):
        changed = {each.path for each in changes}
        settings = {
            path: setting
            for path, setting in settings.items()
            if path in changed or lookup_setting(target, path) is not None
        }
    ordered = MappingProxyType(dict(sorted(settings.items())))
    return Document(document_id(ordered), version_of(ordered), ordered)


def replica_after(replica: Replica, document: Document, changes: Changes, engines: tuple[Engine, ...]) -> Replica:
    """Return a replica after its restart. What its process measured becomes unknown.

    That is: its start time, fingerprints, adapters, contradictions and sources.
    """
    changed = {each.path: each.after for each in changes}
    identity = {
        path: setting for path, setting in replica.identity.items() if path not in changed and path not in COUNTED
    }
    return replace(
        replica,
        version=document.version if VERSION in changed else replica.version,
        role=_role(replica, changed),
        started_at=None,
        document=document.id,
        identity=identity,
        sources=(),
        contradictions=(),
        served_model_names=_names(replica, changed),
        adapters={},
        engines=tuple(engine._replace(fingerprint=None) for engine in engines),
        probes=(),
    )


def _set(settings: dict[str, Setting], change: SettingChange, target: Mapping[str, Setting]) -> None:
    """Set the value of a path; a section above it that is null or one value gets the settings of the target."""
    own = lookup_setting(settings, change.path)
    section = change.path
    while section := section.rpartition(".")[0]:
        if section in settings:
            del settings[section]
            settings.update({path: setting for path, setting in target.items() if path.startswith(f"{section}.")})
    settings[change.path] = Setting(*change.after, own.source if own else Source.SERVER_INFO)


def _role(replica: Replica, changed: Mapping[str, SettingValue]) -> Role:
    """Return the role of a replica: its label, else the new role of its KV transfer."""
    if ROLE not in changed or replica.labels.get("role", "").lower() in ROLES:
        return replica.role
    wanted = json.loads(changed[ROLE].value)
    return ROLE_OF.get(wanted, Role.BOTH) if isinstance(wanted, str) else Role.BOTH


def _names(replica: Replica, changed: Mapping[str, SettingValue]) -> tuple[str, ...]:
    if SERVED_NAMES not in changed:
        return replica.served_model_names
    wanted = json.loads(changed[SERVED_NAMES].value)
    return tuple(map(str, wanted)) if isinstance(wanted, list) else ()


def inspect_again(before: Fleet, after: Fleet, pool: str, at: datetime) -> Fleet:
    """Return the fleet `after` with its findings; only replicas of one pool differ from `before`.

    Equal to evaluating all rules again: findings of other pools are kept.
    """
    known = before.inspection
    near = {name for each in known.outcomes if _is_of(each, pool) for name in each.pools}
    pools = [each for each in after.pools if each.name in near]
    rest = (after.replicas, after.documents, after.policy, at, after.ignored)
    own = inspect_fleet(OF_POOLS, pools, *rest)
    if _pairing(before, pool) != _pairing(after, pool) or own.domains.get(pool) != known.domains.get(pool):
        return inspected(after, at)  # it may be compared with other pools than before
    whole = inspect_fleet(OF_FLEETS, after.pools, *rest)
    rollouts = {name: each for name, each in known.rollouts.items() if name != pool}
    inspection = Inspection(
        findings=_worst_first(_merged(known.findings, own.findings, whole.findings, pool)),
        suppressed=_worst_first(_merged(known.suppressed, own.suppressed, whole.suppressed, pool)),
        outcomes=tuple(sorted(_merged(known.outcomes, own.outcomes, whole.outcomes, pool))),
        domains=known.domains,
        rollouts={**rollouts, **{name: each for name, each in own.rollouts.items() if name == pool}},
        notes=known.notes,
    )
    return replace(after, inspection=inspection)


def _merged(
    known: Iterable[Evaluated], own: Iterable[Evaluated], whole: Iterable[Evaluated], pool: str
) -> list[Evaluated]:
    """Keep the findings of other pools from before, and take the rest from now."""
    others = [each for each in known if not _is_fleet_wide(each) and pool not in each.pools]
    return [*others, *(each for each in own if _is_of(each, pool)), *whole]


def _is_of(each: Finding | Outcome, pool: str) -> bool:
    return not _is_fleet_wide(each) and pool in each.pools


def _is_fleet_wide(each: Finding | Outcome) -> bool:
    return BY_ID[each.rule].scope is Scope.FLEET


def _pairing(fleet: Fleet, pool: str) -> set[tuple[object, ...]]:
    """Return what decides which pools a pool is compared with, apart from its domain."""
    return {(each.id, each.role, each.served_model_names) for each in fleet.replicas if each.pool == pool}


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings as rules/engine.py does."""

    def key(each: Finding) -> tuple[object, ...]:
        family = list(Family).index(BY_ID[each.rule].family)
        return each.severity.rank, each.is_rollout, family, each.rule, each.subject, each.id, each.replicas

    return tuple(sorted(findings, key=key))
