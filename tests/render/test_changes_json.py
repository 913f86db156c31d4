"""The JSON document of changes holds what changed, in the shape that its schema promises."""

import json
from itertools import pairwise
from typing import Any

import jsonschema

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes
from dashboard.render.changes_json import changes_json, changes_schema
from tests.analysis.changes.sides import BLOCK_SIZE, NEW, between, chat, fleet
from tests.builders import document, engine, hostile, story

ODD = [*chat(3), *chat(1, NEW, first=4)]


def written(changes: Changes) -> Any:
    told = json.loads(changes_json(changes))
    jsonschema.validate(told, changes_schema())
    return told


def test_any_two_fleets_hold_to_the_schema(demo_fleet: Fleet) -> None:
    known = [demo_fleet, story(), hostile(), fleet()]
    for then, now in pairwise([*known, demo_fleet, demo_fleet]):
        assert written(changes_between(then, now))["changed"] == (then is not now)


def test_the_same_fleets_give_the_same_bytes() -> None:
    one, other = (changes_json(between(ODD, chat(4))) for _ in range(2))

    assert one == other


def test_capacity_tells_both_sides_and_every_rank() -> None:
    told = written(between(chat(2), chat(2, engines=(engine(600_000),))))["capacity"]

    assert (told["total"]["share"], told["pools"][0]["pool"]) == (-0.5, "chat")
    assert told["ranks"][0] == {
        "replica": "http://chat-01:8000",
        "dp_rank": 0,
        "pool": "chat",
        "before": 1_200_000,
        "after": 600_000,
        "at_most": False,
    }


def test_what_only_one_side_tells_is_told_with_the_reason() -> None:
    less = document(base={"version": "0.32.0", BLOCK_SIZE: 16})
    told = written(between(chat(1), chat(1, less), less))["settings"]

    assert told["groups"] == told["now_told"] == []
    assert told["no_longer_told"][0]["why"] == "absent"
