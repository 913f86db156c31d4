"""What the pages cost at 1,000 replicas: a rerun, drawing in Chromium, open sessions, memory.

Run it with `python -m tests.benchmarks.bench_pages`. The dashboard runs in a process of its own against a simulated
fleet in this one; processor time and memory are read from /proc.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.demo import default_fleet, in_thread, targets
from dashboard.demo.describe import Behaviour
from tests.browser import chromium, settle, tab, visit
from tests.serving import free_port, started, wait_until_healthy

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPLICAS = 1_000
SESSIONS = 20
WATCHED_SECONDS = 20.0
PAGES = ("/", "/findings", "/compare?pool=chat-70b", "/capacity", "/replicas")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
BUDGETS = {"drawn": 1.0, "sessions": 15.0, "memory": 400.0}


def main() -> int:
    """Print figure, budget and share of the budget; return 1 when one is over."""
    fleet = [each for each in default_fleet(2 * REPLICAS) if each.behaviour is Behaviour.NORMAL][:REPLICAS]
    with ExitStack() as stack:
        server = stack.enter_context(in_thread(fleet))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "targets.json").write_text(json.dumps(targets(fleet, server.port)))
        config = folder / "fleet.yaml"
        config.write_text(json.dumps({"name": "bench", "file_sd": [{"files": ["targets.json"]}]}))
        port = free_port()
        command = [sys.executable, "-m", "dashboard", "serve", "--config", str(config), "--port", str(port)]
        process = stack.enter_context(started(command))
        wait_until_healthy(f"http://127.0.0.1:{port}")
        server_pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        browser = stack.enter_context(chromium())
        rows = [
            (f"{page} drawn warm, s", _drawn(browser, f"http://127.0.0.1:{port}{page}"), BUDGETS["drawn"])
            for page in PAGES
        ]
        alone = _busy(server_pid)
        with ExitStack() as tabs:
            for _ in range(SESSIONS):
                visit(tabs.enter_context(tab(browser)), f"http://127.0.0.1:{port}/")
            together = _busy(server_pid)
        rows.append((f"{SESSIONS} open sessions, % of a core above none", together - alone, BUDGETS["sessions"]))
        rows.append(("memory of the server, MB", _memory(server_pid), BUDGETS["memory"]))
        print(f"polling alone takes {alone:.1f} % of a core ({REPLICAS:,} replicas every 15 s)")
    for name, figure, budget in rows:
        print(f"{name:<60}{figure:>10.2f}{budget:>10.2f}{figure / budget:>10.0%}")
    return int(any(figure > budget for _, figure, budget in rows))


def _drawn(browser: Browser, url: str) -> float:
    """Return the median seconds from asking for a page to the page at rest, the settling apart."""
    with tab(browser) as page:
        visit(page, url)
        seconds = []
        for _ in range(5):
            page.goto("about:blank")
            began = time.perf_counter()
            page.goto(url)
            page.wait_for_function(
                "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
            )
            page.wait_for_selector("h1, h2, table, [data-testid=stDataFrame]")
            seconds.append(time.perf_counter() - began)
            settle(page)
    return statistics.median(seconds)


def _busy(pid: int) -> float:
    """Return how much of a core the process takes, in per cent, over a while."""
    before = _ticks(pid)
    time.sleep(WATCHED_SECONDS)
    return 100 * (_ticks(pid) - before) / TICKS_PER_SECOND / WATCHED_SECONDS


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _memory(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())
