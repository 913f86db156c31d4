"""The JSON documents of what changed and of what happened; those of the simulated fleet are golden files."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.events import Event, EventKind, EventPeriod
from dashboard.analysis.changes.models import Changes
from dashboard.documents.changes import changes_json, events_json, read_events_json
from dashboard.fleet import SettingChange, SettingValue, State
from dashboard.store.history.reader import HistoryReader
from dashboard.views.changes_text import sentences
from tests.analysis.changes.sides import NEW, between, chat, fleet
from tests.builders import NOW, POLLED_AT, engine, hostile, story
from tests.docs_pages import schema
from tests.past_fleets import FIRST, LAST, recorded
from vllm_fleet_provider.shared.redaction import MARKER

SECRET = "sk-live-0123456789abcdef0123456789"
ODD = [*chat(3), *chat(1, NEW, first=4)]


def written(changes: Changes) -> Any:
    found = json.loads(changes_json(changes, **sentences(changes)))
    jsonschema.validate(found, schema("changes"))
    return found


def test_the_document_of_any_two_fleets_matches_its_schema_and_is_reproducible(demo_fleet: Fleet) -> None:
    known = [demo_fleet, story(), hostile(), fleet()]
    one, other = (written(between(ODD, chat(4))) for _ in range(2))

    assert one == other
    for then, now in pairwise([*known, demo_fleet, demo_fleet]):
        assert written(changes_between(then, now))["changed"] == (then is not now)


def test_the_capacity_has_both_sides_and_every_changed_rank() -> None:
    found = written(between(chat(2), chat(2, engines=(engine(600_000),))))["capacity"]

    assert (found["total"]["share"], found["pools"][0]["pool"]) == (-0.5, "chat")
    assert found["ranks"][0] == {
        "replica": "http://chat-01:8000",
        "dp_rank": 0,
        "pool": "chat",
        "before": 1_200_000,
        "after": 600_000,
        "at_most": False,
    }


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
