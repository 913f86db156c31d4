"""Documents and replicas as they would be after the restart, as far as that can be known."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dashboard.analysis.whatif.target import Contrast, Contrasts
from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Document, Engine, Replica, Role, Setting, SettingValue, Source
from dashboard.vllm.facts import ROLE_OF, ROLES
from dashboard.vllm.merging import document_id, version_of

VERSION = "version"
ROLE = "kv_transfer_config.kv_role"
SERVED_NAMES = "served_model_names"
# What identifies a replica stays, but for what the engine counts and resolves at start (normalize/identity.py).
COUNTED = frozenset(
    {
        "cache_config.num_gpu_blocks",
        "cache_config.num_cpu_blocks",
        "cache_config.kv_cache_size_tokens",
        "cache_config.kv_cache_max_concurrency",
    }
)


def document_after(document: Document, contrasts: Contrasts, target: Mapping[str, Setting]) -> Document:
    """Return a document that tells what the target tells, where it told otherwise.

    Another version has other defaults: then what the target does not tell is not known any more.
    """
    if not contrasts:
        return document
    settings = dict(document.settings)
    for contrast in contrasts:
        _set(settings, contrast, target)
    if any(each.path == VERSION for each in contrasts):
        changed = {each.path for each in contrasts}
        settings = {
            path: told for path, told in settings.items() if path in changed or lookup_setting(target, path) is not None
        }
    ordered = MappingProxyType(dict(sorted(settings.items())))
    return Document(document_id(ordered), version_of(ordered), ordered)


def replica_after(replica: Replica, document: Document, contrasts: Contrasts, engines: tuple[Engine, ...]) -> Replica:
    """Return a replica after its restart. What its process told of itself is not known any more.

    That is: when it started, what its engines computed and counted, its adapters, which of its answers contradict each
    other, and who will tell.
    """
    changed = {each.path: each.wanted for each in contrasts}
    identity = {path: told for path, told in replica.identity.items() if path not in changed and path not in COUNTED}
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


def _set(settings: dict[str, Setting], contrast: Contrast, target: Mapping[str, Setting]) -> None:
    """Give a path its value; a section above it that is null or one value is replaced by what the target has in it."""
    own = lookup_setting(settings, contrast.path)
    section = contrast.path
    while section := section.rpartition(".")[0]:
        if section in settings:
            del settings[section]
            settings.update({path: told for path, told in target.items() if path.startswith(f"{section}.")})
    settings[contrast.path] = Setting(*contrast.wanted, own.source if own else Source.SERVER_INFO)


def _role(replica: Replica, changed: Mapping[str, SettingValue]) -> Role:
    """Return what a replica does: its label says it, else the role that it would be given for KV transfer."""
    if ROLE not in changed or replica.labels.get("role", "").lower() in ROLES:
        return replica.role
    wanted = json.loads(changed[ROLE].value)
    return ROLE_OF.get(wanted, Role.BOTH) if isinstance(wanted, str) else Role.BOTH


def _names(replica: Replica, changed: Mapping[str, SettingValue]) -> tuple[str, ...]:
    if SERVED_NAMES not in changed:
        return replica.served_model_names
    wanted = json.loads(changed[SERVED_NAMES].value)
    return tuple(map(str, wanted)) if isinstance(wanted, list) else ()
