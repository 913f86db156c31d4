"""Starting the dashboard's web server, and ending it."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.options import FILE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

APP = Path(__file__).parent / "ui" / "app.py"  # Streamlit reads .streamlit/config.toml beside it
STOP_SECONDS = 10  # the server ends within a second, unless a poll hangs; then it is killed


def streamlit_command(address: str, port: int) -> list[str]:
    """Return the command that serves the pages."""
    options = [f"--server.address={address}", f"--server.port={port}", "--logger.hideWelcomeMessage=true"]
    return [sys.executable, "-m", "streamlit", "run", str(APP), "--server.headless=true", *options]


def environment(config: Path | None) -> Mapping[str, str]:
    """Return this process's environment, with the file of options named in it."""
    named = {FILE_VARIABLE: str(config.absolute())} if config is not None else {}
    return {**os.environ, **named}


def is_free(address: str, port: int) -> bool:
    """Tell whether nobody listens there yet; what cannot be bound for another reason is left to the server to say."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def run_dashboard(address: str, port: int, config: Path | None) -> int:
    """Run the web server until it ends or somebody ends this process; return its exit code, 0 after Ctrl-C.

    It has a session of its own, so that Ctrl-C reaches this process alone, which ends it without a word.
    """
    command = streamlit_command(address, port)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    process = subprocess.Popen(command, env=environment(config), start_new_session=True)  # noqa: S603  our own
    try:
        return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, previous)
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
