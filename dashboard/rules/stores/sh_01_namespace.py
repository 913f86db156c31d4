"""SH-01: replicas of one pool do not share what they put into their store."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.rules.connectors import CONNECTOR, EXTRA
from dashboard.rules.domain import ImpactContext, Store
from dashboard.rules.drift import apart
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.holders import held_natively
from dashboard.rules.meanings import CACHE_DTYPE, branch, effective
from dashboard.rules.registry import rule
from dashboard.rules.spelled_out import spelled_out
from dashboard.rules.stores.namespace import (
    MODEL,
    PP,
    QUANTIZATION,
    REVISION,
    TP,
    groups_of,
    is_mla,
)
from dashboard.rules.subject import Holders, PoolSubject

GROUPS = "kv_cache_groups"
DCP = "parallel_config.decode_context_parallel_size"
PCP = "parallel_config.prefill_context_parallel_size"
CONTEXT = {DCP: "decode context parallel size", PCP: "prefill context parallel size"}
RANKS = {TP: "tensor parallel size", PP: "pipeline parallel size"}
WEIGHTS = {REVISION: "model revision", QUANTIZATION: "quantization"}
# How an offloading connector cuts what it stores.
CHUNKS = {
    "blocks_per_chunk": "number of blocks in a chunk",
    "block_size": "number of tokens in a chunk",
    "canonical_layout": "setting canonical_layout",
}
FULL = ("FullAttentionSpec", "full_attention")  # its pages are the same however many ranks there are
UNSHARED = "what these replicas store is not found by the others"
REFUSED = "the others refuse these replicas as peers"
SILENT = "nothing in the keys tells their KV cache from that of the others, which take it for their own"


@rule(
    id="SH-01",
    name="store-namespace-differs",
    family=Family.STORES,
    severity={ImpactContext.KV_STORE: Severity.WARNING},
    needs=(MODEL, CACHE_DTYPE, TP, REVISION, QUANTIZATION, CONNECTOR),
)
def store_namespace_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool do not share what they put into their store.

    What stands in the keys of a store is compared: the model's path, the number format of KV cache, ranks, chunks and
    KV cache groups. Revision and quantization stand in none: where they differ, the finding is critical.

    Why it matters:
        - kv-store: Each namespace is filled and read by its own replicas only: the disk is filled twice and half of the
          hits are lost. Peers refuse each other outright. Where only the weights differ nothing is refused, and answers
          continue from KV cache that another model computed.

    How to fix:
        Start all replicas that share a store with the same model path, revision, quantization, `--kv-cache-dtype` and
        numbers of ranks.

    Exceptions:
        Block size, match unit, hash algorithm and hash seed are in the keys too, and have rules of their own. Numbers
        of ranks count only where the store keeps them apart. Mooncake has a rule of its own.

    Evidence:
        - vllm/v1/kv_offload/file_mapper.py (what the folder of a namespace is named by)
        - vllm/v1/kv_offload/tiering/p2p/session/session.py (peers with another fingerprint are refused)
        - vllm/distributed/kv_transfer/kv_connector/v1/offloading/config.py (when ranks do not count)
        - vllm/distributed/kv_transfer/kv_connector/v1/lmcache_mp_connector.py (model path and world size of LMCache)

    Example:
        One replica loads the model from `/scratch/llama`, the others from `/models/llama`: the folder that they share
        has two sub-folders, and every prompt is kept twice.
    """
    if pool.domain.kv_store is Store.MOONCAKE:
        return
    is_p2p = pool.domain.kv_store is Store.P2P
    for draft in apart(_keys(pool), REFUSED if is_p2p else UNSHARED):
        yield replace(draft, severity=Severity.CRITICAL) if is_p2p else draft
    weights = {path: (noun, pool.values(path, branch)) for path, noun in WEIGHTS.items() if not pool.is_ignored(path)}
    for draft in apart(weights, SILENT):
        yield replace(draft, severity=Severity.CRITICAL)


def _keys(pool: PoolSubject) -> dict[str, tuple[str, Holders]]:
    """Return noun and holders by path of what stands in the keys of the pool's store."""
    spelled = spelled_out(pool, CHUNKS)
    chunks = {f"{EXTRA}.{name}": noun for name, noun in CHUNKS.items()}
    keys = {MODEL: ("model path", held_natively(pool.identity(MODEL)))}
    keys[CACHE_DTYPE] = ("KV cache dtype", pool.values(CACHE_DTYPE, effective))
    keys |= {path: (noun, pool.values(path)) for path, noun in CONTEXT.items()}
    keys |= {path: (noun, pool.values(path)) for path, noun in RANKS.items() if _keeps_ranks_apart(pool)}
    keys |= {path: (noun, spelled.values(path)) for path, noun in chunks.items()}
    keys[GROUPS] = ("list of KV cache groups", _layers(pool))
    return {path: told for path, told in keys.items() if not pool.is_ignored(path)}


def _keeps_ranks_apart(pool: PoolSubject) -> bool:
    """Tell whether numbers of ranks are known to count; with latent or plain full attention they may not."""
    told = list(groups_of(pool).values())
    if pool.domain.kv_store is Store.LMCACHE:
        return not any(map(is_mla, told))
    return any(len(groups) > 1 or groups[0].spec_type not in FULL for groups in told)


def _layers(pool: PoolSubject) -> Holders:
    """Return by kinds and layers of their KV cache groups who has them."""
    told = {
        replica: sorted([group.spec_type, group.layers] for group in groups)
        for replica, groups in groups_of(pool).items()
    }
    return held_natively(told)
