"""Router, KV store and rollout of a pool as text."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.rules.domain import ImpactContext, Origin, Router, Store
from dashboard.rules.findings import Rollout
from dashboard.views import domain_text
from tests.builders import NOW
from tests.findings_builder import DOMAIN


@pytest.mark.parametrize(
    ("change", "context", "words"),
    [
        (
            {"router": Router.APPROXIMATE, "router_basis": Origin.ASSUMED},
            ImpactContext.APPROXIMATE,
            "Router: approximate (assumed); if not, declare it under pools in fleet.yaml.",
        ),
        (
            {"router": Router.KV_EVENTS, "router_basis": Origin.DETECTED},
            ImpactContext.KV_EVENTS,
            "Router: kv-events (detected); if not, declare it under pools in fleet.yaml.",
        ),
        (
            {"router": Router.APPROXIMATE, "router_basis": Origin.DECLARED},
            ImpactContext.APPROXIMATE,
            "Router: approximate (fleet.yaml).",
        ),
        (
            {"kv_store": Store.LMCACHE, "kv_store_basis": Origin.READ},
            ImpactContext.KV_STORE,
            "KV store: lmcache (read).",
        ),
        (
            {"disaggregated": True, "disaggregated_basis": Origin.DECLARED},
            ImpactContext.DISAGGREGATED,
            "Prefill and decode: separate (fleet.yaml).",
        ),
        ({}, ImpactContext.MODEL, ""),
    ],
)
def test_an_impact_context_has_its_source(change: dict[str, object], context: ImpactContext, words: str) -> None:
    assert domain_text.domain_text(replace(DOMAIN, **change), context) == words  # type: ignore[arg-type]


def test_router_and_store_have_their_source() -> None:
    stored = replace(DOMAIN, kv_store=Store.LMCACHE, kv_store_basis=Origin.READ, router_basis=Origin.ASSUMED)

    assert domain_text.shared_texts(DOMAIN) == ["router: prefix-hash (fleet.yaml)"]
    assert domain_text.shared_texts(stored) == [
        "router: prefix-hash (assumed)",
        "KV store: lmcache (read)",
    ]


def test_a_rollout_has_its_progress_and_effect() -> None:
    began = NOW - timedelta(hours=2)

    assert domain_text.rollout_text(Rollout("chat", "0.31.0", "0.32.0", ("a", "b"), 1200, began, NOW)) == (
        "Rollout 0.31.0 → 0.32.0: 2 of 1,200 replicas moved, the last one started "
        "2026-03-02T11:42:13Z. Severity is one step lower during a rollout."
    )
