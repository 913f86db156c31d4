"""An address that others reach needs the option `access`: else nothing is served."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dashboard.web import launch
from tests.commands import last_line, run
from tests.serving import ROOT, free_port

REFUSED = "is not loopback, and everybody who reaches it would be admin: set access.mode in fleet.yaml, or"


@pytest.mark.parametrize("command", [["serve"], ["demo", "--replicas", "2"]], ids=["serve", "demo"])
def test_a_command_refuses_an_address_that_others_reach(command: Sequence[str], working_folder: Path) -> None:
    (working_folder / "fleet.yaml").write_text("targets: ['127.0.0.1:9']\n")
    port = str(free_port())
    more = ["--fleet-port", str(free_port())] if command[0] == "demo" else []
    done = run(*command, *more, "--address", "0.0.0.0", "--port", port)

    assert done.exit_code == 2
    assert f"exit 2: 0.0.0.0 {REFUSED} access.allow_anonymous: viewer" in last_line(done)
    assert "Dashboard on" not in done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["server", "streamlit run"])
def test_a_server_refuses_it_as_well(kind: str, tmp_path: Path) -> None:
    port, config = free_port(), tmp_path / "fleet.yaml"
    config.write_text("targets: ['127.0.0.1:9']\n")
    streamlit = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), f"--server.port={port}"]
    commands = {
        "server": launch.server_command("0.0.0.0", port),
        "streamlit run": [*streamlit, "--server.address=0.0.0.0"],
    }
    environment = launch.environment(config)
    done = subprocess.run(
        commands[kind], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert REFUSED in done.stderr


def test_a_key_that_is_too_short_is_refused(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "short")
    options = "targets: ['127.0.0.1:9']\naccess: {session: {key_env: KEYS}}\n"
    (working_folder / "fleet.yaml").write_text(options)
    done = run("serve", "--port", str(free_port()))

    assert done.exit_code == 2
    assert "variable KEYS of access.session.key_env: no key, or one of fewer than 32 characters" in last_line(done)
    assert "short" not in last_line(done)
