"""Capacity of each engine of one replica: blocks, tokens, requests, bytes, and the basis of each number."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboard.capacity.formula import KEEPS_ALL, Load, concurrency
from dashboard.fleet import Basis, Engine, EngineReport, KVCacheGroup, Setting
from dashboard.vllm.schemas.types import MAX_INTEGER
from dashboard.vllm.versions import has_change

# The first release whose log the formula was checked against; 0.12.0 used another one for hybrid models.
FORMULA_SINCE = (0, 32, 0)
LOGGED_DIGITS = 2  # of concurrency, in vLLM's log (vllm/v1/core/kv_cache_utils.py)

ONLY_BLOCKS = "Tokens not reported: blocks x block_size is an upper bound."
ONLY_FIRST = "Assumed equal to the first engine, the only one whose tokens are reported."
FORMULA_OPEN = "Upper bound: the formula needs settings that are not reported, such as the batches in flight."
SHARE_UNKNOWN = "Upper bound: the engines of the API server differ, and only their sum is reported."
NO_BLOCKS = "Number of blocks not reported."
TOO_LARGE = "Reported numbers exceed any server."
NO_BLOCK_SIZE = "Block size not reported."


class _Tokens(NamedTuple):
    tokens: int | None
    concurrency: float | None
    basis: Basis
    reason: str | None = None


class AtLength(NamedTuple):
    """Requests at one length. `requests` is None when unknown; `served` is False above the replica's own length.

    `at_most` marks an upper bound.
    """

    requests: float | None
    served: bool
    at_most: bool


class _Options(NamedTuple):
    """The settings that the formula needs; None is not reported."""

    block_size: int | None
    max_model_len: int | None
    batched_tokens: int | None
    tensor_parallel_size: int | None
    pipeline_parallel_size: int | None
    decode_context_parallel_size: int | None
    concurrent_batches: int | None
    async_scheduling: bool | None
    speculative_tokens: int | None
    encoder_tokens: int | None
    has_checked_formula: bool


def engines_of(
    reports: Sequence[EngineReport],
    groups: Sequence[KVCacheGroup],
    settings: Mapping[str, Setting],
) -> tuple[Engine, ...]:
    """Return the capacity of each engine that a replica reports."""
    options = _options(settings)
    if shared := _together(reports, options):
        return shared
    # Only the sum of all engines is reported: they are equally large.
    is_divided = len(reports) > 1 and all(report.num_gpu_blocks is None for report in reports)
    engines: list[Engine] = []
    for reported in reports:
        total = reported.blocks_of_all if is_divided else None
        report = reported if total is None else reported._replace(num_gpu_blocks=total // len(reports))
        own = [group for group in groups if group.dp_rank == report.dp_rank]
        engines.append(_engine(report, own, options, engines[0] if engines else None))
    return tuple(engines)


def load_of(settings: Mapping[str, Setting], length: int | None = None) -> Load | None:
    """Return what the formula needs of a replica's settings, at a length or at its own; None without a length."""
    return _load(_options(settings), length)


def requests_at(
    engine: Engine, groups: Sequence[KVCacheGroup], settings: Mapping[str, Setting], length: int
) -> AtLength:
    """Return how many requests of `length` tokens fit into an engine.

    By the formula where KV cache groups are known; else tokens / length where the reported tokens equal the naive
    estimate, which proves a uniform model; else unknown.
    """
    if engine.max_model_len is not None and length > engine.max_model_len:
        return AtLength(None, served=False, at_most=False)
    own = [group for group in groups if group.dp_rank == engine.dp_rank]
    load = load_of(settings, length)
    if own and load is not None and engine.num_gpu_blocks is not None:
        result = concurrency(engine.num_gpu_blocks, own, load)
        if result is not None:
            return AtLength(result.concurrency, served=True, at_most=not result.exact)
    tokens = engine.kv_cache_size_tokens
    if tokens is not None and tokens == engine.naive_tokens:
        return AtLength(tokens / length, served=True, at_most=engine.basis == "assumed")
    return AtLength(None, served=True, at_most=False)


def _together(reports: Sequence[EngineReport], options: _Options) -> tuple[Engine, ...]:
    """Return engines that differ where only their sum is reported, each with the sum as its bound; else nothing."""
    total = reports[0].blocks_of_all if len(reports) > 1 else None
    is_reported = any(each.num_gpu_blocks is not None for each in reports)
    if total is None or is_reported or not _differ(reports, total, options):
        return ()
    tokens = _product(total, options.block_size)
    length = options.max_model_len
    return tuple(
        Engine(
            dp_rank=report.dp_rank,
            num_gpu_blocks=None,
            block_size=options.block_size,
            kv_cache_size_tokens=tokens,
            max_concurrency=_requests(tokens, length, None) if tokens is not None else None,
            kv_cache_bytes=None,
            kv_cache_bytes_per_device=None,
            naive_tokens=None,
            max_model_len=length,
            basis=Basis.UNKNOWN if tokens is None else Basis.ASSUMED,
            reason=_why_unknown(report._replace(num_gpu_blocks=total), options) if tokens is None else SHARE_UNKNOWN,
            shares_sum=tokens is not None,
        )
        for report in reports
    )


def _differ(reports: Sequence[EngineReport], total: int, options: _Options) -> bool:
    """Return whether engines are known to differ in size: by their sum, or by the tokens of one that keeps every token.

    Such an engine has a whole number of blocks; the tokens of a hybrid one do not determine its blocks.
    """
    if total % len(reports):
        return True
    tokens, size, length = reports[0].kv_cache_size_tokens, options.block_size, options.max_model_len
    if tokens is None or size is None or length is None:
        return False
    of_request = -(-length // size)
    blocks = -(-tokens * of_request // length)
    is_uniform = blocks * length // of_request == tokens
    return is_uniform and blocks * len(reports) != total


def _engine(report: EngineReport, groups: Sequence[KVCacheGroup], options: _Options, first: Engine | None) -> Engine:
    if report.max_model_len is not None:
        options = options._replace(max_model_len=report.max_model_len)
    blocks, size = report.num_gpu_blocks, options.block_size
    naive = _product(blocks, size)
    tokens = _tokens(report, groups, options, naive, first)
    on_each = report.kv_cache_bytes_per_device
    if on_each is None:
        on_each = _bytes_per_device(blocks, groups)
    return Engine(
        dp_rank=report.dp_rank,
        num_gpu_blocks=blocks,
        block_size=size,
        kv_cache_size_tokens=tokens.tokens,
        max_concurrency=None if tokens.concurrency is None else round(tokens.concurrency, LOGGED_DIGITS),
        kv_cache_bytes=_product(on_each, options.tensor_parallel_size, options.pipeline_parallel_size),
        kv_cache_bytes_per_device=on_each,
        naive_tokens=naive,
        max_model_len=options.max_model_len,
        basis=tokens.basis,
        reason=tokens.reason,
        fingerprint=report.fingerprint,
        kv_cache_available_bytes=report.kv_cache_available_bytes,
    )


def _tokens(
    report: EngineReport,
    groups: Sequence[KVCacheGroup],
    options: _Options,
    naive: int | None,
    first: Engine | None,
) -> _Tokens:
    length = options.max_model_len
    if report.kv_cache_size_tokens is not None:
        tokens = report.kv_cache_size_tokens
        return _Tokens(tokens, _requests(tokens, length, report.max_concurrency), Basis.REPORTED)
    if (derived := _derived(report, groups, options)) is not None:
        return derived
    if naive is None:
        return _Tokens(None, None, Basis.UNKNOWN, _why_unknown(report, options))
    if first is not None and first.kv_cache_size_tokens is not None:
        return _Tokens(first.kv_cache_size_tokens, first.max_concurrency, Basis.ASSUMED, ONLY_FIRST)
    return _Tokens(naive, _requests(naive, length, None), Basis.ASSUMED, ONLY_BLOCKS)


def _derived(report: EngineReport, groups: Sequence[KVCacheGroup], options: _Options) -> _Tokens | None:
    load = _load(options, None)
    if report.num_gpu_blocks is None or not groups or load is None:
        return None
    result = concurrency(report.num_gpu_blocks, groups, load)
    if result is None:
        return None
    tokens = math.floor(result.concurrency * load.max_model_len)
    if tokens > MAX_INTEGER:
        return None
    known = result.exact and (options.has_checked_formula or all(group.spec_type in KEEPS_ALL for group in groups))
    return _Tokens(
        tokens,
        result.concurrency,
        Basis.DERIVED if known else Basis.ASSUMED,
        None if known else FORMULA_OPEN,
    )


def _requests(tokens: int, length: int | None, reported: float | None) -> float | None:
    if reported is not None:
        return reported
    return tokens / length if length else None


def _why_unknown(report: EngineReport, options: _Options) -> str:
    if options.block_size is None:
        return NO_BLOCK_SIZE
    return TOO_LARGE if report.num_gpu_blocks is not None else NO_BLOCKS


def _load(options: _Options, length: int | None) -> Load | None:
    length = length or options.max_model_len
    if not length:
        return None
    speculative = options.speculative_tokens
    return Load(
        max_model_len=length,
        in_flight=_in_flight(options, length),
        speculative_tokens=(0, speculative) if speculative is not None else (0, 0),
        decode_context_parallel_size=options.decode_context_parallel_size or 1,
        max_encoder_tokens=options.encoder_tokens,
    )


def _in_flight(options: _Options, length: int) -> tuple[int, int]:
    """Return the least and the most tokens in flight (vllm/config/vllm.py, max_concurrent_batches)."""
    batches = _batches(options)
    if options.batched_tokens is None or batches is None:
        return 0, length
    return batches[0] * options.batched_tokens, batches[1] * options.batched_tokens


def _batches(options: _Options) -> tuple[int, int] | None:
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


def _bytes_per_device(blocks: int | None, groups: Sequence[KVCacheGroup]) -> int | None:
    """Return blocks x page_size_bytes x the largest number of layers in one group: the bytes on EACH device."""
    pages = [_product(group.page_size_bytes, group.layers or None) for group in groups]
    known = [page for page in pages if page is not None]
    return _product(blocks, max(known)) if known and len(known) == len(pages) else None


def _product(*factors: int | None) -> int | None:
    """Return the product; None when a factor is unknown, or when the product exceeds MAX_INTEGER."""
    product = 1
    for factor in factors:
        if factor is None:
            return None
        product *= factor
    return product if product <= MAX_INTEGER else None


def _options(settings: Mapping[str, Setting]) -> _Options:
    return _Options(
        block_size=_whole(settings, "cache_config.block_size"),
        max_model_len=_whole(settings, "model_config.max_model_len"),
        batched_tokens=_whole(settings, "scheduler_config.max_num_batched_tokens"),
        tensor_parallel_size=_whole(settings, "parallel_config.tensor_parallel_size"),
        pipeline_parallel_size=_whole(settings, "parallel_config.pipeline_parallel_size"),
        decode_context_parallel_size=_whole(settings, "parallel_config.decode_context_parallel_size"),
        concurrent_batches=_whole(settings, "concurrent_batches"),
        async_scheduling=value
        if isinstance(value := _value(settings, "scheduler_config.async_scheduling"), bool)
        else None,
        speculative_tokens=_whole(settings, "speculative_config.num_speculative_tokens"),
        encoder_tokens=_whole(settings, "scheduler_config.max_num_encoder_input_tokens"),
        has_checked_formula=has_change(str(_value(settings, "version")), FORMULA_SINCE) is True,
    )


def _whole(settings: Mapping[str, Setting], path: str) -> int | None:
    value = _value(settings, path)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_INTEGER else None


def _value(settings: Mapping[str, Setting], path: str) -> Any:
    setting = settings.get(path)
    return json.loads(setting.value) if setting else None
