"""SH-01, SH-02, SH-04 and SH-05: settings on which sharing and offloading of KV cache depend."""

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.compare.equality import CACHE_DTYPE, NOT_SET, resolved_kv_dtype
from dashboard.compare.holders import Holders
from dashboard.fleet import KVCacheGroup, SettingValue, Source, State
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import join_texts
from dashboard.rules import remedy
from dashboard.rules.connector_options import CONNECTOR, EXTRA, ROLE, native
from dashboard.rules.differences import HoldersByPath, differences, majority, pool_differences
from dashboard.rules.domain import OFFLOADING, Store
from dashboard.rules.findings import Draft, Remedy, Severity, Snippet, UnevaluatedReplicas
from dashboard.rules.registry import rule
from dashboard.rules.sentences import ADAPTERS, MAX_VALUES, setting_piece, write
from dashboard.rules.subject import PoolSubject, group_by_native
from dashboard.rules.value_equivalence import names_as_one, option_values, revisions, unset_is_true
from vllm_fleet_provider.shared.identity import SNAPSHOT, hub_id, is_folder

MODEL, REVISION, QUANTIZATION = "model_config.model", "model_config.revision", "model_config.quantization"
TP, PP = "parallel_config.tensor_parallel_size", "parallel_config.pipeline_parallel_size"
GROUPS = "kv_cache_groups"
CONTEXT = ("parallel_config.decode_context_parallel_size", "parallel_config.prefill_context_parallel_size")
CHUNKS = ("blocks_per_chunk", "block_size", "canonical_layout")  # how an offloading connector splits what it stores
FULL = ("FullAttentionSpec", "full_attention")  # its pages do not depend on the number of ranks
UNSHARED = "These replicas share nothing with the others"
REFUSED = "The others refuse these replicas as peers"
SILENT = "The store key does not include it, so KV cache is mixed without an error"
BY_DESIGN = "A shared entry would be KV cache of different weights, formats or ranks, so these replicas must not share."
KEEP_APART = Remedy(
    "Keep these replicas apart, best in separate pools. To share, first make all of these settings equal."
)
SIZE, BACKEND = "cache_config.kv_offloading_size", "cache_config.kv_offloading_backend"
BYTES, TIERS, PROMPT_ONLY = "cpu_bytes_to_use", "secondary_tiers", "offload_prompt_only"
OFFLOADS, BOTH = SettingValue(f'"{OFFLOADING}"', State.REPORTED), SettingValue('"kv_both"', State.REPORTED)
REMOVE = (
    "Remove the offloading connector (`--kv-transfer-config`) from these replicas and restart them: without these "
    "options it does not start."
)
OTHER_MOUNT = "a folder below another mount has other weights"
REPORT_ADAPTERS = frozenset({Source.MODELS, Source.PROVIDER})
LMCACHE = "LMCache"  # prefix of its connectors' names
REMOTE_URL = f"{EXTRA}.lmcache.remote_url"
LMCACHE_OPTIONS = (
    "lmcache.chunk_size",
    "lmcache.pre_caching_hash_algorithm",
    "lmcache.remote_url",
    "lmcache.remote_serde",
)


def is_mla(groups: Sequence[KVCacheGroup]) -> bool:
    """Return whether groups have multi-head latent attention: each tensor parallel rank has the same cache."""
    return any("mla" in group.spec_type.lower() for group in groups)


@rule("SH-01", needs=(MODEL, CACHE_DTYPE, TP, REVISION, QUANTIZATION, CONNECTOR))
def store_namespace_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool do not share their entries in the store.

    Compared is what store keys include: the model's path, the KV cache dtype, ranks, chunks and KV cache groups.
    Revision and quantization are in no key: a difference in them is critical between replicas with equal keys. Replicas
    that differ in keys and weights share nothing by design: info.
    """
    if pool.domain.kv_store is Store.MOONCAKE:
        return
    is_p2p = pool.domain.kv_store is Store.P2P
    severity = Severity.CRITICAL if is_p2p else None
    keys = _keys(pool)
    weights = _weights(pool)
    for draft in pool_differences(pool, keys, consequence=REFUSED if is_p2p else UNSHARED, severity=severity):
        yield apart_by_design(_with_revision(pool, draft), separating(draft, weights))
    if pool.domain.kv_store is Store.LMCACHE:
        keys |= _lmcache_options(pool)
    for draft in pool_differences(pool, weights, consequence=SILENT, severity=Severity.CRITICAL):
        if not separating(draft, keys):
            yield draft


def _weights(pool: PoolSubject) -> dict[str, Holders]:
    """Return what decides the weights and is no part of a key."""
    return {REVISION: revisions(pool, REVISION, MODEL), QUANTIZATION: pool.values(QUANTIZATION)}


def _with_revision(pool: PoolSubject, draft: Draft) -> Draft:
    """Return a draft whose remedy names the revision next to the model: a folder has none."""
    revision = majority(revisions(pool, REVISION, MODEL))
    has_model = any(each.path == MODEL for each in draft.evidence)
    if not has_model or revision is None or revision in {NOT_SET, *pool.only(draft.replicas).values(REVISION)}:
        return draft
    return replace(draft, remedy=_extended(draft.remedy, after=[(REVISION, revision)]))


def separating(draft: Draft, compared: HoldersByPath) -> list[str]:
    """Return the settings with other values on each side of a difference; those that are not reported separate none."""
    path = draft.evidence[0].path
    sides = [each.replicas for each in draft.evidence if each.path == path]
    return [path for path, holders in compared.items() if _have_nothing_in_common(sides, holders)]


def _have_nothing_in_common(sides: Sequence[Sequence[str]], holders: Holders) -> bool:
    values = {replica: value for value, replicas in holders.items() for replica in replicas}
    found = [{values.get(replica) for replica in side} for side in sides]
    distinct = set().union(*found)
    return len(sides) > 1 and None not in distinct and sum(map(len, found)) == len(distinct)


def apart_by_design(draft: Draft, paths: Sequence[str]) -> Draft:
    """Return a difference of replicas that must share nothing, because these settings differ too, as info."""
    if not paths:
        return draft
    names = join_texts((setting_piece(path),) for path in paths)
    text = write(
        draft.text, " This is by design, because ", names, f" {'differs' if len(paths) == 1 else 'differ'} too."
    )
    return replace(draft, text=text, remedy=KEEP_APART, severity=Severity.INFO, why=BY_DESIGN)


def _lmcache_options(pool: PoolSubject) -> dict[str, Holders]:
    options = option_values(pool, LMCACHE_OPTIONS)
    compared = {replica: value for value, ids in options[REMOTE_URL].items() for replica in ids}
    reported = {replica: json.loads(value.value) for replica, value in compared.items() if replica not in pool.copies}
    # With its port: another port is another store.
    return {**options, REMOTE_URL: group_by_native(reported | dict(pool.identity(REMOTE_URL)))}


def _keys(pool: PoolSubject) -> dict[str, Holders]:
    """Return the values by path of what the keys of the pool's store include."""
    groups = pool.first_engine_groups
    keys = {MODEL: group_by_native(pool.identity(MODEL)), CACHE_DTYPE: pool.values(CACHE_DTYPE, resolved_kv_dtype)}
    keys |= {path: pool.values(path) for path in (*CONTEXT, *((TP, PP) if _separates_ranks(pool, groups) else ()))}
    keys |= option_values(pool, CHUNKS)
    keys[GROUPS] = group_by_native({each: sorted([g.spec_type, g.layers] for g in own) for each, own in groups.items()})
    return keys


def _separates_ranks(pool: PoolSubject, known: Mapping[str, Sequence[KVCacheGroup]]) -> bool:
    """Return whether numbers of ranks are known to count; with latent or plain full attention they may not."""
    if pool.domain.kv_store is Store.LMCACHE:
        return not any(map(is_mla, known.values()))
    return any(len(groups) > 1 or groups[0].spec_type not in FULL for groups in known.values())


@rule("SH-02", needs=(SIZE, CONNECTOR))
def offloading_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool offload KV cache differently."""
    drafts = list(  # without a size nothing is offloaded
        pool_differences(pool, (SIZE, BACKEND), lambda value, own: NOT_SET if native(own, SIZE) is None else value)
    )
    if drafts:  # the size decides the bytes: they are not reported twice
        yield from drafts
        return
    for draft in pool_differences(pool, option_values(pool, (BYTES, TIERS))):
        yield replace(draft, remedy=_with_connector(pool, draft))
    yield from pool_differences(pool, option_values(pool, [PROMPT_ONLY], unset_is_true))


def _with_connector(pool: PoolSubject, draft: Draft) -> Remedy:
    """Return the remedy with the options' connector, where one side has none.

    An OffloadingConnector without cpu_bytes_to_use does not start (vllm/v1/kv_offload/cpu/spec.py).
    """
    sizes = {each.is_reference: each for each in draft.evidence if each.path == f"{EXTRA}.{BYTES}"}
    if sizes.keys() != {True, False}:
        return draft.remedy
    if sizes[True].state is State.NULL:
        return Remedy(REMOVE)
    known = {replica: value for value, ids in pool.values(CONNECTOR).items() for replica in ids}
    if sizes[False].state is not State.NULL or known.get(sizes[True].replicas[0]) != OFFLOADS:
        return draft.remedy
    return _extended(draft.remedy, before=[(CONNECTOR, OFFLOADS), (ROLE, BOTH)])


def _extended(
    fix: Remedy, before: Sequence[tuple[str, SettingValue]] = (), after: Sequence[tuple[str, SettingValue]] = ()
) -> Remedy:
    """Return a remedy that sets more; without a majority there is a choice, and nothing can be added to it."""
    if fix.any_of:
        return fix
    (way,) = fix.ways
    return remedy.set_to((*before, *way.settings, *after), fix.sentence)


@rule("SH-04", needs=(CONNECTOR,))
def lmcache_settings_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool use LMCache differently.

    The rule compares the connector and the LMCache options of its extra config. LMCache's own file and variables are
    not reported.
    """
    if not any(each.name.startswith(LMCACHE) for found in pool.connectors.values() for each in found):
        return
    weights = _weights(pool)
    for draft in pool_differences(pool, {CONNECTOR: pool.values(CONNECTOR), **_lmcache_options(pool)}):
        found = replace(draft, remedy=draft.remedy._replace(snippets=_lmcache_snippets(draft)))
        yield apart_by_design(found, separating(draft, weights))


def _lmcache_snippets(draft: Draft) -> tuple[Snippet, ...]:
    """Return what to paste: LMCache's names have dots, which are no levels for vLLM, so they are JSON."""
    references = [each for each in draft.evidence if each.is_reference] or draft.evidence[:1]
    wanted = {each.path: json.loads(each.value) for each in references if each.state is State.REPORTED}
    connector = wanted.pop(CONNECTOR, None)
    options = {path.removeprefix(f"{EXTRA}."): value for path, value in wanted.items()}
    flags = [f"{remedy.flag_of(CONNECTOR)} {shlex.quote(str(connector))}"] if connector is not None else []
    flags += [f"{remedy.flag_of(EXTRA)} {shlex.quote(json.dumps(options))}"] if options else []
    return (Snippet("flag", " ".join(flags)),) if flags else ()


@rule("SH-05", needs=("sources",))
def adapter_paths_differ(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas of one pool loaded a LoRA adapter of one name from different paths.

    The path is `root` of the adapter's card in `/v1/models`. The whole path is compared.
    """
    names = sorted({name for member in pool.members for name in member.adapters})
    silent = tuple(each.id for each in pool.all_replicas if REPORT_ADAPTERS.isdisjoint(each.sources))
    if silent and not names:
        total = count(len(pool.all_replicas), "replica")
        yield UnevaluatedReplicas(silent, f"{ADAPTERS}: not reported by {len(silent):,} of {total}.")
    elif not names:
        yield UnevaluatedReplicas((), "No LoRA adapter is loaded.")
    else:
        yield UnevaluatedReplicas(silent)
    for name in names if not pool.is_ignored(ADAPTERS) else ():
        paths = {each.id: path for each in pool.members if (path := each.adapters.get(name)) is not None}
        known = group_by_native({each: _loaded(path, paths.values()) for each, path in paths.items()})
        for draft in differences({f"{ADAPTERS}.{name}": known}):
            with_path = replace(draft, remedy=_one_path(name, draft))
            is_one_name = len(names_as_one({SettingValue(e.value, e.state): e.replicas for e in draft.evidence})) == 1
            is_copy = is_one_name and any(is_folder(json.loads(each.value)) for each in draft.evidence)
            yield replace(with_path, assumptions=(OTHER_MOUNT,)) if is_copy else with_path


def _loaded(path: str, paths: Collection[str]) -> str:
    """Return the id for a snapshot in the hub's cache, where all snapshots of an adapter are of one commit."""
    is_one_commit = len({match["revision"] for each in paths if (match := SNAPSHOT.fullmatch(each))}) == 1
    return hub_id(path) if is_one_commit else path


def _one_path(name: str, draft: Draft) -> Remedy:
    """Return how to load an adapter from the reference's path, or without a majority from one of several."""
    wanted = [each for each in draft.evidence if each.is_reference] or draft.evidence[:MAX_VALUES]
    modules = (shlex.quote(f"{name}={json.loads(each.value)}") for each in wanted)
    snippets = tuple(Snippet("flag", f"--lora-modules {module}") for module in modules)
    sentence = "Load the adapter from one path on every replica of the pool, also at start so that restarts keep it."
    return Remedy(sentence, snippets, any_of=len(snippets) > 1)
