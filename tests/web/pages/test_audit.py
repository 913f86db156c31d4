"""What visitors change or export is a line of JSON on standard error: who, from where, what."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.web import audit
from tests.page_runner import rerun
from tests.snapshot_pages import drop, freeze, visit

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.usefixtures("live")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What was logged since the last look, without the times."""
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each.pop("at")) for each in found)
    return found


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return rerun(app)


def test_freezing_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    press(visit(), "freeze")
    (stored,) = service.snapshots().all()

    assert lines(capsys) == [
        {"audit": "freeze", "remote": "unknown", "name": stored.beside.name, "snapshot": stored.id}
    ]


def test_the_freeze_of_a_review_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    press(visit("review"), "freeze_review")

    assert [each["audit"] for each in lines(capsys)] == ["freeze"]


def test_renaming_and_deleting_are_recorded_also_where_they_are_refused(
    live: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    key = freeze(live, "Monday")
    app = visit("snapshots", manage=key)
    app.text_input(key=f"name_{key}").set_value("Tuesday")
    press(app, "rename")
    app = press(visit("snapshots", manage=key), "delete")
    press(app, "delete_for_good")
    app.text_input(key=f"delete_{key}").set_value("Tuesday")
    press(app, "delete_for_good")

    told = {"remote": "unknown", "snapshot": key, "name": "Tuesday"}
    assert lines(capsys) == [
        {"audit": "rename", **told},
        {"audit": "delete_refused", **told, "refused": "Not deleted: type the name, Tuesday."},
        {"audit": "delete", **told},
    ]


def test_notes_are_recorded_without_what_they_say(live: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    key = freeze(live)
    app = visit("review", snapshot=key)
    field = next(each for each in app.text_area if each.key and each.key.startswith(f"note {key} "))
    field.set_value("between us")
    rerun(app)

    (line,) = lines(capsys)
    assert (line["audit"], line["snapshot"]) == ("note", key)
    assert "between us" not in json.dumps(line)


def test_imports_are_recorded(live: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    key = freeze(live, "Monday")
    exported = service.snapshots().export(key)
    service.snapshots().delete(key)
    drop(visit("snapshots"), ("monday.json.gz", exported))
    (stored,) = service.snapshots().all()

    assert lines(capsys) == [
        {"audit": "import", "remote": "unknown", "name": "Monday", "file": "monday.json.gz", "snapshot": stored.id}
    ]


def test_an_export_names_who_opened_the_dialog(capsys: pytest.CaptureFixture[str]) -> None:
    """The file is made outside of the session."""
    with audit.recorded("export", {"remote": "10.0.0.7", "forwarded_for": "192.0.2.1"}, snapshot="3fa9c01b2e"):
        pass

    assert lines(capsys) == [
        {"audit": "export", "remote": "10.0.0.7", "forwarded_for": "192.0.2.1", "snapshot": "3fa9c01b2e"}
    ]


def test_what_a_visitor_typed_is_one_line_and_short(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(SnapshotError),
        audit.recorded("rename", {"remote": "x\n{"}, name='a\n{"audit": "b"}\u202e' * 99),
    ):
        raise SnapshotError("no")

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.isascii()
    assert len(said) < 1000
