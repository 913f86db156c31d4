"""A hub against dashboards that lie: ids, times, pools and secrets of others, and a hub in its own list."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, assemble, read_fleet
from dashboard.documents.reported import (
    MOST_POOLS,
    MOST_REPLICAS,
    ReportedFleet,
    ReportReader,
    with_first_seen,
    with_reported,
)
from dashboard.fleet.formatting import iso
from dashboard.fleet.history import Sightings
from tests.captured import AT
from tests.polled_fleets import INTERVAL, at, built
from tests.saved_fleets import saved
from tests.sources.polling.hostile import HostileServer
from tests.sources.test_dashboards import document, read, replicas, serve, source
from vllm_fleet_provider.shared.redaction import redact_keys

SOON = AT + timedelta(seconds=5)
SECRET = "hf_" + "aB3dE6gH9jK2mN5pQ8"
TOKEN = "token-of-us-0815"  # of another dashboard


def reported(found: Any, cluster: str = "eu") -> tuple[ReportedFleet, list[str]]:
    reader = ReportReader({"cluster": cluster})
    reader.read(json.dumps(found).encode())
    return reader.report(SOON, 150, answers=True), reader.refused


def hub(*others: ReportedFleet, own: Fleet | None = None) -> Fleet:
    nothing = read_fleet("hub", (), polled_at=SOON, interval=INTERVAL)
    return assemble(with_reported(own or nothing, others), SOON)


def _set(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    *steps, last = place.split(".")

    def change(found: dict[str, Any]) -> None:
        part: Any = found
        for step in steps:
            part = part[int(step)] if step.isdecimal() else part[step]
        part[last] = value

    return change


LIES = {  # of the second of two replicas, and what the sentence names
    "engine with text": (_set("engines.1.num_gpu_blocks", "many"), "engines"),
    "engine with a negative number": (_set("engines.1.num_gpu_blocks", -1), "engines"),
    "engine with a huge number": (_set("engines.1.num_gpu_blocks", 10**400), "engines"),
    "unknown state": (_set("replicas.1.state", "great"), "state"),
    "labels of lists": (_set("replicas.1.labels", {"a": ["b"]}), "labels"),
    "1,000 labels": (_set("replicas.1.labels", {f"l{number}": "" for number in range(1000)}), "100 labels"),
    "a long label": (_set("replicas.1.labels", {"pool": "a" * 5000}), "1000 characters"),
    "a large replica": (_set("replicas.1.served_model_names", ["a" * 2**20]), "1 MiB"),
    "no document of that key": (_set("replicas.1.document", "0" * 12), "document"),
    "a document that is a number": (_set("replicas.1.document", 7), "document"),
    "a name that is a list": (_set("replicas.1.name", ["a"]), "name"),
    "a time that is none": (_set("replicas.1.started_at", "yesterday"), "started_at"),
    "a year of 9999": (_set("replicas.1.started_at", "9999-12-31T23:59:59Z"), "started_at"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_bad_replica_costs_only_itself_with_one_sentence(server: HostileServer, name: str) -> None:
    change, what = LIES[name]
    bad = document(1, 2)
    change(bad)
    key = bad["replicas"][1]["replica"]
    serve(server, bad)
    found = source(server)
    listing = read(found)

    assert [each.id for each in replicas(listing)] == [f"eu+{bad['replicas'][0]['replica']}"]
    assert listing.failure is not None
    assert f"cannot be read whole: replica {key}: " in listing.failure
    assert what in listing.failure
    assert len(listing.failure) < 500

    serve(server, document(1, 2))
    assert read(found).failure is None
    serve(server, bad)
    kept = read(found)  # as it was read last
    assert {each.id.removeprefix("eu+"): each.target_stale for each in replicas(kept)} == {
        bad["replicas"][0]["replica"]: False,
        key: True,
    }


def test_a_document_of_as_many_lies_as_are_read_has_a_sentence_on_each() -> None:
    reader = ReportReader({"cluster": "eu"})
    lies = document(1, replicas=[{"replica": f"r{number}"} for number in range(MOST_REPLICAS)])
    reader.read(json.dumps(lies).encode())

    assert reader.report(SOON, 150, answers=True).replicas == ()
    assert len(reader.refused) == MOST_REPLICAS


def test_a_hub_that_lists_itself_does_not_grow() -> None:
    own = built(at(1), at(2), polled_at=AT)
    reader, counts, here = ReportReader({"cluster": "eu"}), [], own
    for _ in range(4):
        reader.read(saved(here))
        here = hub(reader.report(SOON, 150, answers=True), own=own)
        counts.append(len(here.replicas))

    assert counts == [4, 4, 4, 4]
    assert max(each.id.count("+") for each in here.replicas) == 1
    assert len(reader.refused) == 2
    assert "is reported by another dashboard; list that one in dashboards" in reader.refused[0]


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "2300-01-01T00:00:00Z", "2200-01-01T00:00:00+05:00"])
def test_no_replica_was_first_seen_in_the_future(time: str) -> None:
    found = document(1)
    found["replicas"][0]["first_seen"] = time
    report, _ = reported(found)

    assert all(seen <= SOON for seen in report.first_seen.values())
    for sighting in with_first_seen(Sightings(), [report]).replicas.values():
        assert iso(sighting.first_seen) <= iso(SOON)


def test_pools_beyond_the_most_are_left_out_and_the_others_are_read() -> None:
    found = document(1)
    (first,) = found["replicas"]
    found["replicas"] = [
        {**first, "replica": f"http://a{number}:80", "labels": {"pool": f"p{number}"}} for number in range(510)
    ]
    report, refused = reported(found)

    assert len({each.pool for each in report.replicas}) == MOST_POOLS
    assert refused == [f"replica http://a{number}:80: more than 500 pools are reported" for number in range(500, 510)]


def test_a_document_whose_id_is_crafted_does_not_replace_that_of_another_cluster() -> None:
    """The id has 48 bits: who computes for some hours has settings with the id of others."""
    honest, _ = reported(document(1), "us")
    liar, _ = reported(document(1), "eu")
    (document_of,) = honest.documents.values()
    settings = dict(document_of.settings)
    settings["cache_config.block_size"] = settings["cache_config.block_size"]._replace(value="4096")
    crafted = liar._replace(documents={document_of.id: replace(document_of, settings=settings)})
    for order in ([crafted, honest], [honest, crafted]):
        here = hub(*order)
        found = {each.labels["cluster"]: here.documents[each.document or ""].settings for each in here.replicas}

        assert found == {"us": document_of.settings, "eu": settings}


def _id(found: dict[str, Any], text: str) -> None:
    found["replicas"][0]["replica"] = found["engines"][0]["replica"] = f"http://{text}.example:8000"


def _engine(found: dict[str, Any], text: str) -> None:
    found["engines"][0]["reason"] = f"see {text}"


def _traffic(found: dict[str, Any], text: str) -> None:
    names = ("queries", "hits", "external_queries", "external_hits", "preemptions", "first_token_seconds")
    more = ("first_tokens", "prefill_seconds", "computed_tokens", "waiting", "kv_usage", "prompt_tokens", "requests")
    row = {"replica": found["replicas"][0]["replica"], "dp_rank": 0, "window_seconds": 60.0}
    found["traffic"] = [row | dict.fromkeys((*names, *more)) | {"refused": [f"{text} is no number"]}]


def _same_digest(found: dict[str, Any], text: str) -> None:
    found["replicas"][0]["same_digest_as"] = f"http://{text}:80"


@pytest.mark.parametrize("text", [SECRET, TOKEN])
@pytest.mark.parametrize("plant", [_id, _engine, _traffic, _same_digest])
def test_a_secret_outside_of_settings_is_redacted_too(plant: Callable[[dict[str, Any], str], None], text: str) -> None:
    redact_keys([TOKEN])
    found = document(1)
    plant(found, text)
    report, _ = reported(found)

    assert len(report.replicas) == 1
    assert len(report.replicas[0].engines) == 1
    assert len(report.traffic) == len(found["traffic"])
    assert text not in repr(report)
    assert "[redacted]" in repr(report)


def test_an_error_of_ours_marks_the_replicas_as_stale_too(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve(server, document())
    found = source(server)
    read(found)

    def broken(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(ReportReader, "read", broken)
    with caplog.at_level(logging.CRITICAL):
        listing = read(found)

    assert all(each.target_stale for each in replicas(listing))
    assert listing.failure is not None
    assert "internal error KeyError; keeping its last replicas (2), marked stale" in listing.failure
