"""CP-01: engines hold much more or less KV cache than their peers."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet import Basis, State
from dashboard.fleet.formatting import count, joined, middle_cut, one_line
from dashboard.rules.capacity.peers import LONGEST_NAME, Kind, Odd, kinds
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import Contrast, contrasted, majority, same_as_the_rest, say
from dashboard.rules.findings import Confidence, Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

TOKENS = "engines.kv_cache_size_tokens"
DEVICE = "devices.name"
# Settings that say how much memory the KV cache gets: where they differ, they are the likely cause.
SIZES = {
    "cache_config.gpu_memory_utilization": "share of GPU memory",
    "cache_config.kv_cache_memory_bytes": "KV cache memory in bytes",
    "cache_config.num_gpu_blocks_override": "number of blocks",
    "cache_config.cache_dtype": "KV cache data type",
}
BOUND = "KV cache is as large as its upper bound"
CONFIDENCE = {Basis.ASSUMED: Confidence.ASSUMED, Basis.DERIVED: Confidence.DERIVED, Basis.REPORTED: Confidence.REPORTED}
TP = "parallel_config.tensor_parallel_size"
PARALLELISM_FIRST = (
    "Compare `--tensor-parallel-size` and `--pipeline-parallel-size` first: these replicas do not report them. Where "
    "they are equal, compare `--gpu-memory-utilization`, and look for other processes on the GPUs."
)
NO_MAJORITY = (
    "Compare the parallel sizes, `--gpu-memory-utilization` and `--kv-cache-memory-bytes` of these replicas, and give "
    "all the same; or give each group a pool of its own."
)
PROCESSES = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"


@rule(
    id="CP-01",
    name="kv-cache-capacity-differs",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=("engines",),
    least=1,  # ranks of one replica are held against each other too
)
def kv_cache_capacity_differs(pool: PoolSubject, *, tolerance: float = TOLERANCE) -> Iterator[Draft]:
    """Engines of one pool hold much more or less KV cache than the others on the same devices.

    Compared are tokens, of engines of one kind: same device, same parallelism, same quantization, same speculative
    decoding. Engines whose devices are not told are a kind of their own. `tolerance` is a share of the median. Where
    less than half of the engines are near the median, it is a tie: one finding, which calls nobody too small.

    Why it matters:
        - any pool: Requests are spread evenly, so the engine that holds less evicts prefixes and preempts requests
          while the others still have room; routers that look at the share in use do not see how little that is.

    How to fix:
        Look for another process on the GPU, such as one that a crash left behind, with `nvidia-smi`, on the
        replica's host. Compare
        `--gpu-memory-utilization` and `--kv-cache-memory-bytes`. Then restart the replica: vLLM measures the free
        memory once, at start.

    Exceptions:
        A replica that is meant to be smaller belongs into a pool of its own. Fewer than three engines of one kind are
        not judged, nor are engines whose capacity is not known. Where vLLM tells no tokens, upper bounds are
        compared with upper bounds, and the finding is marked as assumed.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (blocks are what fits into the memory that was free at start)
        - vllm-project/vllm#42206
        - vllm-project/vllm#42966
        - ai-dynamo/dynamo#2311
        - llm-d/llm-d-router#1365

    Example:
        Seven decode ranks hold 488,000 tokens each; the eighth shares its GPU with a forgotten notebook and holds
        400,000. It preempts requests at a load that the others carry.
    """
    for kind in kinds(pool, tolerance):
        if kind.is_tie:
            yield _tie(pool, kind)
            continue
        for causes, odd in _alike(pool, kind.odd).items():
            yield _draft(pool, kind, causes, odd)


def _alike(pool: PoolSubject, found: Sequence[Odd]) -> dict[tuple[Contrast, ...], list[Odd]]:
    """Put engines together whose capacity differs for the same reason, as far as settings show one."""
    groups: dict[tuple[Contrast, ...], list[Odd]] = defaultdict(list)
    for odd in found:
        groups[tuple(_causes(pool, odd.replica.id))].append(odd)
    return groups


def _causes(pool: PoolSubject, replica: str) -> Iterator[Contrast]:
    for path, noun in SIZES.items():
        holders = pool.values(path)
        reference = majority(holders)
        own = next((told for told, replicas in holders.items() if replica in replicas), None)
        if reference is not None and own is not None and own != reference and not pool.is_ignored(path):
            yield Contrast(path, noun, own, reference)


def _draft(pool: PoolSubject, kind: Kind, causes: Sequence[Contrast], odd: Sequence[Odd]) -> Draft:
    replicas = tuple(sorted({each.replica.id for each in odd}))
    sure = next(told for basis, told in CONFIDENCE.items() if any(each.engine.basis is basis for each in odd))
    evidence = (*_held(kind, odd), *_likely(pool, causes, replicas))
    assumptions = (BOUND,) if sure is Confidence.ASSUMED else ()
    how = _remedy(pool, kind, causes, replicas)
    return Draft(replicas, _sentence(kind, odd), evidence, how, sure, assumptions=assumptions)


def _tie(pool: PoolSubject, kind: Kind) -> Draft:
    """Draft a kind that has no usual capacity: all its engines are concerned."""
    drafted = _draft(pool, kind, (), kind.odd)
    sides = [[each for each in kind.odd if (each.share < 0) is is_below] for is_below in (True, False)]
    held = [
        f"{count(len(side), 'engine')} with {_range(*(f'{end(each.tokens for each in side):,}' for end in (min, max)))}"
        for side in sides
    ]
    bound = " (upper bounds)" if drafted.confidence is Confidence.ASSUMED else ""
    sentence = f"KV cache differs and no size has a majority: {joined(held)} tokens{bound}."
    return replace(drafted, sentence=sentence, evidence=tuple(_held(kind, kind.odd)), remedy=Remedy(NO_MAJORITY))


def _held(kind: Kind, odd: Sequence[Odd]) -> Iterator[Evidence]:
    """Yield who holds how much, beside the median unless it is a tie, and on which devices."""
    held: dict[int, set[str]] = defaultdict(set)
    for each in odd:
        held[each.tokens].add(each.replica.id)
    for tokens, replicas in sorted(held.items()):
        yield Evidence(TOKENS, json.dumps(tokens), State.REPORTED, tuple(sorted(replicas)))
    if not kind.is_tie:
        yield Evidence(TOKENS, json.dumps(round(kind.median)), State.REPORTED, holder="median", is_reference=True)
    for name in kind.devices:
        yield Evidence(
            DEVICE, json.dumps(name, ensure_ascii=False), State.REPORTED, tuple(sorted(set().union(*held.values())))
        )


def _likely(pool: PoolSubject, causes: Sequence[Contrast], replicas: tuple[str, ...]) -> Iterator[Evidence]:
    for cause in causes:
        yield Evidence(cause.path, *cause.own, replicas)
        yield Evidence(cause.path, *cause.reference, pool.values(cause.path)[cause.reference], is_reference=True)


def _sentence(kind: Kind, odd: Sequence[Odd]) -> str:
    least = min(odd, key=lambda each: each.tokens)
    most = max(odd, key=lambda each: each.tokens)
    bound = "at most " if any(each.engine.basis is Basis.ASSUMED for each in odd) else ""
    who = f"{count(len(odd), 'engine')} hold" if len(odd) > 1 else "KV cache holds"
    if len(odd) == 1 and len(least.replica.engines) > 1:
        who = f"KV cache of DP rank {least.engine.dp_rank} holds"
    tokens = _range(f"{least.tokens:,}", f"{most.tokens:,}")
    far = _range(*(f"{share * 100:.0f} %" for share in sorted(abs(each.share) for each in (least, most))))
    how = "less" if least.share < 0 else "more"
    return f"{who} {bound}{tokens} tokens, {far} {how} than the median of {_peers(kind)}: {kind.median:,.0f}."


def _peers(kind: Kind) -> str:
    """Name the engines compared: of how many, and why not all of them."""
    if kind.apart:
        return f"the {kind.number:,} of {kind.total:,} engines {joined(list(kind.apart))}"
    names = joined([middle_cut(one_line(name), LONGEST_NAME) for name in kind.devices])
    return f"{kind.number:,} engines on {names}" if names else f"{kind.number:,} engines"


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _cause(contrast: Contrast) -> str:
    if contrast.reference.state is State.NULL:
        return f"{contrast.noun} is {say(contrast.own)}, which most do not set"
    return contrasted(contrast)


def _remedy(pool: PoolSubject, kind: Kind, causes: Sequence[Contrast], replicas: Sequence[str]) -> Remedy:
    if causes:
        rest = same_as_the_rest(causes)
        return rest._replace(sentence=f"The likely cause: {joined(list(map(_cause, causes)))}. {rest.sentence}")
    if not set(replicas) <= {each for ids in pool.values(TP).values() for each in ids}:
        return Remedy(PARALLELISM_FIRST)
    if kind.odd[0].share < 0:
        sentence = (
            "Look for another process on these GPUs with nvidia-smi, end it, and restart the replicas: vLLM "
            "measures the free memory once, at start. If there is none, compare `--gpu-memory-utilization`."
        )
    else:
        sentence = (
            "Find out why the others hold less: look for other processes on their GPUs with nvidia-smi, and "
            "compare `--gpu-memory-utilization`. If these replicas are meant to be larger, give them a pool of their "
            "own."
        )
    return Remedy(sentence, (Snippet("shell", PROCESSES),))
