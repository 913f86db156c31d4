"""Polls with planted findings: two pools of a few replicas each, every 30 s."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from dashboard.analysis.assembly import NO_LIVES, Fleet
from dashboard.analysis.lifecycle import with_lives
from dashboard.fleet.history import Rollout
from dashboard.notify.alerts import Alert, alerts_of
from dashboard.rules.findings import Finding, Severity
from tests import builders, findings_builder
from tests.builders import NOW

POLL = timedelta(seconds=30)
DOCUMENT = builders.document()
FLEET = builders.fleet([*builders.alike("chat", 3, DOCUMENT), *builders.alike("embed", 2, DOCUMENT)], [DOCUMENT])
CRITICAL, WARNING, INFO = Severity


def problem(replica: str = "chat-01", path: str = "cache_config.block_size", **more: Any) -> Finding:
    """A finding on one replica; its fingerprint is of rule, pool and path."""
    found = findings_builder.finding(FLEET, [replica], evidence=(findings_builder.evidence(path),), **more)
    assert found.replicas, f"no replica {replica}"
    return found


def poll(number: float, *findings: Finding, fleet: Fleet = FLEET, **more: Any) -> Fleet:
    """The fleet of one poll with these findings."""
    found = findings_builder.with_findings(fleet, *findings, **more)
    return replace(found, polled_at=NOW + number * POLL)


def lived(*fleets: Fleet) -> list[Fleet]:
    """These polls one after another, each with the lives of its findings."""
    found: list[Fleet] = []
    for fleet in fleets:
        found.append(with_lives(fleet, found[-1].lives if found else NO_LIVES))
    return found


def lost(fleet: Fleet, *names: str) -> Fleet:
    """The same fleet, whose replicas of these names were not read for three polls."""
    return replace(
        fleet, replicas=tuple(replace(each, fresh=each.fresh and each.name not in names) for each in fleet.replicas)
    )


def rolling(pool: str = "chat") -> dict[str, Rollout]:
    """A rollout in a pool, as an argument of `poll`."""
    return {pool: Rollout(pool, "0.32.0", "0.32.1", ("http://chat-01:8000",), 3, NOW, NOW)}


def alerts(fleet: Fleet) -> list[Alert]:
    """The alerts of one poll, in their order."""
    assert fleet.polled_at is not None
    return [*alerts_of(fleet, fleet.polled_at).values()]
