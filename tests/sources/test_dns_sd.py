"""Targets from DNS: A, AAAA and SRV records of a real server (dnsmasq) on loopback."""

import asyncio
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dns.asyncresolver import Resolver

from dashboard.config import DnsSdOptions, PollOptions
from dashboard.fleet import Credentials
from dashboard.sources.dns_sd import DnsSd
from dashboard.sources.source import Listing
from tests.serving import free_port, started

LIMITS = PollOptions(probe_timeout_seconds=1)
MANY = 200  # A records of one name: more than fit into one datagram
RECORDS = (
    "srv-host=_http._tcp.chat.test,b.chat.test,8001",
    "srv-host=_http._tcp.chat.test,a.chat.test,8000",
    "srv-host=_http._tcp.odd.test,a~b.chat.test,8000",
    "srv-host=_http._tcp.none.test",
    "host-record=embed.test,10.0.0.2,fd00::2",
    "host-record=embed.test,10.0.0.1",
    *(f"host-record=many.test,10.1.0.{number}" for number in range(1, MANY + 1)),
)


@contextmanager
def dns_server(*records: str) -> Iterator[int]:
    """Serve these records on 127.0.0.1; yield the port."""
    program = shutil.which("dnsmasq", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "dnsmasq is missing: tests/tools/install installs it"
    port = free_port()
    options = (
        "keep-in-foreground",
        "no-resolv",
        "no-hosts",
        "bind-interfaces",
        "listen-address=127.0.0.1",
        f"port={port}",
    )
    private = ("conf-file=/dev/null", "pid-file", "user=", "local=/test/", "log-facility=-")
    command = [program, *(f"--{each}" for each in (*options, *private, *records))]
    with started(command) as process:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        assert process.poll() is None, "dnsmasq ended"
        yield port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with dns_server(*RECORDS) as port:
        yield port


def source(server: int, clock: Any = lambda: 0.0, **options: Any) -> DnsSd:
    def resolver() -> Resolver:
        made = Resolver(configure=False)
        made.nameservers, made.port = ["127.0.0.1"], server
        return made

    return DnsSd(DnsSdOptions(**options), Credentials("TOKEN"), LIMITS, clock, resolver)


def read(found: DnsSd) -> list[Listing]:
    return list(asyncio.run(found.read()))


def ids(listing: Listing) -> list[str]:
    return [each.id for each in listing.targets]


def test_srv_records_have_host_and_port(port: int) -> None:
    (listing,) = read(source(port, names=("_http._tcp.chat.test",), labels={"pool": "chat"}))

    assert ids(listing) == ["http://a.chat.test:8000", "http://b.chat.test:8001"]
    assert {each.labels["pool"] for each in listing.targets} == {"chat"}
    assert listing.targets[0].credentials == Credentials("TOKEN")


def test_addresses_get_the_port_and_the_scheme_of_the_options(port: int) -> None:
    (four,) = read(source(port, names=("embed.test",), type="A", port=8000, scheme="https"))
    (six,) = read(source(port, names=("embed.test",), type="AAAA", port=8000))

    assert ids(four) == ["https://10.0.0.1:8000", "https://10.0.0.2:8000"]
    assert ids(six) == ["http://[fd00::2]:8000"]


def test_an_answer_larger_than_a_datagram_is_whole(port: int) -> None:
    (listing,) = read(source(port, names=("many.test",), type="A", port=1))

    assert len(listing.targets) == MANY


def test_a_host_that_is_no_host_is_a_failed_target(port: int) -> None:
    (listing,) = read(source(port, names=("_http._tcp.odd.test",)))

    (target,) = listing.targets
    assert target.failure is not None


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("lost.test", "SRV", "lost.test: no such name in DNS"),
        ("embed.test", "SRV", "embed.test: no SRV record in DNS"),
        ("a..b", "SRV", "a..b: cannot be resolved (EmptyLabel)"),
    ],
)
def test_a_name_without_records_is_one_sentence(port: int, name: str, kind: str, sentence: str) -> None:
    (listing,) = read(source(port, names=(name,), type=kind))

    assert listing == Listing(name, (), sentence)


@pytest.mark.parametrize("content", [b"nameserver bogus\n", b"\xff\n", b""])
def test_a_damaged_or_empty_resolver_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "resolv.conf"
    file.write_bytes(content)
    options = DnsSdOptions(names=("chat.test",))
    (listing,) = read(DnsSd(options, None, LIMITS, make_resolver=lambda: Resolver(filename=str(file))))

    assert (listing.failure or "").startswith("chat.test: ")
    assert "/etc/resolv.conf" in (listing.failure or "")


def test_a_service_that_is_not_offered_has_no_target(port: int) -> None:
    assert read(source(port, names=("_http._tcp.none.test",))) == [Listing("_http._tcp.none.test", ())]


def test_a_server_that_is_gone_keeps_the_targets_as_stale() -> None:
    now = 0.0
    with dns_server(*RECORDS) as port:
        found = source(port, lambda: now, names=("_http._tcp.chat.test", "_http._tcp.odd.test"), refresh_seconds=30)
        fresh = read(found)
    now = 29.0
    assert read(found) == fresh
    now = 30.0
    chat, odd = read(found)

    assert ids(chat) == ids(fresh[0])
    assert all(each.stale for each in (*chat.targets, *odd.targets))
    assert (chat.failure or "").endswith("; keeping its last targets (2), marked stale")
    assert (chat.failure or "").startswith(("_http._tcp.chat.test: no ", "_http._tcp.chat.test: DNS timed out"))


def test_a_silent_server_is_a_sentence_within_the_limit() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        (listing,) = read(source(silent.getsockname()[1], names=("chat.test",), type="A", port=1))

    assert listing.failure == "chat.test: DNS timed out after 1 s"
