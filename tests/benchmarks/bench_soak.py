"""What hours of polls and sessions leave in the server: memory, descriptors and threads, minute by minute.

Run it with `python -m tests.benchmarks.bench_soak --minutes 14`. The dashboard runs in a process of its own and polls
at a raised rate: replicas that restart with another configuration, hostile ones, and sessions that open pages.
`--steady 1000` polls that many replicas that do not change instead, as often as an hour of 15 s has polls.
"""

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import httpx2
from prometheus_client.parser import text_string_to_metric_families
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from dashboard.demo import default_fleet, in_thread, targets
from dashboard.demo.describe import Behaviour
from tests.benchmarks.measures import process_megabytes, process_status, served
from tests.sources.polling.hostile import (
    CAPTURE,
    Exchange,
    HostileServer,
    answers,
    changed_metrics,
    everywhere,
    tiny_objects,
    trickles,
)

CHURNING, SESSIONS = 60, 8
MINUTES = 4.0
INTERVAL_SECONDS = 3.0  # instead of 15: a minute of this is five of a server's
POLLS_OF_AN_HOUR = 240
SAMPLES_A_MINUTE = 4
SLOPE_BUDGET = 1.0  # MB a minute, in the second half
MEMORY_BUDGET = 400.0  # MB, of a fleet that does not change
BIG_SETTINGS = 3_000  # 110 KB
PAGES = ("", "findings", "compare?pool=chat-0", "capacity", "replicas", "review", "snapshots", "compare?pool=chat-1")
TURNS = 12  # pages that a session opens before its reader closes the tab


class Sample(NamedTuple):
    """What the server holds at a time, in minutes since the start."""

    minute: float
    megabytes: float
    descriptors: int
    threads: int
    polls: int


def main() -> int:
    """Print a line a minute, and the slope next to its budget; return 1 when it is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--steady", type=int, default=0, metavar="REPLICAS")
    return run(**vars(parser.parse_args()))


def run(minutes: float = MINUTES, steady: int = 0) -> int:
    """Do what `main` does."""
    with ExitStack() as stack:
        listed = _steady_fleet(stack, steady) if steady else _churning_fleet(stack)
        poll = {"interval_seconds": 1.0 if steady else INTERVAL_SECONDS, "replica_timeout_seconds": 5}
        url, pid = stack.enter_context(served({"name": "soak", "poll": poll}, listed))
        if steady:
            samples = asyncio.run(_watched(url, pid, sessions=0, enough=lambda last: last.polls >= POLLS_OF_AN_HOUR))
        else:
            samples = asyncio.run(_watched(url, pid, sessions=SESSIONS, enough=lambda last: last.minute >= minutes))
    half = samples[len(samples) // 2 :]
    slope = statistics.linear_regression([each.minute for each in half], [each.megabytes for each in half]).slope
    most = max(each.megabytes for each in samples)
    name, figure, budget = (
        ("most memory, MB", most, MEMORY_BUDGET) if steady else ("slope, MB/min", slope, SLOPE_BUDGET)
    )
    print(f"{samples[-1].polls} polls; most memory {most:.0f} MB; second half {slope:+.2f} MB a minute")
    print(f"{name:<60}{figure:>10.2f}{budget:>10.2f}{figure / budget:>10.0%}")
    return int(figure > budget)


def _steady_fleet(stack: ExitStack, number: int) -> list[dict[str, object]]:
    fleet = [each for each in default_fleet(2 * number) if each.behaviour is Behaviour.NORMAL][:number]
    return targets(fleet, stack.enter_context(in_thread(fleet)).port)


def _churning_fleet(stack: ExitStack) -> list[dict[str, object]]:
    server = stack.enter_context(HostileServer())
    names = [f"churning-{number}" for number in range(CHURNING)]
    for number, name in enumerate(names):
        server.replica(name)
        server.routes[f"/{name}/server_info"] = _changing(lambda turn: _server_info({"turn": turn}))
        _restarts(server, name, number % 4)
    for name, behaviour in _hostile().items():
        names.append(name)
        everywhere(server, name, behaviour)
        _restarts(server, name, 4)
    return [{"targets": [f"{server.address}/{name}"], "labels": {"name": name}} for name in names]


def _hostile() -> dict[str, Callable[[Exchange], Awaitable[None]]]:
    card = {"object": "model", "created": 1, "owned_by": "x", "max_model_len": 2048}
    return {
        "big": _changing(lambda turn: _server_info({f"s{n}": f"{turn}-{n}-{'x' * 20}" for n in range(BIG_SETTINGS)})),
        "renamed": _changing(lambda turn: _server_info({f"s{turn}-{n}": n for n in range(BIG_SETTINGS)})),
        "adapters": _changing(
            lambda turn: json.dumps(
                {"data": [{**card, "id": f"{turn}-{n}", "parent": "m"} for n in range(900)]}
            ).encode()
        ),
        "models": _changing(lambda turn: json.dumps({"data": [{**card, "id": f"model-{turn}", "root": "x"}]}).encode()),
        "labels": _changing(lambda turn: changed_metrics(cache_dtype=f"{turn}" * 400)),
        "tiny": answers(tiny_objects(2**20)),
        "drips": trickles,
        "broken": _changing(lambda turn: f'{{"password": "{turn}'.encode() * 4_000),
    }


def _changing(body: Callable[[int], bytes]) -> Callable[[Exchange], Awaitable[None]]:
    turns = itertools.count()

    async def behave(exchange: Exchange) -> None:
        await exchange.reply(body(next(turns)))

    return behave


def _server_info(extra: dict[str, object]) -> bytes:
    """Return the recorded configuration with a part that no other answer has."""
    info = json.loads((CAPTURE / "server_info.json").read_bytes())
    info["vllm_config"]["additional_config"] = {**extra, "nonce": random.random()}  # noqa: S311
    return json.dumps(info).encode()


def _restarts(server: HostileServer, name: str, pool: int) -> None:
    """Restart a replica before each poll, so that every endpoint is polled, in a separate pool."""
    page = (CAPTURE / "metrics.txt").read_bytes()
    starts = itertools.count(1_700_000_000)

    def body(_turn: int) -> bytes:
        lines = [line for line in page.splitlines() if not line.startswith(b"process_start_time_seconds ")]
        return b"\n".join([*lines, b"process_start_time_seconds %d" % next(starts), b""])

    server.routes[f"/{name}/metrics"] = _changing(body)
    if pool < 4:
        card = {"id": f"chat-{pool}", "object": "model", "root": "x", "max_model_len": 2048}
        server.routes[f"/{name}/v1/models"] = answers(json.dumps({"data": [card]}).encode())


async def _watched(url: str, pid: int, *, sessions: int, enough: Callable[[Sample], bool]) -> list[Sample]:
    """Sample the server until it is enough, while sessions look around."""
    began = time.monotonic()
    samples: list[Sample] = []
    opened = [0]
    tasks = [asyncio.create_task(_looks_around(url, number, opened)) for number in range(sessions)]
    print(f"{'minute':>8}{'MB':>10}{'files':>8}{'threads':>9}{'polls':>8}{'pages':>8}")
    try:
        while not samples or not enough(samples[-1]):
            await asyncio.sleep(60 / SAMPLES_A_MINUTE)
            minute = (time.monotonic() - began) / 60
            samples.append(await asyncio.to_thread(_sample, url, pid, minute))
            if len(samples) % SAMPLES_A_MINUTE == 0:
                last = samples[-1]
                row = f"{last.minute:>8.1f}{last.megabytes:>10.1f}{last.descriptors:>8}{last.threads:>9}{last.polls:>8}"
                print(f"{row}{opened[0]:>8}", flush=True)
    finally:
        for task in tasks:
            task.cancel()
        failed = [each for each in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(each, Exception)]
    if failed:
        raise failed[0]
    return samples


def _sample(url: str, pid: int, minute: float) -> Sample:
    page = httpx2.get(f"{url}/metrics", timeout=30, trust_env=False).text
    polls = next(each for each in text_string_to_metric_families(page) if each.name == "vllm_fleet_polls")
    return Sample(
        minute,
        process_megabytes(pid),
        len(list(Path(f"/proc/{pid}/fd").iterdir())),
        int(process_status(pid)["Threads"]),
        int(polls.samples[0].value),
    )


async def _looks_around(url: str, number: int, opened: list[int]) -> None:
    """Open page after page as a browser does, over a websocket; now and then in a new tab."""
    pages = itertools.islice(itertools.cycle(PAGES), number, None)
    async with aiohttp.ClientSession() as client:
        while True:
            with suppress(aiohttp.ClientConnectionError):
                async with client.ws_connect(
                    f"{url}/_stcore/stream", protocols=["streamlit"], origin=url, max_msg_size=0
                ) as socket:
                    for page in itertools.islice(pages, TURNS):
                        await _open(socket, page)
                        opened[0] += 1
                        await asyncio.sleep(1)


async def _open(socket: aiohttp.ClientWebSocketResponse, address: str) -> None:
    """Ask for a page and wait until it is drawn."""
    ask = BackMsg()
    ask.rerun_script.page_name, _, ask.rerun_script.query_string = address.partition("?")
    await socket.send_bytes(ask.SerializeToString())
    async for message in socket:
        if (
            message.type is aiohttp.WSMsgType.BINARY
            and ForwardMsg.FromString(message.data).WhichOneof("type") == "script_finished"
        ):
            return


if __name__ == "__main__":
    sys.exit(main())
