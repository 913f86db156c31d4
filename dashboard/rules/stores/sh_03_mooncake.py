"""SH-03: replicas with different KV cache have the same keys in Mooncake's store, or one pool has several."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import KVCacheGroup, Replica, Setting, SettingValue
from dashboard.fleet.formatting import count, joined
from dashboard.rules.connectors import CONNECTOR, EXTRA, connectors, tells_options
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import MOST_SIDES, apart, capital, say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.holders import held, held_natively
from dashboard.rules.meanings import CACHE_DTYPE, branch, effective
from dashboard.rules.registry import Scope, rule
from dashboard.rules.stores.namespace import MODEL, QUANTIZATION, REVISION, TP, groups_of, is_mla
from dashboard.rules.subject import FleetSubject, Holders, PoolSubject

STORE = "MooncakeStoreConnector"
PREFIX = f"{EXTRA}.cache_prefix"
FLAG = "--kv-transfer-config.kv_connector_extra_config.cache_prefix"
# Options with which keys tell numbers of ranks apart.
TELLS_RANKS = ("store_tp_size", "enable_store_tp_lcm")
MEANINGS = {REVISION: branch, CACHE_DTYPE: effective}
NOUNS = {REVISION: "model revision", QUANTIZATION: "quantization", CACHE_DTYPE: "KV cache dtype"}
SPLIT = "what these replicas store is not found by the others"


@dataclass(frozen=True, slots=True)
class _Member:
    """A replica that writes into Mooncake's store. `key` is how all of its keys begin."""

    replica: Replica
    settings: Mapping[str, Setting]
    options: Mapping[str, Any]
    model: str
    groups: Sequence[KVCacheGroup]

    @property
    def prefix(self) -> str:
        """Return the namespace that the operator gave; empty by default."""
        return str(self.options.get("cache_prefix", ""))

    @property
    def key(self) -> str:
        """Return how its keys begin: namespace and last part of the model's path."""
        name = self.model.rstrip("/").split("/")[-1]
        return f"{self.prefix}@{name}" if self.prefix else name


@rule(
    id="SH-03",
    name="mooncake-keys-collide",
    family=Family.STORES,
    scope=Scope.FLEET,
    severity={ImpactContext.KV_STORE: Severity.CRITICAL},
    needs=(CONNECTOR,),
)
def mooncake_keys_collide(fleet: FleetSubject) -> Iterator[Draft]:
    """Replicas with different KV cache have the same keys in Mooncake's store.

    A key is made of `cache_prefix`, the last part of the model's path, the rank and the hash of the tokens. It tells
    neither revisions nor quantizations nor number formats apart, nor, by default, numbers of ranks. The other way
    round, replicas of one pool with several prefixes, or without the connector, share nothing: there it is a warning.

    Why it matters:
        - kv-store: A replica reads KV cache that other weights, another number format or another split over GPUs wrote:
          nothing fails, and answers are wrong.

    How to fix:
        Give each model, revision, number format and number of ranks a `cache_prefix` of its own, the same on all
        replicas that are meant to share. For different numbers of ranks there is `store_tp_size` too.

    Exceptions:
        Nobody tells which Mooncake master a replica uses: pools with masters of their own cannot collide, suppress the
        finding for them.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/store/data.py (what a key is made of)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/store/worker.py (the name of the model, options for
          ranks)
        - kvcache-ai/Mooncake#3082

    Example:
        A second pool serves a new revision of the model for a test. It finds the whole store full of hits: of the old
        weights.
    """
    shared: dict[str, list[_Member]] = defaultdict(list)
    for pool in fleet.subjects:
        yield from _unconnected(pool)
        members = list(_members(pool))
        for member in members:
            shared[member.key].append(member)
        prefixes = {each.replica.id: each.prefix or None for each in members}
        if not pool.is_ignored(PREFIX):
            for draft in apart({PREFIX: ("cache prefix", held_natively(prefixes))}, SPLIT):
                yield replace(draft, severity=Severity.WARNING)
    for key in sorted(shared):
        yield from _collisions(key, shared[key], fleet)


def _unconnected(pool: PoolSubject) -> Iterator[Draft]:
    """Report a pool of which some replicas use the store and others, who report their connectors, do not."""
    names = {key: [each.name for each in told] for key, told in pool.of_documents(connectors).items()}
    if pool.is_ignored(CONNECTOR) or not any(STORE in held for held in names.values()):
        return
    reporting = {replica for replicas in pool.values(CONNECTOR).values() for replica in replicas}
    held = {key: STORE if STORE in names[key] else None for key in reporting}
    is_alone = all(len(each) <= 1 for each in names.values())
    for draft in apart({CONNECTOR: ("connector to Mooncake's store", held_natively(held))}):
        fix = draft.remedy if is_alone else Remedy(f"Add {STORE} to the connectors of all replicas, and restart them.")
        yield replace(draft, severity=Severity.WARNING, remedy=fix)


def _members(pool: PoolSubject) -> Iterator[_Member]:
    writers = pool.of_documents(_options)
    if not any(options is not None for options in writers.values()):
        return
    models, groups = pool.identity(MODEL), groups_of(pool)
    for member in pool.members:
        options, model = writers[member.id], models.get(member.id)
        if options is not None and isinstance(model, str):
            yield _Member(member, pool.settings(member), options, model, groups.get(member.id, ()))


def _options(settings: Mapping[str, Setting]) -> Mapping[str, Any] | None:
    """Return the options of a document's connector to Mooncake's store; None without one, or if they are not told."""
    options = next((each.options for each in connectors(settings) if each.name == STORE), None)
    return options if options is not None and tells_options(settings) else None


def _collisions(key: str, members: Sequence[_Member], fleet: FleetSubject) -> Iterator[Draft]:
    for path, noun in NOUNS.items():
        yield from _collision(key, path, noun, _told(members, path), fleet)
    owners = {each.replica.id: each.model for each in members if _is_repository(each.model)}
    yield from _collision(key, MODEL, "model", held_natively(owners), fleet)
    split = [each for each in members if not any(each.options.get(name) for name in TELLS_RANKS)]
    if not any(is_mla(each.groups) for each in split):
        known = all(each.groups for each in split)
        for draft in _collision(key, TP, "tensor parallel size", _told(split, TP), fleet):
            # A model with latent attention keeps the same on each rank; that it has it may not be told.
            yield draft if known else replace(draft, assumptions=(*draft.assumptions, "no model here uses MLA"))


def _told(members: Sequence[_Member], path: str) -> Holders:
    told: dict[str, SettingValue] = {}
    for member in members:
        setting = lookup_setting(member.settings, path)
        if setting is not None and is_comparable(setting.state):
            own = SettingValue(setting.value, setting.state)
            told[member.replica.id] = MEANINGS[path](own, member.settings) if path in MEANINGS else own
    return held(told)


def _is_repository(model: str) -> bool:
    """Tell whether a model is named by its repository: two of these are two models, two folders may be one."""
    return model.count("/") == 1 and not model.startswith(("/", ".", "~"))


def _collision(key: str, path: str, noun: str, holders: Holders, fleet: FleetSubject) -> Iterator[Draft]:
    if len(holders) <= 1 or any(pool.is_ignored(path) for pool in fleet.subjects):
        return
    sides = [f"{say(told)} on {len(replicas):,}" for told, replicas in list(holders.items())[:MOST_SIDES]]
    total = sum(map(len, holders.values()))
    concerned = {each for ids in holders.values() for each in ids}
    pools = [pool for pool in fleet.subjects if any(each.id in concerned for each in pool.members)]
    reference, *odd = holders
    prefixes = (Snippet("flag", f"{FLAG} {prefix}") for prefix in _prefixes(key, list(holders)[:MOST_SIDES]))
    yield Draft(
        tuple(sorted(replica for told in odd for replica in holders[told])),
        f"{capital(noun)} differs among {count(total, 'replica')} whose keys in Mooncake all begin with {key}:"
        f" {joined(sides)}.",
        tuple(Evidence(path, *told, ids, is_reference=told == reference) for told, ids in holders.items()),
        Remedy(
            f"Give the replicas of each {noun} a cache prefix of their own, and restart them.",
            tuple(prefixes),
            any_of=True,
        ),
        assumptions=("these pools use one store",) if len(pools) > 1 else (),
    )


def _prefixes(key: str, values: Sequence[SettingValue]) -> list[str]:
    """Propose a prefix for each value: the key and the value, of letters that no shell minds."""
    return [re.sub(r"[^\w.-]+", "-", f"{key}-{say(told)}").strip("-") for told in values]
