"""Start the dashboard in its own process."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dashboard.web import launch

ROOT = Path(__file__).parents[1]
END_SECONDS = 30  # longer than `serve` waits for its server
PATIENCE_SECONDS = 30.0  # for the collector of this process
START_SECONDS = 180  # on a machine with much else to do


def ask(app: Any, path: str, method: str = "GET", *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    """Ask an app in this process, as a server would."""

    async def answered() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(answered())


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def dashboard_on(config: Path, *, environment: Mapping[str, str] | None = None, path: str = "") -> Iterator[str]:
    """Serve a configuration file; yield the URL after the first poll. `path` is the URL prefix of the pages.

    Runs the server of `serve` without its command line.
    """
    port = free_port()
    command = launch.server_command("127.0.0.1", port)
    with started(command, environment={**launch.environment(config), **(environment or {})}):
        wait_until_healthy(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}{path}"


@contextmanager
def started(
    command: list[str], *, environment: Mapping[str, str] | None = None, cwd: Path = ROOT, **more: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start a program, by default in the project's folder, and end it; `more` are arguments of Popen.

    SIGINT and SIGHUP have their default handlers in it, also where the tests run in the background or under nohup.
    """
    previous = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **(environment or {})}, stderr=subprocess.PIPE, text=True, **more
    )
    signal.signal(signal.SIGINT, previous[0])
    signal.signal(signal.SIGHUP, previous[1])
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:  # Streamlit waits for open pages
            process.kill()
            process.communicate()


@contextmanager
def terminal() -> Iterator[Mapping[str, Any]]:
    """Open a terminal; yield the arguments of Popen that make it the controlling one. Its end sends SIGHUP."""
    outer, inner = os.openpty()
    try:
        yield {"start_new_session": True, "preexec_fn": lambda: fcntl.ioctl(inner, termios.TIOCSCTTY)}
    finally:
        os.close(inner)
        os.close(outer)


def wait_until_healthy(url: str) -> None:
    """Wait for the first complete poll."""
    ends_at = time.monotonic() + START_SECONDS
    while time.monotonic() < ends_at:
        try:
            if httpx2.get(f"{url}/healthz", timeout=5, trust_env=False).status_code == httpx2.codes.OK:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail(f"{url}/healthz was not 200 within {START_SECONDS} s")


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the collector's thread fulfils a condition."""
    ticks = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.02)):
        if condition():
            return
        ticks.wait(0.02)
    pytest.fail("the collector did not get there")


def upgrade(port: int, path: str = "/_stcore/stream", headers: Mapping[str, str] | None = None) -> bytes:
    """A websocket handshake as Streamlit's page makes it, without an Origin."""
    fields = {
        "Host": f"127.0.0.1:{port}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "streamlit",
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()
