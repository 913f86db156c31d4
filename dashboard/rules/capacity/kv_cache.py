"""CP-01: engines with much less or more KV cache than their peers."""

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.capacity.outliers import (
    TOLERANCE,
    MemoryCause,
    MemoryPart,
    Parts,
    devices_of,
    main_cause,
    medians,
    memory_parts,
    outliers,
    tied,
    usual_parts,
)
from dashboard.fleet import Basis, Engine, Replica, SettingChange, State
from dashboard.fleet.formatting import LONG_TEXT, count, joined, middle_cut, one_line
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Text, join_texts, value
from dashboard.rules.differences import code, contrast_evidence, majority, use_majority
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Snippet, UnevaluatedReplicas
from dashboard.rules.registry import rule
from dashboard.rules.sentences import name_piece, setting_name, to_text, write
from dashboard.rules.subject import PoolSubject

TOKENS = "engines.kv_cache_size_tokens"
DEVICE = "devices.name"
MEMORY = "cache_config.kv_cache_memory_bytes"
BLOCKS_OVERRIDE = "cache_config.num_gpu_blocks_override"
TP = "parallel_config.tensor_parallel_size"
# Settings that decide the memory left for the KV cache: engines that differ in one are different kinds. Other rules
# report the difference (CP-06, CP-08, CO-04).
SHAPE = (
    TP,
    "parallel_config.pipeline_parallel_size",
    "parallel_config.data_parallel_size",
    "parallel_config.enable_expert_parallel",
    "model_config.quantization",
    "speculative_config.method",
)
# Settings that decide the memory of the KV cache: where they differ, they are the likely cause.
SIZES = ("cache_config.gpu_memory_utilization", MEMORY, BLOCKS_OVERRIDE, "cache_config.cache_dtype")
BOUND = "KV cache is as large as its upper bound"
CONFIDENCE = {Basis.ASSUMED: Confidence.ASSUMED, Basis.DERIVED: Confidence.DERIVED, Basis.REPORTED: Confidence.REPORTED}
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
    "these replicas should be larger, use a separate pool."
)
# What to do where the memory of one part explains most of the gap.
PART_REMEDIES = {
    MemoryPart.WEIGHTS: "Compare the model's files, `--quantization` and the parallel sizes with those of the others.",
    MemoryPart.OTHER: (
        "Look for another process on these GPUs with `nvidia-smi`, end it and restart the replicas: vLLM measures what "
        "other processes hold while it starts. If there is none, compare NCCL and driver."
    ),
    MemoryPart.ACTIVATIONS: "Compare `--max-num-batched-tokens`, `--max-num-seqs` and `--limit-mm-per-prompt`.",
    MemoryPart.GRAPHS: (
        "Compare `--compilation-config` (`cudagraph_capture_sizes`, `cudagraph_mode`) and `--enforce-eager`."
    ),
    MemoryPart.NOT_REQUESTED: "Compare `--gpu-memory-utilization` and the memory of the devices.",
}
MEMORY_OF = {
    MemoryPart.WEIGHTS: "devices.memory.weights_bytes",
    MemoryPart.OTHER: "devices.memory.non_torch_bytes",
    MemoryPart.ACTIVATIONS: "devices.memory.activation_bytes",
    MemoryPart.GRAPHS: "devices.memory.cuda_graph_bytes",
}
PAIR = 2  # engines that can be compared; which of two is the usual one is open
NOTHING_ALIKE = "No two engines of one kind."
PROCESSES = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"
GIB = 2**30


class _Key(NamedTuple):
    """What engines of one kind have in common. `bound` is the reason of an upper bound; None where it is none."""

    devices: tuple[str, ...]  # names; empty where not reported
    shape: Hashable
    bound: str | None


class _OddEngine(NamedTuple):
    """An engine far from its peers. `share` is how far above the median, -0.18 for 18% below."""

    replica: Replica
    engine: Engine
    tokens: int
    share: float


class _EngineKind(NamedTuple):
    """Engines of one kind, those far below or above the median, and the median in tokens.

    `usual` is the memory of the median engine, where workers report it.
    """

    devices: tuple[str, ...]
    number: int
    total: int  # engines of the pool
    conditions: tuple[str, ...]  # what distinguishes this kind from other engines of the pool, in words
    median: float
    odd: tuple[_OddEngine, ...]
    is_tie: bool  # `odd` are all engines of the kind
    usual: Parts | None


@rule("CP-01", needs=("engines",), least=1)
def kv_cache_capacity_differs(
    pool: PoolSubject, *, tolerance: float = TOLERANCE
) -> Iterator[Draft | UnevaluatedReplicas]:
    """Engines of one pool have much more or less KV cache than the others on the same devices.

    The rule compares the tokens of engines of one kind: same device, parallelism, quantization and speculative
    decoding. Engines with unreported devices are one kind. `tolerance` is a share of the median. Where fewer than half
    of the engines are near the median, as with two engines that differ, it is a tie: one finding for all of them.
    """
    known = [(member, engine) for member, engine in pool.engines() if engine.kv_cache_size_tokens is not None]
    keys = _keys(known, _shapes(pool))
    yield from _not_evaluated(pool, keys)
    for kind in _kinds(pool, known, keys, tolerance):
        if kind.is_tie:
            yield _tie(pool, kind)
            continue
        by_cause = grouped((tuple(_causes(pool, odd.replica.id)), odd) for odd in kind.odd)
        for causes, engines in by_cause.items():
            yield _outliers(pool, kind, causes, engines)


def _not_evaluated(pool: PoolSubject, keys: Sequence[_Key]) -> Iterator[UnevaluatedReplicas]:
    """Yield the replicas with an engine of unknown capacity, with a reason where no two engines are compared.

    `keys` has the kind of each engine of known capacity.
    """
    everyone = pool.engines()
    silent = {member.id for member, engine in everyone if engine.kv_cache_size_tokens is None}
    is_compared = max(Counter(map(id, keys)).values(), default=0) >= PAIR
    reason = f"{TOKENS}: reported by {len(keys):,} of {count(len(everyone), 'engine')}." if silent else NOTHING_ALIKE
    if silent or not is_compared:
        yield UnevaluatedReplicas(tuple(sorted(silent)), "" if is_compared else reason)


def _kinds(
    pool: PoolSubject, known: Sequence[tuple[Replica, Engine]], keys: Sequence[_Key], tolerance: float
) -> Iterator[_EngineKind]:
    """Yield per kind the engines below, then those above the median by more than `tolerance`.

    A tied kind is yielded once, with all its engines. Engines of unknown capacity are left out. Upper bounds are
    compared with upper bounds only.
    """
    everyone = pool.engines()
    tokens = [engine.kv_cache_size_tokens or 0 for _, engine in known]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(map(id, keys)))}  # an integer is hashed at once
    kinds = [numbers[id(key)] for key in keys]
    middle, ties = medians(kinds, tokens, PAIR), tied(kinds, tokens, tolerance, PAIR)
    found: dict[tuple[int, bool | None], list[_OddEngine]] = defaultdict(list)
    for place, share in outliers(kinds, tokens, tolerance).items():
        found[kinds[place], share > 0].append(_OddEngine(*known[place], tokens[place], share))
    for place, kind in enumerate(kinds) if ties else ():
        if kind in ties:
            found[kind, None].append(_OddEngine(*known[place], tokens[place], tokens[place] / middle[kind] - 1))
    for (kind, is_above), odd in found.items():
        key = keys[kinds.index(kind)]
        conditions = tuple(_conditions(key, keys, len(everyone)))
        own = [each for each, other in zip(known, keys, strict=True) if other is key]
        measured = [parts for member, engine in own if (parts := memory_parts(engine, member.devices))]
        usual = usual_parts(measured) if measured else None
        yield _EngineKind(
            key.devices, len(own), len(everyone), conditions, middle[kind], tuple(odd), is_above is None, usual
        )


def _keys(known: Iterable[tuple[Replica, Engine]], shapes: Mapping[str, Hashable]) -> list[_Key]:
    """Return the kind of each engine; engines of one kind share an object."""
    found: dict[Hashable, _Key] = {}
    same: dict[_Key, _Key] = {}
    keys = []
    for member, engine in known:
        bound = engine.reason if engine.basis is Basis.ASSUMED else None
        what = (member.devices, engine.dp_rank, member.document, bound)  # a shape is that of a document
        if what not in found:
            key = _Key(devices_of(member, engine.dp_rank), shapes[member.id], bound)
            found[what] = same.setdefault(key, key)
        keys.append(found[what])
    return keys


def _shapes(pool: PoolSubject) -> dict[str, tuple[Hashable, ...]]:
    """Return the values of each member that differ in the pool; an unreported one is taken to be the most frequent."""
    shapes: dict[str, tuple[Hashable, ...]] = {member.id: () for member in pool.members}
    for holders in filter(lambda each: len(each) > 1, map(pool.values, SHAPE)):
        own = {replica: value for value, replicas in holders.items() for replica in replicas}
        usual = next(iter(holders), None)
        shapes = {replica: (*shape, own.get(replica, usual)) for replica, shape in shapes.items()}
    return shapes


def _conditions(key: _Key, keys: Sequence[_Key], total: int) -> Iterator[str]:
    """Yield what distinguishes a kind from the pool's other engines."""
    if len(keys) < total:
        yield "of known capacity"
    alike = [each for each in keys if each.devices == key.devices]
    if len(alike) < len(keys):
        names = joined([middle_cut(one_line(name), LONG_TEXT) for name in key.devices])
        yield f"on {names}" if names else "of unreported devices"
    shaped = [each for each in alike if each.shape == key.shape]
    if len(shaped) < len(alike):
        yield "with the same parallelism"
    if shaped.count(key) < len(shaped):
        yield "with the same basis"


def _causes(pool: PoolSubject, replica: str) -> Iterator[SettingChange]:
    """Yield the settings on memory in which a replica differs from the majority."""
    for path in SIZES:
        holders = pool.values(path)
        reference = majority(holders)
        own = next((each for each, replicas in holders.items() if replica in replicas), None)
        if reference is not None and own is not None and own != reference and not pool.is_ignored(path):
            yield SettingChange(path, own, reference)


def _outliers(
    pool: PoolSubject, kind: _EngineKind, causes: Sequence[SettingChange], odd: Sequence[_OddEngine]
) -> Draft:
    replicas = tuple(sorted({each.replica.id for each in odd}))
    confidence = next(each for basis, each in CONFIDENCE.items() if any(one.engine.basis is basis for one in odd))
    compared = {each.path: pool.values(each.path) for each in causes}
    lost = _lost(kind, odd)
    evidence = (
        *_tokens_evidence(kind, odd),
        *contrast_evidence(compared, causes, replicas),
        *_memory_evidence(kind, odd, lost),
    )
    assumptions = (BOUND,) if confidence is Confidence.ASSUMED else ()
    fix = _remedy(pool, kind, causes, replicas, lost)
    text = write(_outliers_text(kind, odd), _lost_text(lost)) if lost else _outliers_text(kind, odd)
    return Draft(replicas, text, evidence, fix, confidence, assumptions=assumptions)


def _lost(kind: _EngineKind, odd: Sequence[_OddEngine]) -> tuple[MemoryCause, ...]:
    """Return per engine the part that takes the memory of its KV cache; empty unless it is the same part for all."""
    measured = [memory_parts(each.engine, each.replica.devices) for each in odd]
    found = tuple(cause for each in measured if each and kind.usual and (cause := main_cause(each, kind.usual)))
    return found if len(found) == len(odd) and len({each.part for each in found}) == 1 else ()


def _lost_text(lost: Sequence[MemoryCause]) -> Text:
    """Return ` Most of the gap is NCCL and other processes: 11.2 GiB more than on the median engine`."""
    low, high = (f"{extreme(each.more for each in lost) / GIB:,.1f}" for extreme in (min, max))
    more = low if low == high else f"{low} to {high}"
    return write(f" Most of the gap is {lost[0].part}: ", value(f"{more} GiB"), " more than on the median engine.")


def _memory_evidence(kind: _EngineKind, odd: Sequence[_OddEngine], lost: Sequence[MemoryCause]) -> Iterator[Evidence]:
    """Yield the bytes of the part that explains the gap, of these engines and of the median one."""
    path = MEMORY_OF.get(lost[0].part) if lost else None
    if path is None or kind.usual is None:
        return
    usual = kind.usual[lost[0].part]
    yield from _numbers(path, odd, [usual + each.more for each in lost])
    yield Evidence(path, json.dumps(usual), State.REPORTED, holder="median engine", is_reference=True)


def _tie(pool: PoolSubject, kind: _EngineKind) -> Draft:
    """Return all engines of a kind without a usual capacity."""
    draft = _outliers(pool, kind, (), kind.odd)
    sides = [[each for each in kind.odd if (each.share < 0) is is_below] for is_below in (True, False)]
    texts = (write(f"{count(len(side), 'engine')} with ", value(_range(side))) for side in sides)
    bound = " (upper bounds)" if draft.confidence is Confidence.ASSUMED else ""
    text = write("KV cache sizes differ without a majority: ", join_texts(texts), f" tokens{bound}.")
    return replace(draft, text=text, remedy=Remedy(NO_MAJORITY))


def _tokens_evidence(kind: _EngineKind, odd: Sequence[_OddEngine]) -> Iterator[Evidence]:
    """Yield the tokens of these engines, the median unless it is a tie, and their devices."""
    yield from _numbers(TOKENS, odd, [each.tokens for each in odd])
    if not kind.is_tie:
        yield Evidence(TOKENS, json.dumps(round(kind.median)), State.REPORTED, holder="median", is_reference=True)
    everyone = tuple(sorted({each.replica.id for each in odd}))
    for name in kind.devices:
        yield Evidence(DEVICE, json.dumps(name, ensure_ascii=False), State.REPORTED, everyone)


def _numbers(path: str, odd: Sequence[_OddEngine], numbers: Sequence[int]) -> Iterator[Evidence]:
    """Yield each number with the replicas of its engines."""
    held: dict[int, set[str]] = defaultdict(set)
    for each, number in zip(odd, numbers, strict=True):
        held[number].add(each.replica.id)
    for number, replicas in sorted(held.items()):
        yield Evidence(path, json.dumps(number), State.REPORTED, tuple(sorted(replicas)))


def _outliers_text(kind: _EngineKind, odd: Sequence[_OddEngine]) -> Text:
    """Return `KV cache of DP rank 1 is 400,320 tokens, 18% below the median of 8 engines (487,904)`."""
    shares = sorted(abs(each.share) for each in odd)
    bound = "<= " if any(each.engine.basis is Basis.ASSUMED for each in odd) else ""
    whose = f" of {count(len(odd), 'engine')}" if len(odd) > 1 else ""
    if len(odd) == 1 and len(odd[0].replica.engines) > 1:
        whose = f" of DP rank {odd[0].engine.dp_rank}"
    low, high = (f"{share * 100:.0f}%" for share in (shares[0], shares[-1]))
    far = low if low == high else f"{low} to {high}"
    side = "below" if odd[0].share < 0 else "above"
    peers = write(f"{kind.number:,} of {kind.total:,} engines, ", joined(list(kind.conditions)))
    if not kind.conditions:
        names = join_texts((name_piece(name),) for name in kind.devices)
        peers = write(f"{kind.number:,} engines", " on " if names else "", names)
    tokens = write(f"KV cache{whose} is {bound}", value(_range(odd)), " tokens")
    return write(tokens, f", {far} {side} the median of ", peers, f" ({kind.median:,.0f}).")


def _range(engines: Sequence[_OddEngine]) -> str:
    tokens = [each.tokens for each in engines]
    first, last = f"{min(tokens):,}", f"{max(tokens):,}"
    return first if first == last else f"{first} to {last}"


def _remedy(
    pool: PoolSubject,
    kind: _EngineKind,
    causes: Sequence[SettingChange],
    replicas: Sequence[str],
    lost: Sequence[MemoryCause],
) -> Remedy:
    if causes:
        rest = use_majority(causes)
        texts = [
            f"{code(setting_name(each.path))} is {to_text(each.before)} (others: {to_text(each.after)})"
            for each in causes
        ]
        return rest._replace(sentence=f"Likely cause: {joined(texts)}. {rest.sentence}")
    if lost and (sentence := PART_REMEDIES.get(lost[0].part)):
        return Remedy(sentence, (Snippet("shell", PROCESSES),) if lost[0].part is MemoryPart.OTHER else ())
    if not set(replicas) <= {each for ids in pool.values(TP).values() for each in ids}:
        return Remedy(PARALLELISM_FIRST)
    return Remedy(LESS if kind.odd[0].share < 0 else MORE, (Snippet("shell", PROCESSES),))
