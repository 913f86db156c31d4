"""`vllm_fleet_config_info` of live servers: one series per engine, equal where the configuration is equal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.vllm.metrics import parse_metrics
from tests.live.servers import CONFIG, Kind, Server, running
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
)
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
    one, another, _ = map(exported, servers)

    assert one == another
    assert all(one[0][1:])


def test_a_server_with_another_hash_algorithm_has_another_block_hash_and_document(servers: list[Server]) -> None:
    (one,), _, (other,) = map(exported, servers)

    assert one.block_hash != other.block_hash
    assert one.document != other.document
    assert (one.kv_layout, one.adapters, one.scheme) == (other.kv_layout, other.adapters, other.scheme)


def test_the_dashboard_computes_the_same_from_the_answer(servers: list[Server], several: Server) -> None:
    for server in servers:
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
