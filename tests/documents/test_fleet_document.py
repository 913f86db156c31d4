"""The JSON document of a fleet; that of the simulated fleet is a golden file (poll.json)."""

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.documents.findings import findings_json
from dashboard.documents.fleet import fleet_json
from tests.docs_pages import schema
from tests.used import with_traffic

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture
def document(demo_fleet: Fleet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet_json(demo_fleet, AT))
    return found


@pytest.fixture
def full(demo_fleet: Fleet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet_json(demo_fleet, AT, full=True))
    return found


@pytest.mark.no_cover
def test_the_document_matches_its_schema_with_and_without_full(document: dict[str, Any], full: dict[str, Any]) -> None:
    jsonschema.validate(document, schema("fleet"))
    jsonschema.validate(full, schema("fleet"))


def test_the_findings_equal_those_of_the_document_of_findings(document: dict[str, Any], demo_fleet: Fleet) -> None:
    separate = json.loads(findings_json(demo_fleet, AT))

    for key in ("findings", "suppressed", "tally", "notes", "coverage", "data_as_of", "program_version"):
        assert document[key] == separate[key]
    assert [{key: pool[key] for key in separate["pools"][0]} for pool in document["pools"]] == separate["pools"]


@pytest.fixture
def used(demo_fleet: Fleet) -> dict[str, Any]:
    """The document of a fleet with traffic, in which one cohort finds nothing in its cache."""
    (chat,) = (each for each in demo_fleet.pools if each.name == "chat-70b")
    found: dict[str, Any] = json.loads(
        fleet_json(with_traffic(demo_fleet, dict.fromkeys(chat.cohorts[1].replicas, 0.0), usual=0.6), AT)
    )
    return found


@pytest.mark.no_cover
def test_the_document_of_a_fleet_with_traffic_matches_its_schema(used: dict[str, Any]) -> None:
    jsonschema.validate(used, schema("fleet"))


def test_a_pool_and_each_cohort_have_the_sums_and_rates_of_their_replicas(used: dict[str, Any]) -> None:
    (chat,) = (each for each in used["pools"] if each["pool"] == "chat-70b")
    usual, other = chat["cohorts"][:2]
    members = {replica for cohort in chat["cohorts"] for replica in cohort["replicas"]}
    engines = [each for each in used["traffic"] if each["replica"] in members]

    assert (usual["traffic"]["prefix_hit_rate"], other["traffic"]["prefix_hit_rate"]) == (0.6, 0)
    assert chat["traffic"]["queries"] == sum(each["queries"] for each in engines)
    assert 0 < chat["traffic"]["prefix_hit_rate"] < 0.6


def test_without_traffic_every_object_says_so(document: dict[str, Any]) -> None:
    assert document["traffic"] == []
    assert {each["traffic"] for part in ("replicas", "pools") for each in document[part]} == {None}


def test_the_keys_of_full_are_not_required(document: dict[str, Any], full: dict[str, Any]) -> None:
    published = schema("fleet")
    added = {
        name: full[key][0].keys() - document[key][0].keys()
        for name, key in (("Replica", "replicas"), ("Engine", "engines"))
    }

    assert added["Engine"] == {"reason", "kv_cache_bytes_per_device", "kv_cache_available_bytes"}
    assert "documents" not in published["required"]
    for name, fields in added.items():
        part = published["$defs"][name]
        assert fields <= part["properties"].keys()
        assert not fields & set(part["required"])


def test_full_adds_the_documents_identity_settings_and_probes(full: dict[str, Any]) -> None:
    one = next(each for each in full["replicas"] if each["state"] == "up")
    size = full["documents"][one["document"]]["cache_config.block_size"]

    assert set(full["documents"]) == {each["document"] for each in full["replicas"]} - {None}
    assert size["source"] in {"provider", "server_info", "metrics"}
    assert one["identity"]["cache_config.num_gpu_blocks"]["value"] > 0
    assert one["probes"][0]["path"] == "/metrics"
    assert (bool(one["served_model_names"]), one["fresh"]) == (True, True)
