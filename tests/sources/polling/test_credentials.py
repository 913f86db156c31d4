"""API keys, from the environment and from files."""

from pathlib import Path

import pytest

from dashboard.fleet import Credentials
from dashboard.sources.polling.credentials import MAX_KEY_BYTES, find

ENV = Credentials(token_env="FLEET_TEST_KEY")


def test_without_credentials_there_is_no_key_and_the_reason_says_what_to_do() -> None:
    for credentials in (None, Credentials(ca_file=Path("/some/ca.pem"))):
        key = find(credentials)
        assert key.token is None
        assert key.missing == (
            "none is given; set credentials in fleet.yaml, or name the key's variable in FLEET_CREDENTIALS__TOKEN_ENV"
        )


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_an_environment_variable_that_is_empty_or_not_set_is_named(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_what_cannot_stand_in_a_header_is_no_key_and_is_not_repeated(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    key = find(Credentials(token_file=file))
    assert key.token is None
    assert key.missing == f"the file {file} holds more than one word of plain characters"


def test_a_wrong_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"x" * (MAX_KEY_BYTES + 1))
    key = find(Credentials(token_file=file))
    assert key.token is None
    assert "too long" in key.missing


def test_a_key_in_a_traceback_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TEST_KEY", "hush")
    assert "hush" not in repr(find(ENV))
    assert "None" in repr(find(None))
