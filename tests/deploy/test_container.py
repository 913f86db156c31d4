"""The container file: its lines are linted, and its services started without a container. test_image.py builds it."""

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.deploy.image import FILE, argument, instructions, link_image, running
from tests.deploy.test_alerts import ALERTS
from tests.serving import ROOT, wait_for
from tests.sources.prometheus_server import prometheus_on, wait_for_result

USER = 65532
TOKEN = "fleet_of_prometheus"
COMPOSE = (FILE.parent / "compose.yaml").read_text()
SERVICES = yaml.safe_load(COMPOSE)["services"]


def test_the_linter_has_no_complaint() -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, str(FILE)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_every_copied_file_exists_and_the_user_is_not_root() -> None:
    copied = [rest.split()[0] for name, rest in instructions() if name == "COPY" and not rest.startswith("--from")]

    assert [each for each in copied if not (ROOT / each).exists()] == []
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(sent) == sorted(copied)
    assert argument("USER") == f"{USER}:{USER}"


def test_the_compose_file_has_the_limits_of_the_deployment_and_its_files() -> None:
    dashboard = SERVICES["dashboard"]

    assert (dashboard["read_only"], dashboard["cap_drop"]) == (True, ["ALL"])
    assert (ROOT / dashboard["build"]["dockerfile"]).samefile(FILE)
    named = [each.split(":")[0] for service in SERVICES.values() for each in service["volumes"]]
    missing = {each for each in named if not (FILE.parent / each).exists()}
    assert missing == {"./fleet.yaml", "./prometheus/token", "data"}, "the head of the file says who writes these"


@pytest.mark.long
def test_the_services_of_the_compose_file_start_and_prometheus_scrapes_with_its_token(tmp_path: Path) -> None:
    dashboard, server = (_mounted(name, tmp_path / name) for name in ("dashboard", "prometheus"))
    link_image(dashboard)
    environment = SERVICES["dashboard"]["environment"]
    with running(dashboard, environment) as url:
        port = url.rpartition(":")[2]
        file = server / "etc" / "prometheus" / "prometheus.yml"
        (job,) = yaml.safe_load(file.read_text())["scrape_configs"]
        assert job["static_configs"] == [{"targets": ["dashboard:8501"]}]
        file.write_text(file.read_text().replace("dashboard:8501", f"127.0.0.1:{port}"))  # no such name here
        for host, token, status in (
            ("dashboard:8501", TOKEN, 200),
            ("dashboard:8501", "another", 401),
            ("a", TOKEN, 403),
        ):
            headers = {"Host": host, "Authorization": f"Bearer {token}"}
            assert httpx2.get(f"{url}/metrics", headers=headers, trust_env=False).status_code == status
        with prometheus_on(file) as prometheus:
            wait_for_result(prometheus, 'up{job="vllm-fleet-dashboard"} == 1', bool)
            wait_for(lambda: set(_rules(prometheus).values()) == {"ok"})
            assert set(_rules(prometheus)) == set(ALERTS)


def _mounted(service: str, root: Path) -> Path:
    """Copy what a service mounts to where it sees it; write what a user writes. Return the root."""
    for own, inside, *_ in (each.split(":") for each in SERVICES[service]["volumes"]):
        place = Path(f"{root}{inside}")
        place.parent.mkdir(parents=True, exist_ok=True)
        if own == "./fleet.yaml":
            text = "\n".join(line[4:] for line in COMPOSE.splitlines() if line.startswith("#   "))
            place.write_text(text.replace("sha256: ...", f"sha256: {sha256(TOKEN.encode()).hexdigest()}"))
        elif own == "./prometheus/token":
            place.write_text(f"{TOKEN}\n")
        elif own.startswith("."):
            shutil.copy(FILE.parent / own, place)
        else:
            place.mkdir()
    for inside in SERVICES[service].get("tmpfs", ()):
        Path(f"{root}{inside}").mkdir()
    return root


def _rules(prometheus: str) -> dict[str, str]:
    """Return the health of each alert by its name."""
    answer = httpx2.get(f"{prometheus}/api/v1/rules", trust_env=False).json()
    return {rule["name"]: rule["health"] for group in answer["data"]["groups"] for rule in group["rules"]}
