"""Starting the dashboard's web server, in place of this process or beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.options import FILE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

APP = Path(__file__).parents[1] / "app.py"
STOP_SECONDS = 10  # the server ends within a second, unless a poll hangs


def streamlit_command(address: str, port: int) -> list[str]:
    """Return the command that serves the pages."""
    options = [f"--server.address={address}", f"--server.port={port}", "--logger.hideWelcomeMessage=true"]
    return [sys.executable, "-m", "streamlit", "run", str(APP), "--server.headless=true", *options]


def environment(config: Path | None) -> Mapping[str, str]:
    """Return this process's environment, with the file of options named in it."""
    named = {FILE_VARIABLE: str(config.absolute())} if config is not None else {}
    return {**os.environ, **named}


def become_dashboard(address: str, port: int, config: Path | None) -> None:
    """Turn this process into the web server, so that signals reach it."""
    command = streamlit_command(address, port)
    sys.stderr.flush()
    os.execve(command[0], command, environment(config))  # noqa: S606  our own interpreter


def run_dashboard(address: str, port: int, config: Path) -> int:
    """Run the web server until it ends or somebody ends this process; return its exit code, 0 after Ctrl-C."""
    process = subprocess.Popen(streamlit_command(address, port), env=environment(config))  # noqa: S603  the same
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, previous)
        process.terminate()
        process.wait(STOP_SECONDS)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
