"""`vllm_fleet_config_info` of live servers: one series per engine, equal where the configuration is equal.

Through a real Prometheus that scrapes them the findings are those of a direct poll, with one question for each digest.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.rules.findings import OutcomeKind
from dashboard.sources.discovery import discover_once
from dashboard.vllm.metrics import parse_metrics
from tests.live.servers import CONFIG, Kind, Server, running
from tests.sources.prometheus_server import prometheus, wait_for_result
from vllm_fleet_provider.shared.digests import EngineDigests, digest_answer
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply
from vllm_fleet_provider.shared.redaction import redact
from vllm_fleet_provider.switch import NAME

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_each]
SCRAPES = 10
PLUGINS = (NAME,)
SINGLE = (
    Kind("one", "llama", plugins=PLUGINS),
    Kind("another", "llama", plugins=PLUGINS),
    Kind("other-algorithm", "llama", ("--prefix-caching-hash-algo", "sha256_cbor"), plugins=PLUGINS),
    Kind("without-provider", "llama", plugins=()),
)
PROVIDED = 3
# Without VLLM_CPU_SIM_MULTI_NUMA vLLM 0.33 needs a memory node per engine.
SEVERAL = Kind(
    "several",
    "llama",
    ("--data-parallel-size", "2", "--api-server-count", "2", "--prefix-caching-hash-algo", "xxhash"),
    {"VLLM_CPU_SIM_MULTI_NUMA": "1"},
    PLUGINS,
)


def exported(server: Server) -> tuple[EngineDigests, ...]:
    return parse_metrics(server.get("/metrics").content).digests


def computed(server: Server, rank: int) -> EngineDigests | None:
    """What the dashboard computes from the answer of an engine."""
    answer = redact(server.json(f"{CONFIG}?full=true&data_parallel_rank={rank}"))
    return digest_answer(InferenceConfigReply.model_validate(answer))


@pytest.fixture(scope="module")
def servers(venv: Path, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running(SINGLE, venv, tmp_path_factory.mktemp("vllm"), (site,)) as found:
        yield found


@pytest.fixture(scope="module")
def several(venv: Path, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running([SEVERAL], venv, tmp_path_factory.mktemp("vllm"), (site,)) as (found,):
        yield found


def test_servers_with_equal_options_export_equal_digests(servers: list[Server]) -> None:
    one, another = map(exported, servers[:2])

    assert one == another
    assert all(one[0][1:])


def test_a_server_with_another_hash_algorithm_has_another_block_hash_and_document(servers: list[Server]) -> None:
    (one,), _, (other,) = map(exported, servers[:PROVIDED])

    assert one.block_hash != other.block_hash
    assert one.document != other.document
    assert (one.kv_layout, one.adapters, one.scheme) == (other.kv_layout, other.adapters, other.scheme)


def test_the_dashboard_computes_the_same_from_the_answer(servers: list[Server], several: Server) -> None:
    for server in servers[:PROVIDED]:
        assert exported(server) == (computed(server, 0),)
    assert exported(several) == (computed(several, 0), computed(several, 1))


def test_two_api_servers_export_each_of_two_engines_once_at_every_scrape(several: Server) -> None:
    pages = [parse_metrics(several.get("/metrics").content) for _ in range(SCRAPES)]
    (digests,) = {page.digests for page in pages}

    assert [each.engine for each in digests] == [0, 1]
    assert {tuple(sorted(labels["engine"] for labels in page.cache_config)) for page in pages} == {("0", "1")}


def test_ranks_of_one_server_differ_in_their_block_hash_only(several: Server) -> None:
    """The root of xxhash is random in each engine."""
    one, other = exported(several)

    assert one._replace(engine=1, block_hash=None) == other._replace(block_hash=None)
    assert one.block_hash != other.block_hash
    assert all(one[1:])


@pytest.fixture(scope="module")
def url(servers: Sequence[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    listed = [{"targets": [each.url.removeprefix("http://") for each in servers], "labels": {"pool": "live"}}]
    with prometheus(tmp_path_factory.mktemp("prometheus"), listed) as url:
        wait_for_result(url, "vllm_fleet_config_info", lambda found: len(found) == PROVIDED)
        wait_for_result(url, "vllm:cache_config_info", lambda found: len(found) == len(servers))
        yield url


def polled(**options: object) -> Fleet:
    whole = Options.model_validate(options)
    return service.poll_once(whole, discover_once(whole))


def through(url: str, direct: str) -> Fleet:
    return polled(prometheus=[{"url": url, "direct": direct}])


def findings(fleet: Fleet) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(each.rule, str(each.severity), each.replicas) for each in fleet.inspection.findings}


@pytest.fixture(scope="module")
def expected(servers: Sequence[Server]) -> Fleet:
    return polled(targets=[{"url": each.url, "labels": {"pool": "live"}} for each in servers])


def test_a_poll_through_prometheus_has_the_findings_of_a_direct_one(url: str, expected: Fleet) -> None:
    assert findings(expected)
    assert findings(through(url, "always")) == findings(expected)


@pytest.mark.parametrize("direct", ["missing", "never"])
def test_one_replica_of_each_digest_is_asked_and_no_finding_is_new(url: str, expected: Fleet, direct: str) -> None:
    fleet = through(url, direct)
    copied = [each for each in fleet.replicas if each.same_digest_as]
    rules = {each.rule for each in fleet.inspection.findings}
    skipped = {each.rule for each in fleet.inspection.outcomes if each.kind is OutcomeKind.SKIPPED}

    assert len(copied) == 1
    assert len({each.document for each in fleet.replicas}) == len({each.document for each in expected.replicas})
    assert rules <= {each.rule for each in expected.inspection.findings}
    assert {each.rule for each in expected.inspection.findings} - rules <= skipped | {"CP-01"}
