"""SH-03: keys in Mooncake's store that collide, or that one pool does not share."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import CACHE_DTYPE, resolved_kv_dtype
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import KVCacheGroup, Setting, SettingValue
from dashboard.fleet.formatting import count
from dashboard.rules.connector_options import CONNECTOR, EXTRA, connectors, reports_options
from dashboard.rules.differences import code, pool_differences, split
from dashboard.rules.findings import Draft, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.selection import first_engine_groups
from dashboard.rules.sentences import MAX_VALUES, name_piece, setting_name, setting_piece, to_text, write
from dashboard.rules.stores.sharing import (
    MODEL,
    QUANTIZATION,
    REVISION,
    TP,
    UNSHARED,
    apart_by_design,
    is_mla,
    separating,
)
from dashboard.rules.subject import FleetSubject, PoolSubject, group_by_native
from dashboard.rules.value_equivalence import pinned_revision

MOONCAKE = "MooncakeStoreConnector"
PREFIX = f"{EXTRA}.cache_prefix"
PREFIX_FLAG = "--kv-transfer-config.kv_connector_extra_config.cache_prefix"
RANK_OPTIONS = ("store_tp_size", "enable_store_tp_lcm")  # with one of these, Mooncake's keys include the ranks
MEANINGS = {REVISION: pinned_revision, CACHE_DTYPE: resolved_kv_dtype}


@dataclass(frozen=True, slots=True)
class _Writer:
    """A replica that writes into Mooncake's store, or could. `prefix` is the configured namespace, empty by default."""

    replica: str
    settings: Mapping[str, Setting]
    options: Mapping[str, Any]
    model: str
    groups: Sequence[KVCacheGroup]
    is_connected: bool

    @property
    def prefix(self) -> str:
        return str(self.options.get("cache_prefix", ""))

    @property
    def name(self) -> str:
        """Return the last part of the model's path."""
        return self.model.rstrip("/").split("/")[-1]

    @property
    def key(self) -> str:
        """Return the beginning of its keys: namespace and name of the model."""
        return f"{self.prefix}@{self.name}" if self.prefix else self.name


@rule("SH-03", needs=(CONNECTOR,), scope=Scope.FLEET)
def mooncake_keys_collide(fleet: FleetSubject) -> Iterator[Draft]:
    """Replicas with different KV cache have the same keys in Mooncake's store.

    A key consists of `cache_prefix`, the last part of the model's path, the rank and the hash of the tokens. It does
    not include revision, quantization, dtype or, by default, the number of ranks. Replicas of one pool with different
    prefixes, or without the connector, share nothing: warning. Where they would collide, this is by design: info.

    Why it matters:
        - kv-store (critical): A replica reads KV cache of different weights, a different dtype or a different number of
          ranks. Nothing fails, and answers are wrong.

    How to fix:
        Set one `cache_prefix` per model, revision, dtype and number of ranks, the same on all replicas that should
        share. For different numbers of ranks there is also `store_tp_size`.

    Exceptions:
        No replica reports its Mooncake master. Pools with their own masters cannot collide: suppress the finding.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/store/data.py (what a key consists of)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/store/worker.py (the name of the model, options for
          ranks)
        - kvcache-ai/Mooncake#3082

    Example:
        A second pool serves a new revision of the model for a test. The store has hits for everything: of the old
        weights.
    """
    shared: dict[str, list[_Writer]] = defaultdict(list)
    for pool in fleet.subjects:
        candidates = list(_candidates(pool))
        yield from (_unless_by_design(each, candidates, pool) for each in _unconnected(pool))
        writers = [each for each in candidates if each.is_connected]
        for writer in writers:
            shared[writer.key].append(writer)
        prefixes = group_by_native({each.replica: each.prefix or None for each in writers})
        for draft in pool_differences(pool, {PREFIX: prefixes}, consequence=UNSHARED, severity=Severity.WARNING):
            yield _unless_by_design(draft, writers, pool)
    for key in sorted(shared):
        yield from _collisions(key, shared[key], fleet)


def _unconnected(pool: PoolSubject) -> Iterator[Draft]:
    """Yield replicas without the store's connector, where others of the pool have it."""
    names = {replica: [each.name for each in found] for replica, found in pool.of_documents(connectors).items()}
    if not any(MOONCAKE in own for own in names.values()):
        return
    reporting = {replica for replicas in pool.values(CONNECTOR).values() for replica in replicas}
    holders = group_by_native({replica: MOONCAKE if MOONCAKE in names[replica] else None for replica in reporting})
    is_only_connector = all(len(each) <= 1 for each in names.values())
    add = Remedy(f"Add {MOONCAKE} to the connectors of all replicas and restart them.")
    for draft in pool_differences(pool, {CONNECTOR: holders}):
        yield replace(draft, severity=Severity.WARNING, remedy=draft.remedy if is_only_connector else add)


def _unless_by_design(draft: Draft, candidates: Sequence[_Writer], pool: PoolSubject) -> Draft:
    """Return a difference as info where its replicas would collide under one prefix."""
    concerned = {replica for each in draft.evidence for replica in each.replicas}
    under_one: dict[str, list[_Writer]] = defaultdict(list)
    for each in candidates:
        if each.replica in concerned:
            under_one[each.name].append(each)
    colliding = [
        found.evidence[0].path
        for name, writers in sorted(under_one.items())
        for found in _collisions(name, writers, FleetSubject((pool,), pool.all_replicas))
    ]
    compared = {path: _values(candidates, path) for path in dict.fromkeys(colliding)}
    return apart_by_design(draft, separating(draft, compared))


def _candidates(pool: PoolSubject) -> Iterator[_Writer]:
    """Yield the members that report their connectors' options; those without the store's connector could get it."""
    models, groups, known = pool.identity(MODEL), first_engine_groups(pool), pool.of_documents(connectors)
    for member in pool.members:
        settings, model = pool.settings(member), models.get(member.id)
        options = next((each.options for each in known[member.id] if each.name == MOONCAKE), None)
        if isinstance(model, str) and reports_options(settings):
            own = groups.get(member.id, ())
            yield _Writer(member.id, settings, options or {}, model, own, is_connected=options is not None)


def _collisions(key: str, writers: Sequence[_Writer], fleet: FleetSubject) -> Iterator[Draft]:
    for path in (REVISION, QUANTIZATION, CACHE_DTYPE):
        yield from _collision(key, path, _values(writers, path), fleet)
    # Two repositories are two models, two folders may be one.
    named = [each for each in writers if each.model.count("/") == 1 and not each.model.startswith(("/", ".", "~"))]
    yield from _collision(key, MODEL, group_by_native({each.replica: each.model for each in named}), fleet)
    split = [each for each in writers if not any(each.options.get(name) for name in RANK_OPTIONS)]
    if not any(is_mla(each.groups) for each in split):
        is_known = all(each.groups for each in split)
        for draft in _collision(key, TP, _values(split, TP), fleet):
            # With latent attention each rank has the same cache; it may be unreported.
            yield draft if is_known else replace(draft, assumptions=(*draft.assumptions, "no model here uses MLA"))


def _values(writers: Sequence[_Writer], path: str) -> Holders:
    values: dict[str, SettingValue] = {}
    for writer in writers:
        own = lookup_value(writer.settings, path)
        if own is not None and path in MEANINGS:
            own = MEANINGS[path](own, writer.settings)
        if own is not None:
            values[writer.replica] = own
    return group_by_value(values)


def _collision(key: str, path: str, holders: Holders, fleet: FleetSubject) -> Iterator[Draft]:
    if len(holders) <= 1 or any(pool.is_ignored(path) for pool in fleet.subjects):
        return
    concerned = {each for ids in holders.values() for each in ids}
    pools = [pool for pool in fleet.subjects if any(each.id in concerned for each in pool.members)]
    # A prefix for each value: the key and the value, of characters that are safe in a shell.
    prefixes = (re.sub(r"[^\w.-]+", "-", f"{key}-{to_text(value)}").strip("-") for value in list(holders)[:MAX_VALUES])
    where = f" differs on {count(len(concerned), 'replica')} with the Mooncake key prefix "
    fix = Remedy(
        f"Set one `cache_prefix` for each {code(setting_name(path))} and restart the replicas.",
        tuple(Snippet("flag", f"{PREFIX_FLAG} {prefix}") for prefix in prefixes),
        any_of=True,
    )
    draft = split(path, holders, next(iter(holders)), write(setting_piece(path), where, name_piece(key), ": "), fix)
    yield replace(draft, assumptions=("these pools use one store",)) if len(pools) > 1 else draft
