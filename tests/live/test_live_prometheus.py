"""Live servers that a real Prometheus scrapes: the same findings as by a direct poll, with one question each digest."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.rules.findings import OutcomeKind
from dashboard.sources.discovery import discover_once
from tests.live.servers import Kind, Server, running
from tests.sources.prometheus_server import prometheus, wait_for_result
from vllm_fleet_provider.switch import NAME

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_each]
PLUGINS = (NAME,)
KINDS = (
    Kind("one", "llama", plugins=PLUGINS),
    Kind("another", "llama", plugins=PLUGINS),
    Kind("other-algorithm", "llama", ("--prefix-caching-hash-algo", "sha256_cbor"), plugins=PLUGINS),
    Kind("without-provider", "llama", plugins=()),
)
PROVIDED = 3


@pytest.fixture(scope="module")
def servers(venv: Path, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running(KINDS, venv, tmp_path_factory.mktemp("vllm"), (site,)) as found:
        yield found


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
