"""The program contacts only its targets: every look-up and connection of its processes, and every program that they
start, is recorded.

Where the system allows it the commands run in a network namespace that has loopback alone.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml

from dashboard.demo import default_fleet, in_thread, targets
from dashboard.vllm import control
from tests.browser import at_rest, chromium, tab
from tests.serving import ROOT, dashboard_on
from tests.sources.grpc_server import RUST, GrpcServer
from tests.sources.grpc_server import recorded as recorded_answers
from tests.sources.kubernetes_api import write_kubeconfig
from tests.sources.polling.hostile import HostileServer
from tests.sources.polling.test_grpc_probes import serve

# Python's audit hooks see each of them, in every library.
RECORDER = """
import json, os, sys

def record(event, arguments):
    if event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}:
        address = arguments[0]
    elif event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        address = arguments[1]
    elif event in {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"}:
        event, address = "program", os.fsdecode(arguments[0] if event != "os.spawn" else arguments[1])
    else:
        return
    with open(os.environ["CONTACTS"], "a") as file:
        parts = address[:2] if isinstance(address, (tuple, list)) else (str(address), None)
        file.write(json.dumps([event, *parts]) + "\\n")

sys.addaudithook(record)
"""
# Serves a fleet, starts loopback if needed, and runs a command on the fleet's addresses.
COMMAND = """
import fcntl, socket, struct, subprocess, sys
from dashboard.demo import default_fleet, in_thread, targets

with socket.socket() as probe:
    try:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: IFF_UP, IFF_RUNNING
    except PermissionError:
        pass  # it is up already
with in_thread(default_fleet(3)) as server:
    listed = [each["targets"][0] for each in targets(server.fleet, server.port)]
    sys.exit(subprocess.run([sys.executable, "-m", "dashboard", *sys.argv[1:], *listed]).returncode)
"""
LOOPBACK = "127.1.0."  # where the simulated replicas are


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Record every process started from now on; return the file of the records."""
    (tmp_path / "sitecustomize.py").write_text(RECORDER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    monkeypatch.setenv("CONTACTS", str(tmp_path / "contacts"))
    monkeypatch.delenv("FLEET_CONFIG", raising=False)
    return tmp_path / "contacts"


def records(recorded: Path) -> list[tuple[str, str]]:
    return [(event, what) for event, what, _ in map(json.loads, recorded.read_text().splitlines())]


def ports(recorded: Path) -> set[str]:
    """Return the ports that were connected to."""
    lines = map(json.loads, recorded.read_text().splitlines())
    return {str(port) for event, _, port in lines if event == "socket.connect"}


def hosts(recorded: Path) -> set[str]:
    return {address for event, address in records(recorded) if event != "program"}


def programs(recorded: Path) -> list[str]:
    """Return the programs that were started, without Python itself."""
    return [what for event, what in records(recorded) if event == "program" and what != sys.executable]


def namespace() -> list[str]:
    """Return the prefix that runs a command in its own namespace, if this user may."""
    alone = ["unshare", "--map-root-user", "--net"]
    try:
        return alone if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode == 0 else []
    except FileNotFoundError:
        return []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "arguments",
    [("poll",), ("check", "--fail-on", "never"), ("report", "--format", "json"), ("report", "--format", "html")],
    ids=" ".join,
)
def test_a_command_contacts_only_its_targets(tmp_path: Path, recorded: Path, arguments: tuple[str, ...]) -> None:
    command = [*namespace(), sys.executable, "-c", COMMAND, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = hosts(recorded)
    assert len(found) == 3
    assert all(each.startswith(LOOPBACK) for each in found)
    assert programs(recorded) == []


def test_a_look_up_a_connection_and_a_program_are_recorded(recorded: Path) -> None:
    asking = "import socket\nsocket.getaddrinfo('localhost', 80)\nsocket.socket().connect_ex(('127.0.0.9', 9))"
    starting = "import os, subprocess\nsubprocess.run(['true'])\nos.system('true')\nos.execvp('true', ['true'])"
    subprocess.run([sys.executable, "-c", f"{asking}\n{starting}"], check=True)

    assert hosts(recorded) >= {"localhost", "127.0.0.9"}
    assert programs(recorded)[:2] == ["true", "true"]
    assert programs(recorded)[-1].endswith("/true")


@pytest.mark.parametrize("allowed", [False, True])
def test_a_program_of_a_kubeconfig_is_started_only_where_fleet_yaml_allows_it(
    tmp_path: Path, recorded: Path, *, allowed: bool
) -> None:
    program = tmp_path / "get-token"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    user = json.dumps({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}})
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:9", user=user)
    chosen = {"selector": "app=vllm", "kubeconfig": str(kubeconfig), **({"allow_exec": True} if allowed else {})}
    config = tmp_path / "fleet.yaml"
    router = {"kind": "dynamo", **chosen}
    config.write_text(yaml.safe_dump({"kubernetes": [chosen], "routers": [router], "targets": ["http://127.0.0.1:9"]}))
    done = subprocess.run(
        [sys.executable, "-m", "dashboard", "poll", "--config", config], cwd=tmp_path, capture_output=True, check=False
    )

    assert b"get-token" in done.stdout + done.stderr
    assert set(programs(recorded)) == ({str(program)} if allowed else set())


@pytest.mark.parametrize("has_port", [False, True])
def test_only_four_methods_are_called_over_grpc_and_only_with_the_option(
    tmp_path: Path, recorded: Path, *, has_port: bool
) -> None:
    with HostileServer() as server, GrpcServer(recorded_answers()) as called:
        target = serve(server, "chat-1", RUST)
        options = {"targets": [target.id], **({"poll": {"grpc_port": called.port}} if has_port else {})}
        (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(options))
        done = subprocess.run(
            [sys.executable, "-m", "dashboard", "poll", "--config", "fleet.yaml"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        listening = {str(called.port), target.id.partition("/chat-1")[0].rpartition(":")[2]}

    assert "chat-1" in done.stdout, done.stderr
    assert called.paths == (list(control.PATHS) if has_port else [])
    assert hosts(recorded) == {"127.0.0.1"}
    assert ports(recorded) == (listening if has_port else listening - {str(called.port)})
    assert programs(recorded) == []


@pytest.mark.long
@pytest.mark.browser
def test_the_server_contacts_only_targets_and_the_browser_only_the_server(tmp_path: Path, recorded: Path) -> None:
    with _served(tmp_path) as url, chromium() as browser, tab(browser) as page:
        handshake = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",  # that of RFC 6455, 1.3
            "Origin": "http://evil.example",
        }
        foreign = httpx2.get(f"{url}/_stcore/stream", headers=handshake, trust_env=False)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url))
        for name in ("", "findings", "compare", "capacity", "replicas", "review", "snapshots", "changes"):
            page.goto(f"{url}/{name}")
            at_rest(page)
        found = hosts(recorded)

    assert foreign.status_code == httpx2.codes.FORBIDDEN  # otherwise Streamlit looks up its address on the internet
    outside = [each for each in asked if not each.startswith((url, url.replace("http", "ws"), "data:", "blob:"))]
    assert len(asked) > 20
    assert not outside
    assert len(found) == 3
    assert all(each.startswith(LOOPBACK) for each in found)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    with in_thread(default_fleet(3)) as server:
        listed = [each["targets"][0] for each in targets(server.fleet, server.port)]
        (folder / "fleet.yaml").write_text(yaml.safe_dump({"name": "mine", "targets": listed}))
        with dashboard_on(folder / "fleet.yaml") as url:
            yield url
