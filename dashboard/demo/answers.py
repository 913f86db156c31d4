"""One process of a simulated replica, and its answers."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from dashboard.demo.describe import Behaviour, DemoReplica, Speaks
from dashboard.demo.hashing import fingerprint
from dashboard.demo.memory import Capacity, capacities
from dashboard.demo.pages import JSON, RenderedPages, engine_slot
from dashboard.demo.provider import PATHS, full_page, page_name
from dashboard.demo.traffic import EngineLoad, engine_load
from vllm_fleet_provider.shared.digests import EngineDigests, digest_answer
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply

GUARDED = ("/v1", "/v2", "/inference", "/cohere")  # vllm/entrypoints/openai/api_server.py, AuthenticationMiddleware
NANOSECONDS = 1_000_000_000
FIRST_FREE_PORT, FREE_PORTS = 32_768, 28_232  # Linux: net.ipv4.ip_local_port_range
MIN_DIGITS = 6  # the Prometheus client writes numbers of more digits with an exponent

NOT_A_SERVER = b"""<!DOCTYPE html>
<html><head><title>Sign in</title></head>
<body><h1>Sign in</h1><form action="/login" method="post"><input name="user"></form></body></html>
"""


class DemoAnswer(NamedTuple):
    """A complete HTTP answer. No `content_type`: no body either."""

    status: int
    content_type: bytes
    body: bytes


NOT_FOUND = DemoAnswer(404, JSON, b'{"detail":"Not Found"}')
NOT_ALLOWED = DemoAnswer(405, JSON, b'{"detail":"Method Not Allowed"}')
WRONG_PARAMETER = DemoAnswer(400, JSON, b'{"error":{"message":"full or data_parallel_rank is wrong","code":400}}')
UNAUTHORIZED = DemoAnswer(401, JSON, b'{"error":"Unauthorized"}')


@dataclass(frozen=True, slots=True)
class DemoProcess:
    """A replica since its last start. `slots` are the values of its pages that do not change with time.

    `loads` are the requests to each engine.
    """

    replica: DemoReplica
    rendered: RenderedPages
    started_at: float
    slots: Mapping[str, bytes]
    loads: Sequence[EngineLoad]

    @classmethod
    def start(cls, replica: DemoReplica, rendered: RenderedPages, at: float) -> DemoProcess:
        """Start a replica at a time, in seconds since 1970, with the pages of its configuration."""
        config, identity = rendered.config, _identity(replica, at)
        held = capacities(replica, config)
        engines = _engines(replica, config, held, identity["instance_id"].decode())
        slots = identity | _capacity(config, held) | engines
        loads = [engine_load(replica, config, own, replica.dp_rank + index) for index, own in enumerate(held)]
        return cls(replica, rendered, at, slots | _digests(rendered, slots), loads)

    def answer(self, method: str, path: str, authorization: str | None, now: float, query: str = "") -> DemoAnswer:
        """Return the answer to a request without body; `path` is without its query."""
        behaviour, key = self.replica.behaviour, self.replica.api_key
        if behaviour is Behaviour.HTML:
            return DemoAnswer(200, b"text/html; charset=utf-8", NOT_A_SERVER)
        if key and path.startswith(GUARDED) and authorization != f"Bearer {key}":
            return UNAUTHORIZED
        pages = self.rendered.pages
        page = pages.get(path) or pages.get(page_name(path, query, self.replica.dp_rank))
        if page is None:
            is_providers = path in PATHS and Speaks.PROVIDER in self.replica.speaks
            return WRONG_PARAMETER if is_providers else NOT_FOUND
        if method != "GET":
            return NOT_ALLOWED
        body = page.body({**self.slots, **self.counters(now)} if page.slots else {})
        return DemoAnswer(200, page.content_type, body[: len(body) // 2] if behaviour is Behaviour.HALF else body)

    def counters(self, now: float) -> dict[str, bytes]:
        """Return the counters and gauges of each engine; those of the first have names without a prefix."""
        now = max(now, self.started_at)
        values: dict[str, float] = {"cpu_seconds": round(40 + (now - self.started_at) / 3, 2)}
        load = 0.0
        for index, engine in enumerate(self.loads):
            counts = engine.counts(self.started_at, now, self.replica.draw(f"running {index} {int(now)}", 100) / 100)
            values |= {engine_slot(index, name): value for name, value in counts.items()}
            load += counts["running"]
        counted = {name: _number(value).encode() for name, value in values.items()}
        return counted | {"load": str(int(load)).encode(), "now": str(int(now)).encode()}


def _identity(replica: DemoReplica, at: float) -> dict[str, bytes]:
    """Return the values that identify this process in the fleet and over restarts."""
    nanoseconds = int(at * NANOSECONDS) + replica.draw("instance", NANOSECONDS)
    digest = hashlib.sha256(f"{replica.seed} {replica.address} {nanoseconds}".encode()).digest()
    values: dict[str, object] = {
        "model": replica.configuration.served_name,
        "dp_rank": replica.dp_rank,
        "host_ip": replica.address.replace("127.1", "10.20", 1),
        "instance_id": nanoseconds,
        "engine_id": UUID(bytes=digest[:16], version=4),
        "shm_buffer_name": "vllm_mm_" + base64.urlsafe_b64encode(digest[16:]).decode().rstrip("="),
        "permission": digest[:8].hex(),
        "cache_key": digest[:5].hex(),
        "started_at": _number(at),
        "started_iso": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "created": _number(at + replica.draw("created", 1000) / 1000),
        "master_port": 29_501,
    }
    for name in ("master_port", "coord_store_port", "side_channel_port"):
        values[name] = (
            FIRST_FREE_PORT + int.from_bytes(hashlib.sha256(digest + name.encode()).digest()[:4]) % FREE_PORTS
        )
    return {name: str(value).encode() for name, value in values.items()}


def _capacity(config: Mapping[str, Any], engines: Sequence[Capacity]) -> dict[str, bytes]:
    """Return what the API server reports: the blocks of all its engines, and tokens and requests of the first."""
    first, *others = engines
    blocks = first.num_gpu_blocks + sum(other.num_gpu_blocks for other in others)
    naive = blocks * config["cache_config"]["block_size"]
    values = {
        "num_gpu_blocks": blocks,
        "kv_cache_size_tokens": first.kv_cache_size_tokens,
        "kv_cache_max_concurrency": first.max_concurrency,
        "naive_tokens": naive,
        "naive_concurrency": naive / config["model_config"]["max_model_len"],
    }
    return {name: str(value).encode() for name, value in values.items()}


def _engines(
    replica: DemoReplica, config: Mapping[str, Any], engines: Sequence[Capacity], process: str
) -> dict[str, bytes]:
    """Return the rank, capacity and fingerprint of each engine, as JSON."""
    values: dict[str, object] = {}
    digests = set()
    variables = dict(replica.configuration.environment)
    for index, held in enumerate(engines):
        rank = replica.dp_rank + index
        hashes = fingerprint(config["cache_config"], variables, f"{replica.seed} {replica.address} {process} {rank}")
        own = (
            held._asdict() | {"available_bytes": held.memory.get("available_bytes")} | hashes._asdict() | {"rank": rank}
        )
        values |= {f"engine_{index}_{name}": value for name, value in own.items()}
        digests.add(hashes.engine)
    values["engines_agree"] = None if None in digests else len(digests) == 1
    return {name: json.dumps(value).encode() for name, value in values.items()}


def _digests(rendered: RenderedPages, slots: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the digests of each engine as text. Block hashes are its own, the others those of its configuration."""
    values: dict[str, str | None] = {}
    engine = 0
    while page := rendered.pages.get(full_page(engine)):
        if engine not in rendered.digests:
            found = digest_answer(InferenceConfigReply.model_validate_json(page.body(slots)))
            rendered.digests[engine] = found or EngineDigests(engine)
        own = rendered.digests[engine]._replace(block_hash=json.loads(slots[f"engine_{engine}_engine"]))
        values |= {f"engine_{engine}_{name}": text for name, text in own._asdict().items() if name != "engine"}
        engine += 1
    return {name: (text or "").encode() for name, text in values.items()}


def _number(value: float) -> str:
    """Write a number as the Prometheus client does: 1.79517157768e+09."""
    text = repr(float(value))
    dot = text.find(".")
    if "e" in text or dot <= MIN_DIGITS:
        return text
    digits = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
    return f"{digits}e+{dot - 1:02}"
