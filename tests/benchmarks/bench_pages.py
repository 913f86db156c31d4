"""Cost of the pages at 1,000 replicas: drawing in Chromium, freezing, opening, open sessions, memory.

Run it with `python -m tests.benchmarks.bench_pages`. The dashboard runs in a separate process against a simulated
fleet in this one. Processor time and memory are read from /proc.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from playwright.sync_api import Browser, Page

from dashboard.demo import default_fleet, in_thread, targets
from dashboard.demo.describe import Behaviour
from tests.benchmarks.measures import Row, print_table, process_megabytes, served
from tests.browser import HEALTH, chromium, settle, tab, visit
from tests.serving import free_port, started

REPLICAS = 1_000
SESSIONS = 20
WATCHED_SECONDS = 20.0
NEXT_POLL_SECONDS = 20.0  # until there is another poll to freeze
LIVE = (
    *("/", "/findings", "/compare?pool=chat-70b", "/capacity", "/replicas", "/review", "/snapshots"),
    *("/settings", "/settings?path=cache_config.block_size", "/status"),
)
CAUSE = "/compare?pool=chat-70b&cause=cache_config.block_size"
FROZEN = (CAUSE, "/review", "/?")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Memory in MB: of the shown fleet, and with two more snapshots of 1,000 replicas each.
BUDGETS = {"drawn": 1.0, "sessions": 15.0, "memory": 400.0, "memory of three": 500.0, "stall": 1.0}
COLD = 1.5  # times an empty page of Streamlit
COLD_ROUNDS = 3
EMPTY = 'import streamlit as st\nst.title("Empty")\n'


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    with ExitStack() as stack:
        fleet = [each for each in default_fleet(2 * REPLICAS) if each.behaviour is Behaviour.NORMAL][:REPLICAS]
        server = stack.enter_context(in_thread(fleet))
        url, pid = stack.enter_context(served({"name": "bench"}, targets(fleet, server.port)))
        browser = stack.enter_context(chromium())
        rows = [_page_row(browser, url, page) for page in (*LIVE, CAUSE)]
        rows += _cold(browser, url)
        rows.append(Row("memory of the server, MB", process_megabytes(pid), BUDGETS["memory"]))
        rows += _saved(browser, url, pid)
        alone = _busy(pid)
        with ExitStack() as tabs:
            for _ in range(SESSIONS):
                visit(tabs.enter_context(tab(browser)), f"{url}/")
            together = _busy(pid)
        rows.append(Row(f"{SESSIONS} open sessions, % of a core above none", together - alone, BUDGETS["sessions"]))
        rows.append(Row("memory after them, MB", process_megabytes(pid), BUDGETS["memory of three"]))
        print(f"polling alone takes {alone:.1f} % of a core ({REPLICAS:,} replicas every 15 s)")
    return print_table(rows)


def _cold(browser: Browser, url: str) -> list[Row]:
    """Open each page without a cache, in turns with an empty page of Streamlit."""
    seconds: dict[str, list[float]] = {page: [] for page in ("", *LIVE)}
    port = free_port()
    with TemporaryDirectory() as folder:
        script = Path(folder) / "empty.py"
        script.write_text(EMPTY)
        flags = ["--server.headless=true", "--browser.gatherUsageStats=false", f"--server.port={port}"]
        with started([sys.executable, "-m", "streamlit", "run", str(script), *flags]):
            while not _is_served(f"http://127.0.0.1:{port}{HEALTH}"):
                time.sleep(0.1)
            for _ in range(COLD_ROUNDS):
                for page, taken in seconds.items():
                    context = browser.new_context()
                    taken.append(_opened(context.new_page(), f"{url}{page}" if page else f"http://127.0.0.1:{port}/"))
                    context.close()
    empty, *others = (statistics.median(taken) for taken in seconds.values())
    return [
        Row(f"{page} drawn cold, times an empty page", each / empty, COLD)
        for page, each in zip(LIVE, others, strict=True)
    ]


def _is_served(url: str) -> bool:
    try:
        return httpx2.get(url, trust_env=False).is_success
    except httpx2.TransportError:
        return False


def _saved(browser: Browser, url: str, pid: int) -> list[Row]:
    """Freeze two polls and open both; measure the waits of other requests and the memory."""
    with _others(url) as waits:
        first = _freeze(browser, url)
    rows = [Row("longest wait of others while one freezes, s", max(waits), BUDGETS["stall"])]
    rows.append(Row("memory after freezing once, MB", process_megabytes(pid), BUDGETS["memory"]))
    time.sleep(NEXT_POLL_SECONDS)
    second = _freeze(browser, url)
    with _others(url) as waits, tab(browser) as page:
        visit(page, f"{url}/?snapshot={first}")
    rows.append(Row("longest wait of others while one opens, s", max(waits), BUDGETS["stall"]))
    rows += [_page_row(browser, url, f"{page}&snapshot={first}".replace("review&", "review?")) for page in FROZEN]
    rows.append(_page_row(browser, url, f"/changes?from={first}&to={second}"))
    rows.append(Row("memory with two opened, MB", process_megabytes(pid), BUDGETS["memory of three"]))
    return rows


def _freeze(browser: Browser, url: str) -> str:
    """Freeze with the button; return the id."""
    with tab(browser) as page:
        visit(page, url)
        page.get_by_role("button", name="Share").click()
        page.get_by_role("button", name="Save snapshot").click()
        link = page.get_by_role("link", name="open it")
        link.wait_for()
        return str(link.get_attribute("href")).partition("snapshot=")[2].partition("&")[0]


@contextmanager
def _others(url: str) -> Iterator[list[float]]:
    """Send requests meanwhile; yield their durations in seconds."""
    waits: list[float] = []
    done = threading.Event()

    def ask() -> None:
        with httpx2.Client(trust_env=False, timeout=30) as client:
            while not done.wait(0.02):
                began = time.perf_counter()
                client.get(f"{url}/healthz")
                waits.append(time.perf_counter() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield waits
    finally:
        done.set()
        asking.join()


def _page_row(browser: Browser, url: str, page: str) -> Row:
    return Row(f"{page} drawn warm, s", drawn(browser, f"{url}{page}"), BUDGETS["drawn"])


def drawn(browser: Browser, url: str) -> float:
    """Return the median seconds from the request of a page until it is drawn."""
    with tab(browser) as page:
        return drawn_in(page, url)


def drawn_in(page: Page, url: str) -> float:
    """Return the same in a tab."""
    visit(page, url)
    seconds: list[float] = []
    for _ in range(5):
        page.goto("about:blank")
        seconds.append(_opened(page, url))
        settle(page)
    return statistics.median(seconds)


def _opened(page: Page, url: str) -> float:
    """Return the seconds until the script of a page has ended and its content is seen."""
    began = time.perf_counter()
    page.goto(url)
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
    )
    page.wait_for_selector("h1, h2, table, [data-testid=stDataFrame]")
    return time.perf_counter() - began


def _busy(pid: int) -> float:
    """Return the processor use of a process, in percent of a core."""
    before = ticks(pid)
    time.sleep(WATCHED_SECONDS)
    return 100 * (ticks(pid) - before) / TICKS_PER_SECOND / WATCHED_SECONDS


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


if __name__ == "__main__":
    sys.exit(main())
