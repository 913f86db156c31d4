"""What the provider costs a live vLLM server: time to start, throughput of inference, and how fast it answers.

Run it with `VLLM_VENV=.vllm python -m tests.benchmarks.bench_provider`; see tests/live/make-venv.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from dashboard.provider.switch import NAME
from tests.live.installed import install
from tests.live.servers import CONFIG, Kind, Server, running

if TYPE_CHECKING:
    from collections.abc import Sequence

WITHOUT, WITH = Kind("without", "llama"), Kind("with", "llama", plugins=(NAME,))
STARTS = 2  # of each; the second time in the other order
ROUNDS = 6  # of each pair of servers: one batch each, in turn
COMPLETIONS, AT_ONCE, TOKENS = 100, 8, 8  # of a batch; tokens of a completion
GETS = 200
LEAST = 0.95  # of the throughput without: what two servers without it differ by on a quiet machine
TIMEOUT = 60


async def batch(url: str, number: int) -> float:
    """Let a server make completions of prompts that no cache holds; return how many a second."""
    waiting = iter(range(COMPLETIONS))
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT, trust_env=False) as client:

        async def work() -> None:
            for one in waiting:
                prompt = [3 + number % 1000, 3 + one, *range(3, 33)]
                response = await client.post("/v1/completions", json=_body(prompt))
                response.raise_for_status()

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())
        return COMPLETIONS / (time.perf_counter() - began)


def _body(prompt: list[int]) -> dict[str, Any]:
    common = {"temperature": 0, "ignore_eos": True, "detokenize": False}
    return {"model": "./llama", "prompt": prompt, "max_tokens": TOKENS, **common}


def compared(servers: Sequence[Server]) -> list[float]:
    """Return the throughput with the provider as a part of that without, a number per round."""
    for server in servers:
        asyncio.run(batch(server.url, 0))
    ratios = []
    for number in range(1, ROUNDS + 1):
        order = servers if number % 2 else list(reversed(servers))
        told = {server.kind.name: asyncio.run(batch(server.url, number)) for server in order}
        ratios.append(told[WITH.name] / told[WITHOUT.name])
        print(f"  {told[WITHOUT.name]:7.1f} without, {told[WITH.name]:7.1f} with, completions a second", flush=True)
    return ratios


def latency(server: Server, path: str, **headers: str) -> list[float]:
    """Return the milliseconds that each GET takes."""
    found = []
    with httpx.Client(base_url=server.url, headers=headers, timeout=TIMEOUT, trust_env=False) as client:
        for _ in range(GETS):
            began = time.perf_counter()
            assert not client.get(path).is_error
            found.append(1000 * (time.perf_counter() - began))
    return found


def main() -> int:
    """Print the table; return 1 when inference is slower with the provider than servers differ by anyway."""
    venv = Path(os.environ["VLLM_VENV"])
    ratios: list[float] = []
    seconds: dict[str, list[float]] = {WITHOUT.name: [], WITH.name: []}
    gets: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        site = install(venv, Path(name))
        for turn in range(STARTS):
            kinds = (WITHOUT, WITH) if turn % 2 == 0 else (WITH, WITHOUT)
            with ExitStack() as stack:
                servers = []
                for kind in kinds:
                    began = time.perf_counter()
                    servers += stack.enter_context(running([kind], venv, Path(name), (site,)))
                    seconds[kind.name].append(time.perf_counter() - began)
                ratios += compared(servers)
                gets = _gets(next(server for server in servers if server.kind == WITH))
    _print(ratios, seconds, gets)
    return int(statistics.median(ratios) < LEAST)


def _gets(server: Server) -> dict[str, list[float]]:
    tag = server.get(CONFIG).headers["etag"]
    return {
        "GET /v1/models": latency(server, "/v1/models"),
        f"GET {CONFIG}": latency(server, CONFIG),
        f"GET {CONFIG}?full=true": latency(server, f"{CONFIG}?full=true"),
        f"GET {CONFIG}, 304": latency(server, CONFIG, **{"If-None-Match": tag}),
    }


def _print(ratios: list[float], seconds: dict[str, list[float]], gets: dict[str, list[float]]) -> None:
    low, high = min(ratios), max(ratios)
    print(f"throughput with / without: {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}, {len(ratios)} rounds)")
    for name, told in seconds.items():
        print(f"start to ready, {name:8} {', '.join(f'{each:.1f}' for each in told)} s")
    for name, told in gets.items():
        print(f"{name:40} {statistics.median(told):6.2f} ms, at most {max(told):6.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
