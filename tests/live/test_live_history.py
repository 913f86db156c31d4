"""A live server is restarted with another block size and mended: page, history and Alertmanager say when."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.fleet.formatting import iso
from dashboard.rules.findings import Finding
from tests.live.servers import Kind, Server, running
from tests.notify.alertmanager import active, alertmanager
from tests.page_runner import html, visit
from tests.serving import free_port, wait_for
from tests.sources.polling.hostile import HostileServer, answers

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_each]
INTERVAL = 2.0
BLOCKS = ("--block-size", "32")


@pytest.fixture(scope="module")
def steady(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running((Kind("one", "llama"), Kind("two", "llama")), venv, tmp_path_factory.mktemp("steady")) as found:
        yield found


def split(fleet: Fleet) -> Finding | None:
    """The finding that block sizes differ."""
    return next((each for each in fleet.inspection.findings if each.rule == "RT-01"), None)


def rules_of(url: str) -> set[str]:
    return {each["labels"]["rule"] for each in active(url)}


def shown(page: str, **choices: str) -> str:
    """The HTML of a page."""
    return html(visit(page, **choices))


def test_the_finding_comes_and_ends_on_the_page_and_in_an_alertmanager(
    steady: list[Server], venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    third = Kind("three", "llama", port=free_port())
    with ExitStack() as stack:
        hooks = stack.enter_context(HostileServer())
        hooks.routes["/hook"] = answers(b"")
        alerts = stack.enter_context(alertmanager(tmp_path, f"{hooks.address}/hook"))
        addresses = [*(each.url for each in steady), f"http://127.0.0.1:{third.port}"]
        options = {
            "name": "live",
            "targets": [{"url": each, "labels": {"pool": "live"}} for each in addresses],
            "pools": {"live": {"router": "prefix-hash"}},
            "poll": {"interval_seconds": INTERVAL},
            "notify": {"alertmanagers": [{"url": alerts}], "resend_seconds": 5},
        }
        with running([third], venv, tmp_path):
            service.start(Options.model_validate(options))
            stack.callback(service.stop)
            wait_for(lambda: service.current().coverage.up == len(addresses))
            assert split(service.current()) is None
        before = service.now()
        with running([replace(third, options=BLOCKS)], venv, tmp_path):
            wait_for(lambda: split(service.current()) is not None)
            wait_for(lambda: "RT-01" in rules_of(alerts))
            fleet = service.current()
            found = split(fleet)
            assert found is not None
            assert found.replicas == (addresses[-1],)
            seen = fleet.sightings.findings[found.fingerprint]
            assert seen.absent_at is not None
            assert before - timedelta(seconds=INTERVAL) <= seen.absent_at < seen.since <= service.now()
            assert iso(seen.since) in shown("findings", finding=found.id)
            (alert,) = [each for each in active(alerts) if each["labels"]["rule"] == "RT-01"]
            assert alert["labels"]["severity"] == "critical"
            assert "32" in alert["annotations"]["description"]
        during = fleet.polled_at
        with running([third], venv, tmp_path):
            wait_for(lambda: service.current().coverage.up == len(addresses))
            wait_for(lambda: split(service.current()) is None)
            wait_for(lambda: "RT-01" not in rules_of(alerts))

        assert during is not None
        assert split(service.past(during)) is not None
        assert "block_size" in shown("findings", at=written(during), finding=found.id)
        assert found.id not in shown("findings")
        assert "RT-01" in shown("changes", **{"from": written(before), "to": "live"})


def written(time: datetime) -> str:
    """A time as URLs have it."""
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")
