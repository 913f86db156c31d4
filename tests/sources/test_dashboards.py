"""A hub: the replicas of other dashboards, read from their documents by real servers on loopback."""

import asyncio
import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, assemble, read_fleet
from dashboard.config import DashboardOptions, Options, PollOptions, policy_of
from dashboard.documents.reported import MOST_REPLICAS, with_reported
from dashboard.fleet import Replica
from dashboard.sources.dashboards import Dashboard
from dashboard.sources.discovery import discover_once
from dashboard.sources.source import Listing
from tests.captured import AT
from tests.polled_fleets import INTERVAL, at, built
from tests.saved_fleets import saved
from tests.sources.polling.hostile import BAD_ANSWERS, GZIP, JSON, HostileServer, answers, silent

PATH = "/api/v1/fleet"
LIMITS = PollOptions(probe_timeout_seconds=0.5, replica_timeout_seconds=1)
SOON = AT + timedelta(seconds=5)


def document(*numbers: int, **changes: Any) -> dict[str, Any]:
    """Return the full document of a dashboard with captured replicas."""
    found: dict[str, Any] = json.loads(saved(built(*(at(number) for number in numbers or (1, 2)), polled_at=AT)))
    return {**found, **changes}


def serve(server: HostileServer, found: dict[str, Any], *headers: str, base: str = "") -> None:
    server.routes[base + PATH] = answers(json.dumps(found).encode(), headers=(*JSON, *headers))


def source(
    server: HostileServer, clock: Callable[[], datetime] = lambda: SOON, *, base: str = "", **more: Any
) -> Dashboard:
    given = {"url": server.address + base, "labels": {"cluster": "eu"}, **more}
    return Dashboard(DashboardOptions(**given), LIMITS, clock)


def read(found: Dashboard) -> Listing:
    (listing,) = asyncio.run(found.read())
    return listing


def replicas(listing: Listing) -> tuple[Replica, ...]:
    assert listing.reported is not None
    return listing.reported.replicas


def hub(*listings: Listing) -> Fleet:
    """Return the fleet of a hub."""
    nothing = read_fleet("hub", (), polled_at=SOON, interval=INTERVAL)
    return assemble(with_reported(nothing, [each.reported for each in listings if each.reported]), SOON)


def test_the_replicas_of_another_dashboard_have_its_cluster_and_all_that_it_knows(server: HostileServer) -> None:
    there = built(at(1), at(2), polled_at=AT)
    serve(server, json.loads(saved(there)))
    listing = read(source(server, labels={"cluster": "eu", "site": "north"}))
    here = hub(listing)

    assert listing.failure is None
    assert [each.id for each in here.replicas] == [f"eu+{each.id}" for each in there.replicas]
    assert [each.name for each in here.pools] == [f"eu/{each.name}" for each in there.pools]
    assert [each.name for each in here.replicas] == [f"eu/{each.name}" for each in there.replicas]
    assert {each.labels["site"] for each in here.replicas} == {"north"}
    for own, other in zip(here.replicas, there.replicas, strict=True):
        assert (own.state, own.version, own.document, own.engines) == (
            other.state,
            other.version,
            other.document,
            other.engines,
        )
        assert own.fresh
        assert here.read_at(own) == other.observed_at
    assert here.documents.keys() == there.documents.keys()
    assert [each.rule for each in here.inspection.findings] == [each.rule for each in there.inspection.findings]


def test_what_a_dashboard_cannot_read_of_its_replicas_names_that_dashboard_and_the_plain_address(
    server: HostileServer,
) -> None:
    found = document(1, 2)
    sentence = "h:1 wants an API key for /v1/models and none is given; set credentials in fleet.yaml"
    found["replicas"][0] |= {"state": "partial", "reason": {"kind": "unauthorized", "detail": sentence}}
    serve(server, found)
    here = hub(read(source(server)))
    (one,) = [each for each in here.inspection.findings if each.rule == "ID-05"]
    address = found["replicas"][0]["replica"]

    assert here.replicas[0].failure is not None
    assert here.replicas[0].failure.detail == f"Dashboard of eu: {sentence}"
    assert one.remedy.sentence.startswith(f"Set a valid API key for {address}.")
    assert one.remedy.sentence.endswith(" Set options in the fleet.yaml of the dashboard of eu.")
    assert f'- url: "{address}"' in one.remedy.snippets[0].text


def test_a_pattern_declares_the_router_of_a_pool_in_every_cluster(server: HostileServer) -> None:
    serve(server, document(1, 2))
    pool = hub(read(source(server))).pools[0].name
    options = Options.model_validate({"pools": {f"*/{pool.removeprefix('eu/')}": {"router": "prefix-hash"}}})

    assert policy_of(options).declared(pool).router == "prefix-hash"


def test_an_unchanged_answer_is_not_read_again_and_gzip_is_asked_for(server: HostileServer) -> None:
    serve(server, document(), 'ETag: W/"1-1"')
    found = source(server)
    first = read(found)

    async def not_modified(exchange: Any) -> None:
        await exchange.reply(b"", 304, ('ETag: W/"1-1"',))

    server.routes[PATH] = not_modified
    second = read(found)

    assert [each.headers.get("if-none-match") for each in server.asked] == [None, 'W/"1-1"']
    assert {each.headers["accept-encoding"] for each in server.asked} == {"gzip"}
    assert {each.path for each in server.asked} == {f"{PATH}?full=true"}
    assert second.failure is None
    assert all(now is then for now, then in zip(replicas(second), replicas(first), strict=True))


def test_replicas_that_did_not_change_stay_the_same_objects_and_a_packed_answer_is_read(server: HostileServer) -> None:
    changed = document(1, 2)
    later = document(1, 2)
    later["replicas"][1]["version"] = "0.99.0"
    for each in later["replicas"]:
        each["observed_at"] = (AT + timedelta(seconds=3)).isoformat()
        each["probes"] = []
    serve(server, changed)
    found = source(server)
    first = read(found)
    server.routes[PATH] = answers(gzip.compress(json.dumps(later).encode()), headers=GZIP)
    second = read(found)

    assert replicas(second)[0] is replicas(first)[0]
    assert [each.version for each in replicas(second)][1] == "0.99.0"
    assert second.reported is not None
    assert set(second.reported.read_at.values()) == {(AT + timedelta(seconds=3)).timestamp()}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_dashboard_that_fails_keeps_its_replicas_as_stale_with_one_sentence(server: HostileServer, name: str) -> None:
    serve(server, document())
    found = source(server)
    fresh = read(found)
    server.routes[PATH] = BAD_ANSWERS[name][0]
    stale = read(found)

    assert [each.id for each in replicas(stale)] == [each.id for each in replicas(fresh)]
    assert all(each.target_stale for each in replicas(stale))
    assert all(each.fresh for each in replicas(stale))  # for as long as what was read last is young
    assert stale.failure is not None
    assert stale.failure.startswith(f"{server.address}: ")
    assert stale.failure.endswith("; keeping its last replicas (2), marked stale")
    assert "vLLM" not in stale.failure
    serve(server, document())
    assert all(now == then for now, then in zip(replicas(read(found)), replicas(fresh), strict=True))


def test_what_is_not_read_again_is_no_longer_fresh_after_150_seconds_and_other_clusters_are_not_affected(
    server: HostileServer,
) -> None:
    serve(server, document(1), base="/eu")
    serve(server, document(1), base="/us")
    now = SOON
    found = [source(server, lambda: now, base=f"/{name}", labels={"cluster": name}) for name in ("eu", "us")]
    for each in found:
        read(each)
    server.routes["/eu" + PATH] = silent
    now = AT + timedelta(seconds=200)
    later = document(1, data_as_of=now.isoformat())
    later["replicas"][0]["observed_at"] = now.isoformat()
    serve(server, later, base="/us")
    here = hub(*map(read, found))

    states = {each.labels["cluster"]: (each.target_stale, each.fresh) for each in here.replicas}
    assert states == {"eu": (True, False), "us": (False, True)}


def test_a_dashboard_that_stopped_polling_is_stale_with_the_time_of_its_last_poll(server: HostileServer) -> None:
    serve(server, document())
    listing = read(source(server, lambda: AT + timedelta(seconds=3600)))

    assert listing.failure is not None
    assert "its last poll was at 2026-" in listing.failure
    assert {(each.target_stale, each.fresh) for each in replicas(listing)} == {(True, False)}


def test_a_clock_that_is_ahead_makes_no_time_in_the_future(server: HostileServer) -> None:
    ahead = document(data_as_of="2026-12-31T00:00:00Z")
    for each in ahead["replicas"]:
        each["observed_at"] = "2026-12-31T00:00:00Z"
    serve(server, ahead)
    listing = read(source(server))

    assert listing.reported is not None
    assert set(listing.reported.read_at.values()) == {SOON.timestamp()}


def test_a_later_minor_version_is_read_and_what_an_earlier_one_lacks_is_unknown(server: HostileServer) -> None:
    later = document(schema_version="1.99", more={"deep": [1]})
    for each in (*later["replicas"], *later["engines"]):
        each["unheard_of"] = {"a": 1}
    serve(server, later)
    assert len(replicas(read(source(server)))) == 2

    for name in ("traffic", "devices", "kv_cache_groups", "sightings", "routers", "pools", "recent"):
        del later[name]
    for each in later["replicas"]:
        del each["first_seen"]
    serve(server, later)
    listing = read(source(server))

    assert listing.failure is None
    assert [each.devices for each in replicas(listing)] == [(), ()]


@pytest.mark.parametrize("version", ["2.0", "0.9", "x", 1, None])
def test_a_document_of_another_major_version_is_one_sentence(server: HostileServer, version: Any) -> None:
    serve(server, document(schema_version=version))
    listing = read(source(server))

    assert listing.failure is not None
    assert f"has a document of schema version {version!r}, this dashboard reads 1.x" in listing.failure
    assert listing.failure.endswith("update the older dashboard")


@pytest.mark.parametrize("part", [None, 7, "a", [[]], [7], [{}], [{"replica": 7}], [{"replica": "x", "dp_rank": []}]])
@pytest.mark.parametrize("name", ["traffic", "engines", "devices", "kv_cache_groups", "sightings", "routers", "pools"])
def test_a_list_of_another_shape_is_unknown(server: HostileServer, name: str, part: Any) -> None:
    serve(server, document(1, 2, **{name: part}))
    listing = read(source(server))

    assert len(replicas(listing)) == 2
    assert hub(listing).pools


def test_more_replicas_than_are_read_are_refused_as_a_whole(server: HostileServer) -> None:
    serve(server, document(replicas=[{}] * (MOST_REPLICAS + 1)))
    listing = read(source(server))

    assert listing.failure is not None
    assert "reports more than 5,000 replicas" in listing.failure


def test_a_dashboard_names_nothing_of_another_cluster(server: HostileServer) -> None:
    """It claims the ids, the cluster, the pool and the document of another one, and the same processes."""
    honest = document(1, 2)
    liar = document(1, 2)
    (key,) = liar["documents"]
    liar["documents"][key]["cache_config.block_size"]["value"] = 4096
    for each in liar["replicas"]:
        each["labels"] = {"cluster": "eu", "pool": "eu/chat", "name": "eu-1"}
    for each in (*honest["replicas"], *liar["replicas"]):
        each["identity"]["instance_id"] = {"value": "the-same", "state": "reported", "source": "server_info"}
    serve(server, honest, base="/eu")
    serve(server, liar, base="/us")
    alone = hub(read(source(server, base="/eu")))
    both = hub(*(read(source(server, base=f"/{name}", labels={"cluster": name})) for name in ("us", "eu")))

    theirs = {each.id: each for each in both.replicas if each.labels["cluster"] == "eu"}
    assert theirs == alone.by_id
    assert {each.labels["cluster"] for each in both.replicas} == {"eu", "us"}
    assert {each.name for each in both.pools} == {"us/eu/chat", *(each.name for each in alone.pools)}
    for pool in alone.pools:
        assert next(each for each in both.pools if each.name == pool.name) == pool
        assert both.sharing[pool.name] == alone.sharing[pool.name]
        assert both.capacity[pool.name] == alone.capacity[pool.name]
    for each in alone.documents:
        assert both.documents[each] == alone.documents[each]


def test_two_dashboards_of_one_cluster_are_one_and_the_one_that_answers_is_used(server: HostileServer) -> None:
    serve(server, document(1, 2), base="/a")
    serve(server, document(1, 2), base="/b")
    pair = [source(server, base=f"/{name}") for name in ("a", "b")]
    listings = [read(each) for each in pair]
    server.routes["/a" + PATH] = silent
    listings[0] = read(pair[0])

    assert len(hub(*listings).replicas) == 2
    assert not any(each.target_stale for each in hub(*listings).replicas)


def test_secrets_in_a_document_and_the_token_itself_are_redacted(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EU_TOKEN", "token-of-eu-4711")
    found = document(1)
    (key,) = found["documents"]
    secret = "hf_" + "aB3dE6gH9jK2mN5pQ8"
    for place in (found["documents"][key], found["replicas"][0]["identity"]):
        place["environment.API_KEY"] = {"value": "hunter2hunter2", "state": "reported", "source": "server_info"}
        place["a.b"] = {"value": "echo token-of-eu-4711", "state": "reported", "source": "server_info"}
    found["replicas"][0]["labels"] = {"note": f"see {secret}"}
    serve(server, found)
    listing = read(source(server, token_env="EU_TOKEN"))

    assert server.asked[0].headers["authorization"] == "Bearer token-of-eu-4711"
    everything = repr(listing)
    assert "hunter2" not in everything
    assert "4711" not in everything
    assert secret not in everything
    assert "[redacted]" in everything


def test_a_redirect_is_not_followed_and_the_token_goes_to_the_url_only(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EU_TOKEN", "token-of-eu-4711")
    server.routes[PATH] = answers(b"", 302, (f"Location: {server.address}/elsewhere",))
    listing = read(source(server, token_env="EU_TOKEN"))

    assert [each.path for each in server.asked] == [f"{PATH}?full=true"]
    assert listing.failure is not None
    assert "4711" not in listing.failure


def test_a_metadata_address_is_not_contacted() -> None:
    options = DashboardOptions(url="http://169.254.169.254", labels={"cluster": "eu"})
    listing = read(Dashboard(options, LIMITS))

    assert listing.failure is not None
    assert "169.254.169.254" in listing.failure
    assert "link-local" in listing.failure or "reserved" in listing.failure or "metadata" in listing.failure


def test_first_seen_times_and_traffic_are_those_of_the_dashboard(server: HostileServer) -> None:
    found = document(1)
    key = found["replicas"][0]["replica"]
    found["replicas"][0]["first_seen"] = "2026-01-02T03:04:05Z"
    row = dict.fromkeys(("external_queries", "external_hits", "preemptions", "first_token_seconds", "first_tokens"))
    row |= dict.fromkeys(("prefill_seconds", "computed_tokens", "waiting", "kv_usage"))
    row |= {"replica": key, "dp_rank": 0, "window_seconds": 60.0, "queries": 50_000.0, "hits": 20_000.0}
    found["traffic"] = [row | {"prompt_tokens": 50_000.0, "requests": 100.0, "refused": []}]
    found["traffic"].append(row | {"dp_rank": 1, "hits": float(10**12)})  # more than were queried
    serve(server, found)
    listing = read(source(server))

    assert listing.reported is not None
    assert hub(listing).traffic[f"eu+{key}"][0].hit_rate == 0.4
    assert list(hub(listing).traffic[f"eu+{key}"]) == [0]
    assert listing.reported.first_seen[f"eu+{key}"].year == 2026


def test_discovery_lists_the_replicas_with_their_source_and_ends_without_targets(server: HostileServer) -> None:
    serve(server, document())
    found = discover_once(Options(dashboards=[{"url": server.address, "labels": {"cluster": "eu"}}]))

    assert found.targets == ()
    assert found.has_replicas
    (status,) = found.sources
    assert (status.kind, len(status.targets)) == ("dashboards", 2)
