"""The dashboard in a process of its own."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from dashboard.web import launch

ROOT = Path(__file__).parents[1]
END_SECONDS = 30  # longer than `serve` waits for its server
START_SECONDS = 180  # on a machine with much else to do


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def dashboard_on(config: Path, *, environment: Mapping[str, str] | None = None, path: str = "") -> Iterator[str]:
    """Serve a file of options; yield the address once the first poll has ended. `path` is the prefix of its pages.

    It is the server that `serve` runs, without reading the command line.
    """
    port = free_port()
    command = launch.server_command("127.0.0.1", port)
    with started(command, environment={**launch.environment(config), **(environment or {})}):
        wait_until_healthy(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}{path}"


@contextmanager
def started(
    command: list[str], *, environment: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> Iterator[subprocess.Popen[str]]:
    """Start a program, in the project's folder unless another is named, and end it.

    Ctrl-C and SIGHUP end it as they do in a terminal, also where these tests run in the background of a shell or under
    nohup, which ignore them.
    """
    previous = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **(environment or {})}, stderr=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, previous[0])
    signal.signal(signal.SIGHUP, previous[1])
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:  # Streamlit waits for pages that are open; `serve` kills it, too
            process.kill()
            process.communicate()


def wait_until_healthy(url: str) -> None:
    """Wait for the first complete poll."""
    ends_at = time.monotonic() + START_SECONDS
    while time.monotonic() < ends_at:
        try:
            if httpx.get(f"{url}/healthz", timeout=5, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail(f"{url}/healthz was not 200 within {START_SECONDS} s")
