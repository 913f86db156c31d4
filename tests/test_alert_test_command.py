"""`alert-test` sends a test alert to every receiver, prints each answer, and fails where one did not accept it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import assert_wrong_usage, last_line, run
from tests.notify.alertmanager import active, alertmanager
from tests.serving import wait_for
from tests.sources.polling.hostile import HostileServer, answers


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        server.routes["/SESAME7QX"] = answers(b"ok")
        yield server


def configured(folder: Path, server: HostileServer, *alertmanagers: str) -> None:
    listed = ", ".join(f"{{url: '{each}'}}" for each in alertmanagers)
    (folder / "fleet.yaml").write_text(
        f"""
name: prod
history: {{enabled: true}}
notify:
  alertmanagers: [{listed}]
  webhooks:
    - {{url: '{server.address}/SESAME7QX', format: slack, name: channel}}
    - {{url_env: HOOK_URL}}
"""
    )


def test_every_receiver_accepts(working_folder: Path, server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_URL", f"{server.address}/SESAME7QX")
    (working_folder / "receiver").mkdir()
    with alertmanager(working_folder / "receiver", f"{server.address}/SESAME7QX") as url:
        configured(working_folder, server, url)
        done = run("alert-test")
        (alert,) = active(url)
        wait_for(lambda: len(server.asked) >= 3)

    assert done.exit_code == 0
    place = f"127.0.0.1:{server.port}"
    assert done.stdout.splitlines() == [
        f"alertmanager ({url.removeprefix('http://')}): ok, status 200",
        f"slack channel ({place}): ok, status 200: ok",
        f"webhook HOOK_URL ({place}): ok, status 200: ok",
    ]
    assert alert["labels"]["rule"] == "TEST"
    assert alert["labels"]["fleet"] == "prod"
    assert "This is a test of notifications." in json.loads(server.asked[0].body)["text"]
    assert not (working_folder / "data").exists(), "nothing is kept"


def test_a_receiver_that_does_not_accept_fails_the_command(working_folder: Path, server: HostileServer) -> None:
    server.routes["/SESAME7QX"] = answers(b"invalid_token for /SESAME7QX", 403)
    configured(working_folder, server)
    unset = "the variable HOOK_URL is empty or not set"
    done = run("alert-test")

    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"slack channel (127.0.0.1:{server.port}): failed, status 403: invalid_token for ***",
        f"webhook HOOK_URL: failed, {unset}",
    ]
    assert last_line(done) == "exit 1: 2 receivers of 2 did not accept the test alert."
    assert "SESAME7QX" not in done.output


def test_without_a_receiver_it_is_wrong_usage(working_folder: Path) -> None:
    (working_folder / "fleet.yaml").write_text("name: prod")
    assert_wrong_usage(run("alert-test"), "no receiver configured; list alertmanagers or webhooks under notify")
