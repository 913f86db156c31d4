"""Routers at a URL or in a file: facts with source and time, and a sentence for each source that fails."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.config import PollOptions
from dashboard.config.sources import RouterOptions
from dashboard.fleet import FactName, RouterConfig, RouterFact, RouterKind
from dashboard.fleet.routers import facts_of_pool
from dashboard.sources.routers.kinds import KINDS
from dashboard.sources.routers.reader import LONGEST_TEXT, MOST_NAMES, RouterReader
from tests.sources.polling.hostile import BAD_ANSWERS, CERTIFICATE, HostileServer, answers, missing, silent
from tests.sources.routers.fixture_files import FIXTURES, fixture
from vllm_fleet_provider.shared.redaction import MARKER
from vllm_fleet_provider.shared.spelling import canonical_text

AT = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
LATER = AT + timedelta(minutes=5)
LIMITS = PollOptions(probe_timeout_seconds=5)
STATE, METRICS = "/debug/plugins/state", "/metrics"
SECRET = "hunter2-hunter2"


@pytest.fixture
def llm_d(server: HostileServer) -> HostileServer:
    """Serve llm-d-router."""
    server.routes[STATE] = answers(fixture("llmd_plugins_state_precise.json"))
    server.routes[METRICS] = answers(fixture("llmd_metrics.txt"))
    return server


def reader(limits: PollOptions = LIMITS, **options: Any) -> RouterReader:
    return RouterReader([RouterOptions.model_validate({"kind": "llm-d", **options})], limits)


def read(routers: RouterReader, at: datetime = AT) -> RouterConfig:
    (router,) = asyncio.run(routers.read(at))
    return router


def values(router: RouterConfig, source: str = "") -> dict[FactName, str]:
    """Return the facts of the sources that end so."""
    return {each.name: each.value for each in router.facts if each.source.endswith(source)}


def test_a_router_reports_facts_with_source_and_time(llm_d: HostileServer) -> None:
    url = llm_d.address
    names = ["ms-decode-0-rank-0", "ms-decode-1-rank-0"]
    expected = [
        (FactName.ROUTING, "kv-events", STATE),
        (FactName.BLOCK_SIZE, 64, STATE),
        (FactName.OWN_KEYS, True, STATE),
        (FactName.SUBSCRIBERS, [f"llm-d/ms-decode-{number}-rank-0" for number in range(3)], STATE),
        (FactName.SUBSCRIBED, 3, STATE),
        (FactName.VERSION, "v0.10.0", METRICS),
        (FactName.READY, 2, METRICS),
        (FactName.ENDPOINTS, names, METRICS),
    ]
    facts = tuple(RouterFact(name, canonical_text(value), url + path, AT) for name, value, path in expected)
    found = read(reader(url=url, pools=["chat-*"]))

    assert {each.name: each for each in found.facts} == {each.name: each for each in facts}
    assert [each.observed_at for each in found.facts] == [AT] * len(facts)
    assert (found.name, found.kind, found.pools, found.failures) == (url, RouterKind.LLM_D, ("chat-*",), ())


def test_two_routers_are_read_in_the_order_of_the_options(llm_d: HostileServer) -> None:
    llm_d.routes["/other/metrics"] = answers(fixture("mooncake_metrics.txt"))
    options = [
        RouterOptions.model_validate({"kind": "mooncake", "url": f"{llm_d.address}/other"}),
        RouterOptions.model_validate({"kind": "llm-d", "url": llm_d.address}),
    ]
    found = asyncio.run(RouterReader(options, LIMITS).read(AT))

    assert [(each.name, each.failures) for each in found] == [(f"{llm_d.address}/other", ()), (llm_d.address, ())]
    assert values(found[0]) == {FactName.KV_STORE: '"mooncake"', FactName.CLIENTS: "2"}


def test_a_path_that_fails_keeps_its_last_facts_and_says_since_when(llm_d: HostileServer) -> None:
    routers = reader(url=llm_d.address)
    before = read(routers)
    llm_d.routes[STATE] = answers(b"no", 500)
    failed = [read(routers, LATER), read(routers, LATER + timedelta(minutes=5))]

    for found in failed:
        assert values(found) == values(before)
        assert {each.observed_at for each in found.facts if each.source.endswith(STATE)} == {AT}
        assert found.failures == (
            f"127.0.0.1:{llm_d.port} answered {STATE} with status 500; keeping its answer of 2026-11-24T12:00:00Z",
        )
    assert {each.observed_at for each in failed[0].facts if each.source.endswith(METRICS)} == {LATER}


def test_a_path_that_answers_again_has_no_failure_and_only_new_facts(llm_d: HostileServer) -> None:
    routers = reader(url=llm_d.address)
    read(routers)
    llm_d.routes[STATE] = answers(b"{}", 500)
    read(routers)
    llm_d.routes[STATE] = answers(fixture("llmd_plugins_state_approx.json"))
    found = read(routers, LATER)

    assert (values(found, STATE), found.failures) == ({FactName.ROUTING: '"approximate"'}, ())


def test_without_the_path_of_plugins_the_metrics_are_facts(llm_d: HostileServer) -> None:
    llm_d.routes[STATE] = answers(fixture("llmd_404.txt"), 404)
    found = read(reader(url=llm_d.address))

    assert set(values(found)) == {FactName.READY, FactName.VERSION, FactName.ENDPOINTS}
    assert found.failures == (f"127.0.0.1:{llm_d.port} has no {STATE} (status 404)",)


def test_a_refusal_of_the_path_names_the_rule_that_is_missing(
    llm_d: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUTER_TOKEN", SECRET)
    llm_d.routes[STATE] = answers(fixture("llmd_403.txt"), 403)
    found = read(reader(url=llm_d.address, authorization={"token_env": "ROUTER_TOKEN"}))

    assert found.failures == (
        (
            f"127.0.0.1:{llm_d.port} refuses the given API key for {STATE} (status 403); "
            f"add {STATE} to the nonResourceURLs of its ClusterRole"
        ),
    )
    assert {each.headers["authorization"] for each in llm_d.asked} == {f"Bearer {SECRET}"}


def test_without_a_token_a_refusal_names_the_option(llm_d: HostileServer) -> None:
    for path in (STATE, METRICS):
        llm_d.routes[path] = answers(fixture("llmd_401.txt"), 401)
    found = read(reader(url=llm_d.address))

    assert found.failures == tuple(
        f"127.0.0.1:{llm_d.port} wants an API key for {path} and none is given; "
        "set authorization of this entry of routers in fleet.yaml"
        for path in (STATE, METRICS)
    )
    assert all("authorization" not in each.headers for each in llm_d.asked)


def test_a_router_with_tls_needs_its_ca() -> None:
    with HostileServer(tls=True) as secure:
        secure.routes[METRICS] = answers(fixture("mooncake_metrics.txt"))
        url = secure.address
        trusted = read(reader(kind="mooncake", url=url, authorization={"ca_file": str(CERTIFICATE)}))
        untrusted = read(reader(kind="mooncake", url=url))

    assert (len(trusted.facts), trusted.failures) == (2, ())
    assert "is not trusted" in untrusted.failures[0]
    assert not untrusted.facts


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_bad_answer_is_a_sentence_for_each_path(server: HostileServer, name: str) -> None:
    for path in (STATE, METRICS):
        server.routes[path] = BAD_ANSWERS[name][0]
    found = read(reader(PollOptions(probe_timeout_seconds=1, replica_timeout_seconds=2), url=server.address))

    assert found.facts == ()
    assert len(found.failures) == 2
    assert all(20 < len(each) < 400 and "\n" not in each and "<" not in each for each in found.failures)


def test_a_silent_router_takes_no_longer_than_a_replica(server: HostileServer) -> None:
    for path in (STATE, METRICS):
        server.routes[path] = silent
    limits = PollOptions(probe_timeout_seconds=1, replica_timeout_seconds=1)
    found = read(reader(limits, url=server.address))

    assert found.failures == (
        f"127.0.0.1:{server.port} timed out after 1 s on {STATE}",
        f"There was no time left to ask 127.0.0.1:{server.port} for {METRICS}: what was asked before took too long",
    )


@pytest.mark.parametrize(
    ("path", "body", "facts"),
    [
        (
            "/conf",
            fixture("lmcache_conf_names.txt"),
            {FactName.KV_STORE: '"lmcache"', FactName.CHUNK_SIZE: "256", FactName.KEY_ALGORITHM: '"builtin"'},
        ),
        (
            "/status",
            fixture("lmcache_mp_status.json"),
            {FactName.KV_STORE: '"lmcache"', FactName.CHUNK_SIZE: "256", FactName.KEY_ALGORITHM: '"blake3"'},
        ),
        ("/lmc_version", b'"0.5.6"', {FactName.VERSION: '"0.5.6"'}),
    ],
)
def test_of_lmcache_one_path_is_enough(
    server: HostileServer, path: str, body: bytes, facts: dict[FactName, str]
) -> None:
    server.routes[path] = answers(body)
    found = read(reader(kind="lmcache", url=server.address))

    assert (values(found, path), found.failures) == (facts, ())


def test_lmcache_is_asked_for_two_options_only(server: HostileServer) -> None:
    read(reader(kind="lmcache", url=server.address))
    assert [each.path for each in server.asked] == [
        "/conf?names=chunk_size,pre_caching_hash_algorithm",
        "/status",
        "/lmc_version",
    ]


def test_a_server_without_any_path_of_lmcache_is_another_one(server: HostileServer) -> None:
    server.routes["/conf"] = answers(fixture("fastapi_404.json"), 404)
    found = read(reader(kind="lmcache", url=server.address))

    assert found.failures == (
        f"127.0.0.1:{server.port} has none of /conf, /status and /lmc_version; check that lmcache is there",
    )


def test_lmcache_that_has_not_started_fails_on_that_path(server: HostileServer) -> None:
    server.routes["/status"] = answers(fixture("lmcache_mp_status_503.json"), 503)
    found = read(reader(kind="lmcache", url=server.address))

    assert (found.facts, found.failures) == ((), (f"127.0.0.1:{server.port} answered /status with status 503",))


def test_lmcache_that_is_replaced_by_another_server_keeps_its_last_facts(server: HostileServer) -> None:
    server.routes["/status"] = answers(fixture("lmcache_mp_status.json"))
    routers = reader(kind="lmcache", url=server.address)
    before = read(routers)
    server.routes["/status"] = missing
    found = read(routers, LATER)

    assert found.facts == before.facts
    assert found.failures[0].endswith("; keeping its answer of 2026-11-24T12:00:00Z")


def test_a_file_is_read_again_at_each_poll(tmp_path: Path) -> None:
    file = tmp_path / "epp.yaml"
    file.write_bytes(fixture("epp_config_precise.yaml"))
    routers = reader(config_file=str(file))
    found = read(routers)
    assert (found.name, found.failures, values(found)[FactName.BLOCK_SIZE]) == (str(file), (), "64")
    assert {each.source for each in found.facts} == {str(file)}

    file.write_bytes(fixture("epp_config_all_parameters.yaml"))
    assert values(read(routers))[FactName.BLOCK_SIZE] == "16"

    file.unlink()
    gone = read(routers, LATER)
    assert values(gone)[FactName.BLOCK_SIZE] == "16"
    assert gone.failures == (
        f"{file} cannot be read: No such file or directory; keeping its answer of 2026-11-24T12:00:00Z",
    )


def test_a_file_of_another_kind_is_a_sentence() -> None:
    file = FIXTURES / "llmd_metrics.txt"
    found = read(reader(config_file=str(file)))
    assert found.failures == (f"{file} line 5: not YAML: did not find expected <document start>",)
    assert found.facts == ()


def test_a_router_at_a_url_can_have_a_file_as_well(llm_d: HostileServer) -> None:
    file = FIXTURES / "epp_config_precise.yaml"
    found = read(reader(url=llm_d.address, config_file=str(file)))

    assert found.failures == ()
    assert values(found, file.name)[FactName.EVENT_PORT] == "5557"
    assert values(found, STATE)[FactName.SUBSCRIBED] == "3"


def test_secrets_in_an_answer_are_redacted(server: HostileServer) -> None:
    page = fixture("production_stack_metrics.txt").decode()
    server.routes[METRICS] = answers(page.replace("http://10.0.0.11", f"http://root:{SECRET}@10.0.0.11").encode())
    server.routes["/health"] = answers(fixture("production_stack_health.json"))
    found = read(reader(kind="production-stack", url=server.address))

    assert SECRET not in repr(found)
    assert MARKER in values(found)[FactName.ENDPOINTS]
    assert found.failures == ()


def test_long_names_and_lists_are_cut(server: HostileServer) -> None:
    names = ",".join(f'"n{number}"' for number in range(MOST_NAMES + 1))
    plugin = '{"type":"precise-prefix-cache-producer","state":{"subscribers":[%s]}}'
    server.routes[STATE] = answers((f'{{"plugins":{{"a":{plugin % names}}}}}').encode())
    build = "v" * (LONGEST_TEXT + 9)
    server.routes[METRICS] = answers(f'# TYPE llm_d_epp_info gauge\nllm_d_epp_info{{build_ref="{build}"}} 1'.encode())
    found = values(read(reader(url=server.address)))

    assert found[FactName.VERSION] == f'"{build[:LONGEST_TEXT]}"'
    assert found[FactName.SUBSCRIBERS].count(",") == MOST_NAMES - 1
    assert found[FactName.SUBSCRIBED] == str(MOST_NAMES + 1)


def test_an_internal_error_of_a_reader_is_a_sentence_and_the_last_facts_stay(
    llm_d: HostileServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    routers = reader(url=llm_d.address)
    before = read(routers)
    monkeypatch.setitem(KINDS[RouterKind.LLM_D].probes, STATE, lambda _answer: 1 // 0)
    after = read(routers, LATER)

    assert after.facts == before.facts
    assert after.failures == (f"{llm_d.address}: internal error ZeroDivisionError; its last answers stay",)
    assert caplog.records[-1].exc_info


def test_a_router_of_a_cluster_concerns_the_pools_of_this_cluster_only(server: HostileServer) -> None:
    options = [
        RouterOptions(kind=RouterKind.MOONCAKE, url=server.address, cluster="e[u", pools=("chat", "b*")),
        RouterOptions(kind=RouterKind.MOONCAKE, url=server.address, pools=("chat",)),
    ]
    of_cluster, of_all = asyncio.run(RouterReader(options, PollOptions()).read(AT))

    def matched(router: RouterConfig) -> list[str]:
        fact = RouterFact(FactName.VERSION, "1", "a", AT)
        pools = ("chat", "e[u/chat", "e[u/batch", "us/chat", "e[u/agents")
        return [each for each in pools if [*facts_of_pool([replace(router, facts=(fact,))], each)]]

    assert matched(of_cluster) == ["e[u/chat", "e[u/batch"]
    assert matched(of_all) == ["chat"]
