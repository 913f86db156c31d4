"""The JSON document of changes holds what changed, in the shape that its schema promises."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jsonschema

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import Changes, changes_between
from dashboard.render.changes_json import changes_json, changes_schema
from dashboard.rules.findings import Inspection, Severity
from tests.analysis.changes.sides import BLOCK_SIZE, LATER, NEW, RESTARTED, between, chat, fleet, ids
from tests.builders import document, down, engine, hostile, story
from tests.report import judged

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


def test_a_group_of_settings_is_told_whole() -> None:
    told = written(between(chat(4), [*chat(1), *chat(3, NEW, first=2, **RESTARTED)]))

    assert told["settings"]["groups"] == [
        {
            "pool_before": "chat",
            "pool_after": "chat",
            "changes": [
                {
                    "path": BLOCK_SIZE,
                    "before": {"value": 16, "state": "reported"},
                    "after": {"value": 32, "state": "reported"},
                }
            ],
            "replicas": [*ids("chat-02", "chat-03", "chat-04")],
            "of_before": 4,
            "of_after": 4,
            "cohorts_before": [{"cohort": "A", "count": 3}],
            "cohorts_after": [{"cohort": "A", "count": 3}],
            "restarted": 3,
            "start_untold": 0,
        }
    ]
    assert told["replicas"]["stayed"] == 4
    assert [each["restarted"] for each in told["replicas"]["changed"]] == [True] * 3


def test_a_finding_that_nobody_looked_at_is_told_as_that() -> None:
    told = written(between(ODD, [*chat(3), down("chat-04", started_at=None)]))
    (lost,) = told["findings"]["gone"]

    assert (lost["rule"], lost["elsewhere"], lost["unread"]) == ("RT-01", "not judged", [*ids("chat-04")])
    assert told["replicas"]["start_untold"] == [*ids("chat-04")]
    assert told["settings"]["unread_after"] == [*ids("chat-04")]
    assert told["after"]["coverage"] == {"targets": 4, "up": 3, "partial": 0, "down": 1}


def test_a_finding_that_changed_tells_how() -> None:
    entry = judged.suppression()
    then = replace(
        fleet(*chat(4)), inspection=Inspection((), (judged.finding(replicas=ids("chat-01"), suppression=entry),))
    )
    again = judged.finding(replicas=ids("chat-01", "chat-02"), severity=Severity.INFO, expired=entry)
    now = replace(fleet(*chat(4), polled_at=LATER), inspection=Inspection((again,)))
    (told,) = written(changes_between(then, now))["findings"]["changed"]

    assert (told["severity_before"], told["severity"]) == ("critical", "info")
    assert (told["joined"], told["left"]) == ([*ids("chat-02")], [])
    assert (told["suppressed_before"], told["suppressed_after"]) == ([*ids("chat-01")], [])
    assert told["ended"] == {"owner": "ann", "reason": "canary", "until": "2026-04-30"}


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
