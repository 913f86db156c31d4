"""Engines of captured servers and of made-up reports."""

from collections.abc import Collection, Mapping
from typing import Any

from dashboard.capacity.engines import engines_of
from dashboard.fleet import Document, Engine, EngineReport, KVCacheGroup, Replica, Setting, Source
from dashboard.vllm.canonical import setting
from dashboard.vllm.replica import read_document, read_replica
from tests.captured import AT, snapshot

BLOCK, LENGTH, BATCHED = (
    "cache_config.block_size",
    "model_config.max_model_len",
    "scheduler_config.max_num_batched_tokens",
)
TENSOR, PIPELINE = "parallel_config.tensor_parallel_size", "parallel_config.pipeline_parallel_size"
ASYNC = "scheduler_config.async_scheduling"
CONTEXT, PREFILL_CONTEXT = (
    "parallel_config.decode_context_parallel_size",
    "parallel_config.prefill_context_parallel_size",
)
SPECULATIVE, FULL_BLOCK = "speculative_config", "cache_config.effective_attention_block_size"
SERVER: Mapping[str, Any] = {
    "version": "0.32.0",
    BLOCK: 16,
    FULL_BLOCK: 16,
    LENGTH: 2048,
    BATCHED: 256,
    TENSOR: 1,
    PIPELINE: 1,
    CONTEXT: 1,
    SPECULATIVE: None,
}


def settings_of(values: Mapping[str, Any]) -> dict[str, Setting]:
    """Settings of plain values by path."""
    return {path: setting(path, value, Source.SERVER_INFO) for path, value in values.items()}


def options(more: Mapping[str, Any] | None = None) -> dict[str, Setting]:
    """The settings of a server with blocks of 16 tokens and a length of 2048; `...` leaves a path out."""
    return settings_of({path: value for path, value in {**SERVER, **(more or {})}.items() if value is not ...})


def one(
    report: EngineReport, groups: Collection[KVCacheGroup] = (), settings: Mapping[str, Setting] | None = None
) -> Engine:
    """The engine of one report."""
    (engine,) = engines_of((report,), tuple(groups), options() if settings is None else settings)
    return engine


def engines_of_answers(
    answers: Mapping[str, bytes], paths: Collection[str] | None = None, more: Mapping[str, Setting] | None = None
) -> tuple[tuple[Engine, ...], Replica, Mapping[str, Setting]]:
    """The engines of a captured server that answers only on `paths`, its replica and its settings."""
    seen = snapshot(answers, paths)
    settings = {**read_document(seen).settings, **(more or {})}

    def engines(_: Document, reports: tuple[EngineReport, ...], groups: tuple[KVCacheGroup, ...]) -> tuple[Engine, ...]:
        return engines_of(reports, groups, settings)

    replica = read_replica(seen, AT, engines)
    return replica.engines, replica, settings
