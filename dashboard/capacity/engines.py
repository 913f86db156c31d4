"""Capacity of each engine of one replica: blocks, tokens, requests, bytes, and the basis of each number."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboard.capacity.formula import LENGTH, Load, ceil_div, concurrency
from dashboard.fleet import Basis, Engine, EngineReport, KVCacheGroup, Setting
from dashboard.vllm.versions import reports_change
from vllm_fleet_provider.shared.types import MAX_INTEGER

# The first release whose log the formula was checked against; 0.12.0 used another one for hybrid models.
FORMULA_SINCE = (0, 32, 0)
LOGGED_DIGITS = 2  # of concurrency, in vLLM's log (vllm/v1/core/kv_cache_utils.py)

FULL_BLOCK_SIZE = "effective_attention_block_size"
ONLY_BLOCKS = f"Upper bound: blocks x {FULL_BLOCK_SIZE}. Tokens and KV cache groups not reported."
ONLY_FIRST = "Assumed equal to the first engine, the only one whose tokens are reported."
SHARE_UNKNOWN = "Upper bound: the engines of the API server differ, and only their sum is reported."
ONLY_SUM = "Only the sum of the blocks of all engines is reported."
NO_BLOCKS = "Number of blocks not reported."
NO_GROUPS = (
    "Tokens and KV cache groups not reported. Blocks x block_size is no bound: groups with larger blocks hold more."
)
ASLEEP = "Asleep (level {}): its KV cache takes no requests and adds to no sum."
TOO_LARGE = "Reported numbers exceed any server."


class _Tokens(NamedTuple):
    tokens: int | None
    concurrency: float | None
    basis: Basis
    reason: str | None = None


class RequestsAtLength(NamedTuple):
    """Requests at one length. `requests` is None when unknown; `served` is False above the replica's own length.

    `at_most` marks an upper bound.
    """

    requests: float | None
    served: bool
    at_most: bool


class _FormulaSettings(NamedTuple):
    """The settings that the formula needs; None is not reported."""

    block_size: int | None
    full_block_size: int | None
    max_model_len: int | None
    batched_tokens: int | None
    tensor_parallel_size: int | None
    pipeline_parallel_size: int | None
    prefill_context_parallel_size: int | None
    decode_context_parallel_size: int | None
    concurrent_batches: int | None
    async_scheduling: bool | None
    speculative_tokens: tuple[int, int | None]
    encoder_tokens: int | None
    has_checked_formula: bool


def engines_of(
    reports: Sequence[EngineReport],
    groups: Sequence[KVCacheGroup],
    settings: Mapping[str, Setting],
) -> tuple[Engine, ...]:
    options = _options(settings)
    reports = _with_the_rest(reports)
    total = reports[0].blocks_of_all if len(reports) > 1 else None
    has_own = any(each.num_gpu_blocks is not None for each in reports)
    if total is None or has_own or any(each.kv_cache_size_tokens is not None for each in reports[1:]):
        return tuple(_engine(report, groups, options) for report in reports)
    # Only the sum of all engines is reported, and the tokens of the first.
    first, *others = reports
    blocks = _blocks_if_uniform(first, options)
    if blocks is not None and blocks * len(reports) == total:
        known = _engine(first._replace(num_gpu_blocks=blocks), groups, options)
        return known, *(_like(known, report) for report in others)
    bound = _product(total, options.full_block_size)
    if blocks is None or bound is None:
        return tuple(_engine(report, groups, options) for report in reports)
    return tuple(_together(report, bound, options) for report in reports)


def _with_the_rest(reports: Sequence[EngineReport]) -> Sequence[EngineReport]:
    """Return the reports; the only engine without blocks has what the others leave of the sum."""
    lacking = [place for place, each in enumerate(reports) if each.num_gpu_blocks is None]
    if len(lacking) != 1 or len(reports) == 1:
        return reports
    known = sum(each.num_gpu_blocks or 0 for each in reports)
    rest = (reports[lacking[0]].blocks_of_all or 0) - known
    return [
        each._replace(num_gpu_blocks=rest) if each.num_gpu_blocks is None and rest > 0 else each for each in reports
    ]


def max_model_len_of(settings: Mapping[str, Setting]) -> int | None:
    return _whole(settings, "model_config.max_model_len")


def load_of(settings: Mapping[str, Setting], length: int | None = None) -> Load | None:
    """Return what the formula needs of a replica's settings, at a length or at its own; None without a length."""
    return _load(_options(settings), length)


def requests_at(
    engine: Engine, groups: Sequence[KVCacheGroup], settings: Mapping[str, Setting], length: int
) -> RequestsAtLength:
    """Return how many requests of `length` tokens fit into an engine.

    By the formula where KV cache groups are known; else tokens / length where the reported tokens equal the naive
    estimate, which proves a uniform model; else unknown.
    """
    if engine.max_model_len is not None and length > engine.max_model_len:
        return RequestsAtLength(None, served=False, at_most=False)
    own = [group for group in groups if group.dp_rank == engine.dp_rank]
    load = load_of(settings, length)
    if own and load is not None and engine.num_gpu_blocks is not None:
        requests, missing = concurrency(engine.num_gpu_blocks, own, load)
        if requests is not None:
            return RequestsAtLength(requests, served=True, at_most=bool(missing))
    tokens = engine.kv_cache_size_tokens
    if tokens is not None and tokens == engine.naive_tokens:
        return RequestsAtLength(tokens / length, served=True, at_most=engine.basis == "assumed")
    return RequestsAtLength(None, served=True, at_most=False)


def _blocks_if_uniform(first: EngineReport, options: _FormulaSettings) -> int | None:
    """Return the blocks of an engine that keeps every token, by its tokens; None where these show that it does not.

    The tokens of a hybrid engine do not determine its blocks.
    """
    tokens, length = first.kv_cache_size_tokens, options.max_model_len
    size = options.full_block_size or options.block_size
    if tokens is None or size is None or length is None:
        return None
    of_request = ceil_div(length, size)
    blocks = ceil_div(tokens * of_request, length)
    return blocks if blocks * length // of_request == tokens else None


def _like(first: Engine, report: EngineReport) -> Engine:
    """Return an engine of which only the sum with others is reported: the sum is a multiple of the first engine's."""
    return first._replace(
        dp_rank=report.dp_rank,
        basis=Basis.ASSUMED,
        reason=ONLY_FIRST if report.sleep_level is None else ASLEEP.format(report.sleep_level),
        sleep_level=report.sleep_level,
        fingerprint=report.fingerprint,
        kv_cache_available_bytes=report.kv_cache_available_bytes,
    )


def _together(report: EngineReport, bound: int, options: _FormulaSettings) -> Engine:
    """Return one of several engines that differ: each has the sum of all as its bound."""
    own = _engine(report, (), options)
    return own._replace(
        kv_cache_size_tokens=bound,
        max_concurrency=_requests(bound, options.max_model_len, None),
        basis=Basis.ASSUMED,
        reason=SHARE_UNKNOWN if report.sleep_level is None else own.reason,
        shares_sum=True,
    )


def _engine(report: EngineReport, groups: Sequence[KVCacheGroup], options: _FormulaSettings) -> Engine:
    if report.max_model_len is not None:
        options = options._replace(max_model_len=report.max_model_len)
    blocks, size = report.num_gpu_blocks, options.block_size
    tokens = _tokens(report, [group for group in groups if group.dp_rank == report.dp_rank], options)
    on_each = report.kv_cache_bytes_per_device
    return Engine(
        dp_rank=report.dp_rank,
        num_gpu_blocks=blocks,
        block_size=size,
        kv_cache_size_tokens=tokens.tokens,
        max_concurrency=None if tokens.concurrency is None else round(tokens.concurrency, LOGGED_DIGITS),
        kv_cache_bytes=_product(on_each, options.tensor_parallel_size, options.pipeline_parallel_size),
        kv_cache_bytes_per_device=on_each,
        naive_tokens=_product(blocks, size),
        max_model_len=options.max_model_len,
        basis=tokens.basis,
        reason=tokens.reason if report.sleep_level is None else ASLEEP.format(report.sleep_level),
        fingerprint=report.fingerprint,
        kv_cache_available_bytes=report.kv_cache_available_bytes,
        sleep_level=report.sleep_level,
    )


def _tokens(report: EngineReport, groups: Sequence[KVCacheGroup], options: _FormulaSettings) -> _Tokens:
    length, blocks = options.max_model_len, report.num_gpu_blocks
    if report.kv_cache_size_tokens is not None:
        tokens = report.kv_cache_size_tokens
        return _Tokens(tokens, _requests(tokens, length, report.max_concurrency), Basis.REPORTED)
    if blocks is None:
        return _unknown(NO_BLOCKS if report.blocks_of_all is None else ONLY_SUM)
    if groups:
        return _derived(blocks, groups, options)
    if options.full_block_size is None:
        return _unknown(NO_GROUPS)
    bound = _product(blocks, options.full_block_size)
    if bound is None:
        return _unknown(TOO_LARGE)
    return _Tokens(bound, _requests(bound, length, None), Basis.ASSUMED, ONLY_BLOCKS)


def _derived(blocks: int, groups: Sequence[KVCacheGroup], options: _FormulaSettings) -> _Tokens:
    load = _load(options, None)
    if load is None:
        return _unknown(f"Unknown: {LENGTH}.")
    requests, missing = concurrency(blocks, groups, load)
    unknown = f"Unknown: {', '.join(missing)}."
    if requests is None:
        return _unknown(unknown)
    tokens = math.floor(requests * load.max_model_len)
    if tokens > MAX_INTEGER:
        return _unknown(TOO_LARGE)
    if missing:
        return _Tokens(tokens, requests, Basis.ASSUMED, f"Upper bound. {unknown}")
    return _Tokens(tokens, requests, Basis.DERIVED)


def _unknown(reason: str) -> _Tokens:
    return _Tokens(None, None, Basis.UNKNOWN, reason)


def _requests(tokens: int, length: int | None, reported: float | None) -> float | None:
    if reported is not None:
        return reported
    return tokens / length if length else None


def _load(options: _FormulaSettings, length: int | None) -> Load | None:
    length = length or options.max_model_len
    if not length:
        return None
    return Load(
        max_model_len=length,
        in_flight=_in_flight(options, length),
        speculative_tokens=options.speculative_tokens,
        decode_context_parallel_size=_context_parallel_size(options),
        max_encoder_tokens=options.encoder_tokens,
        is_checked=options.has_checked_formula,
    )


def _context_parallel_size(options: _FormulaSettings) -> tuple[int, int | None]:
    """Return the least and the most decode context parallel size.

    It is at most the tensor parallel size times the prefill context parallel size (vllm/config/parallel.py).
    """
    size = options.decode_context_parallel_size
    return (
        (1, _product(options.tensor_parallel_size, options.prefill_context_parallel_size))
        if size is None
        else (size, size)
    )


def _in_flight(options: _FormulaSettings, length: int) -> tuple[int, int]:
    """Return the least and the most tokens in flight (vllm/config/vllm.py, max_concurrent_batches)."""
    batches = _batches(options)
    if options.batched_tokens is None or batches is None:
        return 0, length
    return batches[0] * options.batched_tokens, batches[1] * options.batched_tokens


def _batches(options: _FormulaSettings) -> tuple[int, int] | None:
    """Return the least and the most batches in flight: reported by the provider, else derived from other options."""
    if options.concurrent_batches is not None:
        return options.concurrent_batches, options.concurrent_batches
    pipeline = options.pipeline_parallel_size
    if pipeline is None:
        return None
    least = most = pipeline
    if options.async_scheduling is None:
        most = pipeline + 1
    elif options.async_scheduling:
        # The older model runner overlaps batches only without pipeline parallelism; which one runs is not reported.
        least, most = (2, 2) if pipeline == 1 else (pipeline, pipeline + 1)
    return least, most


def _product(*factors: int | None) -> int | None:
    """Return the product; None when a factor is unknown, or when the product exceeds MAX_INTEGER."""
    product = 1
    for factor in factors:
        if factor is None:
            return None
        product *= factor
    return product if product <= MAX_INTEGER else None


def _options(settings: Mapping[str, Setting]) -> _FormulaSettings:
    return _FormulaSettings(
        block_size=_whole(settings, "cache_config.block_size"),
        full_block_size=_whole(settings, f"cache_config.{FULL_BLOCK_SIZE}"),
        max_model_len=max_model_len_of(settings),
        batched_tokens=_whole(settings, "scheduler_config.max_num_batched_tokens"),
        tensor_parallel_size=_whole(settings, "parallel_config.tensor_parallel_size"),
        pipeline_parallel_size=_whole(settings, "parallel_config.pipeline_parallel_size"),
        prefill_context_parallel_size=_whole(settings, "parallel_config.prefill_context_parallel_size"),
        decode_context_parallel_size=_whole(settings, "parallel_config.decode_context_parallel_size"),
        concurrent_batches=_whole(settings, "concurrent_batches"),
        async_scheduling=value
        if isinstance(value := _value(settings, "scheduler_config.async_scheduling"), bool)
        else None,
        speculative_tokens=_speculative_tokens(settings),
        encoder_tokens=_whole(settings, "scheduler_config.max_num_encoder_input_tokens"),
        has_checked_formula=reports_change(settings, FORMULA_SINCE) is True,
    )


def _speculative_tokens(settings: Mapping[str, Setting]) -> tuple[int, int | None]:
    """Return the least and the most tokens that a request may draft; null, of them or of their section, is none."""
    path = "speculative_config.num_speculative_tokens"
    if (number := _whole(settings, path)) is not None:
        return 0, number
    is_reported = any(each in settings and settings[each].value == "null" for each in (path, path.partition(".")[0]))
    return 0, 0 if is_reported else None


def _whole(settings: Mapping[str, Setting], path: str) -> int | None:
    value = _value(settings, path)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_INTEGER else None


def _value(settings: Mapping[str, Setting], path: str) -> Any:
    setting = settings.get(path)
    return json.loads(setting.value) if setting else None
