"""Documents and replicas after a restart, as far as they can be known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dashboard.analysis.whatif.capacity import engines_after
from dashboard.analysis.whatif.models import RankForecast
from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Document, Replica, Role, Setting, SettingChange, Source
from dashboard.vllm.facts import ROLE_OF, ROLES
from dashboard.vllm.merging import document_id, version_of

VERSION = "version"
ROLE = "kv_transfer_config.kv_role"
SERVED_NAMES = "served_model_names"
# Identity settings that the engine counts and resolves at start (vllm_fleet_provider.shared.identity); others stay.
COUNTED = frozenset(
    {
        "cache_config.num_gpu_blocks",
        "cache_config.num_cpu_blocks",
        "cache_config.kv_cache_size_tokens",
        "cache_config.kv_cache_max_concurrency",
    }
)


def document_after(document: Document, changes: Sequence[SettingChange], target: Mapping[str, Setting]) -> Document:
    """Return a document with changed settings.

    A different version has different defaults: settings that the target does not report become unknown.
    """
    if not changes:
        return document
    settings = dict(document.settings)
    for change in changes:
        _set(settings, change, target)
    changed = {each.path for each in changes}
    if VERSION in changed:
        settings = {
            path: setting
            for path, setting in settings.items()
            if path in changed or lookup_setting(target, path) is not None
        }
    ordered = MappingProxyType(dict(sorted(settings.items())))
    return Document(document_id(ordered), version_of(ordered), ordered)


def _set(settings: dict[str, Setting], change: SettingChange, target: Mapping[str, Setting]) -> None:
    """Set the value of a path; a section above it that is null or one value gets the settings of the target."""
    own = lookup_setting(settings, change.path)
    section = change.path
    while section := section.rpartition(".")[0]:
        if section in settings:
            del settings[section]
            settings.update({path: setting for path, setting in target.items() if path.startswith(f"{section}.")})
    settings[change.path] = Setting(*change.after, own.source if own else Source.SERVER_INFO)


def replica_after(
    replica: Replica, document: Document, changes: Sequence[SettingChange], ranks: Sequence[RankForecast]
) -> Replica:
    """Return a replica after its restart. What its process measured becomes unknown.

    That is: its start time, fingerprints, adapters, contradictions and sources. `ranks` forecast its KV cache; it is
    unchanged without them.
    """
    values = {each.path: json.loads(each.after.value) for each in changes}
    identity = {
        path: setting for path, setting in replica.identity.items() if path not in values and path not in COUNTED
    }
    role, names = replica.role, replica.served_model_names
    if ROLE in values and replica.labels.get("role", "").lower() not in ROLES:
        wanted = values[ROLE]
        role = ROLE_OF.get(wanted, Role.BOTH) if isinstance(wanted, str) else Role.BOTH
    if SERVED_NAMES in values:
        wanted = values[SERVED_NAMES]
        names = tuple(map(str, wanted)) if isinstance(wanted, list) else ()
    return replace(
        replica,
        version=document.version if VERSION in values else replica.version,
        role=role,
        started_at=None,
        document=document.id,
        identity=identity,
        sources=(),
        contradictions=(),
        served_model_names=names,
        adapters={},
        engines=tuple(each._replace(fingerprint=None) for each in engines_after(replica, ranks, document)),
        kv_cache_groups=() if ranks else replica.kv_cache_groups,
        probes=(),
    )
