"""Overhead of the provider in a live vLLM server: start time, inference throughput, answer latency.

`make bench-vllm` runs it.
"""

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from tests.live.installed import install
from tests.live.servers import CONFIG, Kind, Server, running
from vllm_fleet_provider.switch import NAME

WITHOUT, WITH = Kind("without", "llama"), Kind("with", "llama", plugins=(NAME,))
STARTS = 2  # of each; the second time in the other order
ROUNDS = 24  # of each pair of servers: one batch each, in turn
COMPLETIONS, AT_ONCE, TOKENS = 50, 8, 8  # of a batch; tokens of a completion
GETS = 200
LEAST = 0.95  # of the throughput without: what two servers without it differ by on a quiet machine
TIMEOUT = 60


class Cost(NamedTuple):
    """Seconds of one completion: wall time, and CPU time of all server processes."""

    wall: float
    cpu: float


def batch(server: Server, number: int) -> Cost:
    """Request completions of prompts that are not cached."""
    began, cpu = time.perf_counter(), cpu_seconds(server.pid)
    asyncio.run(_completed(server.url, number))
    return Cost((time.perf_counter() - began) / COMPLETIONS, (cpu_seconds(server.pid) - cpu) / COMPLETIONS)


def cpu_seconds(pid: int) -> float:
    """Return what a process and its descendants used so far (proc(5), /proc/pid/stat: fields 4, 14 and 15)."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            parents[int(file.parent.name)] = int(fields[1])
            ticks[int(file.parent.name)] = int(fields[11]) + int(fields[12])
    tree = {pid}
    while more := {each for each, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(ticks.get(each, 0) for each in tree) / os.sysconf("SC_CLK_TCK")


async def _completed(url: str, number: int) -> None:
    waiting = iter(range(COMPLETIONS))
    async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT, trust_env=False) as client:

        async def work() -> None:
            for one in waiting:
                prompt = [3 + number % 1000, 3 + one, *range(3, 33)]
                response = await client.post("/v1/completions", json=_body(prompt))
                response.raise_for_status()

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


def _body(prompt: list[int]) -> dict[str, Any]:
    common = {"temperature": 0, "ignore_eos": True, "detokenize": False}
    return {"model": "./llama", "prompt": prompt, "max_tokens": TOKENS, **common}


def compared(servers: Sequence[Server]) -> list[tuple[Cost, Cost]]:
    """Return (without, with) the provider, a pair per round; the first server alternates."""
    for server in servers:
        batch(server, 0)
    found = []
    for number in range(1, ROUNDS + 1):
        order = servers if number % 2 else list(reversed(servers))
        costs = {server.kind.name: batch(server, number) for server in order}
        found.append((costs[WITHOUT.name], costs[WITH.name]))
    return found


def latency(server: Server, path: str, **headers: str) -> list[float]:
    """Return the milliseconds that each GET takes."""
    found = []
    with httpx2.Client(base_url=server.url, headers=headers, timeout=TIMEOUT, trust_env=False) as client:
        for _ in range(GETS):
            began = time.perf_counter()
            assert not client.get(path).is_error
            found.append(1000 * (time.perf_counter() - began))
    return found


def main() -> int:
    """Print the table; return 1 if inference is slower with the provider than servers usually differ."""
    venv = Path(os.environ["VLLM_VENV"])
    rounds: list[tuple[Cost, Cost]] = []
    seconds: dict[str, list[float]] = {WITHOUT.name: [], WITH.name: []}
    gets: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        site = install(venv, Path(name))
        for turn in range(STARTS):
            kinds = (WITHOUT, WITH) if turn % 2 == 0 else (WITH, WITHOUT)
            with ExitStack() as stack:
                servers: list[Server] = []
                for kind in kinds:
                    began = time.perf_counter()
                    servers += stack.enter_context(running([kind], venv, Path(name), (site,)))
                    seconds[kind.name].append(time.perf_counter() - began)
                rounds += compared(servers)
                gets = _gets(next(server for server in servers if server.kind == WITH))
    throughput = [without.wall / with_it.wall for without, with_it in rounds]
    _print(throughput, [with_it.cpu / without.cpu for without, with_it in rounds], seconds, gets)
    return int(statistics.median(throughput) < LEAST)


def _gets(server: Server) -> dict[str, list[float]]:
    tag = server.get(CONFIG).headers["etag"]
    return {
        "GET /v1/models": latency(server, "/v1/models"),
        f"GET {CONFIG}": latency(server, CONFIG),
        f"GET {CONFIG}?full=true": latency(server, f"{CONFIG}?full=true"),
        f"GET {CONFIG}, 304": latency(server, CONFIG, **{"If-None-Match": tag}),
    }


def _print(
    throughput: list[float], cpu: list[float], seconds: dict[str, list[float]], gets: dict[str, list[float]]
) -> None:
    print(f"throughput, with / without             {_spread(throughput)} (budget {LEAST} or more)")
    print(f"CPU of a completion, with / without    {_spread(cpu)}")
    for name, values in seconds.items():
        print(f"start to ready, {name:8}               {', '.join(f'{each:.1f}' for each in values)} s")
    for name, values in gets.items():
        print(f"{name:38} {statistics.median(values):.2f} ms, at most {max(values):.2f} ms")


def _spread(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f}, half of {len(ratios)} rounds between {low:.3f} and {high:.3f}"


if __name__ == "__main__":
    sys.exit(main())
