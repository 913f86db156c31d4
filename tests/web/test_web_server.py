"""A real server on loopback meets hostile pages, hostile clients and signals."""

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from dashboard.web import launch
from tests.serving import ROOT, START_SECONDS, free_port, started, terminal, upgrade, wait_until_healthy
from tests.sources.polling.hostile import CERTIFICATE

FOREIGN = "evil.example"
# Runs before any other import: writes every name that the process looks up to a file.
RECORDER = """
import os, socket
def recorded(function):
    def look_up(host, *arguments, **named):
        with open(os.environ["LOOK_UPS"], "a") as file:
            file.write(f"{host}\\n")
        return function(host, *arguments, **named)
    return look_up
for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
    setattr(socket, name, recorded(getattr(socket, name)))
"""


class Served(NamedTuple):
    """A running dashboard: its port, its process, and the file of names it looked up."""

    port: int
    pid: int
    looked_up: Path

    def ask(self, path: str, **headers: str) -> httpx2.Response:
        return httpx2.get(f"http://127.0.0.1:{self.port}{path}", headers=headers, trust_env=False, timeout=20)

    def handshake(self, **headers: str) -> str:
        """The status line and body of a websocket handshake."""
        with self.connected() as client:
            client.sendall(upgrade(self.port, headers=headers))
            return client.recv(2**16).decode()

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as client:
            yield client

    def names(self) -> set[str]:
        return set(self.looked_up.read_text().split()) if self.looked_up.exists() else set()


@contextmanager
def serving(folder: Path, kind: str, options: str = "name: edge\n", **more: str) -> Iterator[Served]:
    """Start the dashboard as `serve` or as `streamlit run app.py` does; yield it after its first poll.

    `more` are variables of its environment.
    """
    (folder / "sitecustomize.py").write_text(RECORDER)
    config, looked_up, port = folder / "fleet.yaml", folder / "look-ups", free_port()
    config.write_text(options)
    commands = {
        "serve": launch.server_command("127.0.0.1", port),
        "streamlit run": [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), f"--server.port={port}"],
    }
    ours = {"PYTHONPATH": str(folder), "LOOK_UPS": str(looked_up), **more}
    with started(commands[kind], environment={**launch.environment(config), **ours}) as process:
        wait_until_healthy(f"http://127.0.0.1:{port}")
        yield Served(port, process.pid, looked_up)


@pytest.fixture(scope="module", params=["serve", "streamlit run"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), request.param) as server:
        yield server


def test_a_foreign_origin_gets_403_and_no_name_is_looked_up(served: Served) -> None:
    """Streamlit looks up its own name for each Origin, and blocks while no name server answers."""
    refused = served.handshake(Origin=f"http://{FOREIGN}")

    assert refused.startswith("HTTP/1.1 403")
    assert refused.endswith("This host name or origin is not allowed. Ask an administrator.\n")
    assert served.ask("/healthz").status_code == 200
    assert served.names() <= {"127.0.0.1"}


def test_a_foreign_host_gets_403_everywhere(served: Served) -> None:
    for path in ("/", "/api/v1/fleet", "/metrics", "/_stcore/health", "/static/js/x.js"):
        assert served.ask(path, Host=FOREIGN).status_code == 403
    assert served.handshake(Host=FOREIGN, Origin=f"http://{FOREIGN}").startswith("HTTP/1.1 403")


def test_probes_answer_under_any_name(served: Served) -> None:
    answers = [served.ask(path, Host="dashboard.monitoring.svc") for path in ("/livez", "/readyz", "/healthz")]

    assert [each.status_code for each in answers] == [200, 200, 200]


def test_a_websocket_needs_the_origin_of_its_page(served: Served) -> None:
    assert served.handshake(Origin=f"http://127.0.0.1:{served.port}").startswith("HTTP/1.1 101")
    assert served.handshake(Origin=f"http://localhost:{served.port}", Host=f"localhost:{served.port}").startswith(
        "HTTP/1.1 101"
    )
    assert served.handshake().startswith("HTTP/1.1 403")
    assert served.handshake(Origin=f"http://127.0.0.1:{served.port + 1}").startswith("HTTP/1.1 403")
    assert served.handshake(Origin="http://127.0.0.1").startswith("HTTP/1.1 403")


@pytest.mark.parametrize(
    "path", ["/", "/snapshots", "/static/index.html", "/api/v1/fleet", "/_stcore/health", "/api/x"]
)
def test_every_path_has_the_security_headers(served: Served, path: str) -> None:
    headers = served.ask(path).headers

    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        ("serve", signal.SIGHUP),
        ("demo", signal.SIGKILL),
        pytest.param("demo", signal.SIGHUP, marks=pytest.mark.long),
        pytest.param("demo", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_no_process_survives_the_end_of_the_program(command: str, ends: signal.Signals, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "fleet.yaml").write_text("name: ends\n")
    more = {
        "serve": ("--config", str(tmp_path / "fleet.yaml")),
        "demo": ("--replicas", "2", "--fleet-port", str(free_port())),
    }
    line = [sys.executable, "-m", "dashboard", command, "--port", str(port), *more[command]]
    with terminal() as controlling, started(line, **controlling) as process:
        wait_until_healthy(f"http://127.0.0.1:{port}")
        left = [os.pidfd_open(pid) for pid in (process.pid, *children(process.pid))]
        process.send_signal(ends)
        process.wait(60)
        for each in left:
            assert select.select([each], [], [], 60)[0], "a process survived"  # readable once it has ended
            os.close(each)
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free again


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_soft_limit_of_open_files_is_the_hard_limit(served: Served) -> None:
    soft, hard = resource.prlimit(served.pid, resource.RLIMIT_NOFILE)

    assert soft == hard


@pytest.mark.long
def test_config_toml_applies_in_every_folder(tmp_path: Path) -> None:
    """Streamlit reads its options once: an option read before the app exists would fix all defaults."""
    ask = (
        "import streamlit as st; from app import app\n"
        "app._build_starlette_app().build_middleware_stack()\n"
        "names = 'browser.gatherUsageStats', 'logger.enableRich', 'server.fileWatcherType'\n"
        "print(*map(st.get_option, names))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, env=environment, capture_output=True, check=True)

    assert done.stdout == b"False False none\n"


@pytest.mark.long
def test_an_invalid_streamlit_variable_ends_serve_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("name: x\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STREAMLIT_SERVER_MAX_UPLOAD_SIZE": "large"}
    command = [sys.executable, "-m", "dashboard", "serve", "--port", str(free_port())]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "STREAMLIT_SERVER_MAX_UPLOAD_SIZE" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_listed_host_works_with_and_without_a_proxy_and_closed_sessions_free_their_descriptors(
    tmp_path: Path,
) -> None:
    """Streamlit keeps up to 128 sessions, three descriptors each, until the next page closes."""
    options = "name: listed\nallowed_hosts: [fleet.example.com]\nframe_ancestors: [https://wiki.example.com]\n"
    options += "history: {enabled: false}\n"  # its files are opened later
    with serving(tmp_path, "serve", options, STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL="1") as server:
        assert server.ask("/", Host="fleet.example.com").status_code == 200
        assert server.handshake(Host="fleet.example.com", Origin="https://fleet.example.com").startswith("HTTP/1.1 101")
        assert server.handshake(Origin="https://fleet.example.com").startswith("HTTP/1.1 101")
        assert "frame-ancestors https://wiki.example.com" in server.ask("/").headers["content-security-policy"]
        assert server.names() <= {"127.0.0.1"}

        before = descriptors(server.pid)
        with ExitStack() as stack:
            clients = [stack.enter_context(server.connected()) for _ in range(20)]
            for client in clients:
                client.sendall(upgrade(server.port, headers={"Origin": f"http://127.0.0.1:{server.port}"}))
                assert client.recv(2**16).startswith(b"HTTP/1.1 101")
            assert descriptors(server.pid) >= before + len(clients)
        ends_at = time.monotonic() + START_SECONDS
        while (left := descriptors(server.pid)) > before:
            assert time.monotonic() < ends_at, f"{left} descriptors, {before} before"
            time.sleep(0.1)


def descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def test_the_address_is_printed_once_it_listens(tmp_path: Path) -> None:
    """Who opens a link that is printed earlier gets an error of the browser."""
    port, config = free_port(), tmp_path / "fleet.yaml"
    config.write_text("name: listens\n")
    tls = {f"STREAMLIT_SERVER_SSL_{kind}_FILE": str(CERTIFICATE) for kind in ("CERT", "KEY")}
    environment = {**launch.environment(config), **tls}
    with started(launch.server_command("127.0.0.1", port), environment=environment) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"Dashboard on https://localhost:{port} (Ctrl-C to stop)\n"
        socket.create_connection(("127.0.0.1", port)).close()
