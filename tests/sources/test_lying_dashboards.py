"""A hub against dashboards that lie: ids, times, pools and secrets of others, and a hub in its own list."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, assemble, read_fleet
from dashboard.documents.reported import MOST_POOLS, ReportedFleet, ReportReader, with_first_seen, with_reported
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
