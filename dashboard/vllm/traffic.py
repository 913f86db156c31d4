"""GET /metrics: what the engines of a server counted of requests, prompts and the prefix cache.

Only the lines of these metrics are read; a page has some 590 others. Names and units: vllm/v1/metrics/loggers.py.
"""

import math
import re
from collections.abc import Collection, Mapping

from dashboard.fleet.traffic import EngineCounts
from dashboard.vllm.metrics import MAX_ENGINES, without_ray

MAX_COUNT = 2.0**53  # up to it a float holds every whole number; a larger count cannot be differenced
MOST_LINES = 8 * MAX_ENGINES  # of one metric: a label that splits it, as `finished_reason` does, has some five values
ENGINE = re.compile(rb'[{,]engine="(\d{1,4})"')
_NAMES = {
    "queries": b"vllm:prefix_cache_queries_total",
    "hits": b"vllm:prefix_cache_hits_total",
    "external_queries": b"vllm:external_prefix_cache_queries_total",
    "external_hits": b"vllm:external_prefix_cache_hits_total",
    "prompt_tokens": b"vllm:prompt_tokens_total",
    "requests": b"vllm:request_success_total",
    "preemptions": b"vllm:num_preemptions_total",
    "first_token_seconds": b"vllm:time_to_first_token_seconds_sum",
    "first_tokens": b"vllm:time_to_first_token_seconds_count",
    "prefill_seconds": b"vllm:request_prefill_time_seconds_sum",
    "prefills": b"vllm:request_prefill_time_seconds_count",
    "computed_tokens": b"vllm:request_prefill_kv_computed_tokens_sum",
    "running": b"vllm:num_requests_running",
    "waiting": b"vllm:num_requests_waiting",
    "kv_usage": b"vllm:kv_cache_usage_perc",
    "counted_from": b"vllm:prefix_cache_queries_created",
}
_MARKS = {name: b"\n" + metric + b"{" for name, metric in _NAMES.items()}


def read_counts(body: bytes) -> Mapping[int, EngineCounts]:
    """Return the counts of a page by DP rank. Series of one engine, such as those by reason, are added.

    A value that is no finite number from 0 to MAX_COUNT is refused, and all of its metric. Engines beyond MAX_ENGINES
    are left out.
    """
    page = b"\n" + without_ray(body)[1]
    found: dict[int, dict[str, float]] = {}
    refused: dict[int, list[str]] = {}
    for name, mark in _MARKS.items():
        start, left = page.find(mark), MOST_LINES
        while start >= 0 and left:
            end = page.find(b"\n", start + 1)
            labels, _, text = page[start + 1 : end if end >= 0 else len(page)].rpartition(b"} ")
            engine = ENGINE.search(labels)
            if engine and (int(engine[1]) in found or len(found) < MAX_ENGINES):
                own, value = found.setdefault(int(engine[1]), {}), _number(text)
                if value is None:
                    refused.setdefault(int(engine[1]), []).append(_NAMES[name].decode())
                else:
                    own[name] = own.get(name, 0.0) + value
            start = end if page.startswith(mark, end) else -1
            left -= 1
    return {engine: _counts(own, refused.get(engine, ())) for engine, own in found.items()}


def _counts(found: Mapping[str, float], refused: Collection[str]) -> EngineCounts:
    kept = {name: value for name, value in found.items() if _NAMES[name].decode() not in refused}
    return EngineCounts(**kept, refused=tuple(dict.fromkeys(refused)))


def _number(text: bytes) -> float | None:
    """Return the value of a sample, which a timestamp may follow; None for what no counter can have."""
    try:
        number = float(text.partition(b" ")[0])
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number <= MAX_COUNT else None
