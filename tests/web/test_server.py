"""What answers beside the pages says how old the data is, and never answers with a page for an unknown path."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.config import Options
from dashboard.rules.findings import Confidence, Finding, Inspection, Outcome, OutcomeKind, Remedy, Severity
from dashboard.web import server
from tests.frozen import AT


class Client:
    """Asks the routes as a server would call them."""

    def __init__(self) -> None:
        self._transport = httpx.ASGITransport(Starlette(routes=server.routes()))

    def get(self, path: str, method: str = "GET") -> httpx.Response:
        return asyncio.run(self._ask(method, path))

    async def _ask(self, method: str, path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=self._transport, base_url="http://dashboard") as client:
            return await client.request(method, path)


@pytest.fixture
def client() -> Iterator[Client]:
    yield Client()
    service.stop()


def test_healthz_is_503_before_the_first_poll(client: Client) -> None:
    service.put(empty_fleet("young"))

    answer = client.get("/healthz")

    assert answer.status_code == 503
    assert answer.json()["status"] == "starting"


@pytest.mark.parametrize(("age", "status"), [(0, 200), (89, 200), (90, 503), (3600, 503)])
def test_healthz_is_200_within_two_intervals_and_the_poll_limit(
    client: Client, demo_fleet: Fleet, age: float, status: int
) -> None:
    """2 x 15 s + 60 s; replicas that are down do not count."""
    service.put(demo_fleet, AT + timedelta(seconds=age))

    assert client.get("/healthz").status_code == status


def test_metrics_count_replicas_by_state_and_tell_the_age_of_the_data(client: Client, demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT + timedelta(seconds=7))

    lines = client.get("/metrics").text.splitlines()

    up = sum(replica.state == "up" for replica in demo_fleet.replicas)
    assert f'vllm_fleet_replicas{{state="up"}} {float(up)}' in lines
    assert "vllm_fleet_data_age_seconds 7.0" in lines
    assert f"vllm_fleet_pools {float(len(demo_fleet.pools))}" in lines


def test_every_metric_is_named_in_the_readme(client: Client, demo_fleet: Fleet, readme: str) -> None:
    service.put(demo_fleet, AT)

    named = {line.split()[2] for line in client.get("/metrics").text.splitlines() if line.startswith("# TYPE")}

    assert named
    assert {name for name in named if name not in readme} == set()


def test_the_api_gives_the_fleet_document(client: Client, demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT)

    answer = client.get("/api/v1/fleet")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["coverage"]["targets"] == len(demo_fleet.replicas)
    assert "documents" not in answer.json()


def test_the_api_gives_the_findings(client: Client, demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT)

    answer = client.get("/api/v1/findings")

    assert answer.headers["content-type"] == "application/json"
    assert [each["id"] for each in answer.json()["findings"]] == [each.id for each in demo_fleet.inspection.findings]
    assert answer.json()["findings"] == client.get("/api/v1/fleet").json()["findings"]


@pytest.mark.parametrize("path", ["/api/v1/fleet", "/api/v1/findings"])
def test_the_api_is_503_before_the_first_poll(client: Client, demo_fleet: Fleet, path: str) -> None:
    service.put(replace(demo_fleet, polled_at=None))

    assert client.get(path).status_code == 503


@pytest.mark.parametrize("path", ["/api/v1/fleet", "/api/v1/findings"])
def test_the_api_has_no_snapshots_and_says_so(client: Client, demo_fleet: Fleet, path: str) -> None:
    """Else a script that names one would be given the live fleet."""
    service.put(demo_fleet, AT)
    answer = client.get(f"{path}?snapshot=6986ee7586")

    assert (answer.status_code, answer.json()) == (400, {"detail": "no parameter snapshot: this is the live fleet"})


def found(*pools: str, severity: Severity = Severity.CRITICAL) -> Finding:
    """A finding of a block size that is about some pools."""
    told = Remedy("Give it 16."), ()
    return Finding("1", "RT-01", severity, Confidence.REPORTED, "x", pools, (), (), "It is 32.", "It hurts.", *told)


def series(client: Client, fleet: Fleet, name: str) -> dict[str, float]:
    """The value of every series of one metric, by its labels."""
    service.put(fleet, AT)
    lines = [line for line in client.get("/metrics").text.splitlines() if re.match(rf"{name}[{{ ]", line)]
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2]) for line in lines}


def judged(fleet: Fleet, **inspection: Any) -> Fleet:
    return replace(fleet, inspection=Inspection(**inspection))


def test_metrics_count_the_findings_that_stand_by_severity_rule_and_pool(client: Client, demo_fleet: Fleet) -> None:
    milder = found("a", severity=Severity.INFO)
    fleet = judged(demo_fleet, findings=(found("chat-70b"), found("chat-70b"), found("gemma-27b"), milder))

    assert series(client, fleet, "vllm_fleet_findings") == {
        '{pool="chat-70b",rule="RT-01",severity="critical"}': 2,
        '{pool="gemma-27b",rule="RT-01",severity="critical"}': 1,
        '{pool="other",rule="RT-01",severity="info"}': 1,
    }


def test_a_finding_about_two_pools_counts_in_both_and_one_about_none_has_no_pool(
    client: Client, demo_fleet: Fleet
) -> None:
    fleet = judged(demo_fleet, findings=(found("chat-70b", "gemma-27b"), found()))

    assert series(client, fleet, "vllm_fleet_findings") == {
        '{pool="chat-70b",rule="RT-01",severity="critical"}': 1,
        '{pool="gemma-27b",rule="RT-01",severity="critical"}': 1,
        '{pool="",rule="RT-01",severity="critical"}': 1,
    }


def test_pools_beyond_a_hundred_share_a_series(client: Client, demo_fleet: Fleet) -> None:
    """Served models make pools: nobody knows how many."""
    pools = tuple(replace(demo_fleet.pools[0], name=f"p{number:03}") for number in range(150))
    fleet = judged(replace(demo_fleet, pools=pools), findings=tuple(found(pool.name) for pool in pools))

    told = series(client, fleet, "vllm_fleet_findings")

    assert len(told) == 101
    assert told['{pool="other",rule="RT-01",severity="critical"}'] == 50


def test_the_name_of_a_pool_cannot_break_the_metrics(client: Client, demo_fleet: Fleet) -> None:
    name = 'a"} 1\nvllm_fleet_pools 7\n' + "x" * 10_000
    fleet = replace(demo_fleet, pools=(replace(demo_fleet.pools[0], name=name),))

    (labels,) = series(client, judged(fleet, findings=(found(name),)), "vllm_fleet_findings")

    assert len(labels) < 300
    assert series(client, fleet, "vllm_fleet_pools") == {"": 1}


def test_metrics_count_what_is_suppressed_apart(client: Client, demo_fleet: Fleet) -> None:
    fleet = judged(demo_fleet, suppressed=(found("chat-70b"), found("chat-70b")))

    assert series(client, fleet, "vllm_fleet_findings_suppressed") == {"": 2}
    assert series(client, fleet, "vllm_fleet_findings") == {}


def test_metrics_count_the_outcomes_of_the_rules_also_those_of_which_there_are_none(
    client: Client, demo_fleet: Fleet
) -> None:
    kinds = [OutcomeKind.PASSED, OutcomeKind.PASSED, OutcomeKind.NOT_APPLICABLE, OutcomeKind.ERROR]
    outcomes = tuple(Outcome("RT-01", str(number), (), kind) for number, kind in enumerate(kinds))

    assert series(client, judged(demo_fleet, outcomes=outcomes), "vllm_fleet_rules") == {
        '{outcome="failed"}': 0,
        '{outcome="error"}': 1,
        '{outcome="skipped"}': 0,
        '{outcome="not_applicable"}': 1,
        '{outcome="passed"}': 2,
    }


def test_metrics_judge_nothing_before_the_first_poll(client: Client) -> None:
    assert series(client, empty_fleet("young"), "vllm_fleet_rules") == {}


@pytest.mark.parametrize("path", ["/api/v1/flete", "/api/v2/fleet", "/api/"])
def test_an_unknown_path_of_the_api_is_404(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed_from_outside(client: Client, method: str) -> None:
    for path in ("/healthz", "/metrics", "/api/v1/fleet", "/api/v1/findings"):
        assert client.get(path, method).status_code == 405


def test_the_server_polls_while_it_lives() -> None:
    options = Options.model_validate({"name": "lively", "poll": {"interval_seconds": 3600}})

    async def live() -> str:
        async with server.lifespan(options)(None):
            return service.current().name

    assert asyncio.run(live()) == "lively"


def test_wrong_options_end_the_program_with_a_sentence_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.yaml").write_text("nmae: x\ntargets: 3\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit) as ended:
        server.options_or_exit()

    said: Any = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert [line.split(":")[1] for line in said] == ["1", "2"]


def test_a_broken_file_of_targets_is_in_the_api_and_the_metrics_and_its_targets_stay_stale(
    client: Client, tmp_path: Path
) -> None:
    """Somebody truncated the file that lists the replicas: they are still polled, and everybody can see it."""
    file = tmp_path / "targets.json"
    file.write_text('[{"targets": ["127.0.0.1:1", "127.0.0.1:2"]}]')
    collector = service.Collector(Options.model_validate({"file_sd": [{"files": [str(file)]}]}))
    asyncio.run(collector._refresh(0.0))
    service.put(collector.fleet)
    before = client.get("/api/v1/fleet").json()
    file.write_text("[{")
    asyncio.run(collector._refresh(0.0))
    service.put(collector.fleet)
    document, metrics = client.get("/api/v1/fleet").json(), client.get("/metrics").text

    assert (before["discovery_errors"], {each["target_stale"] for each in before["replicas"]}) == ([], {False})
    why = "line 1: not JSON: Expecting property name enclosed in double quotes"
    assert document["discovery_errors"] == [f"{file}: {why}; its last targets (2) stay, marked stale"]
    assert [each["target_stale"] for each in document["replicas"]] == [True, True]
    assert "vllm_fleet_discovery_errors 1.0" in metrics
    assert "vllm_fleet_stale_targets 2.0" in metrics


def test_a_missing_file_of_targets_is_in_the_api_and_the_metrics(client: Client, tmp_path: Path) -> None:
    collector = service.Collector(Options.model_validate({"file_sd": [{"files": [str(tmp_path / "none.json")]}]}))
    asyncio.run(collector._refresh(0.0))
    service.put(collector.fleet)

    assert client.get("/api/v1/fleet").json()["discovery_errors"] == [
        f"{tmp_path}/none.json: No such file or directory"
    ]
    assert "vllm_fleet_discovery_errors 1.0" in client.get("/metrics").text
