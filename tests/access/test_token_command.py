"""`python -m dashboard token new`: a token, printed once, and the entry that accepts it."""

from datetime import UTC, datetime

import pytest
import yaml

from dashboard import service
from dashboard.access.tokens import find_token
from dashboard.access.visitor import NotSignedInError
from dashboard.config.access import AccessOptions
from tests.commands import assert_wrong_usage, run


def test_the_entry_on_standard_error_accepts_the_token_on_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("token", "new", "ci", "--role", "editor", "--expires", "2027-12-31")
    text = done.stdout.strip()
    entry = done.stderr.partition("\n")[2]
    tokens = AccessOptions.model_validate({"tokens": yaml.safe_load(entry)}).tokens

    monkeypatch.setattr(service, "utc_now", lambda: datetime(2027, 12, 31, 23, tzinfo=UTC))
    found = find_token(text, tokens)
    assert (found.name, found.role.word) == ("ci", "editor")
    monkeypatch.setattr(service, "utc_now", lambda: datetime(2028, 1, 1, tzinfo=UTC))
    with pytest.raises(NotSignedInError, match="token ci expired on 2027-12-31"):
        find_token(text, tokens)
    assert text not in entry


def test_each_token_is_another_one_and_viewer_without_a_role() -> None:
    one, other = run("token", "new", "ci"), run("token", "new", "ci")

    assert one.stdout != other.stdout
    assert "role: viewer" in one.stderr


def test_a_wrong_name_role_or_day_is_wrong_usage() -> None:
    assert_wrong_usage(run("token", "new", "a b"), "a name has letters, digits")
    assert_wrong_usage(run("token", "new", "ci", "--role", "root"), "root")
    assert_wrong_usage(run("token", "new", "ci", "--expires", "2027-13-01"), "expected a date such as 2027-12-31")
    assert_wrong_usage(run("token", "new", "ci", "--expires", "2020-01-01"), "--expires 2020-01-01: in the past")
