"""What the gate costs: API requests with a token or a session, and pages, against a server without a gate.

Run it with `python -m tests.benchmarks.bench_access`. Both servers show a simulated fleet that is polled once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from playwright.sync_api import Browser

from dashboard.config import FILE_VARIABLE
from dashboard.demo import default_fleet, in_thread, targets
from tests.benchmarks.bench_pages import TICKS_PER_SECOND, drawn, drawn_in, ticks
from tests.benchmarks.measures import Row, print_table
from tests.browser import chromium, tab
from tests.serving import free_port, started, wait_until_healthy

REPLICAS = 12  # the smaller the documents, the larger the share of the gate
REQUESTS, ROUNDS, TURNS = 300, 5, 6
PAGES = ("/", "/compare")
TOKEN = "fleet_of_the_benchmark_0123456789abcdefghijklmnop"
ACCESS = {
    "mode": "proxy",  # without a token and a session nobody gets in
    "trusted_proxies": ["192.0.2.1"],
    "roles": {"viewer": ["*"]},
    "tokens": [{"name": "bench", "role": "viewer", "sha256": sha256(TOKEN.encode()).hexdigest()}],
}
BEARER = {"Authorization": f"Bearer {TOKEN}"}
API, DRAWN = 1.2, 1.1  # times a server without a gate
GATED = "from dashboard.web import launch; launch.serve('127.0.0.1', {port}, None)"
BARE = f"from dashboard.web import edge; edge.Gate = lambda app, *_: app; {GATED}"


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    with ExitStack() as stack:
        server = stack.enter_context(in_thread(default_fleet(REPLICAS)))
        listed = targets(server.fleet, server.port)
        bare = stack.enter_context(_serving(BARE, {}, listed))
        gated = stack.enter_context(_serving(GATED, {"access": ACCESS}, listed))
        rows = _api(bare, gated)
        browser = stack.enter_context(chromium())
        rows += [_page(browser, page, bare[0], gated[0]) for page in PAGES]
    return print_table(rows, "times a server without a gate")


@contextmanager
def _serving(code: str, options: Mapping[str, object], listed: list[dict[str, object]]) -> Iterator[tuple[str, int]]:
    port = free_port()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "targets.json").write_text(json.dumps(listed))
        config = folder / "fleet.yaml"
        own = {"data_folder": str(folder / "data"), "file_sd": [{"files": ["targets.json"]}], **options}
        config.write_text(json.dumps({**own, "poll": {"interval_seconds": 3600}}))
        with started(
            [sys.executable, "-c", code.format(port=port)], environment={FILE_VARIABLE: str(config)}
        ) as process:
            wait_until_healthy(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}", process.pid


def _api(bare: tuple[str, int], gated: tuple[str, int]) -> list[Row]:
    """Ask in turns, so that what disturbs the machine disturbs all."""
    with ExitStack() as stack:
        clients = [
            (stack.enter_context(httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=30)), pid)
            for (url, pid), headers in ((bare, {}), (gated, BEARER), (gated, {}))
        ]
        clients[2][0].post("/auth/token", headers=BEARER).raise_for_status()  # keeps the cookie
        rows = []
        for path in ("/api/v1/findings", "/metrics"):
            seconds: list[list[float]] = [[], [], []]
            for _ in range(ROUNDS):
                for (client, pid), taken in zip(clients, seconds, strict=True):
                    taken.append(_seconds(client, pid, path))
            alone, with_token, with_session = (min(taken) for taken in seconds)
            print(f"{path} without a gate: {1000 * alone / REQUESTS:.2f} ms of processor time a request")
            rows.append(Row(f"{path} with a token", with_token / alone, API))
            rows.append(Row(f"{path} with a session", with_session / alone, API))
    return rows


def _seconds(client: httpx2.Client, pid: int, path: str) -> float:
    """Return the processor time of the server for many requests."""
    began = ticks(pid)
    for _ in range(REQUESTS):
        client.get(path).raise_for_status()
    return (ticks(pid) - began) / TICKS_PER_SECOND


def _page(browser: Browser, page: str, bare: str, gated: str) -> Row:
    """Draw a page in turns; the fastest of each counts: what disturbs the machine only ever adds to it."""
    alone, signed_in = [], []
    for _ in range(TURNS):
        alone.append(drawn(browser, f"{bare}{page}"))
        with tab(browser) as opened:
            opened.request.post(f"{gated}/auth/token", headers=BEARER)
            signed_in.append(drawn_in(opened, f"{gated}{page}"))
    return Row(f"{page} drawn warm", min(signed_in) / min(alone), DRAWN)


if __name__ == "__main__":
    sys.exit(main())
