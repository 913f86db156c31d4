"""Pools for tests of routing rules, and what these rules say of them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet, build_fleet
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import Declared, Router
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Family, Inspection
from dashboard.rules.policy import Policy
from tests import builders, captured
from tests.captured import Capture

ROUTING = tuple(each for each in ALL_RULES if each.family is Family.ROUTING)

ALGORITHM = "cache_config.prefix_caching_hash_algo"
SEED = "env.PYTHONHASHSEED"
HASHING = Declared(router=Router.PREFIX_HASH)


def judged(fleet: Fleet, *ids: str, **pools: Declared) -> Inspection:
    """Judge a fleet by some routing rules, or all."""
    rules = [BY_ID[each] for each in ids] or list(ROUTING)
    return inspect_fleet(rules, fleet.pools, fleet.replicas, fleet.documents, Policy(pools=pools), builders.NOW)


def said(inspection: Inspection) -> list[str]:
    return [f"{each.rule}: {each.sentence}" for each in inspection.findings]


def pool_of(*told: Mapping[str, Any], **more: Any) -> Fleet:
    """Build a pool `chat` with a replica per document."""
    documents = [builders.document(settings, base={"version": "0.32.0"}) for settings in told]
    return builders.fleet(
        [builders.replica(f"chat-{number}", document=each, **more) for number, each in enumerate(documents, 1)],
        documents,
    )


def pool_of_captures(*held: Capture) -> Fleet:
    """Build a pool of servers that answered as these did."""
    snapshots = [
        captured.snapshot(each.answers, target=f"http://10.0.0.{number}:8000", labels={"pool": "chat"})
        for number, each in enumerate(held, 1)
    ]
    return build_fleet("test", snapshots, polled_at=captured.AT, interval=timedelta(seconds=15))
