"""The JSON document of the fix plan."""

import json
from datetime import UTC, datetime

import jsonschema

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.plan import plan_of, planned
from dashboard.documents.plan import plan_json
from tests.docs_pages import schema

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def test_the_document_of_the_simulated_fleet_matches_its_schema(demo_fleet: Fleet) -> None:
    found = json.loads(plan_json(planned(demo_fleet), AT))

    jsonschema.validate(found, schema("plan"))
    assert [each["key"] for each in found["causes"]] == [each.key for each in plan_of(demo_fleet).causes]


def test_a_cause_says_what_to_set_and_which_findings_end(demo_fleet: Fleet) -> None:
    first = json.loads(plan_json(demo_fleet, AT))["causes"][0]
    (fix,) = first["fixes"]
    (change,) = fix["changes"]

    assert change["flags"] == ["--block-size 16"]
    assert {
        "path": "cache_config.block_size",
        "before": {"value": 32, "state": "reported"},
        "after": {"value": 16, "state": "reported"},
    } in change["settings"]
    assert fix["fixed"] == first["findings"]
