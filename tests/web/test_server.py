"""Probes, metrics and the API: the age of the data, the documents, and 404 for unknown paths."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.config import Options, load_options
from dashboard.fleet.pieces import plain
from dashboard.rules.findings import Finding, Inspection, Outcome, OutcomeKind, Remedy, Severity
from dashboard.store.packing import content_of, opened_clean
from dashboard.web import server
from tests import past_fleets
from tests.frozen import AT
from tests.serving import wait_for

API = ["/api/v1/fleet", "/api/v1/findings"]


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    service.stop()


def get(path: str, method: str = "GET") -> httpx.Response:
    """Ask the routes as a server would."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=server.routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
            return await client.request(method, path)

    return asyncio.run(ask())


def finding(*pools: str, severity: Severity = Severity.CRITICAL) -> Finding:
    return Finding(
        (),
        plain("It is 32."),
        (),
        Remedy("Set it to 16."),
        id="1",
        rule="RT-01",
        severity=severity,
        why="It hurts.",
        subject="x",
        pools=pools,
        cohorts=(),
    )


def inspected(fleet: Fleet, **inspection: Any) -> Fleet:
    return replace(fleet, inspection=Inspection(**inspection))


def series(fleet: Fleet, name: str) -> dict[str, float]:
    """The value of every series of one metric, by its labels."""
    service.put(fleet, AT)
    lines = [line for line in get("/metrics").text.splitlines() if re.match(rf"{name}[{{ ]", line)]
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2]) for line in lines}


def test_before_the_first_poll_only_liveness_is_200() -> None:
    service.put(empty_fleet("young"))

    assert [get(path).status_code for path in ("/livez", "/readyz", "/healthz", *API)] == [200, 503, 503, 503, 503]
    assert get("/healthz").json()["status"] == "starting"
    assert series(empty_fleet("young"), "vllm_fleet_rules") == {}


@pytest.mark.parametrize(("age", "status"), [(0, 200), (89, 200), (90, 503), (3600, 503)])
def test_healthz_is_200_within_two_intervals_and_the_poll_limit(demo_fleet: Fleet, age: float, status: int) -> None:
    """2 x 15 s + 60 s; replicas that are down do not count."""
    service.put(demo_fleet, AT + timedelta(seconds=age))

    assert get("/healthz").status_code == status
    assert get("/readyz").status_code == 200


def test_the_api_has_the_fleet_and_its_findings(demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT)
    fleet, findings = (get(path) for path in API)

    assert fleet.headers["content-type"] == findings.headers["content-type"] == "application/json"
    assert fleet.json()["coverage"]["targets"] == len(demo_fleet.replicas)
    assert "documents" not in fleet.json()
    assert [each["id"] for each in findings.json()["findings"]] == [each.id for each in demo_fleet.inspection.findings]
    assert findings.json()["findings"] == fleet.json()["findings"]


@pytest.mark.parametrize("path", API)
def test_the_api_refuses_a_snapshot_instead_of_serving_the_live_fleet(demo_fleet: Fleet, path: str) -> None:
    service.put(demo_fleet, AT)

    assert get(f"{path}?snapshot=6986ee7586").status_code == 400


@pytest.mark.parametrize("path", API)
def test_the_api_answers_with_the_fleet_of_a_past_time(tmp_path: Path, path: str) -> None:
    past_fleets.show_with_history(tmp_path)
    then = get(f"{path}?at=2026-03-02T10:00Z").json()

    assert (then["data_as_of"], then["coverage"]["targets"]) == ("2026-03-02T09:42:05Z", 4)
    assert "RT-01" in {each["rule"] for each in then["findings"]}
    assert get(path).json()["coverage"]["targets"] == 5


def test_the_findings_of_a_past_time_name_the_gap_that_it_is_in(tmp_path: Path) -> None:
    past_fleets.show_with_history(tmp_path)
    gap = dict(zip(("since", "until"), past_fleets.GAP_ENDS, strict=True))

    assert get("/api/v1/findings?at=2026-03-02T11:00Z").json()["past"] == {"at": "2026-03-02T11:00:00Z", "gap": gap}
    assert get("/api/v1/findings").json()["past"] is None


def test_the_whole_fleet_can_be_asked_for_and_read_back(tmp_path: Path) -> None:
    past_fleets.show_with_history(tmp_path)
    whole = opened_clean(get("/api/v1/fleet?full=true&at=2026-03-02T10:00Z").content)

    assert content_of(whole) == content_of(service.past(past_fleets.ODD).fleet)
    assert "documents" not in get("/api/v1/fleet?full=false").json()


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("at=yesterday", 400, "parameter at: not a time; write 2026-11-22T14:00Z"),
        ("at=", 400, "parameter at: not a time; write 2026-11-22T14:00Z"),
        ("at=2020-01-01", 404, "The history has no poll at 2020-01-01T00:00:00Z or before"),
        ("at=2999-01-01", 404, "2999-01-01T00:00Z is in the future"),
        ("full=yes", 400, "parameter full: write true or false"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(tmp_path: Path, query: str, status: int, detail: str) -> None:
    past_fleets.show_with_history(tmp_path)
    answer = get(f"/api/v1/fleet?{query}")

    assert answer.status_code == status
    assert answer.json()["detail"].startswith(detail)


def test_without_a_history_a_past_time_is_404(demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT)

    assert get("/api/v1/fleet?at=2026-03-02").status_code == 404
    assert "keeps no history" in get("/api/v1/findings?at=2026-03-02").json()["detail"]


@pytest.mark.parametrize("path", ["/api/v1/flete", "/api/v2/fleet", "/api/"])
def test_an_unknown_path_of_the_api_is_404(path: str) -> None:
    assert get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_no_route_accepts_a_change(method: str) -> None:
    assert {get(path, method).status_code for path in ("/healthz", "/metrics", *API)} == {405}


def test_metrics_count_replicas_and_pools_and_have_the_age_of_the_data(demo_fleet: Fleet, readme: str) -> None:
    service.put(demo_fleet, AT + timedelta(seconds=7))
    lines = get("/metrics").text.splitlines()

    up = sum(replica.state == "up" for replica in demo_fleet.replicas)
    assert f'vllm_fleet_replicas{{state="up"}} {float(up)}' in lines
    assert "vllm_fleet_data_age_seconds 7.0" in lines
    assert f"vllm_fleet_pools {float(len(demo_fleet.pools))}" in lines
    assert [line for line in lines if line.startswith("# TYPE") and line.split()[2] not in readme] == []


def test_findings_are_counted_by_severity_rule_and_each_of_their_pools(demo_fleet: Fleet) -> None:
    found = finding("chat-70b"), finding("chat-70b", "gemma-27b"), finding(), finding("a", severity=Severity.INFO)
    fleet = inspected(demo_fleet, findings=found, suppressed=found[:2])

    assert series(fleet, "vllm_fleet_findings") == {
        '{pool="",rule="RT-01",severity="critical"}': 1,
        '{pool="chat-70b",rule="RT-01",severity="critical"}': 2,
        '{pool="gemma-27b",rule="RT-01",severity="critical"}': 1,
        '{pool="other",rule="RT-01",severity="info"}': 1,
    }
    assert series(fleet, "vllm_fleet_findings_suppressed") == {"": 2}


def test_pools_beyond_a_hundred_share_a_series(demo_fleet: Fleet) -> None:
    pools = tuple(replace(demo_fleet.pools[0], name=f"p{number:03}") for number in range(150))
    fleet = replace(demo_fleet, pools=pools)
    counts = series(inspected(fleet, findings=tuple(finding(each.name) for each in pools)), "vllm_fleet_findings")

    assert len(counts) == 101
    assert counts['{pool="other",rule="RT-01",severity="critical"}'] == 50


def test_the_name_of_a_pool_cannot_break_the_metrics(demo_fleet: Fleet) -> None:
    name = 'a"} 1\nvllm_fleet_pools 7\n' + "x" * 10_000
    fleet = replace(demo_fleet, pools=(replace(demo_fleet.pools[0], name=name),))
    (labels,) = series(inspected(fleet, findings=(finding(name),)), "vllm_fleet_findings")

    assert len(labels) < 300
    assert series(fleet, "vllm_fleet_pools") == {"": 1}


def test_every_outcome_of_rules_has_a_series(demo_fleet: Fleet) -> None:
    kinds = [OutcomeKind.PASSED, OutcomeKind.PASSED, OutcomeKind.NOT_APPLICABLE, OutcomeKind.ERROR]
    outcomes = tuple(Outcome("RT-01", str(number), (), kind) for number, kind in enumerate(kinds))

    assert series(inspected(demo_fleet, outcomes=outcomes), "vllm_fleet_rules") == {
        '{outcome="failed"}': 0,
        '{outcome="error"}': 1,
        '{outcome="skipped"}': 0,
        '{outcome="not_applicable"}': 1,
        '{outcome="passed"}': 2,
    }


def test_the_server_polls_while_it_runs() -> None:
    options = Options.model_validate({"name": "lively", "poll": {"interval_seconds": 3600}})

    async def name() -> str:
        async with server.lifespan(options)(None):
            return service.current().name

    assert asyncio.run(name()) == "lively"


def test_invalid_options_end_the_program_with_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.yaml").write_text("nmae: x\ntargets: 3\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        server.options_or_exit()

    assert ended.value.code == 2
    assert [line.split(":")[1] for line in capsys.readouterr().err.splitlines()] == ["1", "2"]


@pytest.mark.parametrize("content", ["[{", None], ids=["broken", "missing"])
def test_an_unreadable_file_of_targets_is_in_the_api_and_the_metrics_and_its_targets_stay_stale(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "targets.json"
    file.write_text('[{"targets": ["127.0.0.1:1", "127.0.0.1:2"]}]')
    collector = service.Collector(Options.model_validate({"file_sd": [{"files": [str(file)]}]}))
    asyncio.run(collector._refresh(0.0))
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    asyncio.run(collector._refresh(0.0))
    service.put(collector.fleet)
    document, metrics = get("/api/v1/fleet").json(), get("/metrics").text

    (error,) = document["discovery_errors"]
    assert error.startswith(str(file))
    assert [each["target_stale"] for each in document["replicas"]] == [True, True]
    assert "vllm_fleet_discovery_errors 1.0" in metrics
    assert "vllm_fleet_stale_targets 2.0" in metrics


def test_metrics_report_the_last_reload_by_the_names_of_prometheus(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("name: mine\npoll: {interval_seconds: 3600}\n")
    service.start(load_options(file))
    (loaded,) = re.findall(r"\nvllm_fleet_config_last_reload_success_timestamp_seconds (\S+)\n", get("/metrics").text)
    assert (status := service.reload_status()) is not None
    assert datetime.fromtimestamp(float(loaded), UTC) == status.loaded_at
    assert "vllm_fleet_config_last_reload_successful 1.0" in get("/metrics").text

    file.write_text("name: [")
    assert (collector := service._current.collector) is not None
    assert not collector.files.reload()
    assert "vllm_fleet_config_last_reload_successful 0.0" in get("/metrics").text


def test_metrics_count_the_targets_of_each_source_and_say_when_it_was_read(tmp_path: Path) -> None:
    listed, lost = tmp_path / "listed.json", tmp_path / "lost.json"
    listed.write_text('[{"targets": ["127.0.0.1:1", "127.0.0.1:2"]}]')
    service.start(Options.model_validate({"file_sd": [{"files": [str(listed), str(listed), str(lost)]}]}))
    wait_for(lambda: service.progress().polls >= 1)
    metrics = get("/metrics").text

    assert metrics.count(f'vllm_fleet_source_targets{{source="{listed}"}} 2.0') == 1
    assert f'vllm_fleet_source_targets{{source="{lost}"}} 0.0' in metrics
    read = re.findall(r'\nvllm_fleet_source_last_success_timestamp_seconds\{source="(.*)"\}', metrics)
    assert read == [str(listed)]
