"""CO-11: replicas of one pool turn requests away at other loads."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.behaviour.told import as_told
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Confidence, Draft, Family, Remedy, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

RANKS = "parallel_config.data_parallel_size"
LIMITS = {
    "scheduler_config.max_num_queued_reqs": "limit of requests in flight",
    "scheduler_config.max_num_queued_tokens": "limit of prompt tokens that wait for prefill",
}


@rule(
    id="CO-11",
    name="queue-limits-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=tuple(LIMITS),
)
def queue_limits_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool turn requests away at different loads.

    A limit that is not set means that nothing is turned away. vLLM has these limits from 0.29 on.

    Why it matters:
        - any pool: Under the same load one replica answers 503 while the others still take requests, or one queues
          without end while the others protect their latency.

    How to fix:
        Give every replica of the pool the same `--max-num-queued-reqs` and `--max-num-queued-tokens`. They hold for one
        API server over all its DP ranks: scale them with `--data-parallel-size`.

    Exceptions:
        Limits that are the same per DP rank are no finding.

    Evidence:
        - vllm/config/scheduler.py (a request over the limit is rejected with 503; counted over all DP ranks)
        - vllm/v1/engine/async_llm.py (where it is decided)

    Example:
        Four replicas allow 512 requests in flight, one was left at 64 after a test. In the evening peak every fifth
        request gets a 503 while the other four are half idle.
    """
    if len(pool.values(RANKS)) <= 1:
        yield from drift(pool, LIMITS)
        return
    for draft in drift(pool, {path: f"{noun} per DP rank" for path, noun in LIMITS.items()}, _per_rank):
        sentence = "Choose one limit per DP rank for the pool, and set it times --data-parallel-size on each replica."
        evidence = as_told(pool, [*dict.fromkeys(each.path for each in draft.evidence), RANKS])
        yield replace(draft, evidence=evidence, remedy=Remedy(sentence), confidence=Confidence.DERIVED)


def _per_rank(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Divide a limit by the number of DP ranks that share it; one that is no number stays."""
    limit = json.loads(told.value)
    size = lookup_setting(settings, RANKS)
    ranks = json.loads(size.value) if size is not None and size.state is State.REPORTED else 1
    if type(limit) is not int or type(ranks) is not int or ranks < 1:
        return told
    return SettingValue(str(limit // ranks), State.REPORTED)
