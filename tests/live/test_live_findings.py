"""Findings on live vLLM servers: none in a clean pool, and the right one for each replica that differs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import chromium, tab, visit
from tests.live.dashboard_runs import check, options, poll
from tests.live.servers import Kind, Server, running
from tests.serving import dashboard_on

pytestmark = pytest.mark.vllm
NAME = ("--served-model-name", "chat")
CLEAN = ("clean-1", "clean-2", "clean-3")
KINDS = (
    *(Kind(name, "llama", NAME) for name in CLEAN),
    Kind("other-hash", "llama", (*NAME, "--prefix-caching-hash-algo", "xxhash")),
    Kind("other-blocks", "llama", (*NAME, "--block-size", "32")),
    Kind("dev-mode", "llama", NAME, {"VLLM_SERVER_DEV_MODE": "1"}),
)


@pytest.fixture(scope="module")
def servers(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    with running(KINDS, venv, tmp_path_factory.mktemp("vllm")) as found:
        yield {server.kind.name: server for server in found}


def test_a_clean_pool_has_no_finding(servers: dict[str, Server], tmp_path: Path) -> None:
    found = check(options([servers[name] for name in CLEAN], tmp_path), "--fail-on", "info")

    assert found.findings == []
    assert found.code == 0, found.last


@pytest.mark.parametrize(
    ("odd", "rule", "severity", "value"),
    [
        ("other-hash", "RT-05", "critical", "xxhash"),
        ("other-blocks", "RT-01", "critical", "32"),
        ("dev-mode", "CO-14", "warning", "/server_info"),
    ],
)
def test_the_replica_that_differs_is_named_with_its_value(
    servers: dict[str, Server], tmp_path: Path, odd: str, rule: str, severity: str, value: str
) -> None:
    found = check(options([servers[name] for name in (*CLEAN, odd)], tmp_path), "--fail-on", severity)
    finding = found.of(rule)

    assert [each["name"] for each in finding["replicas"]] == [odd]
    assert finding["severity"] == severity
    assert value in finding["sentence"]
    assert found.code == 1
    assert rule in found.last


def test_a_saved_poll_gives_the_same_findings_without_the_servers(servers: dict[str, Server], tmp_path: Path) -> None:
    config = options([*servers.values()], tmp_path)
    saved = tmp_path / "fleet.json"
    saved.write_text(json.dumps(poll(config)))

    assert check(config, "--snapshot", str(saved)).findings == check(config).findings


def test_the_page_shows_the_findings(servers: dict[str, Server], tmp_path: Path) -> None:
    config = options([*servers.values()], tmp_path)
    with dashboard_on(config) as url, chromium() as browser, tab(browser) as page:
        visit(page, f"{url}/findings")
        for text in ("RT-01", "RT-05", "CO-14", "xxhash"):
            assert page.get_by_text(text).first.is_visible()
