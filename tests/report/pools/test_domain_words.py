"""What a pool shares, in words, and how that is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.report.pools import domain_words
from dashboard.rules.domain import Basis, Facet, Router, Store
from dashboard.rules.findings import Rollout
from tests.builders import NOW
from tests.findings_builder import DOMAIN


@pytest.mark.parametrize(
    ("change", "facet", "words"),
    [
        (
            {},
            Facet.PREFIX_HASH,
            "Assumed: a router that hashes prefixes; if that is wrong, say so in fleet.yaml under pools.",
        ),
        (
            {"router": Router.KV_EVENTS, "router_basis": Basis.INFERRED},
            Facet.KV_EVENTS,
            "Seen in its settings: a router that follows KV events.",
        ),
        (
            {"router": Router.APPROXIMATE, "router_basis": Basis.DECLARED},
            Facet.APPROXIMATE,
            "fleet.yaml says: a router that remembers where it sent what.",
        ),
        (
            {"kv_store": Store.LMCACHE, "kv_store_basis": Basis.INFERRED},
            Facet.KV_STORE,
            "Seen in its settings: a KV store shared through LMCache.",
        ),
        (
            {"disaggregated": True, "disaggregated_basis": Basis.DECLARED},
            Facet.DISAGGREGATED,
            "fleet.yaml says: prefill and decode on replicas of their own.",
        ),
        ({}, Facet.MODEL, ""),
    ],
)
def test_how_the_deciding_part_of_a_domain_is_known_is_said(
    change: dict[str, object], facet: Facet, words: str
) -> None:
    """Declared, inferred, or assumed and then how to say otherwise; of what hurts in any pool, nothing."""
    assert domain_words.domain_words(replace(DOMAIN, **change), facet) == words  # type: ignore[arg-type]


def test_every_router_and_store_has_words() -> None:
    """A new kind cannot stay unspoken."""
    assert set(domain_words.ROUTERS) == set(Router)
    assert set(domain_words.STORES) == set(Store)


def test_what_a_pool_shares_is_said_with_how_that_is_known() -> None:
    """A store that nobody speaks of is only assumed not to be there."""
    stored = replace(DOMAIN, kv_store=Store.LMCACHE, kv_store_basis=Basis.INFERRED, router_basis=Basis.DECLARED)

    assert domain_words.shared_words(DOMAIN) == ["a router that hashes prefixes (assumed)"]
    assert domain_words.shared_words(stored) == [
        "a router that hashes prefixes (fleet.yaml)",
        "a KV store shared through LMCache (seen in its settings)",
    ]


def test_a_rollout_is_told_with_how_far_it_is_and_what_it_changes() -> None:
    began = NOW - timedelta(hours=2)

    assert domain_words.rollout_words(Rollout("chat", "0.31.0", "0.32.0", ("a", "b"), 1200, began, NOW)) == (
        "It runs along a rollout from 0.31.0 to 0.32.0: 2 of 1,200 replicas moved, the last one started "
        "2026-03-02T11:42:13Z. While that goes on it counts one step milder."
    )
