"""Webhooks and Slack on a real server, which refuses, stalls, redirects and floods; and a process that is killed."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.config import NotifyOptions, WebhookOptions
from dashboard.notify import sending
from dashboard.notify.sending import ReceiverAnswer, client, deliver
from dashboard.store.history.database import Database
from tests.builders import NOW
from tests.notify.polls import FLEET, POLL, alerts, poll, problem
from tests.notify.running import running
from tests.serving import ROOT, wait_for
from tests.sources.polling.hostile import Exchange, HostileServer, answers, silent

SECRET = "/services/T0/B0/SESAME7QX"


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        server.routes[SECRET] = answers(b"ok")
        yield server


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> Any:
        return self.now


def options(server: HostileServer, folder: Path, *formats: str, **more: Any) -> dict[str, Any]:
    """A history in a folder, and a webhook for each format."""
    database = Database(f"sqlite:///{folder / 'history.db'}")
    with database.written_by(FLEET.name):
        pass
    hooks = [{"url": f"{server.address}{SECRET}", "format": each, "name": each, **more} for each in formats]
    return {"history": {"enabled": True, "url": f"sqlite:///{folder / 'history.db'}"}, "notify": {"webhooks": hooks}}


def bodies(server: HostileServer) -> list[Any]:
    return [json.loads(each.body) for each in server.asked]


def texts(server: HostileServer) -> list[str]:
    return [each["text"].splitlines()[0] for each in bodies(server)]


def test_both_formats_get_the_begin_and_the_end_of_a_finding(server: HostileServer, tmp_path: Path) -> None:
    clock = Clock()
    with running(options(server, tmp_path, "alertmanager", "slack"), clock) as own:
        own.polled(poll(0, problem()))
        wait_for(lambda: len(server.asked) == 2)
        clock.now += timedelta(minutes=1)
        own.polled(poll(2))
        wait_for(lambda: len(server.asked) == 4)
        wait_for(lambda: [each.pending for each in own.notifier.receivers] == [0, 0])
        assert [each.kind for each in own.notifier.receivers] == ["webhook", "slack"]

    slack = [each["text"].splitlines()[0] for each in bodies(server) if "text" in each]
    hooks = [each for each in bodies(server) if "text" not in each]
    assert slack == ["*prod-eu / chat: 1 new*", "*prod-eu / chat: 1 resolved*"]
    assert [each["status"] for each in hooks] == ["firing", "resolved"]
    assert hooks[0]["groupKey"] == hooks[1]["groupKey"]
    assert {each.headers["content-type"] for each in server.asked} == {"application/json"}


def test_messages_are_grouped_by_pool_and_one_a_minute(server: HostileServer, tmp_path: Path) -> None:
    clock = Clock()
    with running(options(server, tmp_path, "slack"), clock) as own:
        own.polled(poll(0, problem(), problem(rule="RT-05"), problem("embed-01")))
        wait_for(lambda: len(server.asked) == 2 and own.notifier.receivers[0].pending == 0)
        clock.now += POLL
        own.polled(poll(1, problem(), problem("embed-01")))
        wait_for(lambda: own.notifier.receivers[0].pending == 1)
        clock.now += POLL
        own.polled(poll(2, problem("embed-01")))
        wait_for(lambda: len(server.asked) == 3)

    assert texts(server) == [
        "*prod-eu / chat: 2 new*",
        "*prod-eu / embed: 1 new*",
        "*prod-eu / chat: 2 resolved*",
    ]


def test_less_severe_findings_than_wanted_are_not_sent(server: HostileServer, tmp_path: Path) -> None:
    with running(options(server, tmp_path, "slack", min_severity="critical"), Clock()) as own:
        own.polled(poll(0, problem(severity="warning"), problem("embed-01")))
        wait_for(lambda: bool(server.asked))
        wait_for(lambda: own.notifier.receivers[0].pending == 0)

    assert texts(server) == ["*prod-eu / embed: 1 new*"]


def test_what_a_restart_missed_is_sent_after_it(server: HostileServer, tmp_path: Path) -> None:
    own = options(server, tmp_path, "slack")
    clock = Clock()
    with running(own, clock) as first:
        first.polled(poll(0, problem()))
        wait_for(lambda: first.notifier.receivers[0].succeeded_at is not None)
        wait_for(lambda: first.notifier.receivers[0].pending == 0)
    clock.now += timedelta(minutes=5)
    with running(own, clock) as second:
        second.polled(poll(10))
        wait_for(lambda: len(server.asked) == 2)

    assert texts(server) == ["*prod-eu / chat: 1 new*", "*prod-eu / chat: 1 resolved*"]


def test_a_receiver_that_is_added_gets_what_fires(server: HostileServer, tmp_path: Path) -> None:
    with running(options(server, tmp_path, "slack"), Clock()) as own:
        own.polled(poll(0, problem()))
        wait_for(lambda: len(server.asked) == 1)
        both = type(own.notifier._options).model_validate(options(server, tmp_path, "slack", "alertmanager"))
        own.call(lambda: own.notifier.use(both))
        own.polled(poll(1, problem()))
        wait_for(lambda: len(server.asked) == 2)

    assert bodies(server)[1]["status"] == "firing"


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (answers(b"no_service", 404), "status 404"),
        (answers(b"", 500), "status 500"),
        (answers(b"", 302, ["Location: http://198.51.100.7/"]), "status 302"),
    ],
)
def test_a_refused_message_is_sent_again_until_it_is_accepted(
    server: HostileServer, tmp_path: Path, behaviour: Any, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.routes[SECRET] = behaviour
    clock = Clock()
    with running(options(server, tmp_path, "alertmanager"), clock) as own:
        own.polled(poll(0, problem()))
        wait_for(lambda: own.notifier.receivers[0].error == error)
        clock.now += timedelta(seconds=4)
        own.polled(poll(0.2, problem()))
        assert own.notifier.receivers[0].pending == 1
        assert len(server.asked) == 1, "not before the pause is over"

        server.routes[SECRET] = answers(b"ok")
        clock.now += timedelta(seconds=1)
        wait_for(lambda: own.notifier.receivers[0].pending == 0)
        assert own.notifier.receivers[0].error is None

    first, second = server.asked
    assert (first.body, first.headers["idempotency-key"]) == (second.body, second.headers["idempotency-key"])
    assert own.notifier.outcomes == {("webhook", "failed"): 1, ("webhook", "ok"): 1}
    assert "SESAME7QX" not in caplog.text
    assert f"a notification to webhook alertmanager (127.0.0.1:{server.port}) failed: {error}" in caplog.text


def test_a_receiver_decides_when_it_is_asked_again(server: HostileServer, tmp_path: Path) -> None:
    server.routes[SECRET] = answers(b"", 429, ["Retry-After: 40"])
    clock = Clock()
    with running(options(server, tmp_path, "slack"), clock) as own:
        own.polled(poll(0, problem()))
        wait_for(lambda: own.notifier.receivers[0].error == "status 429")
        server.routes[SECRET] = answers(b"ok")
        clock.now += timedelta(seconds=39)
        own.polled(poll(1, problem()))
        own.polled(poll(1.1, problem()))
        assert len(server.asked) == 1
        clock.now += timedelta(seconds=1)
        wait_for(lambda: len(server.asked) == 2)


def test_a_history_that_fails_delays_messages_and_is_named(server: HostileServer, tmp_path: Path) -> None:
    problem_text = "The history history.db cannot be used: disk I/O error."
    with running(options(server, tmp_path, "slack"), Clock()) as own:
        own.polled(poll(0, problem()), problem=problem_text)
        assert own.notifier.receivers[0].error == problem_text
        own.polled(poll(1, problem()))
        wait_for(lambda: len(server.asked) == 1)


def test_an_internal_error_ends_neither_the_polling_nor_later_notifications(
    server: HostileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = replace(poll(0, problem()), lives=None)  # type: ignore[arg-type]
    with running(options(server, tmp_path, "slack"), Clock()) as own:
        own.call(lambda: own.notifier.polled(broken))
        own.polled(poll(1, problem()))
        wait_for(lambda: len(server.asked) == 1)
    assert "a poll was not announced" in caplog.text


def test_alerts_that_were_damaged_in_the_history_are_named(server: HostileServer, tmp_path: Path) -> None:
    given = options(server, tmp_path, "slack")
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("INSERT INTO alert VALUES ('RT-01', 'chat', 'critical', '{}')")
    connection.close()
    with running(given, Clock()) as own:
        own.polled(poll(0, problem()))
        assert own.notifier.receivers[0].error == (
            "Alerts in the history are damaged; delete the rows of its tables alert and notification."
        )


def answer_of(server: HostileServer, **more: Any) -> ReceiverAnswer:
    """What one delivery comes to."""

    async def send() -> ReceiverAnswer:
        hook = WebhookOptions.model_validate({"url": f"{server.address}{SECRET}?key=SESAME7QX", **more})
        async with client() as http:
            return await deliver(http, hook, alerts(poll(0, problem())), NotifyOptions(), "1")

    return asyncio.run(send())


async def flood(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    for _ in range(100):
        await exchange.send(b"x" * 1_000_000)


async def stall(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    await exchange.until_gone()


@pytest.mark.parametrize(
    ("behaviour", "accepted", "text"),
    [
        (answers(b"", 204), True, "status 204"),
        (answers(b"", 202), True, "status 202"),
        (flood, True, "status 200"),
        (stall, True, "status 200"),
        (silent, False, "timeout"),
        (answers(b"", 301, ["Location: /"]), False, "status 301"),
    ],
)
def test_only_the_status_decides_and_no_answer_is_waited_for_long(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, behaviour: Any, accepted: int, text: str
) -> None:
    monkeypatch.setattr(sending, "SEND_SECONDS", 0.3)
    server.routes[SECRET] = behaviour
    answered = answer_of(server)

    assert (answered.is_accepted, answered.text) == (bool(accepted), text)


def test_an_answer_that_repeats_the_url_is_shown_without_it(server: HostileServer) -> None:
    server.routes[SECRET] = answers(f"Cannot POST {SECRET}?key=SESAME7QX\n\x1b[2J".encode(), 404)
    assert answer_of(server).said == "Cannot POST *** �[2J"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("-5", 0.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", None), ("9" * 400, None)],
)
def test_a_wish_to_be_asked_later_is_a_number_or_a_date(
    server: HostileServer, header: str, seconds: float | None
) -> None:
    server.routes[SECRET] = answers(b"", 503, [f"Retry-After: {header}"])
    wish = answer_of(server).retry_seconds
    assert wish == seconds or (seconds is None and wish is not None and wish > 1e9)


def test_the_url_and_the_key_may_come_from_files(server: HostileServer, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{server.address}{SECRET}\n")
    (tmp_path / "token").write_text("sesame")

    async def send(hook: WebhookOptions) -> ReceiverAnswer:
        async with client() as http:
            return await deliver(http, hook, alerts(poll(0, problem())), NotifyOptions(), "1")

    hook = WebhookOptions(url_file=tmp_path / "url", authorization={"token_file": tmp_path / "token"})
    assert asyncio.run(send(hook)).is_accepted
    assert server.asked[-1].headers["authorization"] == "Bearer sesame"
    (tmp_path / "url").unlink()
    assert asyncio.run(send(hook)).text == "url_file cannot be read: No such file or directory"
    assert asyncio.run(send(WebhookOptions(url_env="HOOK_URL_7"))).text == "the variable HOOK_URL_7 is empty or not set"


def killed(folder: Path, url: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.notify.killed_notifier", str(folder), url, *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_process_that_is_killed_between_the_answer_and_the_commit_repeats_its_message_once(
    server: HostileServer, tmp_path: Path
) -> None:
    url = f"{server.address}{SECRET}"
    assert killed(tmp_path, url, "kill").returncode == -9
    assert killed(tmp_path, url).stdout == "True\n"
    assert killed(tmp_path, url).stdout == "False\n"

    first, second = server.asked
    assert first.body == second.body
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert json.loads(first.body)["groupKey"] == json.loads(second.body)["groupKey"]
