"""A real Alertmanager receives alerts, deduplicates them, and resolves them at once."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.config import NotifyOptions
from dashboard.notify.sending import webhook_body
from tests.notify.alertmanager import active, alertmanager
from tests.notify.polls import FLEET, alerts, poll, problem
from tests.notify.running import running
from tests.serving import free_port, wait_for
from tests.sources.polling.hostile import HostileServer, answers

OFF = {"history": {"enabled": False}}


@pytest.fixture
def hooks() -> Iterator[HostileServer]:
    with HostileServer() as server:
        server.routes["/hook"] = answers(b"")
        yield server


def now(*findings: Any, fleet: Fleet = FLEET) -> Fleet:
    """A poll of this moment."""
    return replace(poll(0, *findings, fleet=fleet), polled_at=datetime.now(UTC))


def fired(url: str) -> list[tuple[str, str]]:
    return [(each["labels"]["rule"], each["labels"]["severity"]) for each in active(url)]


def pushed_to(url: str, *more: str) -> dict[str, Any]:
    return {**OFF, "notify": {"alertmanagers": [{"url": each} for each in (url, *more)], "resend_seconds": 5}}


def test_an_alertmanager_gets_alerts_without_a_history_and_resolves_them_at_once(
    tmp_path: Path, hooks: HostileServer
) -> None:
    with alertmanager(tmp_path, f"{hooks.address}/hook") as url, running(pushed_to(url)) as own:
        own.polled(now(problem()))
        wait_for(lambda: fired(url) == [("RT-01", "critical")])
        (alert,) = active(url)
        assert {*alert["labels"]} == {"alertname", "rule", "pool", "severity", "fleet"}
        assert alert["annotations"]["action"].endswith("--block-size 16")

        own.polled(now(problem("chat-02", sentence="Another text.")))
        wait_for(lambda: active(url)[0]["annotations"]["description"].startswith("Another text."))
        assert len(active(url)) == 1, "the same labels are the same alert"

        own.polled(now(problem(severity="warning")))
        wait_for(lambda: fired(url) == [("RT-01", "warning")])
        own.polled(now())
        wait_for(lambda: fired(url) == [])
        wait_for(lambda: any(json.loads(each.body)["status"] == "resolved" for each in hooks.asked))
        assert [(each.kind, each.error) for each in own.notifier.receivers] == [("alertmanager", None)]


def test_while_polls_fail_alerts_are_sent_again_and_nothing_is_resolved(tmp_path: Path, hooks: HostileServer) -> None:
    with alertmanager(tmp_path, f"{hooks.address}/hook") as url, running(pushed_to(url)) as own:
        own.polled(now(problem()))
        wait_for(lambda: fired(url) == [("RT-01", "critical")])
        ends = active(url)[0]["endsAt"]
        wait_for(lambda: active(url)[0]["endsAt"] > ends)
        ahead = datetime.fromisoformat(active(url)[0]["endsAt"]) - datetime.now(UTC)
        assert timedelta(seconds=8) < ahead <= timedelta(seconds=15), "three intervals ahead"


def test_each_alertmanager_gets_everything_and_one_that_is_gone_delays_none(
    tmp_path: Path, hooks: HostileServer
) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "b").mkdir()
    with (
        alertmanager(tmp_path, f"{hooks.address}/hook") as first,
        alertmanager(tmp_path / "b", f"{hooks.address}/hook") as second,
        running(pushed_to(gone, first, second)) as own,
    ):
        own.polled(now(problem(), problem("embed-01")))
        wait_for(lambda: len(active(first)) == len(active(second)) == 2)
        wait_for(lambda: own.notifier.receivers[0].error == "connection refused")
        assert own.notifier.outcomes["alertmanager", "failed"] >= 1


def test_a_dashboard_that_does_not_collect_sends_nothing(tmp_path: Path, hooks: HostileServer) -> None:
    with alertmanager(tmp_path, f"{hooks.address}/hook") as url, running(pushed_to(url)) as own:
        own.polled(now(problem()), is_collector=False)
        own.polled(now(problem("embed-01")), is_collector=False)
        own.polled(now(problem("chat-02", rule="RT-05")))
        wait_for(lambda: bool(active(url)))
        assert fired(url) == [("RT-05", "critical")]


def test_the_webhook_body_has_the_shape_and_the_fingerprint_of_the_real_one(
    tmp_path: Path, hooks: HostileServer
) -> None:
    with alertmanager(tmp_path, f"{hooks.address}/hook") as url, running(pushed_to(url)) as own:
        own.polled(now(problem()))
        wait_for(lambda: bool(hooks.asked))
    real = json.loads(hooks.asked[0].body)
    ours = webhook_body(alerts(poll(0, problem())), NotifyOptions())

    assert {*ours} == {*real}
    assert {*ours["alerts"][0]} == {*real["alerts"][0]}
    for name in ("version", "status", "groupKey", "groupLabels", "commonLabels", "truncatedAlerts"):
        assert ours[name] == real[name]
    for name in ("status", "labels", "fingerprint", "endsAt"):
        assert ours["alerts"][0][name] == real["alerts"][0][name]
