"""The alerts: valid for Prometheus, fire when they should, on metrics that exist, with links to pages that exist."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.rules.catalogue import BY_ID
from dashboard.web.metrics import FleetMetrics
from tests.serving import ROOT, dashboard_on
from tests.sources.prometheus_server import prometheus, wait_for_result

DEPLOY = ROOT / "deploy"
FILE = DEPLOY / "prometheus" / "vllm-fleet.rules.yml"
DOCS = ROOT / "docs" / "alerts.md"
SITE = "https://your-org.github.io/vllm-fleet-dashboard"
GROUPS: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}


def promtool(*arguments: str | Path) -> str:
    """Return the output of promtool, which has to succeed."""
    program = shutil.which("promtool")
    assert program, "promtool is missing: tests/tools/install installs it"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def exported(demo_fleet: Fleet) -> Iterator[set[str]]:
    """The names of all metrics."""
    service.put(demo_fleet)
    yield set(re.findall(r"^# TYPE (\S+)", FleetMetrics().text().decode(), re.MULTILINE))
    service.stop()


def test_prometheus_accepts_the_rules_and_the_configuration_that_loads_them(tmp_path: Path) -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", FILE)
    copy = shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    (copy / "token").write_text("fleet_token")  # a user writes it
    assert "1 rule files found" in promtool("check", "config", copy / "prometheus.yaml")


@pytest.mark.long
def test_prometheus_scrapes_a_dashboard_with_sign_in_by_its_token(tmp_path: Path) -> None:
    token = "fleet_of_prometheus"
    entry = {"name": "prometheus", "role": "viewer", "sha256": sha256(token.encode()).hexdigest()}
    access = {"mode": "proxy", "trusted_proxies": ["unix"], "roles": {"viewer": ["*"]}, "tokens": [entry]}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump({"targets": ["127.0.0.1:9"], "access": access}))
    copy = shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    (copy / "token").write_text(f"{token}\n")
    with dashboard_on(tmp_path / "fleet.yaml") as url:
        assert httpx2.get(f"{url}/metrics", trust_env=False).status_code == 401
        (job,) = yaml.safe_load((copy / "prometheus.yaml").read_text())["scrape_configs"]
        job["static_configs"] = [{"targets": [url.removeprefix("http://")]}]
        with prometheus(copy, [], jobs=[job]) as server:
            wait_for_result(server, 'up{job="vllm-fleet-dashboard"} == 1', bool)


def test_alerts_fire_when_their_tests_say_so_and_each_has_a_test() -> None:
    tests = Path(__file__).with_name("vllm-fleet.rules.test.yml")
    promtool("test", "rules", tests)
    fired = {
        case["alertname"]
        for test in yaml.safe_load(tests.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }

    assert fired == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_on_metrics_that_exist_and_has_all_texts(name: str, exported: set[str]) -> None:
    alert = ALERTS[name]

    assert name.startswith("VLLMFleet")
    assert set(re.findall(r"vllm_fleet_\w+", alert["expr"])) <= exported
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert "keep_firing_for" in alert or "absent" in alert["expr"]


def test_the_runbook_of_a_critical_finding_is_the_page_of_its_rule() -> None:
    link = ALERTS["VLLMFleetCriticalFinding"]["annotations"]["runbook_url"]

    assert link == f"{SITE}/rules/{{{{ $labels.rule }}}}/"
    assert [each for each in BY_ID if not (ROOT / "docs" / "rules" / f"{each}.md").is_file()] == []


@pytest.mark.parametrize("name", ALERTS)
def test_the_runbook_of_another_alert_is_its_section(name: str) -> None:
    link = ALERTS[name]["annotations"]["runbook_url"]

    assert f"\n## {name}\n" in DOCS.read_text()
    assert link in {f"{SITE}/alerts/#{name.lower()}", f"{SITE}/rules/{{{{ $labels.rule }}}}/"}


def test_the_resource_for_the_operator_has_the_same_alerts() -> None:
    resource = yaml.safe_load((DEPLOY / "kubernetes" / "prometheusrule.yaml").read_text())

    assert resource["spec"] == {"groups": GROUPS}, "copy the groups of vllm-fleet.rules.yml under spec"
