"""GET /metrics: what the engines of a server counted of requests, prompts and the prefix cache.

Only the lines of these metrics are read; a page has some 590 others. Names and units: vllm/v1/metrics/loggers.py.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from dashboard.errors import UnreadableError
from dashboard.fleet.traffic import EngineCounts
from dashboard.vllm.metrics import MAX_ENGINES, without_ray

MAX_COUNT = 2.0**53  # up to it a float holds every whole number; a larger count cannot be differenced
MOST_LINES = 8 * MAX_ENGINES  # of one metric: a label that splits it, as `finished_reason` does, has some five values
COMMENT = b"\n# "  # before each metric
MAX_SHARE = 1.0
SHARES = ("kv_usage",)  # fields whose values are shares
MOST_SHOWN = 40  # bytes of a value that is refused
ENGINE = re.compile(rb'(?:^|,)engine="(\d{1,4})"')
# The metric of each field, in the order of a page.
METRICS = {
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

    A metric with a value that is no finite number from 0 to MAX_COUNT (SHARES: to 1) is refused. So are all samples
    of too many series or engines, or of no engine: rank 0 alone then has the reason.
    """
    try:
        return _collected(samples)
    except UnreadableError as error:
        return {0: EngineCounts(refused=(error.detail,))}


def _collected(samples: Iterable[CountSample]) -> Mapping[int, EngineCounts]:
    found: dict[int, dict[str, float]] = {}
    refused: dict[int, dict[str, str]] = {}  # sentences by the field that is left out
    for name, engine, text in samples:
        own = found.get(engine)
        if own is None:
            if len(found) == MAX_ENGINES:
                raise UnreadableError("schema", f"/metrics has counters of more than {MAX_ENGINES:,} engines")
            own = found[engine] = {}
        value = _number(text)
        own[name] = own[name] + value if name in own else value
        most = MAX_SHARE if name in SHARES else MAX_COUNT
        if not own[name] <= most:  # NaN is not
            shown = text[:MOST_SHOWN].decode(errors="replace")
            sentence = f"{METRICS[name]} is {shown!r}, expected 0 to {most:,.0f}"
            refused.setdefault(engine, {}).setdefault(name, sentence)
    return {engine: _counts(own, refused.get(engine, {})) for engine, own in found.items()}


def _samples(page: bytes) -> Iterator[CountSample]:
    """Yield the samples of a page that begins with a newline."""
    place = 0
    for name, mark in _MARKS.items():
        start = page.find(mark, place)
        if start < 0:
            start = page.find(mark, 0, place)
        if start < 0:
            continue
        # Between the comments of this metric and the next one: in a histogram other series are between those of two
        # engines, and sum and count are in any order.
        end = page.find(COMMENT, start)
        place = max(page.rfind(COMMENT, place, start), place)
        series = page[start : end if end >= 0 else len(page)].split(mark, MOST_LINES + 1)
        if len(series) > MOST_LINES + 1:
            raise UnreadableError("schema", f"/metrics has more than {MOST_LINES:,} series of {METRICS[name]}")
        for each in series[1:]:
            labels, _, value = each.partition(b"\n")[0].rpartition(b"} ")
            engine = ENGINE.search(labels)
            if engine is None:
                raise UnreadableError("schema", f"/metrics has {METRICS[name]} without a DP rank")
            yield name, int(engine[1]), value.partition(b" ")[0]  # a timestamp may follow


def _counts(found: Mapping[str, float], refused: Mapping[str, str]) -> EngineCounts:
    kept = {name: value for name, value in found.items() if name not in refused} if refused else found
    return EngineCounts(**kept, refused=tuple(refused.values()))


def _number(text: bytes) -> float:
    """Return the value of a sample; NaN for what no counter can have."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    # Of many counters the value is 0: one object for all of them. float() reads 1_000, too.
    return (number or 0.0) if number >= 0 and b"_" not in text else math.nan
