"""Whether KV cache can be transferred between the replicas of a pool, and to the pool that prefills or decodes with it.

A verdict of its own, for pools with a KV store, a P2P tier or separate prefill and decode. Equal prefixes do not need
it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dashboard.compare import Share
from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import DTYPE_PATH, MODEL, resolved_kv_dtype, without_owner
from dashboard.fleet import Document, Replica, Setting, SettingValue
from dashboard.fleet.pieces import Piece, Style, Text, join_texts, setting
from dashboard.rules.connector_options import CONNECTOR
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Inspection

LAYOUT, KV_DTYPE, GROUPS = "cache_config.kv_cache_layout", "cache_config.cache_dtype", "kv_cache_groups"
TRANSFERS = frozenset({ImpactContext.KV_STORE, ImpactContext.DISAGGREGATED})
FEWEST = 2  # replicas that transfer
_PATHS = (MODEL, DTYPE_PATH, KV_DTYPE, LAYOUT, CONNECTOR)
_MEANINGS = {MODEL: without_owner, KV_DTYPE: resolved_kv_dtype}


class TransferVerdict(NamedTuple):
    """Whether replicas can transfer KV cache; `paths` differ, or where that is unknown are not reported by all."""

    share: Share
    paths: tuple[str, ...] = ()


def transferring_pools(inspection: Inspection) -> Mapping[str, set[str]]:
    """Return the pools that transfer KV cache, each with itself and the pools that prefill or decode with it."""
    found = {name: {name} for name, domain in inspection.domains.items() if not domain.contexts.isdisjoint(TRANSFERS)}
    for each in inspection.evaluated.values():  # of a pool, a pair or the fleet
        pools = each.outcomes[0].pools if each.outcomes else ()
        for name in found.keys() & set(pools):
            found[name].update(pools)
    return found


def kv_transfer(replicas: Iterable[Replica], documents: Mapping[str, Document]) -> TransferVerdict | None:
    """Return the verdict on the replicas of a pool that transfers, and of its partners; None for fewer than two."""
    own = [each for each in replicas if not each.is_second_address]
    if len(own) < FEWEST:
        return None
    found = {path: _values(own, documents, path) for path in _PATHS} | {GROUPS: {_groups(each) for each in own}}
    differing = tuple(path for path, values in found.items() if len(values - {None}) > 1)
    if differing:
        return TransferVerdict(Share.NO, differing)
    missing = tuple(path for path, values in found.items() if None in values)
    return TransferVerdict(Share.UNKNOWN, missing) if missing else TransferVerdict(Share.YES)


def transfer_text(verdict: TransferVerdict, pool: str) -> Text:
    """Return the verdict as one line: `KV transfer: no. kv_cache_layout differs`."""
    head = Piece(f"KV transfer: {verdict.share}", Style.STRONG)
    if verdict.share is Share.YES:
        return (head, Piece(". Model, dtypes, layout, KV cache groups and connector match."))
    differ = "differs" if len(verdict.paths) == 1 and verdict.paths != (GROUPS,) else "differ"
    verb = "not reported by every replica" if verdict.share is Share.UNKNOWN else differ
    names = join_texts((Piece("KV cache groups") if path == GROUPS else setting(path, pool),) for path in verdict.paths)
    return (head, Piece(". "), *names, Piece(f" {verb}."))


def _values(members: Iterable[Replica], documents: Mapping[str, Document], path: str) -> set[SettingValue | None]:
    """Return the values of a setting that count for a transfer; None where a member does not report it."""
    keys = {each.document for each in members}
    return {None if key is None else _value(documents[key].settings, path) for key in keys}


def _value(settings: Mapping[str, Setting], path: str) -> SettingValue | None:
    value, meaning = lookup_value(settings, path), _MEANINGS.get(path)
    return value if value is None or meaning is None else meaning(value, settings)


def _groups(replica: Replica) -> str | None:
    """Return kind, block and layers of each KV cache group of the first engine; None where it reports none."""
    first = min((each.dp_rank for each in replica.kv_cache_groups), default=0)
    own = [(g.spec_type, g.block_size, g.layers) for g in replica.kv_cache_groups if g.dp_rank == first]
    return json.dumps(sorted(own)) if own else None
