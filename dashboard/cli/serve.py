"""The commands `serve` and `demo`: the dashboard in the browser, with a real or a simulated fleet."""

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml

from dashboard import logs, service
from dashboard.cli.targets import ConfigOption, options_of
from dashboard.cli.terminal import FAILED, WRONG_USAGE, fail, say, wrong
from dashboard.config import TARGET_SOURCES, Options
from dashboard.demo import (
    DemoReplica,
    Restart,
    changed,
    default_fleet,
    demo_options,
    in_thread,
    read_changes,
    targets,
)
from dashboard.web import launch

PORT = 8501  # Streamlit's own
DEMO_NAME = "demo"
DEMO_INTERVAL_SECONDS = 5
MAX_WITH_PAST = 100  # replicas: to record the past of more takes too long
DEMO_WINDOW_SECONDS = 120  # of traffic: a hit rate is seen to mend
DEMO_PROBE_TIMEOUT_SECONDS = 2  # one slow replica must not delay the first page
RESTART_TEXT = re.compile(r"(?P<address>127(?:\.\d{1,3}){3}):(?P<seconds>\d{1,6}):(?P<changes>.+)")

LogFormatOption = Annotated[
    Literal["text", "json"] | None,
    typer.Option(
        envvar=logs.FORMAT_VARIABLE,
        show_envvar=False,
        help=f"Format of what is written to standard error [default: {logs.FORMAT_VARIABLE}, else text].",
    ),
]
PortOption = Annotated[int, typer.Option(help="Port of the dashboard.", min=1, max=65535)]
AddressOption = Annotated[str, typer.Option(help="Address to bind. One that others reach needs the option access.")]


def serve(
    config: ConfigOption = None,
    port: PortOption = PORT,
    address: AddressOption = launch.ADDRESS,
    socket: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Unix socket to bind, in place of address and port. Its group may connect."),
    ] = None,
    log_format: LogFormatOption = None,
) -> None:
    """Show the fleet of fleet.yaml in the browser."""
    _use_format(log_format)
    options = options_of(config)
    if not options.has_target_sources:
        say(f"No targets configured: list replicas in {options.file}, under one of: {', '.join(TARGET_SOURCES)}.")
    if socket is None:
        _need(address, port)
    elif mistake := launch.socket_mistake(socket):
        fail(f"exit {FAILED}: --socket: {mistake}")
    _need_access(options, launch.ADDRESS if socket else address)
    raise typer.Exit(launch.serve(launch.ADDRESS if socket else address, port, config, socket))


def demo(
    port: PortOption = PORT,
    address: AddressOption = launch.ADDRESS,
    fleet_port: Annotated[
        int, typer.Option(help="Port of the simulated replicas, on addresses 127.1.x.y.", min=1, max=65535)
    ] = 8000,
    replicas: Annotated[
        int | None, typer.Option(help="Number of replicas [default: about 40 with typical problems].", min=1, max=5000)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of ids, times and counters.")] = 0,
    restart: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:SECONDS:CHANGES",
            help="Restart a replica after some seconds, as '127.1.0.3:60:--block-size 32'. CHANGES as after env: -u "
            "NAME, NAME=VALUE, then flags; also -u --FLAG and image=IMAGE. Repeatable.",
        ),
    ] = None,
    log_format: LogFormatOption = None,
) -> None:
    """Show a simulated fleet; no vLLM and no GPU needed (Linux).

    With up to 100 replicas it begins with a history of six hours.
    """
    _use_format(log_format)
    restarts = [_restart(each) for each in restart or ()]
    fleet = default_fleet(replicas, seed)
    _check_restarts(restarts, fleet)
    _need(address, port)
    try:
        with in_thread(fleet, fleet_port, restarts=restarts) as server, tempfile.TemporaryDirectory() as folder:
            config = _demo_options(Path(folder), targets(fleet, fleet_port))
            _need_access(options_of(config), address)
            if len(fleet) <= MAX_WITH_PAST:
                from dashboard.cli.demo_past import record_past  # other commands need no database

                record_past(options_of(config), server)
            say(f"Simulated fleet of {len(fleet)} replicas on 127.1.x.y:{fleet_port}")
            say(f"The same fleet in the terminal: python -m dashboard check --config {config}")
            say("Snapshots, notes, accepted findings and the history are deleted when it stops.")
            code = launch.serve_apart(address, port, config)
    except OSError as error:
        why = f"{error.strerror or error}. Another one may be running: use --fleet-port (make: FLEET_PORT=)."
        fail(f"exit {FAILED}: the simulated fleet cannot start: {why}")
    raise typer.Exit(code)


def _restart(text: str) -> Restart:
    match = RESTART_TEXT.fullmatch(text)
    if match is None:
        wrong(f"--restart: {text!r} is not ADDRESS:SECONDS:CHANGES, such as '127.1.0.3:60:--block-size 32'")
    try:
        return Restart(float(match["seconds"]), match["address"], read_changes(match["changes"]))
    except ValueError as error:
        wrong(f"--restart: {text!r}: {error}")


def _check_restarts(restarts: list[Restart], fleet: Sequence[DemoReplica]) -> None:
    """Try the restarts in their order, so that a mistake is wrong usage and no surprise after a minute."""
    by_address = {each.address: each for each in fleet}
    for each in sorted(restarts):
        if each.address not in by_address:
            wrong(f"--restart: the simulated fleet has no replica at {each.address}; the first is {fleet[0].address}")
        try:
            by_address[each.address] = changed(by_address[each.address], each.changes)
        except (ValueError, TypeError) as error:
            wrong(f"--restart: {each.address}: {error}")


def _demo_options(folder: Path, targets: list[dict[str, object]]) -> Path:
    (folder / "targets.json").write_text(json.dumps(targets))
    config = folder / "fleet.yaml"
    options = {
        **demo_options(service.utc_now().date()),
        "name": DEMO_NAME,
        "file_sd": [{"files": ["targets.json"]}],
        "suppressions_file": "suppressions.yaml",
        "poll": {"interval_seconds": DEMO_INTERVAL_SECONDS, "probe_timeout_seconds": DEMO_PROBE_TIMEOUT_SECONDS},
        "traffic": {"interval_seconds": DEMO_INTERVAL_SECONDS, "window_seconds": DEMO_WINDOW_SECONDS},
    }
    config.write_text(yaml.safe_dump(options, sort_keys=False))
    return config


def _use_format(log_format: str | None) -> None:
    """Write to standard error in a format, also in a server that is started from here."""
    if log_format is not None:
        os.environ[logs.FORMAT_VARIABLE] = log_format
    logs.follow_environment()


def _need(address: str, port: int) -> None:
    if not launch.is_free(address, port):
        fail(f"exit {FAILED}: port {port} of {address} is in use; choose another with --port (make: PORT=).")


def _need_access(options: Options, address: str) -> None:
    from dashboard.access.gate import start_mistake  # other commands need no web server

    if mistake := start_mistake(options.access, address):
        fail(f"exit {WRONG_USAGE}: {mistake}", WRONG_USAGE)
