"""SH-06 and SH-07: LMCache options that share nothing although all replicas are equal."""

import json
import shlex
from collections.abc import Collection, Iterator
from math import lcm
from typing import Any

from dashboard.compare.holders import Holders
from dashboard.fleet import State
from dashboard.fleet.pieces import value
from dashboard.rules import remedy
from dashboard.rules.connector_options import CONNECTOR, EXTRA, connectors
from dashboard.rules.findings import Draft, Evidence, Remedy, Snippet, UnevaluatedReplicas
from dashboard.rules.registry import rule
from dashboard.rules.routing.blocks import BLOCK_SIZE, is_size
from dashboard.rules.sentences import setting_piece, values_text, write
from dashboard.rules.stores.sharing import LMCACHE
from dashboard.rules.subject import PoolSubject, group_by_native
from dashboard.vllm.metrics import PYTHON_VERSION
from dashboard.vllm.versions import release

CHUNK, ALGORITHM = "lmcache.chunk_size", "lmcache.pre_caching_hash_algorithm"
BUILTIN, STABLE = "builtin", "sha256_cbor"
CONSTANT_NONE = (3, 12)  # from this Python on hash(None) is the same in each process
SET_CHUNK = "Set a multiple of the block size on all replicas of the store, then restart them."
HASHES_NONE = "this LMCache hashes None with the tokens"


@rule("SH-06", needs=(CONNECTOR,), least=1)
def lmcache_chunk_is_no_multiple_of_blocks(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """LMCache's chunk size is no multiple of the block size.

    vLLM raises the block size of hybrid models after start. The rule evaluates replicas that report
    `lmcache.chunk_size`; LMCache's own file and variables are not reported.

    Why it matters:
        - kv-store (critical): A chunk ends inside a block, so its KV cache cannot be loaded in whole blocks.
          LMCacheMPConnector ends with an assertion.

    How to fix:
        Set `lmcache.chunk_size` to a multiple of the effective block size on every replica that shares the store.

    Exceptions:
        None is known.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/lmcache_integration/multi_process_adapter.py (the assertion)
        - LMCache/LMCache#4782
        - LMCache/LMCache#5217

    Example:
        A hybrid model has blocks of 544 tokens. With chunks of 256 tokens nothing fits.
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
        (*_evidence(path, holders), *_evidence(BLOCK_SIZE, sizes)),
        _set_option(CHUNK, fitting, SET_CHUNK),
    )


@rule("SH-07", needs=(CONNECTOR,), least=1)
def lmcache_hash_differs_in_each_process(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """LMCache uses Python's own hash, which differs between processes.

    Before Python 3.12 `hash(None)` is an address in memory, also with `PYTHONHASHSEED`. The rule evaluates replicas
    that report `lmcache.pre_caching_hash_algorithm` and a Python version (`python_info` of `/metrics`).

    Why it matters:
        - kv-store (warning): Each process computes other keys for the same tokens. Replicas, and even ranks of one
          replica, never find what others stored.

    How to fix:
        Set `lmcache.pre_caching_hash_algorithm` to `sha256_cbor` on every replica that shares the store, or run Python
        3.12.

    Exceptions:
        Newer releases of LMCache replace None before they hash: suppress the finding.

    Evidence:
        - LMCache/LMCache#2136
        - LMCache/LMCache#1897
        - LMCache/LMCache#2979

    Example:
        `PYTHONHASHSEED` is 0 on all replicas. Their images have Python 3.11, and the shared store has no hits.
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
            (Evidence(path, json.dumps(BUILTIN), State.REPORTED, replicas), *_evidence(PYTHON_VERSION, holders)),
            _set_option(ALGORITHM, STABLE, "Set one algorithm on all replicas of the store, then restart them."),
            assumptions=(HASHES_NONE,),
        )


def _options(pool: PoolSubject, name: str) -> dict[str, Any]:
    """Return an option of LMCache's connector by replica, None where it has none."""
    found = pool.of_documents(connectors)
    own = {
        replica: next((each for each in some if each.name.startswith(LMCACHE)), None) for replica, some in found.items()
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


def _evidence(path: str, holders: Holders) -> Iterator[Evidence]:
    return (Evidence(path, *each, ids) for each, ids in holders.items())


def _set_option(name: str, wanted: object, sentence: str) -> Remedy:
    """Return a remedy that sets an option: LMCache's names have dots, which are no levels for vLLM, so it is JSON."""
    options = shlex.quote(json.dumps({name: wanted}))
    return Remedy(sentence, (Snippet("flag", f"{remedy.flag_of(EXTRA)} {options}"),))
