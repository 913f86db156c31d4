"""The JSON document of the fix plan."""

import json
from datetime import UTC, datetime

import jsonschema

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.plan import plan_of, planned
from dashboard.documents.plan import plan_json
from tests.docs_pages import schema
from tests.used import with_traffic

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def test_the_document_of_the_simulated_fleet_matches_its_schema(demo_fleet: Fleet) -> None:
    found = json.loads(plan_json(planned(demo_fleet), AT))

    jsonschema.validate(found, schema("plan"))
    assert [each["key"] for each in found["causes"]] == [each.key for each in plan_of(demo_fleet).causes]


def test_a_cause_has_what_it_costs_in_each_of_its_pools(demo_fleet: Fleet) -> None:
    first = plan_of(demo_fleet).causes[0]
    used = with_traffic(demo_fleet, dict.fromkeys(first.replicas, 0.0), usual=0.6)
    found = json.loads(plan_json(used, AT))
    (effect,) = found["causes"][0]["effect"]

    jsonschema.validate(found, schema("plan"))
    assert effect["pool"] == "chat-70b"
    assert effect["avoidable_tokens_per_minute"] == 0.6 * effect["affected"]["queries"] / 15


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
