"""A hub of a real dashboard: it is asked and nobody else, and its replicas are on the hub's pages with a link there."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from dashboard import service
from dashboard.config import Options
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.documents.reported import ReportedFleet, with_first_seen
from dashboard.fleet.history import Sighting, Sightings
from tests.captured import AT
from tests.serving import dashboard_on
from tests.test_contacts import LOOPBACK, hosts, recorded

__all__ = ["recorded"]


def test_a_command_reads_another_dashboard_and_contacts_only_its_url(tmp_path: Path, recorded: Path) -> None:
    with in_thread(default_fleet(3)) as server:
        listed = [each["targets"][0] for each in targets(server.fleet, server.port)]
        (tmp_path / "eu.yaml").write_text(yaml.safe_dump({"name": "eu", "targets": listed}))
        with dashboard_on(tmp_path / "eu.yaml") as url:
            hub = {"name": "hub", "dashboards": [{"url": url, "labels": {"cluster": "eu"}}]}
            (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(hub))
            contacts = tmp_path / "contacts-of-the-hub"
            done = subprocess.run(
                [sys.executable, "-m", "dashboard", "poll", "--format", "json"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "CONTACTS": str(contacts)},
            )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(each["replica"] for each in found["replicas"]) == sorted(f"eu+http://{each}" for each in listed)
    assert {each["labels"]["cluster"] for each in found["replicas"]} == {"eu"}
    assert all(each["pool"].startswith("eu/") for each in found["pools"])
    assert hosts(contacts) == {"127.0.0.1"}
    assert all(each.startswith(LOOPBACK) for each in hosts(recorded) - {"127.0.0.1"})


def test_replicas_were_seen_first_when_the_first_of_both_saw_them() -> None:
    earlier, later = AT - timedelta(days=9), AT
    own = Sightings(replicas={"eu+a": Sighting(later, later, AT), "eu+b": Sighting(earlier, later)})
    reported = [ReportedFleet(first_seen={"eu+a": earlier, "eu+b": later, "eu+c": later})]

    assert with_first_seen(own, reported).replicas == {
        "eu+a": Sighting(earlier, later, AT),
        "eu+b": Sighting(earlier, later),
        "eu+c": Sighting(later, later),
    }
    assert with_first_seen(own, []) is own


@pytest.mark.parametrize(
    ("key", "home"),
    [
        ("eu+http://10.0.0.1:8000", "https://fleet.eu/a/replica?replica=http%3A%2F%2F10.0.0.1%3A8000"),
        ('eu+https://evil/"><script>', "https://fleet.eu/a/replica?replica=https%3A%2F%2Fevil%2F%22%3E%3Cscript%3E"),
        ("us+http://10.0.0.1:8000", None),
        ("http://10.0.0.1:8000", None),
    ],
)
def test_a_reported_replica_links_to_its_page_on_the_url_of_the_options(key: str, home: str | None) -> None:

    options = Options.model_validate({"dashboards": [{"url": "https://fleet.eu/a", "labels": {"cluster": "eu"}}]})

    assert service.home_of(key, options) == home
