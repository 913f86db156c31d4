"""Keys of sessions: which sign and verify a cookie, what they seal, and where they are kept."""

from pathlib import Path

import pytest

from dashboard.access.keys import SessionKeys, configured_keys
from dashboard.access.sessions import PURPOSE
from dashboard.config.access import SessionOptions
from dashboard.errors import OptionsError

KEYS = ["a" * 40, "b" * 40]


def keys_of(*keys: str, folder: Path | None = None, monkeypatch: pytest.MonkeyPatch) -> SessionKeys:
    monkeypatch.setenv("SESSION_KEYS", "\n".join(keys))
    named = {"key_env": "SESSION_KEYS"} if keys else {}
    return SessionKeys(lambda: SessionOptions.model_validate(named), folder)


def test_the_first_key_signs_and_every_key_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    """So keys are rotated: the new one first, the old one until sessions have ended."""
    old = keys_of(KEYS[0], monkeypatch=monkeypatch).sign("id", PURPOSE)
    both = keys_of(KEYS[1], KEYS[0], monkeypatch=monkeypatch)
    new = both.sign("id", PURPOSE)

    assert both.verify(old, PURPOSE) == both.verify(new, PURPOSE) == "id"
    rotated = keys_of(KEYS[1], monkeypatch=monkeypatch)
    assert (rotated.verify(old, PURPOSE), rotated.verify(new, PURPOSE)) == (None, "id")


@pytest.mark.parametrize("forged", ["", "id", "id.", ".", "id.aaaa", "id.aaaa.bbbb", "ïd.☃", "x" * 5000])
def test_a_forged_cookie_is_no_session(forged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys_of(KEYS[0], monkeypatch=monkeypatch).verify(forged, PURPOSE) is None


def test_a_signature_is_valid_for_its_text_and_purpose_only(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = keys_of(KEYS[0], monkeypatch=monkeypatch)
    one, two = (keys.sign(each, PURPOSE) for each in ("one", "two"))

    assert keys.verify(one, "state") is None
    assert keys.verify(f"{two.partition('.')[0]}.{one.partition('.')[2]}", PURPOSE) is None


def test_what_is_sealed_is_not_readable_and_opens_with_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    sealed = keys_of(KEYS[0], monkeypatch=monkeypatch).seal("refresh-token")

    assert b"refresh" not in sealed
    assert keys_of(KEYS[1], KEYS[0], monkeypatch=monkeypatch).unseal(sealed) == "refresh-token"
    assert keys_of(KEYS[1], monkeypatch=monkeypatch).unseal(sealed) is None


def test_without_keys_one_is_kept_in_the_data_folder_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = keys_of(folder=tmp_path, monkeypatch=monkeypatch).sign("id", PURPOSE)

    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert keys_of(folder=tmp_path, monkeypatch=monkeypatch).verify(signed, PURPOSE) == "id"
    assert keys_of(folder=None, monkeypatch=monkeypatch).verify(signed, PURPOSE) is None


def test_keys_of_a_file_are_read_again_and_the_last_ones_stay_while_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(KEYS[0])
    keys = SessionKeys(lambda: SessionOptions.model_validate({"key_file": str(file)}), None)
    signed = keys.sign("id", PURPOSE)

    file.unlink()
    assert keys.verify(signed, PURPOSE) == "id"
    file.write_text(KEYS[1])
    assert keys.verify(signed, PURPOSE) is None


@pytest.mark.parametrize("content", ["", "short\n", f"{KEYS[0]}\nshort\n"])
def test_a_missing_or_short_key_is_a_mistake(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSION_KEYS", content)

    with pytest.raises(OptionsError, match="no key, or one of fewer than 32"):
        configured_keys(SessionOptions.model_validate({"key_env": "SESSION_KEYS"}))
