"""The JSON document of what changed; that of the simulated fleet is a golden file (diff.json)."""

import json
from itertools import pairwise
from typing import Any

import jsonschema

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes
from dashboard.documents.changes import changes_json
from dashboard.views.changes_text import sentences
from tests.analysis.changes.sides import NEW, between, chat, fleet
from tests.builders import engine, hostile, story
from tests.docs_pages import schema

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
