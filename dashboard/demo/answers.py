"""One process of a simulated replica, and what it answers to a path at a time."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from dashboard.demo.describe import Behaviour
from dashboard.demo.memory import capacity
from dashboard.demo.pages import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboard.demo.describe import DemoReplica
    from dashboard.demo.pages import Rendered

GUARDED = ("/v1", "/v2", "/inference", "/cohere")  # vllm/entrypoints/openai/api_server.py, AuthenticationMiddleware
NANOSECONDS = 1_000_000_000
FIRST_FREE_PORT, FREE_PORTS = 32_768, 28_232  # Linux: net.ipv4.ip_local_port_range
MIN_DIGITS = 6  # the Prometheus client writes numbers of more digits with an exponent

NOT_A_SERVER = b"""<!DOCTYPE html>
<html><head><title>Sign in</title></head>
<body><h1>Sign in</h1><form action="/login" method="post"><input name="user"></form></body></html>
"""


class Answer(NamedTuple):
    """A complete HTTP answer. No `content_type`: no body either."""

    status: int
    content_type: bytes
    body: bytes


NOT_FOUND = Answer(404, JSON, b'{"detail":"Not Found"}')
NOT_ALLOWED = Answer(405, JSON, b'{"detail":"Method Not Allowed"}')
UNAUTHORIZED = Answer(401, JSON, b'{"error":"Unauthorized"}')


@dataclass(frozen=True, slots=True)
class Process:
    """A replica since its last start. `slots` is what its pages leave open, but for what grows with time."""

    replica: DemoReplica
    rendered: Rendered
    started_at: float
    slots: Mapping[str, bytes]

    @classmethod
    def start(cls, replica: DemoReplica, rendered: Rendered, at: float) -> Process:
        """Start a replica at a time, in seconds since 1970, with the pages of its configuration."""
        return cls(replica, rendered, at, _identity(replica, at) | _capacity(replica, rendered.config))

    def answer(self, method: str, path: str, authorization: str | None, now: float) -> Answer:
        """Return what is answered to a request without body; `path` without its query."""
        behaviour, key = self.replica.behaviour, self.replica.api_key
        if behaviour is Behaviour.HTML:
            return Answer(200, b"text/html; charset=utf-8", NOT_A_SERVER)
        if key and path.startswith(GUARDED) and authorization != f"Bearer {key}":
            return UNAUTHORIZED
        page = self.rendered.pages.get(path)
        if page is None:
            return NOT_FOUND
        if method != "GET":
            return NOT_ALLOWED
        body = page.body({**self.slots, **self.counters(now)} if page.slots else {})
        return Answer(200, page.content_type, body[: len(body) // 2] if behaviour is Behaviour.HALF else body)

    def counters(self, now: float) -> dict[str, bytes]:
        """Return what grows while the process runs, at a steady rate of its own, and what goes up and down."""
        replica, uptime = self.replica, max(now - self.started_at, 0.0)
        requests = int(uptime * (1 + replica.draw("requests", 40)) / 10)
        prompt = requests * (900 + replica.draw("prompt", 600))
        running = replica.draw(f"running {int(now)}", 24)
        values = {
            "requests": requests,
            "prompt_tokens": prompt,
            "prefix_queries": prompt,
            "prefix_hits": prompt * (35 + replica.draw("hits", 30)) // 100,
            "generation_tokens": requests * (150 + replica.draw("generation", 200)),
            "cpu_seconds": round(40 + uptime / 3, 2),
            "running": running,
            "kv_cache_usage": running / 32,
        }
        counted = {name: _number(value).encode() for name, value in values.items()}
        return counted | {"load": str(running).encode(), "now": str(int(now)).encode()}


def _identity(replica: DemoReplica, at: float) -> dict[str, bytes]:
    """Return what tells this process from every other one, in this fleet and in time."""
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
        "created": _number(at + 19 + replica.draw("loading", 40)),  # weights are loaded before metrics exist
        "master_port": 29_501,
    }
    for name in ("master_port", "coord_store_port", "side_channel_port"):
        values[name] = (
            FIRST_FREE_PORT + int.from_bytes(hashlib.sha256(digest + name.encode()).digest()[:4]) % FREE_PORTS
        )
    return {name: str(value).encode() for name, value in values.items()}


def _capacity(replica: DemoReplica, config: Mapping[str, Any]) -> dict[str, bytes]:
    found = capacity(replica, config)
    naive = found.num_gpu_blocks * config["cache_config"]["block_size"]
    values = {
        "num_gpu_blocks": found.num_gpu_blocks,
        "kv_cache_size_tokens": found.kv_cache_size_tokens,
        "kv_cache_max_concurrency": found.max_concurrency,
        "naive_tokens": naive,
        "naive_concurrency": naive / config["model_config"]["max_model_len"],
    }
    return {name: str(value).encode() for name, value in values.items()}


def _number(value: float) -> str:
    """Write a number as the Prometheus client does: 1.79517157768e+09."""
    text = repr(float(value))
    dot = text.find(".")
    if "e" in text or dot <= MIN_DIGITS:
        return text
    digits = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
    return f"{digits}e+{dot - 1:02}"
