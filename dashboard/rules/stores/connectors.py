"""SH-03, SH-06 and SH-07: keys in Mooncake's store that collide, and LMCache options that share nothing."""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import CACHE_DTYPE, resolved_kv_dtype
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import KVCacheGroup, Setting, SettingValue, State
from dashboard.fleet.formatting import count
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import value
from dashboard.rules import remedy
from dashboard.rules.connector_options import CONNECTOR, EXTRA, reports_options
from dashboard.rules.differences import code, pool_differences, split, value_evidence
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Snippet, UnevaluatedReplicas
from dashboard.rules.registry import Scope, rule
from dashboard.rules.routing.blocks import BLOCK_SIZE, is_size
from dashboard.rules.sentences import MAX_VALUES, name_piece, setting_name, setting_piece, to_text, values_text, write
from dashboard.rules.stores import sharing
from dashboard.rules.subject import FleetSubject, PoolSubject, group_by_native
from dashboard.rules.value_equivalence import pinned_revision
from dashboard.vllm.metrics import PYTHON_VERSION
from dashboard.vllm.versions import release

MOONCAKE = "MooncakeStoreConnector"
PREFIX = f"{EXTRA}.cache_prefix"
PREFIX_FLAG = "--kv-transfer-config.kv_connector_extra_config.cache_prefix"
RANK_OPTIONS = ("store_tp_size", "enable_store_tp_lcm")  # with one of these, Mooncake's keys include the ranks
MEANINGS = {sharing.REVISION: pinned_revision, CACHE_DTYPE: resolved_kv_dtype}
CHUNK, ALGORITHM = "lmcache.chunk_size", "lmcache.pre_caching_hash_algorithm"
BUILTIN, STABLE = "builtin", "sha256_cbor"
CONSTANT_NONE = (3, 12)  # from this Python on hash(None) is the same in each process
SET_CHUNK = "Set a multiple of the block size on all replicas of the store, then restart them."
HASHES_NONE = "this LMCache hashes None with the tokens"


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
    """
    shared: dict[str, list[_Writer]] = defaultdict(list)
    for pool in fleet.subjects:
        candidates = list(_candidates(pool))
        yield from (_unless_by_design(each, candidates, pool) for each in _unconnected(pool))
        writers = [each for each in candidates if each.is_connected]
        for writer in writers:
            shared[writer.key].append(writer)
        prefixes = group_by_native({each.replica: each.prefix or None for each in writers})
        for draft in pool_differences(
            pool, {PREFIX: prefixes}, consequence=sharing.UNSHARED, severity=Severity.WARNING
        ):
            yield _unless_by_design(draft, writers, pool)
    for key in sorted(shared):
        yield from _collisions(key, shared[key], fleet)


def _unconnected(pool: PoolSubject) -> Iterator[Draft]:
    """Yield replicas without the store's connector, where others of the pool have it."""
    names = {replica: [each.name for each in found] for replica, found in pool.connectors.items()}
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
    under_one = grouped((each.name, each) for each in candidates if each.replica in concerned)
    colliding = [
        found.evidence[0].path
        for name, writers in sorted(under_one.items())
        for found in _collisions(name, writers, FleetSubject((pool,), pool.all_replicas))
    ]
    compared = {path: _values(candidates, path) for path in dict.fromkeys(colliding)}
    return sharing.apart_by_design(draft, sharing.separating(draft, compared))


def _candidates(pool: PoolSubject) -> Iterator[_Writer]:
    """Yield the members that report their connectors' options; those without the store's connector could get it."""
    models, groups, known = pool.identity(sharing.MODEL), pool.first_engine_groups, pool.connectors
    for member in pool.members:
        settings, model = pool.settings(member), models.get(member.id)
        options = next((each.options for each in known[member.id] if each.name == MOONCAKE), None)
        if isinstance(model, str) and reports_options(settings):
            own = groups.get(member.id, ())
            yield _Writer(member.id, settings, options or {}, model, own, is_connected=options is not None)


def _collisions(key: str, writers: Sequence[_Writer], fleet: FleetSubject) -> Iterator[Draft]:
    for path in (sharing.REVISION, sharing.QUANTIZATION, CACHE_DTYPE):
        yield from _collision(key, path, _values(writers, path), fleet)
    # Two repositories are two models, two folders may be one.
    named = [each for each in writers if each.model.count("/") == 1 and not each.model.startswith(("/", ".", "~"))]
    yield from _collision(key, sharing.MODEL, group_by_native({each.replica: each.model for each in named}), fleet)
    split = [each for each in writers if not any(each.options.get(name) for name in RANK_OPTIONS)]
    if not any(sharing.is_mla(each.groups) for each in split):
        is_known = all(each.groups for each in split)
        for draft in _collision(key, sharing.TP, _values(split, sharing.TP), fleet):
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


@rule("SH-06", needs=(CONNECTOR,), least=1)
def lmcache_chunk_is_no_multiple_of_blocks(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """LMCache's chunk size is no multiple of the block size.

    vLLM raises the block size of hybrid models after start. The rule evaluates replicas that report
    `lmcache.chunk_size`; LMCache's own file and variables are not reported.
    """
    chunks = {replica: size for replica, size in _options(pool, CHUNK).items() if is_size(size)}
    yield from _unreported(pool, chunks, BLOCK_SIZE)
    blocks = {
        replica: size for replica, size in pool.identity(BLOCK_SIZE).items() if is_size(size) and replica in chunks
    }
    wrong = {replica: chunks[replica] for replica, size in blocks.items() if chunks[replica] % size}
    path = f"{EXTRA}.{CHUNK}"
    if not wrong or pool.is_ignored(path) or pool.is_ignored(BLOCK_SIZE):
        return
    sizes = group_by_native({replica: blocks[replica] for replica in wrong})
    fitting = -(-max(wrong.values()) // (step := lcm(*blocks.values()))) * step
    holders = group_by_native(wrong)
    no_multiple = (", no multiple of the block size ", values_text(sizes, last=" and "), ".")
    yield Draft(
        tuple(sorted(blocks)),  # all that share the store need one chunk size
        write(setting_piece(path), " is ", values_text(holders, last=" and "), *no_multiple),
        (*value_evidence(path, holders), *value_evidence(BLOCK_SIZE, sizes)),
        _set_option(CHUNK, fitting, SET_CHUNK),
    )


@rule("SH-07", needs=(CONNECTOR,), least=1)
def lmcache_hash_differs_in_each_process(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """LMCache uses Python's own hash, which differs between processes.

    Before Python 3.12 `hash(None)` is an address in memory, also with `PYTHONHASHSEED`. The rule evaluates replicas
    that report `lmcache.pre_caching_hash_algorithm` and a Python version (`python_info` of `/metrics`).
    """
    builtin = {replica for replica, name in _options(pool, ALGORITHM).items() if name == BUILTIN}
    versions = {replica: text for replica, text in pool.identity(PYTHON_VERSION).items() if replica in builtin}
    yield from _unreported(pool, builtin, PYTHON_VERSION)
    old = {replica: text for replica, text in versions.items() if _has_random_none(text)}
    path = f"{EXTRA}.{ALGORITHM}"
    if old and not pool.is_ignored(path):
        holders, replicas = group_by_native(old), tuple(sorted(builtin))  # all that share the store need one algorithm
        builtin_text = write(setting_piece(path), " is ", value(BUILTIN))
        yield Draft(
            replicas,
            write(
                builtin_text,
                "; Python ",
                values_text(holders, last=" and "),
                " hashes None differently in each process.",
            ),
            (Evidence(path, json.dumps(BUILTIN), State.REPORTED, replicas), *value_evidence(PYTHON_VERSION, holders)),
            _set_option(ALGORITHM, STABLE, "Set one algorithm on all replicas of the store, then restart them."),
            assumptions=(HASHES_NONE,),
        )


def _options(pool: PoolSubject, name: str) -> dict[str, Any]:
    """Return an option of LMCache's connector by replica, None where it has none."""
    found = pool.connectors
    own = {
        replica: next((each for each in some if each.name.startswith(sharing.LMCACHE)), None)
        for replica, some in found.items()
    }
    return {replica: each.options.get(name) if each else None for replica, each in own.items()}


def _unreported(pool: PoolSubject, concerned: Collection[str], path: str) -> Iterator[UnevaluatedReplicas]:
    """Yield the replicas with an option that do not report what it is compared with."""
    silent = tuple(sorted(set(concerned) - pool.identity(path).keys()))
    if silent:
        yield UnevaluatedReplicas(silent, f"{path} is not reported." if len(silent) == len(concerned) else "")


def _has_random_none(version: object) -> bool:
    text = release(version) if isinstance(version, str) else None
    return text is not None and tuple(map(int, text.split(".")))[:2] < CONSTANT_NONE


def _set_option(name: str, wanted: object, sentence: str) -> Remedy:
    """Return a remedy that sets an option: LMCache's names have dots, which are no levels for vLLM, so it is JSON."""
    options = shlex.quote(json.dumps({name: wanted}))
    return Remedy(sentence, (Snippet("flag", f"{remedy.flag_of(EXTRA)} {options}"),))
