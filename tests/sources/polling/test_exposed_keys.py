"""An API key that goes over plain http through a network is named, once."""

import asyncio
import logging
from pathlib import Path

import pytest

from dashboard import service
from dashboard.config import Options
from dashboard.fleet import Credentials, Failure, FailureKind, Target
from dashboard.sources.polling.credentials import exposed_keys

KEY = Credentials(token_env="KEY")


@pytest.mark.parametrize(
    "target",
    [
        Target("https://10.0.0.1:8000", credentials=KEY),
        Target("http://127.0.0.1:8000", credentials=KEY),
        Target("http://127.4.5.6:8000", credentials=KEY),
        Target("http://[::1]:8000", credentials=KEY),
        Target("http://localhost:8000", credentials=KEY),
        Target("http://a.localhost:8000", credentials=KEY),
        Target("http://10.0.0.1:8000"),
        Target("http://10.0.0.1:8000", credentials=Credentials(ca_file=Path("ca.pem"))),
        Target("http://10.0.0.1", credentials=KEY, failure=Failure(FailureKind.TARGET, "no port")),
    ],
)
def test_no_warning_where_no_key_crosses_a_network_in_clear_text(target: Target) -> None:
    assert exposed_keys([target]) == ""


@pytest.mark.parametrize("credentials", [KEY, Credentials(token_file=Path("key"))])
def test_a_key_over_plain_http_is_named_with_its_targets(credentials: Credentials) -> None:
    targets = [Target(f"http://gpu-{number}:8000/a", credentials=credentials) for number in (1, 1, 2, 3, 4, 5)]

    assert exposed_keys(targets) == (
        "API key sent over plain http, readable on the network: gpu-1:8000, gpu-2:8000, gpu-3:8000 and 2 more. "
        "Use https."
    )


def test_the_warning_is_logged_once_and_stays_a_note_of_the_fleet(caplog: pytest.LogCaptureFixture) -> None:
    """Pages, `check` and the API show the notes."""
    options = {"targets": [{"url": "http://192.0.2.1:1"}], "credentials": {"token_env": "KEY"}}
    options["poll"] = {"probe_timeout_seconds": 0.2, "replica_timeout_seconds": 0.3, "poll_timeout_seconds": 1}
    collector = service.Collector(Options.model_validate(options))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            asyncio.run(collector._refresh(0.0))

    said = "API key sent over plain http, readable on the network: 192.0.2.1:1. Use https."
    assert [each.getMessage() for each in caplog.records].count(said) == 1
    assert collector.fleet.inspection.notes == (said,)
