"""The audit log: every action has a role, and leaves a line and a row, whatever becomes of it."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard import service
from dashboard.access import audit
from dashboard.access.audit import DONE, FAILED, MOST_REMEMBERED, PAUSE_SECONDS, REFUSED, RecentKeys, noted, performed
from dashboard.access.visitor import ForbiddenError, Means, Visitor
from dashboard.analysis.timeline import Period
from dashboard.config import HistoryOptions, Options
from dashboard.config.access import AccessOptions, AccessRole
from dashboard.errors import SnapshotError
from dashboard.store.audit import AuditEntry
from dashboard.store.history import retention
from dashboard.store.history.audit import AuditTable
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.retention import AUDIT_TIME, prune
from tests import builders
from tests.builders import NOW
from tests.serving import wait_for
from tests.store.history.recorded import Recorded

ALWAYS = Period(NOW - timedelta(days=4000), NOW + timedelta(days=40_000))
ANN = Visitor("ann", Means.BEARER, fixed=AccessRole.EDITOR, client="10.0.0.7")
ENTRY = AuditEntry(NOW, "delete", DONE, "", "ann", "admin", "proxy", "10.0.0.7", {"snapshot": "3fa9"})


@pytest.fixture(autouse=True)
def all_written() -> Iterator[None]:
    """Wait for entries that a thread writes: the next test has another history."""
    yield
    audit._THREAD.submit(int).result()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[AuditTable]:
    """The table of a history that the service has; nothing was recorded in it yet."""
    reader = HistoryReader(Database(f"sqlite:///{tmp_path / 'history.db'}"))
    service.put(builders.fleet(), NOW, tmp_path, history=reader)
    yield reader.audit
    service.stop()


def rows(table: AuditTable) -> list[AuditEntry]:
    return list(table.entries(ALWAYS, most=1_000))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each.pop("at")) for each in found)
    return found


def test_an_action_that_was_done_is_a_line_and_a_row(table: AuditTable, capsys: pytest.CaptureFixture[str]) -> None:
    with performed("save", ANN, name="Monday") as details:
        details["snapshot"] = "3fa9c01b2e"

    line = {"visitor": "ann", "role": "editor", "means": "token", "client": "10.0.0.7"}
    assert lines(capsys) == [{"audit": "save", "result": "done", **line, "name": "Monday", "snapshot": "3fa9c01b2e"}]
    (row,) = rows(table)
    assert row._replace(at=NOW) == AuditEntry(
        NOW, "save", DONE, "", "ann", "editor", "token", "10.0.0.7", {"name": "Monday", "snapshot": "3fa9c01b2e"}
    )
    assert row.at - service.utc_now() < timedelta(seconds=5)


def test_an_action_that_the_role_does_not_include_is_refused_before_it_is_done(
    table: AuditTable, capsys: pytest.CaptureFixture[str]
) -> None:
    done = []
    for _ in range(3):
        refusal = pytest.raises(ForbiddenError, match=r"^Not allowed: delete\. Needs role admin; yours is editor\.$")
        with refusal, performed("delete", ANN, snapshot="3fa9"):
            done.append("deleted")

    assert done == []
    (line,) = lines(capsys)
    assert (line["audit"], line["result"]) == ("delete", "refused")
    assert line["reason"] == "Not allowed: delete. Needs role admin; yours is editor."
    wait_for(lambda: len(rows(table)) == 1)
    assert rows(table)[0].details == {"snapshot": "3fa9"}


@pytest.mark.parametrize("action", ["format_disk", "", "rename_of_another"])
def test_an_unknown_action_and_one_on_the_thing_of_another_visitor_are_refused(action: str, table: AuditTable) -> None:
    with pytest.raises(ForbiddenError, match="Needs role admin"), performed(action, ANN):
        pytest.fail("done")
    wait_for(lambda: bool(rows(table)))


def test_a_visitor_without_a_role_may_do_nothing() -> None:
    with pytest.raises(ForbiddenError, match="yours is none"), performed("export", Visitor("eve", Means.PROXY)):
        pytest.fail("done")


@pytest.mark.parametrize(
    ("error", "reason"), [(SnapshotError("Not deleted."), "Not deleted."), (KeyError("x"), "internal error KeyError")]
)
def test_an_action_that_failed_has_its_reason(error: Exception, reason: str, table: AuditTable) -> None:
    with pytest.raises(type(error)), performed("save", ANN):
        raise error

    (row,) = rows(table)
    assert (row.result, row.reason) == (FAILED, reason)


def test_without_a_history_there_is_the_line_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service.put(builders.fleet(), NOW, tmp_path)
    with performed("save", ANN):
        pass

    assert [each["audit"] for each in lines(capsys)] == ["save"]
    assert list(tmp_path.iterdir()) == []


def test_an_action_stays_done_where_its_row_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "history.db").mkdir()
    reader = HistoryReader(Database(f"sqlite:///{tmp_path / 'history.db'}"))
    service.put(builders.fleet(), NOW, tmp_path / "kept", history=reader)
    with performed("save", ANN):
        pass

    assert [each["result"] for each in lines(capsys)] == ["done"]
    assert "an entry of the audit log is not in the history: The history history.db cannot be used" in caplog.text


def test_foreign_text_is_cut_and_stays_one_line_of_ascii(table: AuditTable, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\0\n\udc80\N{RIGHT-TO-LEFT OVERRIDE}" + "x" * 1_000
    with performed("save", Visitor(name, Means.PROXY, fixed=AccessRole.ADMIN), name=name):
        pass

    written = capsys.readouterr().err
    assert (written.count("\n"), written.isascii(), len(written) < 1_000) == (1, True, True)
    (row,) = rows(table)
    assert "\0" not in row.visitor
    assert row.visitor.endswith("x")


def test_what_programs_repeat_is_logged_once_a_minute_for_each_visitor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_uses", "refusals"):
        monkeypatch.setattr(audit, name, RecentKeys())
    other = Visitor("ann", Means.BEARER, fixed=AccessRole.EDITOR, client="10.0.0.8")
    for _ in range(5):
        noted("token", ANN)
        noted("token", other)
        noted("token", ANN, REFUSED, "expired")

    assert [(each["client"], each["result"]) for each in lines(capsys)] == [
        ("10.0.0.7", "done"),
        ("10.0.0.8", "done"),
        ("10.0.0.7", "refused"),
    ]


def test_who_was_not_let_in_has_no_role_in_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody who signed in may be a viewer; a token has its own role only."""
    for name in ("_uses", "refusals"):
        monkeypatch.setattr(audit, name, RecentKeys())
    everybody = AccessOptions.model_validate({"mode": "proxy", "trusted_proxies": ["unix"], "roles": {"viewer": ["*"]}})
    assert Visitor("eve", Means.PROXY).role(everybody) is AccessRole.VIEWER
    assert Visitor("ci", Means.BEARER).role(everybody) is None
    monkeypatch.setattr(service, "options", lambda: Options(access=everybody))
    noted("sign_in", Visitor("unknown", Means.PROXY), REFUSED, "no header")
    noted("sign_in", Visitor("eve", Means.PROXY))

    assert [(each["visitor"], each.get("role")) for each in lines(capsys)] == [("unknown", None), ("eve", "viewer")]


def test_a_flood_of_refusals_hides_no_sign_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_uses", "refusals"):
        monkeypatch.setattr(audit, name, RecentKeys())
    for number in range(MOST_REMEMBERED + 50):
        noted("token", Visitor("unknown", Means.BEARER, client=f"2001:db8::{number:x}"), REFUSED)
    noted("sign_in", ANN)

    logged = lines(capsys)
    assert len(logged) == MOST_REMEMBERED + 1
    assert (logged[-1]["audit"], logged[-1]["visitor"]) == ("sign_in", "ann")


def test_a_flood_of_different_visitors_is_bounded_and_ends_with_its_minute() -> None:
    recent = RecentKeys()
    flood = [recent.is_new((str(number),), number / MOST_REMEMBERED) for number in range(10 * MOST_REMEMBERED)]

    assert sum(flood) == MOST_REMEMBERED
    assert not recent.is_new(("another",), PAUSE_SECONDS - 0.5)
    assert recent.is_new(("another",), PAUSE_SECONDS)
    assert not recent.is_new(("another",), PAUSE_SECONDS + 1)


def test_entries_are_found_by_time_action_and_result_the_newest_first(table: AuditTable) -> None:
    for hours, action, result in ((0, "save", DONE), (1, "delete", REFUSED), (2, "save", FAILED), (3, "delete", DONE)):
        table.add(ENTRY._replace(at=NOW + timedelta(hours=hours), action=action, result=result))

    def found(*given: Any, most: int = 10) -> list[int]:
        return [(each.at - NOW) // timedelta(hours=1) for each in table.entries(*given, most=most)]

    assert found(ALWAYS) == [3, 2, 1, 0]
    assert found(ALWAYS, most=2) == [3, 2]
    assert found(Period(NOW + timedelta(hours=1), NOW + timedelta(hours=2))) == [2, 1]
    assert found(ALWAYS, {"save"}) == [2, 0]
    assert found(ALWAYS, (), {DONE}) == [3, 0]
    assert found(ALWAYS, {"save"}, {REFUSED}) == []


def test_old_entries_are_deleted_and_the_oldest_of_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = Recorded(tmp_path)
    assert list(history.reader.audit.entries(ALWAYS, most=1)) == [], "there is no database yet"
    for days in (0, 1, 2, 3):
        history.reader.audit.add(ENTRY._replace(at=NOW + timedelta(days=days)))

    assert sum(prune(history.database, NOW + AUDIT_TIME, HistoryOptions())) == 0
    assert sum(prune(history.database, NOW + AUDIT_TIME + timedelta(hours=1), HistoryOptions())) == 1
    monkeypatch.setattr(retention, "MOST_AUDIT_ROWS", 2)
    assert sum(prune(history.database, NOW, HistoryOptions())) == 1
    assert [each.at for each in rows(history.reader.audit)] == [NOW + timedelta(days=days) for days in (3, 2)]
