"""Credential programs of a kubeconfig: real executables, and an emulated API server that wants what they give."""

import asyncio
import fcntl
import json
import os
import re
import signal
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.config import KubernetesOptions, Options, PollOptions
from dashboard.config.sources import RouterOptions
from dashboard.sources.discovery import discover_once
from dashboard.sources.kubernetes.program import MAX_BYTES, VERSIONS
from dashboard.sources.kubernetes.source import Kubernetes
from dashboard.sources.routers.reader import RouterReader
from dashboard.sources.source import Listing
from tests.serving import wait_for
from tests.sources.kubernetes_api import Cluster, write_kubeconfig
from tests.sources.polling.hostile import CERTIFICATE, HostileServer, answers, silent

V1 = VERSIONS[0]
VLLM = {"app": "vllm"}
SECRET = "s3cret-t0ken"
AT = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.fixture
def cluster(server: HostileServer) -> Cluster:
    cluster = Cluster(server)
    cluster.add_pod("a", "10.0.0.1", VLLM)
    cluster.tokens = {SECRET}
    return cluster


class Script:
    """An executable in the folder of a kubeconfig that notes each run, and is its user's `exec`."""

    def __init__(self, folder: Path, server: str, body: str, **wanted: Any) -> None:
        self.folder = folder
        self.file = folder / "get-token"
        self.runs_file = folder / "runs"
        self.write(body)
        spec = {"apiVersion": V1, "command": "./get-token", "interactiveMode": "IfAvailable", **wanted}
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", server, user=json.dumps({"exec": spec}))

    def write(self, body: str) -> None:
        self.file.write_text(f"#!/bin/sh\necho run >> '{self.runs_file}'\n{body}\n")
        self.file.chmod(0o700)

    @property
    def runs(self) -> int:
        return len(self.runs_file.read_text().splitlines()) if self.runs_file.exists() else 0

    def source(self, **more: Any) -> Kubernetes:
        options = {"kubeconfig": self.kubeconfig, "selector": "app=vllm", "allow_exec": True, **more}
        return Kubernetes(KubernetesOptions.model_validate(options), None, PollOptions())


def credential(version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def says(answer: str) -> str:
    """Return a script that writes a text."""
    return f"cat <<'END'\n{answer}\nEND"


def read(source: Kubernetes) -> Listing:
    (listing,) = asyncio.run(source.read())
    return listing


def failure(source: Kubernetes) -> str:
    return read(source).failure or ""


def later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def is_locked(file: Path) -> bool:
    """Return whether a process still has the lock that a script took."""
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_no_program_is_started_without_allow_exec_and_the_sentence_says_how(cluster: Cluster, tmp_path: Path) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)))
    assert failure(script.source(allow_exec=False)) == (
        f"kubernetes/pods/app=vllm: {tmp_path / 'kubeconfig'}: the program get-token "
        "is started only with allow_exec: true in this entry of fleet.yaml"
    )
    assert (script.runs, cluster.server.asked) == (0, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_token_is_kept_for_all_polls_and_sources_of_a_kubeconfig(
    cluster: Cluster, tmp_path: Path, version: str
) -> None:
    answer = credential(version, token=SECRET, expirationTimestamp=later(3600))
    script = Script(tmp_path, cluster.server.address, says(answer), apiVersion=version)
    first, second = script.source(), script.source(port="9000")
    listings = [read(first), read(first), read(second)]

    assert [(len(each.targets), each.failure) for each in listings] == [(1, None)] * 3
    assert script.runs == 1


def test_sources_that_are_read_at_the_same_time_wait_for_one_run_also_one_that_fails(
    cluster: Cluster, tmp_path: Path
) -> None:
    script = Script(tmp_path, cluster.server.address, "exit 3")
    sources = [script.source(port=str(9000 + each)) for each in range(5)]

    async def read_all() -> list[Listing]:
        return [each for several in await asyncio.gather(*(each.read() for each in sources)) for each in several]

    assert all("ended with exit code 3" in (each.failure or "") for each in asyncio.run(read_all()))
    assert script.runs == 1
    script.write(says(credential(token=SECRET)))
    assert [each.failure for each in asyncio.run(read_all())] == [None] * 5
    assert script.runs == 2


def test_a_client_certificate_is_shown_to_the_api_server(tmp_path: Path) -> None:
    pem = CERTIFICATE.read_text()
    with HostileServer(asks_certificate=True) as server:
        Cluster(server).add_pod("a", "10.0.0.1", VLLM)
        answer = says(credential(clientCertificateData=pem, clientKeyData=pem))
        script = Script(tmp_path, server.address, answer)
        ca = f", certificate-authority-data: {b64encode(pem.encode()).decode()}"
        user = json.dumps({"exec": {"apiVersion": V1, "command": "./get-token"}})
        write_kubeconfig(script.kubeconfig, server.address, user=user, cluster=ca)
        assert len(read(script.source()).targets) == 1
        assert "authorization" not in server.asked[0].headers
        write_kubeconfig(script.kubeconfig, server.address, user="{token: a}", cluster=ca)
        assert failure(script.source())


def test_a_credential_is_renewed_before_it_expires(cluster: Cluster, tmp_path: Path) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET, expirationTimestamp=later(4))))
    source = script.source()
    assert len(read(source).targets) == 1
    script.write(says(credential(token=SECRET, expirationTimestamp=later(3600))))
    wait_for(lambda: read(source).failure is None and script.runs == 2)
    read(source)
    assert script.runs == 2


def test_a_token_that_is_refused_is_renewed_once_and_a_refusal_of_the_new_one_is_a_sentence(
    cluster: Cluster, tmp_path: Path
) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)))
    source = script.source()
    read(source)
    cluster.tokens = {"second"}
    script.write(says(credential(token="second")))
    assert read(source).failure is None
    assert script.runs == 2
    cluster.tokens = {"third"}
    assert "refuses the given API key for /api/v1/namespaces/llm-d/pods (status 401)" in failure(source)
    assert script.runs == 3


def test_routers_use_the_same_credential_and_renew_it(cluster: Cluster, tmp_path: Path) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)))
    cluster.add_pod("router-0", "127.0.0.1", {"app": "router"})
    cluster.server.routes["/metrics"] = answers(b"")
    chosen = {"kind": "dynamo", "selector": "app=router", "kubeconfig": script.kubeconfig, "port": cluster.server.port}

    def routers(**more: Any) -> RouterReader:
        return RouterReader([RouterOptions.model_validate({**chosen, **more})], PollOptions())

    def name(reader: RouterReader) -> str:
        (router,) = asyncio.run(reader.read(AT))
        return router.name

    refused = asyncio.run(routers().read(AT))
    assert "started only with allow_exec: true" in refused[0].failures[0]
    assert name(routers(allow_exec=True)) == "llm-d/router-0"
    read(script.source())
    assert script.runs == 1
    cluster.tokens = {"second"}
    script.write(says(credential(token="second")))
    assert name(routers(allow_exec=True)) == "llm-d/router-0"
    assert script.runs == 2


def test_another_program_in_the_kubeconfig_is_run_at_the_next_poll(cluster: Cluster, tmp_path: Path) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token="wrong")))
    source = script.source()
    assert "status 401" in failure(source)
    other = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)), args=["other"])
    assert read(other.source()).failure is read(source).failure is None


def test_the_program_gets_its_arguments_as_they_are_its_environment_and_the_request(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFILE", "inherited")
    body = """printf '%s\\n' "$@" "$REGION" "$PROFILE" "$(cat)" > seen
    printf %s "$KUBERNETES_EXEC_INFO" > info"""
    arguments = ["$(touch hacked)", "; touch hacked", "*", ""]
    wanted = {"args": arguments, "env": [{"name": "REGION", "value": "eu"}], "provideClusterInfo": True}
    script = Script(tmp_path, cluster.server.address, f"cd '{tmp_path}'\n{body}", **wanted)
    own = ", extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: fleet}}]"
    user = json.dumps({"exec": {"apiVersion": V1, "command": "./get-token", **wanted}})
    write_kubeconfig(script.kubeconfig, cluster.server.address, user=user, cluster=own)
    failure(script.source())

    assert (tmp_path / "seen").read_text().split("\n") == [*arguments, "eu", "inherited", "", ""]
    assert not (tmp_path / "hacked").exists()
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": cluster.server.address, "config": {"audience": "fleet"}}},
    }


def test_a_program_without_a_slash_is_found_in_path_and_never_in_the_current_folder(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)), command="get-token")
    monkeypatch.chdir(tmp_path)
    for path in (f".{os.pathsep}{os.environ['PATH']}", os.environ["PATH"]):
        monkeypatch.setenv("PATH", path)
        assert failure(script.source()).endswith(
            "the program get-token is not in PATH; install it, or write its path as command"
        )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert read(script.source()).failure is None


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"command": ""}, "exec of the user has no command"),
        ({"command": "./none"}, "the program none cannot be started: No such file or directory"),
        ({"command": "./kubeconfig"}, "the program kubeconfig cannot be started: Permission denied"),
        ({"args": ["a\0b"]}, "the program get-token cannot be started: invalid arguments"),
        (
            {"apiVersion": "client.authentication.k8s.io/v1alpha1"},
            "the program get-token has another apiVersion in exec than client.authentication.k8s.io/v1",
        ),
        ({"interactiveMode": "Always"}, "the program get-token needs a terminal (interactiveMode: Always), which"),
    ],
)
def test_a_program_that_cannot_be_run_is_a_sentence(
    cluster: Cluster, tmp_path: Path, wanted: Mapping[str, Any], sentence: str
) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)), **wanted)
    assert sentence in failure(script.source())
    assert script.runs == 0


BAD = {
    "exit code": (f"echo {SECRET} >&2; {says(credential(token=SECRET))}\nexit 1", "ended with exit code 1; run it in"),
    "signal": ("kill -9 $$", "ended with signal 9; run it in"),
    "HTML": (says(f"<!doctype html>{SECRET}"), f"answers with no ExecCredential of {V1}"),
    "nothing": (":", f"answers with no ExecCredential of {V1}"),
    "list": (says("[]"), f"answers with no ExecCredential of {V1}"),
    "other version": (says(credential(VERSIONS[1], token=SECRET)), f"answers with no ExecCredential of {V1}"),
    "other kind": (says(json.dumps({"kind": "Secret", "token": SECRET})), f"answers with no ExecCredential of {V1}"),
    "many nodes": (says(f"[{'[],' * 9000}[]]"), f"answers with no ExecCredential of {V1}"),
    "no credential": (says(credential()), "answers with neither a token nor a client certificate and its key"),
    "no key": (says(credential(clientCertificateData=SECRET)), "answers with neither a token nor a client certificate"),
    "no PEM": (
        says(credential(clientCertificateData=SECRET, clientKeyData=SECRET)),
        "answers with a client certificate that cannot be read as PEM with its key",
    ),
    "two words": (says(credential(token=f"{SECRET} {SECRET}")), "get-token holds more than one word of plain"),
    "expired": (
        says(credential(token=SECRET, expirationTimestamp="2026-01-01T00:00:00Z")),
        "answers with a credential that has expired; check the clock of this machine",
    ),
    "no time": (says(credential(token=SECRET, expirationTimestamp=SECRET)), "an expirationTimestamp that is no time"),
    "local time": (
        says(credential(token=SECRET, expirationTimestamp="2099-01-01T00:00:00")),
        "an expirationTimestamp that is no time",
    ),
    "huge": (f"head -c {MAX_BYTES + 1} /dev/zero", f"writes more than {MAX_BYTES // 2**10} KiB and was ended"),
    "endless": (f"yes {SECRET}", f"writes more than {MAX_BYTES // 2**10} KiB and was ended"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_a_sentence_that_keeps_the_targets_and_nothing_of_it_is_shown_or_logged(
    cluster: Cluster, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)))
    source = script.source()
    read(source)
    body, sentence = BAD[name]
    script.write(body)
    cluster.tokens = {"another"}
    listing = read(source)

    assert sentence in (listing.failure or "")
    assert listing.failure
    assert listing.failure.endswith("; keeping its last targets (1), marked stale")
    assert [each.stale for each in listing.targets] == [True]
    shown = (*capfd.readouterr(), caplog.text, listing.failure)
    assert not [each for each in shown if SECRET in each]


def test_a_slow_program_is_ended_with_its_children_and_costs_its_own_source_only(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "quick").mkdir()
    lock = tmp_path / "lock"
    slow = Script(tmp_path / "slow", cluster.server.address, f"exec 9> '{lock}'; flock 9; sleep 600 & sleep 600; wait")
    quick = Script(tmp_path / "quick", cluster.server.address, says(credential(token=SECRET)))
    entries = [
        {"selector": "app=vllm", "allow_exec": True, "kubeconfig": each.kubeconfig, "port": port}
        for each, port in ((slow, "1"), (quick, "2"))
    ]
    limits = {"replica_timeout_seconds": 4, "probe_timeout_seconds": 1}
    found = discover_once(Options.model_validate({"kubernetes": entries, "poll": limits}))

    assert [each.id for each in found.targets] == ["http://10.0.0.1:2"]
    (said,) = found.failures
    ended = re.search(r"slow/kubeconfig: the program get-token took longer than (\S+) s and was ended$", said)
    assert ended, said
    assert 3 < float(ended[1]) <= 4, "the source begins a little before its program"
    wait_for(lambda: not is_locked(lock))


def test_a_poll_that_is_cancelled_ends_the_program(cluster: Cluster, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    script = Script(tmp_path, cluster.server.address, f"exec 9> '{lock}'; flock 9; sleep 600 & sleep 600")

    async def cancel() -> None:
        reading = asyncio.create_task(script.source().read())
        await asyncio.to_thread(wait_for, lambda: lock.exists() and is_locked(lock))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(cancel())
    wait_for(lambda: not is_locked(lock))


def test_a_child_that_goes_on_is_ended_and_one_in_a_session_of_its_own_delays_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    lock, pid = tmp_path / "lock", tmp_path / "pid"
    body = f"(exec 9> '{lock}'; flock 9; sleep 600) &\nsetsid sh -c 'echo $$ > {pid}; exec sleep 600' &"
    waits = f"while [ ! -s '{pid}' ] || [ ! -e '{lock}' ]; do :; done"
    script = Script(tmp_path, cluster.server.address, f"{body}\n{waits}\n{says(credential(token=SECRET))}")
    try:
        assert read(script.source()).failure is None
        wait_for(lambda: not is_locked(lock))
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_token_beside_the_program_is_used_without_running_it(cluster: Cluster, tmp_path: Path) -> None:
    script = Script(tmp_path, cluster.server.address, "exit 1")
    user = json.dumps({"token": SECRET, "exec": {"apiVersion": V1, "command": "./get-token"}})
    write_kubeconfig(script.kubeconfig, cluster.server.address, user=user)
    assert read(script.source(allow_exec=False)).failure is None
    assert script.runs == 0


def test_an_api_server_that_is_silent_does_not_run_the_program_again(cluster: Cluster, tmp_path: Path) -> None:
    script = Script(tmp_path, cluster.server.address, says(credential(token=SECRET)))
    cluster.broken_watch = silent
    source = script.source()
    assert [read(source).failure, read(source).failure] == [None, None]
    assert script.runs == 1
