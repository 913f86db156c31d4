"""The JSON document says what the fleet holds, in the shape that its schema promises."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dashboard.analysis.assembly import Fleet, build_fleet
from dashboard.analysis.documents.findings import findings_json
from dashboard.analysis.documents.fleet import fleet_json, fleet_schema
from tests.captured import INFERENCE_CONFIG, capture, snapshot
from tests.provider_answers import fingerprint, with_provider
from tests.tools.write_docs import SCHEMA

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
def test_the_document_holds_to_its_schema_with_and_without_full(document: dict[str, Any], full: dict[str, Any]) -> None:
    schema = json.loads(Path(SCHEMA).read_text())

    jsonschema.validate(document, schema)
    jsonschema.validate(full, schema)


def test_the_keys_are_those_that_the_readme_names(document: dict[str, Any]) -> None:
    assert list(document) == [
        *("schema_version", "program_version", "generated_at", "data_as_of", "fleet", "coverage", "tally", "ignored"),
        *("notes", "discovery_errors", "replicas", "engines", "devices", "kv_cache_groups", "pools"),
        *("findings", "suppressed"),
    ]
    assert list(document["replicas"][0]) == [
        *("replica", "name", "pool", "role", "state", "reason", "version", "started_at", "observed_at"),
        *("document", "cohort", "sources", "labels", "target_stale"),
    ]
    assert list(document["engines"][0]) == [
        *("replica", "dp_rank", "num_gpu_blocks", "block_size", "kv_cache_size_tokens", "max_concurrency"),
        *("kv_cache_bytes", "naive_tokens", "max_model_len", "basis", "fingerprint", "shares_sum"),
    ]
    assert list(document["pools"][0]) == [
        *("pool", "replicas", "tally", "domain", "rollout", "shares_prefixes", "prefix_sharing"),
        *("majority_document", "cohorts", "differences"),
    ]
    assert list(document["pools"][0]["cohorts"][0]) == ["cohort", "document", "replicas", "distinguishing"]


def test_the_findings_are_those_of_the_document_of_findings(document: dict[str, Any], demo_fleet: Fleet) -> None:
    apart = json.loads(findings_json(demo_fleet, AT))

    assert document["findings"]
    for key in ("findings", "suppressed", "tally", "notes", "coverage", "data_as_of", "program_version"):
        assert document[key] == apart[key]
    assert [{key: pool[key] for key in apart["pools"][0]} for pool in document["pools"]] == apart["pools"]


def test_the_schema_asks_for_what_full_adds_of_nobody(document: dict[str, Any], full: dict[str, Any]) -> None:
    schema = fleet_schema()
    added = {
        "Replica": full["replicas"][0].keys() - document["replicas"][0].keys(),
        "Engine": full["engines"][0].keys() - document["engines"][0].keys(),
    }

    assert added["Engine"] == {"reason", "kv_cache_bytes_per_device", "kv_cache_available_bytes"}
    assert "documents" not in schema["required"]
    for name, fields in added.items():
        part = schema["$defs"][name]
        assert fields <= part["properties"].keys()
        assert not fields & set(part["required"])


def test_full_adds_every_document_with_the_identity_and_the_probes_of_each_replica(full: dict[str, Any]) -> None:
    named = {each["document"] for each in full["replicas"]} - {None}

    assert set(full["documents"]) == named
    one = next(each for each in full["replicas"] if each["state"] == "up")
    assert full["documents"][one["document"]]["cache_config.block_size"]["source"] in {
        "provider",
        "server_info",
        "metrics",
    }
    assert one["identity"]["cache_config.num_gpu_blocks"]["value"] > 0
    assert one["probes"][0]["path"] == "/metrics"
    assert one["served_model_names"]
    assert one["fresh"] is True


def test_an_engine_carries_its_fingerprint_and_a_probe_names_who_answered() -> None:
    answers = with_provider(capture("llama_dp2"), fingerprints=("one root", None))
    fleet = build_fleet("prod", [snapshot(answers)], polled_at=AT, interval=timedelta(seconds=30))

    told = json.loads(fleet_json(fleet, AT, full=True))

    assert [engine["fingerprint"] for engine in told["engines"]] == [
        fingerprint("one root", 128),
        fingerprint(None, 128),
    ]
    assert [(each["tensor_parallel_rank"], each["compute_units"]) for each in told["devices"]] == [(0, 1), (0, 1)]
    sources = {probe["path"]: probe["source"] for probe in told["replicas"][0]["probes"]}
    assert sources[INFERENCE_CONFIG] == "provider"
