"""GET /metrics: what the engines of a server counted of requests, prompts and the prefix cache.

Only the lines of these metrics are read; a page has some 590 others. Names and units: vllm/v1/metrics/loggers.py.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from dashboard.fleet.traffic import EngineCounts
from dashboard.vllm.metrics import MAX_ENGINES, without_ray

MAX_COUNT = 2.0**53  # up to it a float holds every whole number; a larger count cannot be differenced
MOST_LINES = 8 * MAX_ENGINES  # of one metric: a label that splits it, as `finished_reason` does, has some five values
COMMENT = b"\n# "  # before each metric
ENGINE = re.compile(rb'[{,]engine="(\d{1,4})"')
# The metric of each field, in the order of a page.
METRICS = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "kv_usage": "vllm:kv_cache_usage_perc",
    "queries": "vllm:prefix_cache_queries_total",
    "counted_from": "vllm:prefix_cache_queries_created",
    "hits": "vllm:prefix_cache_hits_total",
    "external_queries": "vllm:external_prefix_cache_queries_total",
    "external_hits": "vllm:external_prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "requests": "vllm:request_success_total",
    "first_tokens": "vllm:time_to_first_token_seconds_count",
    "first_token_seconds": "vllm:time_to_first_token_seconds_sum",
    "prefills": "vllm:request_prefill_time_seconds_count",
    "prefill_seconds": "vllm:request_prefill_time_seconds_sum",
    "computed_tokens": "vllm:request_prefill_kv_computed_tokens_sum",
}
CountSample: TypeAlias = tuple[str, int, bytes]  # field of EngineCounts, DP rank, value as it is written
_MARKS = {name: f"\n{metric}{{".encode() for name, metric in METRICS.items()}


def read_counts(body: bytes) -> Mapping[int, EngineCounts]:
    """Return the counts of a page by DP rank, as `collect_counts` does."""
    return collect_counts(_samples(b"\n" + without_ray(body)[1]))


def collect_counts(samples: Iterable[CountSample]) -> Mapping[int, EngineCounts]:
    """Return the counts of samples by DP rank. Series of one engine, such as those by reason, are added.

    A value that is no finite number from 0 to MAX_COUNT is refused, and all of its metric. Engines beyond MAX_ENGINES
    are left out.
    """
    found: dict[int, dict[str, float]] = {}
    refused: dict[int, list[str]] = {}
    for name, engine, text in samples:
        own = found.get(engine)
        if own is None:
            if len(found) == MAX_ENGINES:
                continue
            own = found[engine] = {}
        value = _number(text)
        if value is None:
            refused.setdefault(engine, []).append(METRICS[name])
        else:
            own[name] = own[name] + value if name in own else value
    return {engine: _counts(own, refused.get(engine, ())) for engine, own in found.items()}


def _samples(page: bytes) -> Iterator[CountSample]:
    """Yield the samples of a page that begins with a newline."""
    place = 0
    for name, mark in _MARKS.items():
        start, left = page.find(mark, place), MOST_LINES
        if start < 0:
            start = page.find(mark, 0, place)
        # The next metric is after the comments of this one: sum and count of a histogram are in any order.
        place = limit = max(page.rfind(COMMENT, place, max(start, 0)), place)
        while start >= 0 and left:
            end = page.find(b"\n", start + 1)
            labels, _, text = page[start + 1 : end if end >= 0 else len(page)].rpartition(b"} ")
            if engine := ENGINE.search(labels):
                yield name, int(engine[1]), text.partition(b" ")[0]  # a timestamp may follow
            # Up to the next comments: in a histogram other series are between those of two engines.
            if limit < end:
                found = page.find(COMMENT, end)
                limit = found if found >= 0 else len(page)
            start = page.find(mark, end, limit) if end >= 0 else -1
            left -= 1


def _counts(found: Mapping[str, float], refused: Collection[str]) -> EngineCounts:
    kept = {name: value for name, value in found.items() if METRICS[name] not in refused} if refused else found
    return EngineCounts(**kept, refused=tuple(dict.fromkeys(refused)))


def _number(text: bytes) -> float | None:
    """Return the value of a sample; None for what no counter can have."""
    try:
        number = float(text)
    except ValueError:
        return None
    # Of many counters the value is 0: one object for all of them.
    return (number or 0.0) if 0 <= number <= MAX_COUNT else None
