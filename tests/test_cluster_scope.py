"""One cluster in commands, HTTP documents and tools."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from dashboard import service
from dashboard.documents.fleet import fleet_json
from dashboard.fleet import RouterConfig, RouterKind
from dashboard.fleet.history import RecentEvents
from dashboard.mcp.results import ToolError
from dashboard.mcp.server import call
from dashboard.mcp.tools import Fleets
from dashboard.web import server
from tests.commands import assert_wrong_usage, last_line, run
from tests.e2e.frozen_fleets import CLUSTERS, frozen
from tests.findings_builder import sightings_of
from tests.frozen import AT
from tests.serving import ask

pytestmark = pytest.mark.usefixtures("working_folder")


@pytest.fixture
def saved(tmp_path: Path) -> str:
    file = tmp_path / "fleet.json"
    file.write_bytes(fleet_json(frozen(CLUSTERS), AT, full=True))
    return str(file)


def get(path: str) -> httpx2.Response:
    return ask(Starlette(routes=server.routes()), path)


def pools_in(document: Any) -> set[str]:
    return {pool for each in document for pool in each["pools"]}


def test_the_plan_of_a_cluster_has_its_causes_only(saved: str) -> None:
    done = run("plan", "--snapshot", saved, "--format", "json", "--cluster", "eu")
    assert pools_in(json.loads(done.stdout)["causes"]) == {"eu/chat-70b"}


def test_check_evaluates_the_cluster_only(saved: str) -> None:
    done = run("check", "--snapshot", saved, "--format", "json", "--cluster", "eu", "--fail-on", "never")
    document = json.loads(done.stdout)
    assert pools_in(document["findings"]) == {"eu/chat-70b"}
    assert run("check", "--snapshot", saved, "--cluster", "us", "--fail-on", "critical").exit_code == 0


def test_the_values_of_a_setting_are_those_of_the_cluster(saved: str) -> None:
    done = run("settings", "block_size", "--snapshot", saved, "--format", "json", "--cluster", "ap")
    assert [each["value"] for each in json.loads(done.stdout)["values"]] == [32]


@pytest.mark.parametrize("command", [("plan",), ("check",), ("settings", "block_size")])
def test_an_unknown_cluster_is_wrong_usage(saved: str, command: tuple[str, ...]) -> None:
    assert_wrong_usage(run(*command, "--snapshot", saved, "--cluster", "mars"), "mars")


@pytest.mark.parametrize("command", [("plan",), ("check",), ("settings", "block_size")])
def test_a_cluster_whose_dashboard_could_not_be_read_ends_with_3(saved: str, command: tuple[str, ...]) -> None:
    document = json.loads(Path(saved).read_text())
    Path(saved).write_text(json.dumps({**document, "discovery_errors": ["http://mars: refused the connection."]}))
    done = run(*command, "--snapshot", saved, "--cluster", "mars")

    assert done.exit_code == 3
    assert last_line(done) == "exit 3: no replica of cluster 'mars' was read (http://mars: refused the connection)."


@pytest.mark.parametrize("document", ["fleet", "findings", "plan"])
def test_a_document_of_a_cluster_names_no_other(document: str) -> None:
    service.put(frozen(CLUSTERS), AT)
    answer = get(f"/api/v1/{document}?cluster=eu")

    assert answer.status_code == 200
    assert "eu/chat-70b" in answer.text
    assert "us/chat-70b" not in answer.text
    assert get(f"/api/v1/{document}?cluster=mars").status_code == 404
    assert get(f"/api/v1/{document}?cluster=eu&cluster=us").status_code == 400
    assert "us/chat-70b" in get(f"/api/v1/{document}?cluster=").text or document != "fleet"


def test_the_full_document_of_a_cluster_has_no_times_and_routers_of_others() -> None:
    whole = frozen(CLUSTERS)
    routers = tuple(
        RouterConfig(f"{each}-router", RouterKind.PRODUCTION_STACK, (f"{each}/*",)) for each in ("eu", "us")
    )
    recent = RecentEvents(AT, {each.id: (AT, AT) for each in whole.replicas})
    service.put(replace(whole, sightings=sightings_of(whole), routers=routers, recent=recent), AT)
    document = get("/api/v1/fleet?cluster=eu&full=true").json()

    assert document["sightings"]["replicas"]
    assert len(document["recent"]["starts"]) == 4
    assert "us/chat-70b" not in json.dumps(document)
    assert "us-" not in json.dumps(document)


@pytest.mark.parametrize("tool", ["fleet_status", "list_findings", "fix_plan", "capacity", "traffic"])
def test_a_tool_of_a_cluster_names_no_other(tool: str) -> None:
    fleets = Fleets(lambda: frozen(CLUSTERS), service.happened, lambda: AT)
    text = json.dumps(call(fleets, tool, {"cluster": "eu"}), default=str)

    assert "eu/chat-70b" in text
    assert "us/chat-70b" not in text
    with pytest.raises(ToolError, match="mars"):
        call(fleets, tool, {"cluster": "mars"})
