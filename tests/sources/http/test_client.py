"""One GET against a real server that misbehaves."""

import asyncio
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import __version__
from dashboard.fleet import Credentials, Failure, FailureKind, Target
from dashboard.sources.http.client import MAX_ERROR_PAGE_BYTES, Answer, Client
from dashboard.sources.http.credentials import ApiKey
from tests.sources.polling.hostile import (
    CERTIFICATE,
    MIB,
    Exchange,
    HostileServer,
    answers,
    hangs_up,
    silent,
    trickles,
)

PLENTY = 20.0  # seconds; longer than any answer here
SOON = 0.2
HERE = Path(__file__).parent


def ask(
    target: Target, *paths: str, seconds: float = PLENTY, key: ApiKey | None = None, last: bool = False
) -> list[Answer]:
    async def run() -> list[Answer]:
        async with Client(connections=10, max_answer_bytes=MIB, max_headers=100) as client:
            return [await client.get(target, path, seconds, key=key or ApiKey(), last=last) for path in paths]

    return asyncio.run(run())


def failure_of(answer: Answer) -> Failure:
    assert answer.failure is not None
    return answer.failure


def test_a_request_names_the_client_and_asks_for_no_compression(server: HostileServer) -> None:
    ask(Target(server.address), "/version")
    headers = server.asked[0].headers
    assert headers["user-agent"] == f"vllm-fleet-dashboard/{__version__}"
    assert headers["accept-encoding"] == "identity"
    assert "authorization" not in headers
    assert "cookie" not in headers


@pytest.mark.parametrize("packed", [True, False])
def test_a_compressed_answer_is_unpacked(server: HostileServer, *, packed: bool) -> None:
    body = gzip.compress(b"{}") if packed else b"{}"
    server.routes["/version"] = answers(body, headers=("Content-Encoding: gzip",) if packed else ())
    assert ask(Target(server.address), "/version") == [Answer(200, b"{}")]


def test_the_last_probe_closes_the_shared_connection(server: HostileServer) -> None:
    ask(Target(server.address), "/a", "/b")
    ask(Target(server.address), "/c", "/d", last=True)
    assert [asked.connection for asked in server.asked] == [1, 1, 2, 3]


def test_only_the_beginning_of_an_error_page_is_read(server: HostileServer) -> None:
    server.routes["/version"] = answers(b"e" * MIB, 500)
    (answer,) = ask(Target(server.address), "/version")
    assert (answer.status, failure_of(answer).kind) == (500, FailureKind.STATUS)
    assert len(answer.body) == MAX_ERROR_PAGE_BYTES + 1


def test_a_timeout_reports_whether_the_answer_began(server: HostileServer) -> None:
    server.routes["/a"] = silent
    server.routes["/b"] = trickles
    where = f"127.0.0.1:{server.port}"
    assert [failure_of(answer).detail for answer in ask(Target(server.address), "/a", "/b", seconds=SOON)] == [
        f"{where} timed out after 0.2 s on /a.",
        f"{where} timed out after 0.2 s in the middle of its answer to /b.",
    ]


@pytest.mark.parametrize(
    "address",
    [
        "http://a..b:80",
        "http://h\x00st:80",
        "http://h\nst:80",
        "http://h/\r\nX-Y: z",
        "http://" + "x" * 64 + ".y:80",
        "http://h:x",
    ],
)
def test_an_invalid_address_is_a_failure_of_the_target(address: str) -> None:
    failure = failure_of(*ask(Target(address), "/version"))
    assert failure.kind is FailureKind.TARGET
    assert failure.detail.isprintable()


@pytest.mark.parametrize("etag", ['"one"', 'W/"one"', '"!#~"'])
def test_the_etag_of_a_complete_answer_is_returned(server: HostileServer, etag: str) -> None:
    server.routes["/a"] = answers(b"{}", headers=[f"ETag: {etag}"])
    server.routes["/b"] = answers(b"{}", 500, headers=[f"ETag: {etag}"])
    assert [answer.etag for answer in ask(Target(server.address), "/a", "/b", "/missing")] == [etag, None, None]


@pytest.mark.parametrize("etag", ["one", '""', '"a b"', '"a"b"', '"ü"', '"' + "a" * 201 + '"', '"a', "*", ""])
def test_an_etag_of_another_form_is_ignored(server: HostileServer, etag: str) -> None:
    server.routes["/a"] = answers(b"{}", headers=[f"ETag: {etag}"])
    assert ask(Target(server.address), "/a") == [Answer(200, b"{}")]


def test_an_answer_with_the_etag_of_the_request_is_unchanged(server: HostileServer) -> None:
    async def run() -> list[Answer]:
        async with Client(connections=1, max_answer_bytes=MIB, max_headers=100) as client:
            target = Target(server.address)
            return [await client.get(target, path, PLENTY, etag='"one"') for path in ("/a", "/b")]

    server.routes["/a"] = answers(b"", 304)
    server.routes["/b"] = answers(b"{}", headers=['ETag: "two"'])
    same, other = asyncio.run(run())
    assert [asked.headers["if-none-match"] for asked in server.asked] == ['"one"'] * 2
    assert (same, same.is_unchanged) == (Answer(304, etag='"one"'), True)
    assert (other, other.is_unchanged) == (Answer(200, b"{}", etag='"two"'), False)


def test_304_to_a_request_without_etag_is_a_failure(server: HostileServer) -> None:
    server.routes["/a"] = answers(b"", 304, headers=['ETag: "one"'])
    (answer,) = ask(Target(server.address), "/a")
    assert not answer.is_unchanged
    assert failure_of(answer).kind is FailureKind.STATUS


def test_a_redirect_is_a_failure_and_not_followed(server: HostileServer) -> None:
    with HostileServer() as other:
        for place in (f"{other.address}/version", "http://[", "//" + other.address.partition("//")[2]):
            server.routes["/version"] = answers(b"", 307, headers=(f"Location: {place}",))
            (answer,) = ask(Target(server.address), "/version", key=ApiKey("hush"))
            assert (answer.status, failure_of(answer).kind) == (307, FailureKind.STATUS)
        assert other.connections == 0


def test_a_refused_key_is_sent_and_not_shown(server: HostileServer) -> None:
    server.routes["/v1/models"] = answers(b"", 401)
    failure = failure_of(*ask(Target(server.address), "/v1/models", key=ApiKey("hush")))
    assert server.asked[0].headers["authorization"] == "Bearer hush"
    assert "hush" not in failure.detail
    assert "refuses the given API key" in failure.detail


def test_cookies_are_not_sent_back(server: HostileServer) -> None:
    server.routes["/a"] = answers(b"{}", headers=("Set-Cookie: id=1; Path=/",))
    ask(Target(server.address), "/a", "/a")
    assert [asked.headers.get("cookie") for asked in server.asked] == [None, None]


def test_proxies_of_the_environment_are_ignored(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with HostileServer() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.address)
        monkeypatch.delenv("no_proxy", raising=False)
        ask(Target(server.address), "/version")
        assert proxy.connections == 0
    assert server.connections == 1


def test_a_reused_connection_closed_before_the_answer_is_a_protocol_failure(server: HostileServer) -> None:
    server.routes["/a"] = answers(b"{}")
    server.routes["/b"] = hangs_up
    first, second = ask(Target(server.address), "/a", "/b")
    assert first == Answer(200, b"{}")
    assert failure_of(second).kind is FailureKind.PROTOCOL


def test_the_number_of_headers_is_limited(server: HostileServer) -> None:
    for path, count in (("/a", 90), ("/b", 110)):
        server.routes[path] = answers(b"{}", headers=[f"X-{number}: 1" for number in range(count)])
    below, above = ask(Target(server.address), "/a", "/b")
    assert below.failure is None
    assert failure_of(above).kind is FailureKind.TOO_LARGE


def test_interim_answers_are_skipped(server: HostileServer) -> None:
    async def stalls(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000)
        await exchange.reply(b"{}")

    server.routes["/a"] = stalls
    assert ask(Target(server.address), "/a") == [Answer(200, b"{}")]


class TestTls:
    @pytest.fixture
    def secure(self) -> Iterator[HostileServer]:
        with HostileServer(tls=True) as running:
            running.routes["/version"] = answers(b"{}")
            yield running

    @pytest.mark.parametrize(
        ("host", "ca_file", "sentence"),
        [
            (
                "127.0.0.1",
                None,
                "is not trusted (self-signed certificate). Set ca_file in fleet.yaml or SSL_CERT_FILE.",
            ),
            ("localhost", CERTIFICATE, "mismatch"),
            ("127.0.0.1", HERE / "missing.pem", "was not asked: the CA file "),
            ("127.0.0.1", HERE / "test_client.py", "was not asked: the CA file "),
        ],
        ids=["unknown CA", "a different name", "missing CA file", "unreadable CA file"],
    )
    def test_an_untrusted_server_gets_no_request(
        self, secure: HostileServer, host: str, ca_file: Path | None, sentence: str
    ) -> None:
        target = Target(f"https://{host}:{secure.port}", credentials=Credentials(ca_file=ca_file))
        failure = failure_of(*ask(target, "/version", key=ApiKey("hush")))
        assert failure.kind is FailureKind.TLS
        assert sentence in failure.detail
        assert secure.connections == 0

    def test_a_ca_file_is_trusted(self, secure: HostileServer) -> None:
        target = Target(secure.address, credentials=Credentials(ca_file=CERTIFICATE))
        assert ask(target, "/version", "/version") == [Answer(200, b"{}")] * 2

    def test_https_to_a_plain_port_suggests_http(self, server: HostileServer) -> None:
        failure = failure_of(*ask(Target(f"https://127.0.0.1:{server.port}"), "/version"))
        assert failure.kind is FailureKind.TLS
        assert failure.detail.endswith("Should its address begin with http://?")

    def test_http_to_a_tls_port_is_a_protocol_failure(self, secure: HostileServer) -> None:
        (answer,) = ask(Target(f"http://127.0.0.1:{secure.port}"), "/version")
        assert failure_of(answer).kind is FailureKind.PROTOCOL
