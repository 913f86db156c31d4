"""A small model of requests: what a router sends to an engine, what its prefix cache has of it, and what it counts.

All of it follows from the engine's configuration and age, so nothing runs between two reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from dashboard.demo.describe import DemoReplica, Prefixes, Workload
from dashboard.demo.hashing import seed_policy
from dashboard.demo.memory import Capacity

GIB = 1024**3
MAX_BUSY = 0.9  # share of its time for prefill up to which the wait for other prefills grows
REQUEST_SECONDS = 0.03  # to the first token, besides prefill
TRANSFERRED_PER_SECOND = 400_000  # tokens of a KV transfer
SHORTEST_WAVE_SECONDS, SWING = 7200, 0.25  # between two peaks of a kind of request; share by which it grows
SPREAD_PERCENT = 5  # by which engines of a pool differ in each kind of request


class _RequestKind(NamedTuple):
    """The requests of one kind that an engine gets. `kept` and `loaded` are shares of those with a prefix seen before.

    `first` requests find nothing. `kept` find the `cached_tokens` on the device, `loaded` of the others on the host.
    A prefill replica sends `received_tokens` of each prompt.
    """

    per_second: float
    first: int
    prompt_tokens: int
    cached_tokens: int
    received_tokens: int
    kept: float
    loaded: float

    def swung(self, time: float) -> float:
        """Return a time that now runs faster, now slower: requests come and go in waves."""
        turn = 2 * math.pi / (SHORTEST_WAVE_SECONDS + self.prompt_tokens)  # not the same for all kinds
        return time + SWING / turn * math.sin(turn * time)


class EngineLoad(NamedTuple):
    """What one engine is asked for. `wanted` is the share of its KV cache that `running` requests would take.

    `busy` is the share of its time that it computes prompts, `wait_seconds` the wait of a request before that. Its
    connector finds prefixes in the memory of the host, or on a peer.
    """

    kinds: tuple[_RequestKind, ...]
    workload: Workload
    is_caching: bool
    connector: Literal["host", "p2p"] | None
    running: float
    wanted: float
    busy: float
    wait_seconds: float

    def counts(self, started_at: float, now: float, wobble: float) -> dict[str, float]:
        """Return what the engine counted since its start, and its gauges, by names as those of EngineCounts.

        Times are in seconds since 1970. Gauges move with `wobble`, 0 to 1.
        """
        requests = prompt = hits = external = 0
        for kind in self.kinds:
            number = int((kind.swung(now) - kind.swung(started_at)) * kind.per_second)
            returned = max(number - kind.first, 0)
            found = int(returned * kind.kept)
            requests += number
            prompt += number * kind.prompt_tokens
            hits += found * kind.cached_tokens
            if kind.received_tokens:
                external += number * kind.received_tokens - found * kind.cached_tokens
            else:
                external += int((returned - found) * kind.loaded) * kind.cached_tokens
        computed = prompt - hits - external
        prefill_seconds = computed / self.workload.prefill_tokens_per_second
        overload = max(self.wanted - 1, 0.0)
        running = self.running * min(0.9 + wobble / 5, 1 / max(self.wanted, 1.0))
        return {
            "requests": requests,
            "prompt_tokens": prompt,
            "queries": prompt if self.is_caching else 0,
            "hits": hits,
            "external_queries": prompt - hits if self.connector else 0,
            "external_hits": external,
            "cached_tokens": hits + external,
            "host_tokens": external if self.connector == "host" else 0,
            "p2p_tokens": external if self.connector == "p2p" else 0,
            "computed_tokens": computed,
            "generation_tokens": requests * self.workload.output_tokens,
            "preemptions": int(requests * overload),
            "prefill_seconds": prefill_seconds,
            "first_token_seconds": prefill_seconds / (1 - self.busy)
            + external / TRANSFERRED_PER_SECOND
            + requests * (REQUEST_SECONDS + self.wait_seconds),
            "running": round(running),
            "waiting": round(self.running * overload * (0.5 + wobble)),
            "kv_usage": self.wanted * running / self.running if self.running else 0.0,
        }


def engine_load(replica: DemoReplica, config: Mapping[str, Any], capacity: Capacity, rank: int) -> EngineLoad:
    """Return what the router of its pool asks of an engine with this `VllmConfig` and KV cache."""
    workload, cache = replica.workload, config["cache_config"]
    rates = [_per_second(replica, each, rank) for each in workload.prefixes]
    sizes = [each.tokens + each.own_tokens + workload.output_tokens / 2 for each in workload.prefixes]
    seconds = workload.output_tokens * workload.seconds_per_output_token
    wanted = sum(rate * seconds * size for rate, size in zip(rates, sizes, strict=True)) / capacity.kv_cache_size_tokens
    # Without affinity each prefix reaches every engine of the pool in turn.
    reached = 1 if _has_affinity(replica, cache) else workload.engines
    room = max(1 - wanted, 0.0) * capacity.kv_cache_size_tokens if cache["enable_prefix_caching"] else 0.0
    host = _host_tokens(replica, cache, capacity) if room else 0.0
    kinds = []
    for rate, each in zip(rates, workload.prefixes, strict=True):
        tokens = each.number * each.tokens * reached
        on_device = min(tokens, room)
        on_host = min(tokens - on_device, host)
        room, host = room - on_device, host - on_host
        prompt = each.tokens + each.own_tokens
        kinds.append(
            _RequestKind(
                rate,
                each.number * reached,
                prompt,
                _whole_blocks(each.tokens, cache),
                _whole_blocks(prompt - 1, cache) if replica.configuration.kv_role == "kv_consumer" else 0,
                on_device / tokens,
                on_host / (tokens - on_device) if on_host else 0.0,
            )
        )
    computed = sum(
        each.per_second * (each.prompt_tokens - (each.received_tokens or each.kept * each.cached_tokens))
        for each in kinds
    )
    return EngineLoad(
        tuple(kinds),
        workload,
        cache["enable_prefix_caching"],
        _connector(config),
        running=sum(rates) * seconds,
        wanted=wanted,
        busy=min(computed / workload.prefill_tokens_per_second, MAX_BUSY),
        wait_seconds=seconds * max(wanted - 1, 0.0),  # Little's law: requests wait, and running ones are preempted
    )


def _connector(config: Mapping[str, Any]) -> Literal["host", "p2p"] | None:
    if config.get("kv_transfer_config"):
        return "p2p"
    return "host" if config["cache_config"].get("kv_offloading_size") else None


def _per_second(replica: DemoReplica, prefixes: Prefixes, rank: int) -> float:
    percent = 100 - SPREAD_PERCENT + replica.draw(f"requests {rank} {prefixes}", 2 * SPREAD_PERCENT + 1)
    return replica.workload.per_minute / 60 * prefixes.share * percent / 100


def _has_affinity(replica: DemoReplica, cache: Mapping[str, Any]) -> bool:
    """Return whether the router of the pool finds the engine that has a prefix.

    One that computes block hashes finds those of its algorithm, root and block size, no others.
    """
    workload = replica.workload
    if workload.router != "prefix-hash":
        return workload.router == "approximate"
    policy = seed_policy(cache, dict(replica.configuration.environment))
    if workload.hash_algorithm is None:  # the router has the seed of the replicas, if they share one
        is_same = policy in {"default", "environment"}
    else:
        is_same = policy == "default" and cache["prefix_caching_hash_algo"] == workload.hash_algorithm
    return is_same and cache["block_size"] == workload.block_size


def _host_tokens(replica: DemoReplica, cache: Mapping[str, Any], capacity: Capacity) -> float:
    """Return the tokens for which the memory of the host has room: 0 without KV offloading."""
    devices = replica.configuration.tensor_parallel_size
    bytes_per_token = capacity.kv_cache_bytes_per_device * devices / capacity.kv_cache_size_tokens
    return float((cache.get("kv_offloading_size") or 0) * GIB / bytes_per_token)


def _whole_blocks(tokens: int, cache: Mapping[str, Any]) -> int:
    size: int = cache["block_size"]
    return tokens // size * size
