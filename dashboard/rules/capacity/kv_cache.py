"""CP-01 and CP-12: engines with much less or more KV cache than their peers, and unused KV cache memory."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet import Basis, State
from dashboard.fleet.formatting import count, joined
from dashboard.fleet.pieces import Text, value
from dashboard.fleet.pieces import joined as join_texts
from dashboard.rules.capacity.peers import Kind, Odd, kinds
from dashboard.rules.connector_options import native
from dashboard.rules.differences import Contrast, code, majority, use_majority
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.sentences import name_piece, say, setting_name, write
from dashboard.rules.subject import PoolSubject

TOKENS = "engines.kv_cache_size_tokens"
DEVICE = "devices.name"
MEMORY = "cache_config.kv_cache_memory_bytes"
BLOCKS_OVERRIDE = "cache_config.num_gpu_blocks_override"
# Settings that decide the memory of the KV cache: where they differ, they are the likely cause.
SIZES = ("cache_config.gpu_memory_utilization", MEMORY, BLOCKS_OVERRIDE, "cache_config.cache_dtype")
BOUND = "KV cache is as large as its upper bound"
CONFIDENCE = {Basis.ASSUMED: Confidence.ASSUMED, Basis.DERIVED: Confidence.DERIVED, Basis.REPORTED: Confidence.REPORTED}
TP = "parallel_config.tensor_parallel_size"
PARALLELISM_FIRST = (
    "Compare `--tensor-parallel-size` and `--pipeline-parallel-size` first: these replicas do not report them. If they "
    "are equal, compare `--gpu-memory-utilization` and look for other processes on the GPUs."
)
NO_MAJORITY = (
    "Compare the parallel sizes, `--gpu-memory-utilization` and `--kv-cache-memory-bytes` of these replicas and set "
    "equal values. Or use one pool per group."
)
LESS = (
    "Look for another process on these GPUs with `nvidia-smi`, end it and restart the replicas: vLLM measures free "
    "memory once, at start. If there is none, compare `--gpu-memory-utilization`."
)
MORE = (
    "Look for other processes on the GPUs of the others with `nvidia-smi`, and compare `--gpu-memory-utilization`. If "
    "these replicas should be larger, use a pool of their own."
)
PROCESSES = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"
USED, AVAILABLE = "engines.kv_cache_bytes_per_device", "engines.kv_cache_available_bytes"
GIB = 2**30


@rule("CP-01", {ImpactContext.MODEL: Severity.WARNING}, needs=("engines",), least=1)
def kv_cache_capacity_differs(pool: PoolSubject, *, tolerance: float = TOLERANCE) -> Iterator[Draft]:
    """Engines of one pool have much more or less KV cache than the others on the same devices.

    Compared are tokens of engines of one kind: same device, parallelism, quantization and speculative decoding. Engines
    with unreported devices are one kind. `tolerance` is a share of the median. Where fewer than half of the engines are
    near the median it is a tie: one finding for all of them.

    Why it matters:
        - any pool: Under even load the smaller engine evicts prefixes and preempts requests while the others have room.
          Routers that read the share in use do not see its size.

    How to fix:
        Look for another process on the GPU with `nvidia-smi` on the replica's host, such as one left after a crash.
        Compare `--gpu-memory-utilization` and `--kv-cache-memory-bytes`. Then restart the replica: vLLM measures free
        memory once, at start.

    Exceptions:
        Use a pool of its own for a replica that should be smaller. Fewer than three engines of one kind are not
        evaluated, nor are engines of unknown capacity. Upper bounds are compared with upper bounds only, and the
        finding is assumed.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (blocks are what fits into the memory that was free at start)
        - vllm-project/vllm#42206
        - vllm-project/vllm#42966
        - ai-dynamo/dynamo#2311
        - llm-d/llm-d-router#1365

    Example:
        Seven decode ranks have 488,000 tokens each. The eighth shares its GPU with a forgotten notebook and has
        400,000; it preempts requests at a load that the others can handle.
    """
    for kind in kinds(pool, tolerance):
        if kind.is_tie:
            yield _tie(pool, kind)
            continue
        by_cause: dict[tuple[Contrast, ...], list[Odd]] = defaultdict(list)
        for odd in kind.odd:
            by_cause[tuple(_causes(pool, odd.replica.id))].append(odd)
        for causes, engines in by_cause.items():
            yield _outliers(pool, kind, causes, engines)


def _causes(pool: PoolSubject, replica: str) -> Iterator[Contrast]:
    """Yield the settings on memory in which a replica differs from the majority."""
    for path in SIZES:
        holders = pool.values(path)
        reference = majority(holders)
        own = next((each for each, replicas in holders.items() if replica in replicas), None)
        if reference is not None and own is not None and own != reference and not pool.is_ignored(path):
            yield Contrast(path, own, reference)


def _outliers(pool: PoolSubject, kind: Kind, causes: Sequence[Contrast], odd: Sequence[Odd]) -> Draft:
    replicas = tuple(sorted({each.replica.id for each in odd}))
    confidence = next(each for basis, each in CONFIDENCE.items() if any(one.engine.basis is basis for one in odd))
    evidence = (*_tokens_evidence(kind, odd), *_cause_evidence(pool, causes, replicas))
    assumptions = (BOUND,) if confidence is Confidence.ASSUMED else ()
    fix = _remedy(pool, kind, causes, replicas)
    return Draft(replicas, _outliers_text(kind, odd), evidence, fix, confidence, assumptions=assumptions)


def _tie(pool: PoolSubject, kind: Kind) -> Draft:
    """Draft all engines of a kind without a usual capacity."""
    draft = _outliers(pool, kind, (), kind.odd)
    sides = [[each for each in kind.odd if (each.share < 0) is is_below] for is_below in (True, False)]
    texts = [
        write(f"{count(len(side), 'engine')} with ", value(_range(sorted({each.tokens for each in side}))))
        for side in sides
    ]
    bound = " (upper bounds)" if draft.confidence is Confidence.ASSUMED else ""
    text = write("KV cache sizes differ without a majority: ", join_texts(texts), f" tokens{bound}.")
    return replace(draft, text=text, evidence=tuple(_tokens_evidence(kind, kind.odd)), remedy=Remedy(NO_MAJORITY))


def _tokens_evidence(kind: Kind, odd: Sequence[Odd]) -> Iterator[Evidence]:
    """Yield the tokens of these engines, the median unless it is a tie, and their devices."""
    tokens: dict[int, set[str]] = defaultdict(set)
    for each in odd:
        tokens[each.tokens].add(each.replica.id)
    for number, replicas in sorted(tokens.items()):
        yield Evidence(TOKENS, json.dumps(number), State.REPORTED, tuple(sorted(replicas)))
    if not kind.is_tie:
        yield Evidence(TOKENS, json.dumps(round(kind.median)), State.REPORTED, holder="median", is_reference=True)
    everyone = tuple(sorted(set().union(*tokens.values())))
    for name in kind.devices:
        yield Evidence(DEVICE, json.dumps(name, ensure_ascii=False), State.REPORTED, everyone)


def _cause_evidence(pool: PoolSubject, causes: Sequence[Contrast], replicas: tuple[str, ...]) -> Iterator[Evidence]:
    for cause in causes:
        yield Evidence(cause.path, *cause.own, replicas)
        yield Evidence(cause.path, *cause.reference, pool.values(cause.path)[cause.reference], is_reference=True)


def _outliers_text(kind: Kind, odd: Sequence[Odd]) -> Text:
    """Return `KV cache of DP rank 1 is 400,320 tokens, 18 % below the median of 8 engines (487,904)`."""
    tokens = sorted({each.tokens for each in odd})
    shares = sorted(abs(each.share) for each in odd)
    bound = "<= " if any(each.engine.basis is Basis.ASSUMED for each in odd) else ""
    whose = f" of {count(len(odd), 'engine')}" if len(odd) > 1 else ""
    if len(odd) == 1 and len(odd[0].replica.engines) > 1:
        whose = f" of DP rank {odd[0].engine.dp_rank}"
    low, high = (f"{share * 100:.0f} %" for share in (shares[0], shares[-1]))
    far = low if low == high else f"{low} to {high}"
    side = "below" if odd[0].share < 0 else "above"
    return write(
        f"KV cache{whose} is {bound}",
        value(_range(tokens)),
        f" tokens, {far} {side} the median of ",
        _peers(kind),
        f" ({kind.median:,.0f}).",
    )


def _peers(kind: Kind) -> Text:
    """Return the compared engines: how many, and why not all of them."""
    if kind.conditions:
        return write(f"{kind.number:,} of {kind.total:,} engines, ", joined(list(kind.conditions)))
    names = join_texts((name_piece(name),) for name in kind.devices)
    return write(f"{kind.number:,} engines", " on " if names else "", names)


def _range(numbers: Sequence[int]) -> str:
    first, last = (f"{number:,}" for number in (numbers[0], numbers[-1]))
    return first if first == last else f"{first} to {last}"


def _remedy(pool: PoolSubject, kind: Kind, causes: Sequence[Contrast], replicas: Sequence[str]) -> Remedy:
    if causes:
        rest = use_majority(causes)
        texts = [
            f"{code(setting_name(each.path))} is {say(each.own)} (others: {say(each.reference)})" for each in causes
        ]
        return rest._replace(sentence=f"Likely cause: {joined(texts)}. {rest.sentence}")
    if not set(replicas) <= {each for ids in pool.values(TP).values() for each in ids}:
        return Remedy(PARALLELISM_FIRST)
    return Remedy(LESS if kind.odd[0].share < 0 else MORE, (Snippet("shell", PROCESSES),))


@rule("CP-12", {ImpactContext.MODEL: Severity.WARNING}, needs=("engines",), least=1)
def kv_cache_memory_stranded(pool: PoolSubject, *, share: float = 0.05) -> Iterator[Draft]:
    """Memory is reserved for the KV cache on a device, but no block uses it.

    Available is what an engine measured on its first device at start (the provider reports it), else
    `--kv-cache-memory-bytes`. Used is what its blocks take on one device. `share` of the available memory may be
    unused.

    Why it matters:
        - any pool: All devices of an engine get as many blocks as the smallest one. The rest of their memory is unused,
          and the engine preempts requests beside idle memory.

    How to fix:
        Free the smallest device (another process, a larger share of the weights), so that all have as much room. With
        pipeline parallelism, move layers with `VLLM_PP_LAYER_PARTITION`.

    Exceptions:
        Not evaluated where `num_gpu_blocks_override` is set. Without the provider and `--kv-cache-memory-bytes`, the
        available memory is unknown. Devices other than the first are not compared.

    Evidence:
        - vllm/v1/core/kv_cache_planning.py (all workers get the smallest number of blocks)
        - vllm/v1/engine/core.py (available_gpu_memory_for_kv_cache)
        - vllm-project/vllm#54354
        - vllm-project/vllm#25164

    Example:
        Three GPUs have `--kv-cache-memory-bytes 40G`. The blocks of the first pipeline stage decide for all, and the
        last stage keeps 17 GiB that nothing uses.
    """
    for (source, available, used), ids in _stranded(pool, share).items():
        replicas = tuple(sorted(ids))
        unused = value(f"{(available - used) / GIB:,.1f} GiB")
        yield Draft(
            replicas,
            write(unused, f" of {available / GIB:,.1f} GiB for the KV cache is unused on a device."),
            (
                Evidence(USED, json.dumps(used), State.REPORTED, replicas),
                Evidence(source, json.dumps(available), State.REPORTED, replicas, is_reference=True),
            ),
            Remedy(
                "Free the same memory on all devices: end other processes on the smallest one and restart.",
                (Snippet("shell", "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv"),),
            ),
            Confidence.DERIVED,
        )


def _stranded(pool: PoolSubject, share: float) -> dict[tuple[str, int, int], set[str]]:
    """Return by (source of the available bytes, available, used) the replicas with such an engine."""
    found: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    configured = pool.of_documents(lambda settings: (native(settings, MEMORY), native(settings, BLOCKS_OVERRIDE)))
    for member, engine in pool.engines():
        size, override = configured[member.id]
        source, available = MEMORY, size
        if engine.kv_cache_available_bytes:
            source, available = AVAILABLE, engine.kv_cache_available_bytes
        used = engine.kv_cache_bytes_per_device
        if isinstance(available, int) and used and override is None and available - used > share * available:
            found[source, available, used].add(member.id)
    return found
