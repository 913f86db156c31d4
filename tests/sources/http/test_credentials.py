"""API keys: from the environment and files, and a warning for plain http."""

import asyncio
import logging
from pathlib import Path

import pytest

from dashboard import service
from dashboard.config import Options
from dashboard.fleet import Credentials, Failure, FailureKind, Target
from dashboard.sources.http.credentials import MAX_KEY_BYTES, find, key_warnings

ENV = Credentials(token_env="FLEET_TEST_KEY")


def test_without_credentials_the_reason_has_the_next_step() -> None:
    for credentials in (None, Credentials(ca_file=Path("/some/ca.pem"))):
        key = find(credentials)
        assert key.token is None
        assert key.missing == (
            "none is given; set credentials in fleet.yaml, or name the key's variable in FLEET_CREDENTIALS__TOKEN_ENV"
        )


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_an_empty_or_missing_variable_is_named(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEET_TEST_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("FLEET_TEST_KEY", value)
    key = find(ENV)
    assert key.token is None
    assert key.missing == "the environment variable FLEET_TEST_KEY that should hold it is not set or empty"


def test_the_key_is_read_from_a_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "key"
    for content in ("first\n", "second"):
        file.write_text(content)
        assert find(Credentials(token_file=file)).token == content.strip()


@pytest.mark.parametrize("content", [b"two words", b"two\r\nX-Injected: 1", b"caf\xc3\xa9", b"a\x00b"])
def test_an_invalid_header_value_is_no_key(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    key = find(Credentials(token_file=file))
    assert key.token is None
    assert key.missing == f"the file {file} holds more than one word of plain characters"


def test_a_large_file_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"x" * (MAX_KEY_BYTES + 1))
    key = find(Credentials(token_file=file))
    assert key.token is None
    assert "too long" in key.missing


def test_a_key_is_not_in_its_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TEST_KEY", "hush")
    assert "hush" not in repr(find(ENV))
    assert "None" in repr(find(None))


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
def test_no_warning_without_a_key_in_clear_text_on_a_network(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k")

    assert key_warnings([target]) == ""


@pytest.mark.parametrize("credentials", [KEY, Credentials(token_file=Path("key"))])
def test_targets_with_a_key_over_plain_http_are_named(
    credentials: Credentials, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (working_folder / "key").write_text("k")
    monkeypatch.setenv("KEY", "k")
    targets = [Target(f"http://gpu-{number}:8000/a", credentials=credentials) for number in (1, 1, 2, 3, 4, 5)]

    assert key_warnings(targets) == (
        "API key sent over plain http, readable on the network: gpu-1:8000, gpu-2:8000, gpu-3:8000 and 2 more. "
        "Use https."
    )


def test_a_configured_key_that_is_missing_is_named_and_not_called_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY", raising=False)
    targets = [Target(f"http://gpu-{number}:8000", credentials=KEY) for number in (1, 2)]

    assert key_warnings(targets) == (
        "No API key is sent: the environment variable KEY that should hold it is not set or empty."
    )


def test_the_warning_is_logged_once_and_is_a_note_of_the_fleet(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "k")
    options = {"targets": [{"url": "http://192.0.2.1:1"}], "credentials": {"token_env": "KEY"}}
    options["poll"] = {"probe_timeout_seconds": 0.2, "replica_timeout_seconds": 0.3, "poll_timeout_seconds": 1}
    collector = service.Collector(Options.model_validate(options))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            asyncio.run(collector._refresh(0.0))

    sentence = "API key sent over plain http, readable on the network: 192.0.2.1:1. Use https."
    assert [each.getMessage() for each in caplog.records].count(sentence) == 1
    assert collector.fleet.inspection.notes == (sentence,)
