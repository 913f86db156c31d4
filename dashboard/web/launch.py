"""Start and stop of the web server."""

import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dashboard.config import FILE_VARIABLE, Options
from dashboard.logs import JsonStream, follow_environment

SCRIPT = Path(__file__).resolve().with_name("pages") / "main.py"
STOP_SECONDS = 10  # then the server is killed; it usually stops within a second
CLOSE_SECONDS = 2  # for open pages to close
MOST_MESSAGE_BYTES = 4 * 2**20  # from a browser; imported files are uploads, not messages
PING_SECONDS = 30  # Streamlit's own
WRONG_SETTING = 2  # exit code
ADDRESS = "127.0.0.1"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  of a server of Streamlit without an address: checked, not bound
PR_SET_PDEATHSIG = 1  # prctl(2)


def server_command(address: str, port: int) -> list[str]:
    """Return the command of a server that stops when this process ends."""
    return [sys.executable, "-m", "dashboard.web.launch", address, str(port), str(os.getpid())]


def environment(config: Path | None) -> Mapping[str, str]:
    """Return the environment of this process, with the path of the config file."""
    named = {FILE_VARIABLE: str(config.absolute())} if config is not None else {}
    return {**os.environ, **named}


def is_free(address: str, port: int) -> bool:
    """Return whether the port is free; other reasons why it cannot be bound are left to the server."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def socket_mistake(path: Path) -> str:
    """Return why a unix socket cannot be bound; empty where it can. One that nobody listens on is replaced."""
    if not path.parent.is_dir():
        return f"{path}: no folder {path.parent}."
    if os.path.lexists(path) and not path.is_socket():
        return f"{path} exists and is no socket; choose another path."
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path.absolute()))
        except (ConnectionRefusedError, FileNotFoundError):
            return ""
        except OSError as error:  # also for a path that is too long
            return f"{path}: {error.strerror or error}."
    return f"{path} is in use; choose another path."


@contextmanager
def _listening(path: Path | None) -> Iterator[list[socket.socket] | None]:
    """Bind a unix socket that its owner and its group may open, and delete it afterwards. None: there is none."""
    if path is None:
        yield None
        return
    path.unlink(missing_ok=True)
    listener, mask = socket.socket(socket.AF_UNIX), os.umask(0o117)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    try:
        yield [listener]
    finally:
        path.unlink(missing_ok=True)


def serve(address: str, port: int, config: Path | None, unix: Path | None = None) -> int:
    """Serve the pages in this process until a signal; return the exit code. With a path on that unix socket only."""
    os.environ.update(environment(config))
    follow_environment()
    # Imported here: other commands do not need them, and the app reads the environment.
    import streamlit as st  # noqa: PLC0415
    import uvicorn  # noqa: PLC0415

    from dashboard import service  # noqa: PLC0415
    from dashboard.access.gate import start_mistake  # noqa: PLC0415
    from dashboard.web.limits import Connection, Server, connection_limit, raise_descriptor_limit  # noqa: PLC0415
    from dashboard.web.server import options_or_exit  # noqa: PLC0415

    options = options_or_exit()
    if mistake := start_mistake(options.access, address):
        sys.stderr.write(f"{mistake}\n")
        return WRONG_SETTING
    app = st.App(**app_arguments(options))
    if mistake := _load_settings(address, port):
        sys.stderr.write(f"{mistake}\n")
        return WRONG_SETTING
    limit = connection_limit(raise_descriptor_limit(), options.poll.connections)
    settings = uvicorn.Config(
        app,
        host=address,
        port=port,
        http=Connection,
        limit_concurrency=limit,
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE_BYTES,
        ws_per_message_deflate=st.get_option("server.enableWebsocketCompression"),
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ssl_certfile=st.get_option("server.sslCertFile"),
        ssl_keyfile=st.get_option("server.sslKeyFile"),
        proxy_headers=False,  # the gate decides whose headers count
        timeout_graceful_shutdown=CLOSE_SECONDS,
        log_level="warning",
        log_config=None if isinstance(sys.stderr, JsonStream) else uvicorn.config.LOGGING_CONFIG,
        access_log=False,
        server_header=False,
    )
    name = "localhost" if address == ADDRESS else address
    where = unix or f"{'https' if settings.is_ssl else 'http'}://{name}:{port}"
    with _until_signal(service.reload), _listening(unix.absolute() if unix else None) as sockets:
        Server(settings, STOP_SECONDS, f"Dashboard on {where} (Ctrl-C to stop)").run(sockets)
    return 0


def app_arguments(options: Options | None = None) -> dict[str, Any]:
    """Return the arguments of Streamlit's App; without `options` with those of fleet.yaml, or end the program.

    Server and theme options are in .streamlit/config.toml.
    """
    import streamlit as st  # noqa: PLC0415  as above
    from starlette.middleware import Middleware  # noqa: PLC0415

    from dashboard.access.gate import start_mistake  # noqa: PLC0415
    from dashboard.web import edge, server, sessions  # noqa: PLC0415

    follow_environment()
    options = options or server.options_or_exit()
    page = Path(st.__file__).with_name("static") / "index.html"

    # A callable: the first st.get_option() reads all options, and only the app determines where config.toml is.
    def bound() -> str:
        address = str(st.get_option("server.address") or EVERY_ADDRESS)
        if mistake := start_mistake(options.access, address):
            sys.stderr.write(f"{mistake}\n")
            os._exit(WRONG_SETTING)  # an exception would be logged, and another exit code
        return address

    guard = edge.middleware(options, bound, page)
    tools = server.tools_or_exit(options)
    return {
        "script_path": SCRIPT,
        "lifespan": server.lifespan(options, sessions.forget_expired, tools),
        "routes": server.routes(tools),
        "middleware": [guard, Middleware(sessions.Uploads)],
    }


def _load_settings(address: str, port: int) -> str:
    """Load Streamlit's options as `streamlit run` does, STREAMLIT_* before config.toml; return a mistake."""
    from click import ClickException  # noqa: PLC0415  Streamlit's own
    from streamlit.web import bootstrap, cli  # noqa: PLC0415

    flags = [f"--server.address={address}", f"--server.port={port}"]
    try:
        given = cli.main_run.make_context("run", [str(SCRIPT), *flags]).params
    except ClickException as error:
        return error.format_message()
    bootstrap.load_config_options({name: value for name, value in given.items() if name not in {"target", "args"}})
    return ""


def serve_apart(address: str, port: int, config: Path | None) -> int:
    """Serve the pages in a child process; return its exit code, 0 after a signal to this process.

    The child has its own session: Ctrl-C reaches this process only, which then stops the child.
    """
    command = server_command(address, port)
    process: subprocess.Popen[bytes] | None = None
    with _until_signal(lambda: process.send_signal(signal.SIGHUP) if process else None):
        process = subprocess.Popen(command, env=environment(config), start_new_session=True)  # noqa: S603  our own
        try:
            return process.wait()
        finally:
            _stop(process)
    return 0


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _until_signal(reload: Callable[[], None]) -> Iterator[None]:
    """Leave the body at Ctrl-C, SIGTERM or the end of the terminal (SIGHUP). Without a terminal SIGHUP reloads."""
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {signal.SIGTERM: _interrupt}
    if not _has_terminal():
        handlers[signal.SIGHUP] = lambda _number, _frame: reload()
    elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
        handlers[signal.SIGHUP] = _interrupt
    previous = {each: signal.signal(each, handler) for each, handler in handlers.items()}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _interrupt(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGHUP:  # uvicorn does not handle it
        signal.raise_signal(signal.SIGTERM)
    else:
        raise KeyboardInterrupt


def stop_with_parent(parent: int) -> None:
    """Send SIGTERM to this process when its parent ends for any reason (Linux)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has already ended
        raise SystemExit(0)


if __name__ == "__main__":
    stop_with_parent(int(sys.argv[3]))
    raise SystemExit(serve(sys.argv[1], int(sys.argv[2]), None))
