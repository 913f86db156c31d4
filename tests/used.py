"""Fleets whose replicas served requests: with prefix hit rates as a test wants them."""

from collections.abc import Mapping
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica
from dashboard.fleet.traffic import Traffic

WINDOW_SECONDS = 900.0
REQUESTS = 300
PROMPT_TOKENS = 600_000  # of an engine in the window: 2,000 a request
SECONDS_PER_TOKEN = 0.000_25  # of prefill, of a token that the cache had not
DECODE_SECONDS = 0.05  # of the first token after the prefill


def traffic(rate: float | None = 0.6, *, requests: float = REQUESTS, **more: float | None) -> Traffic:
    """The traffic of one engine in 15 minutes that found this share of its prompt tokens; None: not reported."""
    tokens = requests * PROMPT_TOKENS / REQUESTS
    hits = None if rate is None else tokens * rate
    computed = tokens - (hits or 0.0)
    prefill = computed * SECONDS_PER_TOKEN
    given: dict[str, float | None] = {
        "queries": None if rate is None else tokens,
        "hits": hits,
        "prompt_tokens": tokens,
        "requests": requests,
        "preemptions": 0.0,
        "first_token_seconds": prefill + requests * DECODE_SECONDS,
        "first_tokens": requests,
        "prefill_seconds": prefill,
        "computed_tokens": computed,
        "waiting": 0.0,
        "kv_usage": 0.4,
    }
    return Traffic(WINDOW_SECONDS, **{**given, **more})  # type: ignore[arg-type]  # `refused` is not given


def with_traffic(fleet: Fleet, rates: Mapping[str, float | Traffic | None], usual: float | None = None) -> Fleet:
    """A fleet in which each engine of these replicas got equal traffic, and found this share of it.

    `rates` is by name or id of a replica, or by pool for all of its replicas; the replica's own comes first. A
    `Traffic` is used unchanged; None: not read twice. The others have the `usual` rate, by default no traffic.
    """
    used: dict[str, Mapping[int, Traffic]] = {}
    for each in fleet.replicas:
        rate = _rate_of(each, rates, usual)
        if rate is not None and each.fresh:
            engines = tuple(engine.dp_rank for engine in each.engines) or (0,)
            used[each.id] = dict.fromkeys(engines, rate if isinstance(rate, Traffic) else traffic(rate))
    return replace(fleet, traffic=used)


def _rate_of(
    replica: Replica, rates: Mapping[str, float | Traffic | None], usual: float | None
) -> float | Traffic | None:
    known = (replica.id, replica.name, replica.pool or "")
    return next((rates[each] for each in known if each in rates), usual)
