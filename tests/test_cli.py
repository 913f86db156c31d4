"""The command line: results on standard output, sentences on standard error, exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, chdir
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from dashboard.cli import COMMANDS, cli
from dashboard.demo import DemoServer, default_fleet, in_thread, targets
from tests.serving import ROOT, free_port, started, terminal, wait_for, wait_until_healthy

FEW = 4


def run(*arguments: str, cwd: Path | None = None) -> Result:
    """Run a command in this process, from a folder without fleet.yaml."""
    with chdir(cwd or ROOT / "tests"):
        return CliRunner().invoke(cli, arguments)


def run_in_shell(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process with a minimal environment and an ASCII locale."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "dashboard", *arguments]
    return subprocess.run(command, cwd=ROOT / "tests", env=environment, capture_output=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with in_thread(default_fleet(FEW)) as server:
        yield server


@pytest.fixture(scope="module")
def addresses(demo: DemoServer) -> list[str]:
    return [entry["targets"][0] for entry in targets(demo.fleet, demo.port)]


@pytest.fixture
def config(demo: DemoServer, tmp_path: Path) -> Path:
    (tmp_path / "targets.json").write_text(json.dumps(targets(demo.fleet, demo.port)))
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nfile_sd:\n  - files: [targets.json]\npoll:\n  interval_seconds: 1\n")
    return file


@pytest.mark.parametrize("command", ["poll", "check"])
def test_the_last_line_is_what_would_answer_the_unknown(command: str) -> None:
    """On standard error where programs read the output."""
    hint = "To answer what is unknown: install or load the provider on all 2 replicas."
    with in_thread([replace(each, speaks=frozenset()) for each in default_fleet(2)]) as server:
        addresses = [entry["targets"][0] for entry in targets(server.fleet, server.port)]
        table, document = run(command, *addresses), run(command, "--format", "json", *addresses)

    assert table.stdout.splitlines()[-1] == hint
    assert hint not in table.stderr + document.stdout
    assert document.stderr.splitlines().count(hint) == 1


def test_a_pool_can_be_chosen_and_an_unknown_one_is_wrong_usage(config: Path) -> None:
    chosen = run("poll", "--config", str(config), "--pool", "chat-70b", "--format", "json")
    unknown = run("poll", "--config", str(config), "--pool", "chat-71b")

    assert {each["pool"] for each in json.loads(chosen.stdout)["replicas"]} == {"chat-70b"}
    assert unknown.exit_code == 2
    assert "'chat-70b'" in unknown.stderr


def test_poll_lists_unreachable_replicas_with_exit_code_0() -> None:
    done = run("poll", f"127.0.0.1:{free_port()}", "--format", "json")

    replica = json.loads(done.stdout)["replicas"][0]
    assert done.exit_code == 0
    assert (replica["state"], replica["reason"]["kind"]) == ("down", "refused")


@pytest.mark.parametrize("text", ["not a url", "ftp://somewhere", "http://", "http://user:word@host", "host:99999"])
def test_an_invalid_address_is_wrong_usage_without_its_password(text: str) -> None:
    done = run("poll", text)

    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "word" not in done.stderr


def test_wrong_options_are_one_sentence_each_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("nmae: x\npoll:\n  interval_seconds: soon\n")

    for command in (["poll", "--config", str(file)], ["serve", "--config", str(file)]):
        done = run(*command)
        lines = done.stderr.strip().splitlines()
        assert done.exit_code == 2
        assert [line.removeprefix(f"{file}:").split(":")[0] for line in lines[:-1]] == ["1", "3"]
        assert lines[-1] == "exit 2: wrong options: 2 mistakes, see above."


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("poll --format json", "exit 3: no targets."),
        ("plan", "exit 3: no targets."),
        ("settings block_size", "exit 3: no targets."),
        ("report -o x.html", "exit 3: no targets."),
        ("baseline chat", "exit 3: no targets."),
        ("check", "exit 3: no targets, nothing was checked."),
    ],
)
def test_without_targets_each_command_ends_with_3_and_the_next_step(tmp_path: Path, command: str, end: str) -> None:
    done = run(*command.split(), cwd=tmp_path)

    assert done.exit_code == 3
    assert done.stderr.splitlines() == [
        "No targets: name addresses, list them in fleet.yaml, or use --config FILE.",
        end,
    ]


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("rules > /dev/full", "standard output cannot be written: No space left on device; write elsewhere."),
        ("check --snapshot - <&-", "wrong usage: --snapshot -: standard input is closed; name another file."),
    ],
)
def test_a_full_disk_and_a_closed_standard_input_are_one_sentence(ends: str, why: str) -> None:
    line = f"{sys.executable} -m dashboard {ends}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=ROOT, check=False)

    assert done.returncode == 2
    assert done.stderr == f"exit 2: {why}\n"


def test_a_file_in_place_of_an_address_is_wrong_usage(tmp_path: Path) -> None:
    """As an address it would be an unreachable replica."""
    (tmp_path / "monday.json").write_text("{}")
    done = run("poll", "monday.json", cwd=tmp_path)

    assert done.exit_code == 2
    assert done.stderr == (
        "exit 2: wrong usage: monday.json: a file, not an address; use --snapshot with check, report and baseline.\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "127.1.0.3",
        "127.1.0.3:5:",
        "127.1.0.3:5:block-size",
        "127.1.0.3:5:--block-size 0",
        "127.1.0.3:5:--no-such-flag",
        "127.9.9.9:5:--block-size 32",
        "10.0.0.1:5:--block-size 32",
    ],
)
def test_an_impossible_restart_is_wrong_usage(text: str) -> None:
    done = run("demo", "--restart", text)

    assert done.exit_code == 2
    assert done.stderr.startswith("exit 2: wrong usage: --restart: ")


def test_serve_shows_the_fleet_of_the_options(config: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with started([sys.executable, "-m", "dashboard", "serve", "--config", str(config), "--port", str(port)]):
        wait_until_healthy(url)
        document = httpx2.get(f"{url}/api/v1/fleet", trust_env=False).json()

    assert document["fleet"] == "mine"
    assert document["coverage"]["up"] == FEW


def serving(config: Path, port: int, **more: Any) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "dashboard", "serve", "--config", str(config), "--port", str(port)]
    return started(command, **more)


def test_without_a_terminal_sighup_loads_the_options_again(config: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with serving(config, port, start_new_session=True) as process:
        wait_until_healthy(url)
        config.write_text(config.read_text().replace("name: mine", "name: ours"))
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: httpx2.get(f"{url}/api/v1/fleet", trust_env=False).json()["fleet"] == "ours")


def test_with_a_terminal_sighup_ends_the_server(config: Path) -> None:
    port = free_port()
    with ExitStack() as stack:
        with terminal() as controlling:
            process = stack.enter_context(serving(config, port, **controlling))
            wait_until_healthy(f"http://127.0.0.1:{port}")
        assert process.wait(60) == 0


def test_streamlit_run_ends_with_exit_code_2_on_wrong_options(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("nmae: x\n")
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), "--server.headless=true"]
    done = subprocess.run(
        [*command, f"--server.port={free_port()}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "fleet.yaml:1: nmae: unknown key; did you mean name?" in done.stderr
    assert "Traceback" not in done.stderr


def has_block_size(url: str, size: int) -> bool:
    return f',block_size="{size}"' in httpx2.get(url, trust_env=False).text


def test_the_demo_prints_its_address_and_options_and_one_signal_ends_it() -> None:
    port, fleet_port = free_port(), free_port()
    command = [sys.executable, "-m", "dashboard", "demo", "--port", str(port), "--fleet-port", str(fleet_port)]
    restarts = ["--restart", "127.1.0.1:1:--block-size 32", "--restart", "127.1.0.2:1:--block-size 64"]
    with started([*command, "--replicas", str(FEW), *restarts]) as process:
        wait_until_healthy(f"http://127.0.0.1:{port}")
        for address, block_size in (("127.1.0.1", 32), ("127.1.0.2", 64)):
            wait_for(partial(has_block_size, f"http://{address}:{fleet_port}/metrics", block_size))
        assert process.stderr is not None
        printed = os.read(process.stderr.fileno(), 2**16).decode().splitlines()
        options = Path(printed[1].rpartition(" --config ")[2])
        lines = options.read_text().splitlines()
        polled = run("poll", "--config", str(options))
        process.send_signal(signal.SIGINT)
        _, more = process.communicate(timeout=60)
        assert process.returncode == 0

    assert more == ""
    assert "name: demo" in lines
    assert max(map(len, lines)) <= 120
    assert polled.exit_code == 0
    assert f"http://localhost:{port}" in printed[-1]
    assert "Snapshots, notes, accepted findings and the history are deleted when it stops." in printed
    assert not options.parent.exists()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)


@pytest.mark.long
def test_a_hanging_server_is_killed_without_a_traceback() -> None:
    port, fleet_port = free_port(), free_port()
    command = [sys.executable, "-m", "dashboard", "demo", "--port", str(port), "--fleet-port", str(fleet_port)]
    with started([*command, "--replicas", str(FEW)]) as process:
        wait_until_healthy(f"http://127.0.0.1:{port}")
        (server,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        os.kill(server, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=60)

        assert process.returncode == 0
        assert "Traceback" not in output
        assert not Path(f"/proc/{server}").exists()


def test_check_prints_utf_8_in_every_locale(addresses: list[str]) -> None:
    done = run_in_shell("check", *addresses, "--fail-on", "warning")

    assert done.returncode == 1
    assert "▲ warning" in done.stdout.decode()


def test_a_taken_port_is_reported_before_the_address(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", "--config", str(config), "--port", port)

    assert done.exit_code == 1
    assert done.stderr == f"exit 1: port {port} of 127.0.0.1 is in use; choose another with --port (make: PORT=).\n"


def test_the_simulated_fleet_needs_its_port() -> None:
    with in_thread(default_fleet(1)) as taken:
        done = run("demo", "--port", str(free_port()), "--fleet-port", str(taken.port))

    assert done.exit_code == 1
    assert done.stderr.startswith("exit 1: the simulated fleet cannot start: ")
    assert "--fleet-port" in done.stderr


def test_a_misspelled_command_gets_a_suggestion() -> None:
    assert run("chekc").stderr == (
        "exit 2: wrong usage: there is no command 'chekc'; did you mean check? See `python -m dashboard --help`.\n"
    )


def test_no_command_prints_the_help_and_an_error_on_standard_error() -> None:
    done = run()

    assert (done.exit_code, done.stdout) == (2, "")
    assert "Compare the configuration of many vLLM replicas." in done.stderr
    assert done.stderr.endswith("\nexit 2: wrong usage: no command given.\n")
    assert "\nexit 2: wrong usage: no such option: --nonsense." in f"\n{run('--nonsense').stderr}"


HEAVY = {"pandas", "streamlit", "plotly"}
CLIENTS = {"aiohttp", "httpx2"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["--help"], HEAVY | CLIENTS),
        (["--version"], HEAVY | CLIENTS),
        (["rules"], HEAVY | CLIENTS),
        (["rules", "RT-01"], HEAVY | CLIENTS),
        (["poll", "--help"], HEAVY),
        (["check", "--help"], HEAVY),
        (["settings", "--help"], HEAVY),
    ],
)
def test_a_command_imports_no_heavy_packages_that_it_does_not_need(command: list[str], heavy: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dashboard", *command],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert "dashboard.cli" in imported
    assert not imported & heavy


def test_help_lists_every_command_with_its_summary() -> None:
    listed = CliRunner().invoke(cli, ["--help"]).stdout

    for name in COMMANDS:
        own = CliRunner().invoke(cli, [name, "--help"], prog_name="root").stdout
        summary = own.splitlines()[2].strip()
        assert f"Usage: root {name}" in own
        assert f"  {name} " in listed
        assert summary[:50] in listed
