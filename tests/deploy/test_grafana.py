"""The dashboard for Grafana: the SDK knows all its fields, and each query has data from a real Prometheus."""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.deploy.test_alerts import ALERTS
from tests.serving import ROOT, free_port, started, wait_until_healthy
from tests.sources.prometheus_server import prometheus, wait_for_result

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "vllm-fleet.json").read_text())
PANELS: list[dict[str, Any]] = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
QUERIES = [((panel["title"], query["refId"]), query["expr"]) for panel in PANELS for query in panel["targets"]]


def loaded(document: dict[str, Any]) -> Any:
    """Return what the SDK keeps of a dashboard."""
    register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(document), cls=JSONEncoder))


def test_the_sdk_loads_it_and_loses_nothing() -> None:
    assert loaded(DASHBOARD) == DASHBOARD


def test_every_panel_is_described_fits_and_asks_the_chosen_source_for_the_chosen_fleet() -> None:
    assert len({each["id"] for each in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        x, y, width, height = (panel["gridPos"][each] for each in "xywh")
        own = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        assert x + width <= 24
        assert not own & cells, panel["title"]
        cells |= own
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        for query in panel["targets"]:
            assert query["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}
            assert query["expr"].count("vllm_fleet_") == query["expr"].count('instance=~"$instance"')


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes the dashboard of the simulated fleet."""
    port = free_port()
    command = [sys.executable, "-m", "dashboard", "demo", f"--port={port}", f"--fleet-port={free_port()}"]
    with started(command):
        wait_until_healthy(f"http://127.0.0.1:{port}")
        with prometheus(tmp_path_factory.mktemp("prometheus"), [{"targets": [f"127.0.0.1:{port}"]}]) as url:
            wait_for_result(url, "rate(vllm_fleet_poll_duration_seconds_count[1m]) > 0", bool)
            wait_for_result(url, "vllm_fleet_pool_prefix_hit_ratio", bool)
            wait_for_result(url, 'count(vllm_fleet_pool_prefix_hit_ratio{pool="chat-70b"}) == 3', bool)
            wait_for_result(url, ALERTS["VLLMFleetEffectFinding"]["expr"], bool)
            yield url


def label_values(url: str, series: str, label: str) -> list[str]:
    answer = httpx2.get(f"{url}/api/v1/label/{label}/values", params={"match[]": series}, trust_env=False)
    return list(answer.json()["data"])


def chosen(url: str) -> dict[str, str]:
    """Return the values of the variables as Grafana fills them in: the first one, or all as a regular expression."""
    values = {"__rate_interval": "1m"}
    for variable in DASHBOARD["templating"]["list"][1:]:
        query = filled(variable["query"]["query"], values)
        ((series, label),) = re.findall(r"^label_values\((.+), (\w+)\)$", query)
        found = label_values(url, series, label)
        assert found, query
        escaped = "|".join(re.escape(each).replace("\\", r"\\") for each in found)
        values[variable["name"]] = f"({escaped})" if variable["multi"] else found[0]
    return values


def filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"${name}", value)
    assert "$" not in text
    return text


def result(url: str, query: str) -> list[Any]:
    answer = httpx2.post(f"{url}/api/v1/query", data={"query": query}, trust_env=False).json()
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


@pytest.mark.long
def test_every_query_has_numbers_from_a_real_prometheus(url: str) -> None:
    values = chosen(url)
    found = {name: {each["value"][1] for each in result(url, filled(query, values))} for name, query in QUERIES}

    assert [name for name, numbers in found.items() if not numbers or "NaN" in numbers] == []


@pytest.mark.long
def test_no_query_has_data_of_another_fleet(url: str) -> None:
    values = {**chosen(url), "instance": "another"}

    assert [query for _, query in QUERIES if result(url, filled(query, values))] == []


@pytest.mark.long
def test_the_alerts_are_those_of_the_simulated_fleet(url: str) -> None:
    """It has critical findings, a pool whose odd cohorts find little, which its traffic shows, and 39 of 42 are up."""
    firing = {name: result(url, alert["expr"]) for name, alert in ALERTS.items()}

    assert {name for name, found in firing.items() if found} == {
        "VLLMFleetCriticalFinding",
        "VLLMFleetSeveralCohorts",
        "VLLMFleetLowHitRatio",
        "VLLMFleetEffectFinding",
        "VLLMFleetLowCoverage",
    }
    assert {each["metric"]["pool"] for each in firing["VLLMFleetSeveralCohorts"]} == {"chat-70b"}
    low = {(each["metric"]["pool"], each["metric"]["cohort"]) for each in firing["VLLMFleetLowHitRatio"]}
    assert {("chat-70b", "B"), ("chat-70b", "C")} <= low
    assert {each["metric"]["fleet"] for found in firing.values() for each in found} == {"demo"}
