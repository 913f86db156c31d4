"""The document of what happened is read back as it was written, without secrets."""

import json
from pathlib import Path

import jsonschema
import pytest

from dashboard.analysis.changes.events import Event, EventKind, EventPeriod
from dashboard.documents.events import events_json, read_events_json
from dashboard.fleet import SettingChange, SettingValue, State
from dashboard.store.history.reader import HistoryReader
from tests.builders import NOW, POLLED_AT
from tests.docs_pages import schema
from tests.past_fleets import FIRST, LAST, recorded
from vllm_fleet_provider.shared.redaction import MARKER

SECRET = "sk-live-0123456789abcdef0123456789"


def changed(path: str, value: object) -> bytes:
    """A document with one changed setting, as a dashboard that redacts nothing would write it."""
    sides = SettingValue("null", State.ABSENT), SettingValue(json.dumps(value), State.REPORTED)
    event = Event(EventKind.SETTINGS, NOW, POLLED_AT, ("chat",), changes=(SettingChange(path, *sides),))
    return events_json(EventPeriod((event,), POLLED_AT, NOW), "prod-eu")


def test_what_a_history_has_is_read_back(tmp_path: Path) -> None:
    happened = EventPeriod(HistoryReader(recorded(tmp_path)).events(FIRST, LAST), FIRST, LAST)
    raw = events_json(happened, "prod-eu")

    jsonschema.validate(json.loads(raw), schema("events"))
    assert len(happened.events) > 5
    assert read_events_json(raw) == ("prod-eu", happened)


@pytest.mark.parametrize(("path", "value"), [("model_config.hf_token", "short"), ("model_config.tokenizer", SECRET)])
def test_a_secret_of_another_dashboard_is_redacted(path: str, value: str) -> None:
    _, happened = read_events_json(changed(path, value))
    before, after = happened.events[0].changes[0][1:]

    assert before.state == State.ABSENT
    assert (MARKER in after.value, value in after.value) == (True, False)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"events": [{}]}',
        b'{"events": [{"changes": [{"path": []}]}]}',
        events_json(EventPeriod((), POLLED_AT, NOW), "x").replace(b'"fleet"', b'"fleets"'),
    ],
)
def test_another_document_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="it answers no document of events"):
        read_events_json(raw)
