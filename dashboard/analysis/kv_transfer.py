"""Whether KV cache can be transferred between the replicas of a pool, and to the pool that prefills or decodes with it.

A verdict of its own, for pools with a KV store, a P2P tier or separate prefill and decode. Equal prefixes do not need
it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.compare import Share
from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import DTYPE_PATH, MODEL, resolved_kv_dtype, without_owner
from dashboard.fleet import Pool, Replica, Setting, SettingValue
from dashboard.fleet.pieces import Piece, Style, Text, join_texts, setting
from dashboard.rules.connector_options import CONNECTOR
from dashboard.rules.domain import ImpactContext

LAYOUT, KV_DTYPE, GROUPS = "cache_config.kv_cache_layout", "cache_config.cache_dtype", "kv_cache_groups"
TRANSFERS = frozenset({ImpactContext.KV_STORE, ImpactContext.DISAGGREGATED})
FEWEST = 2  # replicas that transfer
_PATHS = (MODEL, DTYPE_PATH, KV_DTYPE, LAYOUT, CONNECTOR)
_MEANINGS = {MODEL: without_owner, KV_DTYPE: resolved_kv_dtype}


class TransferVerdict(NamedTuple):
    """Whether replicas can transfer KV cache; `paths` differ, or where that is unknown are not reported by all."""

    share: Share
    paths: tuple[str, ...] = ()


def kv_transfer(fleet: Fleet, pool: Pool) -> TransferVerdict | None:
    """Return the verdict on a pool with its prefill or decode pools; None where it transfers nothing."""
    domain = fleet.inspection.domains.get(pool.name)
    if domain is None or domain.contexts.isdisjoint(TRANSFERS):
        return None
    names = {pool.name}.union(*(each.pools for each in fleet.inspection.outcomes if pool.name in each.pools))
    members = [each for each in fleet.replicas if each.pool in names and not each.is_second_address]
    if len(members) < FEWEST:
        return None
    found = {path: _values(fleet, members, path) for path in _PATHS} | {GROUPS: {_groups(each) for each in members}}
    differing = tuple(path for path, values in found.items() if len(values - {None}) > 1)
    if differing:
        return TransferVerdict(Share.NO, differing)
    missing = tuple(path for path, values in found.items() if None in values)
    return TransferVerdict(Share.UNKNOWN, missing) if missing else TransferVerdict(Share.YES)


def transfer_text(verdict: TransferVerdict, pool: Pool) -> Text:
    """Return the verdict as one line: `KV transfer: no. kv_cache_layout differs`."""
    head = Piece(f"KV transfer: {verdict.share}", Style.STRONG)
    if verdict.share is Share.YES:
        return (head, Piece(". Model, dtypes, layout, KV cache groups and connector match."))
    differ = "differs" if len(verdict.paths) == 1 and verdict.paths != (GROUPS,) else "differ"
    verb = "not reported by every replica" if verdict.share is Share.UNKNOWN else differ
    names = join_texts(
        (Piece("KV cache groups") if path == GROUPS else setting(path, pool.name),) for path in verdict.paths
    )
    return (head, Piece(". "), *names, Piece(f" {verb}."))


def _values(fleet: Fleet, members: Iterable[Replica], path: str) -> set[SettingValue | None]:
    """Return the values of a setting that count for a transfer; None where a member does not report it."""
    documents = {each.document for each in members}
    return {None if key is None else _value(fleet.documents[key].settings, path) for key in documents}


def _value(settings: Mapping[str, Setting], path: str) -> SettingValue | None:
    value, meaning = lookup_value(settings, path), _MEANINGS.get(path)
    return value if value is None or meaning is None else meaning(value, settings)


def _groups(replica: Replica) -> str | None:
    """Return kind, block and layers of each KV cache group of the first engine; None where it reports none."""
    first = min((each.dp_rank for each in replica.kv_cache_groups), default=0)
    own = [(g.spec_type, g.block_size, g.layers) for g in replica.kv_cache_groups if g.dp_rank == first]
    return json.dumps(sorted(own)) if own else None
