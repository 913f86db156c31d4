"""Who gets an API key, and which addresses are never asked: sources on real local servers."""

import asyncio
import json
import socket
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from dashboard.config import KubernetesOptions, Options
from dashboard.fleet import Credentials, Failure, FailureKind, Snapshot, Target, TargetAccess
from dashboard.sources.discovery import Discovery, discover_once
from dashboard.sources.http import transport
from dashboard.sources.http.client import Answer, Client
from dashboard.sources.http.credentials import key_warnings
from dashboard.sources.http.transport import is_reserved
from dashboard.sources.kubernetes.pods import Pod, make_pod_targets
from dashboard.sources.polling.poller import Poller
from tests.sources.polling.hostile import JSON, MIB, Exchange, HostileServer, answers

NOW = datetime(2026, 11, 26, tzinfo=UTC)
KEY = "hush-0123"
PLENTY = 20.0  # seconds


async def wants_a_key(exchange: Exchange) -> None:
    known = exchange.asked.headers.get("authorization") == f"Bearer {KEY}"
    await exchange.reply(b"{}", 200 if known else 401)


@pytest.fixture
def replica(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> HostileServer:
    monkeypatch.setenv("KEY", KEY)
    server.routes["/v1/models"] = wants_a_key
    return server


def options(inventory: HostileServer, names: list[str], **more: Any) -> Options:
    """Return options whose http_sd lists `names`."""
    groups = json.dumps([{"targets": names}]).encode()
    inventory.routes["/targets"] = answers(groups, headers=JSON)
    return Options.model_validate(
        {"http_sd": [{"url": f"{inventory.address}/targets"}], "credentials": {"token_env": "KEY"}, **more}
    )


def poll(wanted: Options) -> Snapshot:
    """Poll the only target of the options."""
    targets = discover_once(wanted).targets
    (snapshot,) = asyncio.run(Poller(wanted.poll).poll(targets, lambda: NOW))
    return snapshot


def keys_at(replica: HostileServer) -> set[str | None]:
    return {asked.headers.get("authorization") for asked in replica.asked}


def test_a_target_that_only_a_source_names_is_polled_without_the_key(replica: HostileServer) -> None:
    where = f"127.0.0.1:{replica.port}"
    snapshot = poll(options(replica, [where]))

    assert {"/metrics", "/v1/models"} <= {asked.path for asked in replica.asked}
    assert keys_at(replica) == {None}
    assert snapshot.probes["/v1/models"].failure == Failure(
        FailureKind.UNAUTHORIZED,
        f"{where} wants an API key for /v1/models and none is sent to an address that only a source names; "
        f'add to fleet.yaml: targets_allowed: ["{where}"].',
    )


@pytest.mark.parametrize("allowed", ["127.0.0.0/8", "127.0.0.1:{port}"])
def test_a_target_inside_targets_allowed_gets_the_key(replica: HostileServer, allowed: str) -> None:
    entry = allowed.format(port=replica.port)
    snapshot = poll(options(replica, [f"127.0.0.1:{replica.port}"], targets_allowed=[entry]))

    assert keys_at(replica) == {None, f"Bearer {KEY}"}  # None: the source
    assert snapshot.probes["/v1/models"].status == 200


@pytest.mark.parametrize("own", [None, {"token_env": "KEY"}])
def test_a_source_s_own_credentials_need_targets_allowed_too(
    replica: HostileServer, own: dict[str, str] | None
) -> None:
    wanted = options(replica, [f"127.0.0.1:{replica.port}"])
    source = wanted.http_sd[0].model_dump(exclude_none=True) | {"credentials": own}
    poll(Options.model_validate({"http_sd": [source], "credentials": {"token_env": "KEY"}}))

    assert keys_at(replica) == {None}


@pytest.mark.parametrize("listed", ["targets", "file_sd"])
def test_a_listed_target_gets_the_key_also_where_a_source_names_it(
    replica: HostileServer, listed: str, tmp_path: Path
) -> None:
    where = f"127.0.0.1:{replica.port}"
    (tmp_path / "a.json").write_text(json.dumps([{"targets": [where]}]))
    lists: dict[str, Any] = {"targets": [where], "file_sd": [{"files": [str(tmp_path / "a.json")]}]}
    wanted = options(replica, [where], **{listed: lists[listed]})

    assert poll(wanted).probes["/v1/models"].status == 200


def test_credentials_of_a_source_do_not_reach_a_target_that_another_one_lists(replica: HostileServer) -> None:
    where = f"127.0.0.1:{replica.port}"
    wanted = options(replica, [where], targets=[{"url": where, "credentials": {}}])
    source = wanted.http_sd[0].model_dump(exclude_none=True) | {"credentials": {"token_env": "KEY"}}
    both = Options.model_validate({"http_sd": [source], "targets": [where]})

    for each in (wanted, both):
        replica.asked.clear()
        poll(each)
        assert keys_at(replica) == {None}


def test_targets_stay_one_object_while_the_source_lists_one(replica: HostileServer) -> None:
    discovery = Discovery(options(replica, ["a:1"], targets_allowed=["a"]))

    async def twice() -> list[Target]:
        return [(await discovery.discover()).targets[0] for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first.access is TargetAccess.ALLOWED
    assert first is second


def test_a_key_that_is_not_sent_is_not_exposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k")
    credentials = Credentials(token_env="KEY")
    targets = [Target(f"http://gpu-{each}:8000", credentials=credentials, access=each) for each in TargetAccess]

    assert [each.name for each in TargetAccess if f"gpu-{each}:" in key_warnings(targets)] == ["ALLOWED", "LISTED"]


def test_a_pod_gets_the_key_on_ports_that_it_or_fleet_yaml_has() -> None:
    value = {
        "metadata": {"name": "a", "annotations": {"llm-d.ai/active-ports": "8000,9000,8200"}},
        "spec": {"containers": [{"ports": [{"containerPort": 8000}]}]},
        "status": {"podIP": "10.0.0.7"},
    }
    chosen = KubernetesOptions(selector="app=vllm", port="8200")
    targets = make_pod_targets(Pod(value), chosen, None, ())

    assert [(each.id, each.access) for each in targets] == [
        ("http://10.0.0.7:8000", TargetAccess.ALLOWED),
        ("http://10.0.0.7:9000", TargetAccess.NAMED),
        ("http://10.0.0.7:8200", TargetAccess.ALLOWED),
    ]


RESERVED = ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"]


def ask(*targets: Target) -> list[Answer]:
    async def run() -> list[Answer]:
        async with Client(connections=10, max_answer_bytes=MIB, max_headers=100) as client:
            return [await client.get(target, "/metrics", PLENTY) for target in targets]

    return asyncio.run(run())


@pytest.mark.parametrize("access", [TargetAccess.NAMED, TargetAccess.ALLOWED])
@pytest.mark.parametrize("host", [*RESERVED, "metadata.google.internal", "metadata.google.internal."])
def test_a_reserved_address_is_not_asked_for_a_source(host: str, access: TargetAccess) -> None:
    (answer,) = ask(Target(f"http://{host}:80", access=access))

    assert answer.failure is not None
    assert answer.failure.kind is FailureKind.TARGET
    assert answer.failure.detail == (
        f"{host}:80 is not asked: {host.strip('[]')} is a link-local or cloud metadata address, and only a source "
        f'names it. If this is intended, add to fleet.yaml: targets: ["http://{host}:80"]'
    )


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Names and their addresses, as this machine's resolver gives them: one after the other."""
    known: dict[str, list[str]] = {}
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **more: Any) -> Any:
        several = known.get(host, [host])
        return resolve(several.pop(0) if len(several) > 1 else several[0], *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


def test_a_name_that_resolves_to_a_reserved_address_is_refused_at_connect(
    replica: HostileServer, names: dict[str, list[str]]
) -> None:
    names["rebinding.test"] = ["127.0.0.1", "169.254.169.254"]
    target = Target(f"http://rebinding.test:{replica.port}", access=TargetAccess.ALLOWED)
    replica.routes["/metrics"] = answers(b"")
    before, after = ask(target)[0], ask(target)[0]

    assert before.failure is None
    assert after.failure is not None
    assert after.failure.kind is FailureKind.TARGET
    assert "169.254.169.254 is a link-local or cloud metadata address" in after.failure.detail


def test_a_listed_target_may_have_any_address(replica: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "METADATA_ADDRESSES", {ip_address("127.0.0.1")})
    replica.routes["/metrics"] = answers(b"")
    failures = [answer.failure for answer in ask(*(Target(replica.address, access=each) for each in TargetAccess))]

    assert [each.kind if each else None for each in failures] == [FailureKind.TARGET, FailureKind.TARGET, None]


def test_a_poll_of_a_reserved_address_asks_once(replica: HostileServer) -> None:
    snapshot = poll(options(replica, ["169.254.169.254"]))

    assert {each.failure.kind for each in snapshot.probes.values() if each.failure} == {FailureKind.TARGET}
    assert [asked.path for asked in replica.asked] == ["/targets"]


def test_an_ordinary_address_is_not_reserved() -> None:
    assert [each for each in ("10.0.0.1", "127.0.0.1", "fd00::1", "::1", "8.8.8.8") if is_reserved(each)] == []
