"""Starting the dashboard's web server, and ending it."""

import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from dashboard.config import FILE_VARIABLE

STOP_SECONDS = 10  # the server ends within a second, unless something blocks it; then it is killed
CLOSE_SECONDS = 2  # that open pages have to close
MOST_MESSAGE_BYTES = 4 * 2**20  # from a browser; what is imported is uploaded by itself
PING_SECONDS = 30  # as Streamlit has it
WRONG_SETTING = 2  # exit code
PR_SET_PDEATHSIG = 1  # prctl(2)


def server_command(address: str, port: int) -> list[str]:
    """Return the command that serves the pages until this process ends."""
    return [sys.executable, "-m", "dashboard.web.launch", address, str(port), str(os.getpid())]


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


def serve(address: str, port: int, config: Path | None) -> int:
    """Serve the pages in this process until it is asked to end; return the exit code."""
    os.environ.update(environment(config))
    # Other commands need none of these, and the app reads the environment.
    import streamlit as st  # noqa: PLC0415
    import uvicorn  # noqa: PLC0415

    from dashboard.web.app import SCRIPT, app, options  # noqa: PLC0415
    from dashboard.web.connections import Connection, Server, connection_limit, raise_descriptor_limit  # noqa: PLC0415

    if mistake := _load_settings(SCRIPT, address, port):
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
        proxy_headers=False,  # the audit log names the peer, and what a proxy says of others apart
        timeout_graceful_shutdown=CLOSE_SECONDS,
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    with _asked_to_end():
        Server(settings, STOP_SECONDS).run()
    return 0


def _load_settings(script: Path, address: str, port: int) -> str:
    """Let Streamlit read its settings as `streamlit run` does: STREAMLIT_* go before config.toml; return a mistake."""
    from click import ClickException  # noqa: PLC0415  Streamlit's own
    from streamlit.web import bootstrap, cli  # noqa: PLC0415

    flags = [f"--server.address={address}", f"--server.port={port}"]
    try:
        given = cli.main_run.make_context("run", [str(script), *flags]).params
    except ClickException as error:
        return error.format_message()
    bootstrap.load_config_options({name: value for name, value in given.items() if name not in {"target", "args"}})
    return ""


def serve_apart(address: str, port: int, config: Path | None) -> int:
    """Serve the pages in a process of their own; return its exit code, 0 where this process is asked to end.

    It has a session of its own, so that Ctrl-C reaches this process alone, which ends it without a word.
    """
    command = server_command(address, port)
    with _asked_to_end():
        process = subprocess.Popen(command, env=environment(config), start_new_session=True)  # noqa: S603  our own
        try:
            return process.wait()
        finally:
            _end(process)
    return 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """Leave what is inside when Ctrl-C, SIGTERM or the end of the terminal (SIGHUP) asks for it."""
    signals = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else nohup: it goes on
        signals.append(signal.SIGHUP)
    previous = {each: signal.signal(each, _interrupt) for each in signals}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGHUP:  # which uvicorn does not know
        signal.raise_signal(signal.SIGTERM)
    else:
        raise KeyboardInterrupt


def end_with(parent: int) -> None:
    """Let this process be asked to end when its parent ends, however that happens (Linux)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before
        raise SystemExit(0)


if __name__ == "__main__":
    end_with(int(sys.argv[3]))
    raise SystemExit(serve(sys.argv[1], int(sys.argv[2]), None))
