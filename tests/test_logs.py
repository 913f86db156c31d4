"""FLEET_LOG_FORMAT=json: everything on standard error is one JSON object a line."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run
from tests.serving import ROOT, free_port, started, wait_until_healthy

RECORDS = r"""
import logging, sys, threading, warnings
from streamlit.logger import get_logger
early = get_logger("streamlit.early")
from dashboard.logs import follow_environment, write_event
follow_environment()
early.warning("pages")
late = get_logger("streamlit.late")
late.warning("later")
follow_environment()
late.warning("last")
logging.getLogger("dashboard.x").warning("a %s", "x\n{\"level\": \"critical\"}\u2028\x1b[31m")
try:
    raise ValueError("token=hunter2")
except ValueError:
    logging.getLogger("dashboard.y").exception("read failed")
warnings.warn("old")
print("one\ntwo", file=sys.stderr)
write_event({"audit": "delete", "visitor": "ann"}, "delete", "dashboard.access.audit")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise KeyError("hunter2")
"""


def objects(text: str) -> list[dict[str, Any]]:
    """Return the object of each line; every one has a time, a level, a logger and a message."""
    found = [json.loads(line) for line in text.splitlines()]
    for each in found:
        assert [*each][:4] == ["time", "level", "logger", "message"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each["time"])
    return found


def test_records_of_every_library_and_what_is_printed_are_objects_of_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RECORDS],
        cwd=ROOT,
        env={**os.environ, "FLEET_LOG_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = objects(done.stderr)
    by_logger = {each["logger"]: each for each in found}

    assert by_logger["streamlit.early"]["message"] == "pages"
    assert by_logger["streamlit.late"]["message"] == "last"
    assert by_logger["dashboard.x"]["message"] == 'a x\n{"level": "critical"}\u2028\x1b[31m'
    assert by_logger["dashboard.y"] | {"time": ""} == {
        "time": "",
        "level": "error",
        "logger": "dashboard.y",
        "message": "read failed",
        "exception": "ValueError",
    }
    assert "old" in by_logger["py.warnings"]["message"]
    assert [each["message"] for each in found if each["logger"] == "stderr"][-2:] == ["one", "two"]
    assert by_logger["dashboard.access.audit"]["visitor"] == "ann"
    assert [each["exception"] for each in found if each["level"] == "critical"] == ["ZeroDivisionError", "KeyError"]
    assert "hunter2" not in done.stderr
    assert done.stderr.isascii()
    assert done.stderr.count("\n") == len(found)


def test_a_server_writes_objects_from_its_start_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(
        f"targets: ['127.0.0.1:{free_port()}']\nhttp_sd: [{{url: 'http://127.0.0.1:9'}}]\n"
    )
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "dashboard",
        "serve",
        "--config",
        str(tmp_path / "fleet.yaml"),
        "--port",
        str(port),
    ]
    with started([*command, "--log-format", "json"]) as process:
        wait_until_healthy(f"http://127.0.0.1:{port}")
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"NONSENSE\r\n\r\n")
            connection.recv(100)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
    found = {each["logger"]: each["message"] for each in objects(text)}

    assert found["stderr"] == f"Dashboard on http://localhost:{port} (Ctrl-C to stop)"
    assert found["dashboard.service.collector"].startswith("a source of targets cannot be read: http://127.0.0.1:9")
    assert found["uvicorn.error"] == "Invalid HTTP request received."


def test_mistakes_in_the_options_are_objects_too(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("nam: x\n")
    done = subprocess.run(
        [sys.executable, "-m", "dashboard", "check", "--config", str(file)],
        cwd=ROOT,
        env={**os.environ, "FLEET_LOG_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert [each["message"] for each in objects(done.stderr)] == [
        f"exit 2: wrong options: {file}:1: nam: unknown key; did you mean name?"
    ]


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_another_format_is_wrong_usage(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_LOG_FORMAT", "logfmt")
    done = run(command)

    assert (done.exit_code, done.stdout) == (2, "")
    assert "'logfmt' is not one of 'text', 'json'" in done.stderr
