"""One gRPC call against real servers: grpcio's, and those that are not gRPC."""

import asyncio
import socket
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path

import grpc as grpcio
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from dashboard import __version__
from dashboard.fleet import Credentials, Failure, FailureKind, Target, TargetAccess
from dashboard.sources.http import grpc
from dashboard.sources.http.client import Answer, Client
from dashboard.sources.http.credentials import ApiKey
from dashboard.vllm.control import LORAS, SERVER_INFO
from tests.sources.grpc_server import RUST, GrpcServer, message, raw_server, recorded, status
from tests.sources.polling.hostile import CERTIFICATE, MIB

PLENTY = 20.0  # seconds; longer than any answer here
SOON = 0.3
KEY = ApiKey("from-env")
Headers = Iterable[tuple[str, str]]
GRPC = (("content-type", "application/grpc"),)
OK = (("grpc-status", "0"),)


def ask(
    port: int | str,
    path: str = SERVER_INFO,
    *,
    target: Target | None = None,
    seconds: float = PLENTY,
    key: ApiKey | None = None,
) -> Answer:
    async def run() -> Answer:
        async with Client(connections=10, max_answer_bytes=MIB, max_headers=100) as client:
            asked = target or Target("http://127.0.0.1:8000/team-a")
            return await grpc.call(client, asked, str(port), path, seconds, key or ApiKey())

    return asyncio.run(run())


def failure_of(answer: Answer) -> Failure:
    assert answer.failure is not None
    assert answer.body == b""
    assert answer.failure.detail.isprintable()
    assert "secret" not in answer.failure.detail
    return answer.failure


def answering(
    headers: Headers = GRPC, data: bytes = b"", trailers: Headers | None = OK, code: str = "200"
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]:
    """Return a behaviour of a raw server that speaks HTTP/2: headers, bytes, trailers (None: the stream goes on)."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        while chunk := await reader.read(65_536):
            for event in http.receive_data(chunk):
                if isinstance(event, RequestReceived):
                    http.send_headers(1, [(":status", code), *headers], end_stream=trailers is not None and not data)
                    if data:
                        http.send_data(1, data)
                        if trailers is not None:
                            http.send_headers(1, list(trailers), end_stream=True)
            writer.write(http.data_to_send())
            await writer.drain()

    return behave


async def says(raw: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(raw)
    await writer.drain()
    await reader.read()


def framed(body: bytes, *, compressed: int = 0, length: int | None = None) -> bytes:
    return bytes([compressed]) + (len(body) if length is None else length).to_bytes(4, "big") + body


def test_a_message_is_returned_as_it_was_sent_and_the_request_names_the_client() -> None:
    with GrpcServer(recorded()) as server:
        assert ask(server.port) == Answer(200, RUST.answers[SERVER_INFO])
        assert ask(server.port, LORAS).status == 404
    (path, metadata), _ = server.asked
    assert path == SERVER_INFO
    assert metadata["user-agent"] == f"vllm-fleet-dashboard/{__version__}"
    assert "authorization" not in metadata


def test_a_message_that_is_larger_than_a_window_is_read_whole() -> None:
    body = bytes(900_000)
    with GrpcServer({SERVER_INFO: message(body)}) as server:
        assert ask(server.port) == Answer(200, body)


CODES = {
    grpcio.StatusCode.UNAUTHENTICATED: FailureKind.UNAUTHORIZED,
    grpcio.StatusCode.PERMISSION_DENIED: FailureKind.UNAUTHORIZED,
    grpcio.StatusCode.UNIMPLEMENTED: FailureKind.STATUS,
    grpcio.StatusCode.INTERNAL: FailureKind.STATUS,
    grpcio.StatusCode.UNAVAILABLE: FailureKind.STATUS,
}


@pytest.mark.parametrize("code", CODES)
def test_the_trailers_of_an_error_are_its_status_and_none_of_their_text_is_shown(code: grpcio.StatusCode) -> None:
    with GrpcServer({SERVER_INFO: status(code, "secret <b>\x1b[31m", token="secret")}) as server:
        failed = failure_of(ask(server.port, key=KEY))
    assert failed.kind is CODES[code]
    if failed.kind is FailureKind.STATUS:
        assert f"gRPC status {code.value[0]}." in failed.detail


def test_a_method_that_is_not_there_has_status_404() -> None:
    with GrpcServer({}) as server:
        answer = ask(server.port)
    assert answer.status == 404
    assert "--grpc-port" in failure_of(answer).detail


BAD: dict[str, tuple[Callable[[asyncio.StreamReader, asyncio.StreamWriter], object], FailureKind]] = {
    "HTML over HTTP/1": (
        lambda *both: says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>secret</html>", *both),
        FailureKind.PROTOCOL,
    ),
    "noise": (lambda *both: says(bytes(range(256)) * 40, *both), FailureKind.PROTOCOL),
    "HTML over HTTP/2": (answering([("content-type", "text/html")], b"<html>secret"), FailureKind.PROTOCOL),
    "a redirect": (answering([("location", "http://evil.example/secret")], code="302"), FailureKind.STATUS),
    "401": (answering(code="401"), FailureKind.UNAUTHORIZED),
    "500": (answering(code="500"), FailureKind.STATUS),
    "no status": (answering(GRPC, framed(b"x"), ()), FailureKind.PROTOCOL),
    "a status that is no number": (answering(GRPC, framed(b""), [("grpc-status", "secret")]), FailureKind.PROTOCOL),
    "a message of 4 GiB": (answering(GRPC, framed(b"x", length=2**32 - 1), None), FailureKind.TOO_LARGE),
    "a compressed message": (answering(GRPC, framed(b"x", compressed=1)), FailureKind.DECODE),
    "a message that is cut off": (answering(GRPC, framed(b"x", length=9)), FailureKind.DECODE),
    "no message": (answering([*GRPC, *OK]), FailureKind.DECODE),
    "two messages": (answering(GRPC, framed(b"x") * 2), FailureKind.DECODE),
    "large headers": (answering([(f"h{number}", "secret" * 500) for number in range(40)]), FailureKind.TOO_LARGE),
    "silence": (lambda *both: says(b"", *both), FailureKind.TIMEOUT),
    "an answer without an end": (answering(GRPC, framed(b"x", length=100), None), FailureKind.TIMEOUT),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_answer_of_grpc_is_a_failure(name: str) -> None:
    behaviour, kind = BAD[name]
    seconds = SOON if kind is FailureKind.TIMEOUT else PLENTY
    with raw_server(behaviour) as port:  # type: ignore[arg-type]
        failed = failure_of(ask(port, seconds=seconds, key=KEY))
    assert failed.kind is kind, failed


def test_a_connection_that_is_closed_in_the_answer_is_a_failure() -> None:
    async def hangs_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read(10)

    with raw_server(hangs_up) as port:
        assert failure_of(ask(port)).kind is FailureKind.PROTOCOL


def test_memory_is_limited_for_any_message() -> None:
    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        while True:  # pings: no byte of them is of the message
            http.ping(bytes(8))
            writer.write(http.data_to_send() * 5_000)
            await writer.drain()

    with GrpcServer({SERVER_INFO: message(bytes(50 * MIB))}) as server, raw_server(endless) as port:
        sizes = server.port, port
        tracemalloc.start()
        try:
            failed = [failure_of(ask(each)).kind for each in sizes]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert failed == [FailureKind.TOO_LARGE] * 2
    assert peak < 12 * MIB


def test_a_port_that_refuses_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failed = failure_of(ask(port))
    assert failed.kind is FailureKind.REFUSED
    assert failed.detail == f"127.0.0.1:{port} refused the connection. Is vLLM running there?"


@pytest.mark.parametrize("label", ["", "0", "65536", "grpc", "-1", "80/x", "٣", "9" * 500, "1\n"])
def test_a_label_that_is_no_port_is_a_failure_and_nothing_is_contacted(label: str) -> None:
    failed = failure_of(ask(label))
    assert failed.kind is FailureKind.TARGET
    assert "its label grpc_port is" in failed.detail
    assert len(failed.detail) < 400


@pytest.mark.parametrize("host", ["169.254.169.254", "metadata.google.internal", "[::ffff:169.254.169.254]"])
def test_a_reserved_address_that_only_a_source_names_is_not_contacted(host: str) -> None:
    named = Target(f"http://{host}:8000", access=TargetAccess.NAMED)
    failed = failure_of(ask(80, target=named))
    assert failed.kind is FailureKind.TARGET
    assert "link-local or cloud metadata address" in failed.detail


def test_a_name_without_an_address_is_a_failure() -> None:
    assert failure_of(ask(80, target=Target("http://no.such.host.invalid:8000"))).kind is FailureKind.DNS


HERE = "http://127.0.0.1:8000"
KEYS = [
    pytest.param(Target(HERE), True, id="listed"),
    pytest.param(Target(HERE, {"grpc_port": "9000"}), False, id="a label names the port"),
    pytest.param(Target(HERE, access=TargetAccess.ALLOWED), False, id="allowed"),
    pytest.param(Target(HERE, access=TargetAccess.NAMED), False, id="named"),
]


@pytest.mark.parametrize(("target", "is_sent"), KEYS)
def test_a_key_goes_only_to_the_port_of_the_options_of_a_listed_target(target: Target, *, is_sent: bool) -> None:
    with GrpcServer({SERVER_INFO: status(grpcio.StatusCode.UNAUTHENTICATED)}) as server:
        failed = failure_of(ask(server.port, target=target, key=KEY))
    assert server.asked[0][1].get("authorization") == ("Bearer from-env" if is_sent else None)
    assert ("poll.grpc_port" in failed.detail) is not is_sent


@pytest.mark.parametrize("ca_file", [CERTIFICATE, None, Path("no-such-file")])
def test_a_target_with_https_is_asked_over_tls_with_its_ca_file(ca_file: Path | None) -> None:
    target = Target("https://127.0.0.1:8000", credentials=Credentials(ca_file=ca_file))
    with GrpcServer(recorded(), tls=True) as server:
        answer = ask(server.port, target=target)
    if ca_file is CERTIFICATE:
        assert answer == Answer(200, RUST.answers[SERVER_INFO])
    else:
        assert failure_of(answer).kind is FailureKind.TLS


def test_tls_where_none_is_expected_and_none_where_it_is_are_failures() -> None:
    secure = Target("https://127.0.0.1:8000", credentials=Credentials(ca_file=CERTIFICATE))
    with GrpcServer(recorded()) as plain, GrpcServer(recorded(), tls=True) as server:
        assert failure_of(ask(plain.port, target=secure)).kind is FailureKind.TLS
        assert failure_of(ask(server.port)).kind is FailureKind.PROTOCOL


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    monkeypatch.delitem(sys.modules, "dashboard.sources.http.unary", raising=False)
    with GrpcServer(recorded()) as server:
        failed = failure_of(ask(server.port))
    needed = "gRPC needs h2: pip install -r requirements-grpc.txt, or the extra grpc of the wheel."
    assert failed.detail == f"127.0.0.1:{server.port} is not asked: {needed}"
    assert server.asked == []
