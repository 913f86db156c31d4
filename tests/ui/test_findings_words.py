"""Findings in words: values are seen, numbers of replicas are not taken for them, and how a domain is known is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dashboard.models import State
from dashboard.rules.domain import Basis, Facet, Router, Store
from dashboard.rules.findings import CohortShare, Tally
from dashboard.ui import findings_words
from tests.builders import HOSTILE
from tests.findings_builder import DOMAIN, evidence

if TYPE_CHECKING:
    from dashboard.rules.findings import Evidence


@pytest.mark.parametrize(
    ("sentence", "told", "html"),
    [
        (
            "Block size is 32 instead of 16, which 16 of 17 replicas have.",
            [evidence(value="32"), evidence(value="16")],
            "Block size is <code>32</code> instead of <code>16</code>, which 16 of 17 replicas have.",
        ),
        ("Share is 0.9 instead of 0.92.", [evidence(value="0.9")], "Share is <code>0.9</code> instead of 0.92."),
        ("Rate is 10.5.", [evidence(value="5")], "Rate is 10.5."),
        ("Version is 0.31.0.", [evidence(value='"0.31.0"')], "Version is <code>0.31.0</code>."),
        ('Seed is "16".', [evidence(value='"16"')], "Seed is <code>&quot;16&quot;</code>."),
        ("It is <b>.", [evidence(value='"<b>"')], "It is <code>&lt;b&gt;</code>."),
        ("It is <i>.", [], "It is &lt;i&gt;."),
        ("It is not set.", [evidence(value="null", state=State.NULL)], "It is not set."),
        ("The route answers.", [evidence("/server_info", '"answers"')], "The route answers."),
        ("Its name is .", [evidence(value='""')], "Its name is ."),
    ],
)
def test_values_are_marked_in_a_sentence_as_often_as_the_evidence_holds_them(
    sentence: str, told: list[Evidence], html: str
) -> None:
    """A number of replicas that looks the same comes later and stays plain; whatever is foreign is escaped."""
    assert findings_words.sentence_html(sentence, told) == html


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
    assert findings_words.domain_words(replace(DOMAIN, **change), facet) == words  # type: ignore[arg-type]


def test_every_router_and_store_has_words() -> None:
    """A new kind cannot stay unspoken."""
    assert set(findings_words.ROUTERS) == set(Router)
    assert set(findings_words.STORES) == set(Store)


def test_counts_are_written_by_severity_with_nothing_for_none() -> None:
    """One warning, two warnings; info has no plural."""
    assert findings_words.tally_words(Tally(critical=2, warning=1, info=3)) == "2 critical, 1 warning, 3 info"
    assert findings_words.tally_words(Tally(warning=1_000)) == "1,000 warnings"


def test_cohorts_are_chips_of_a_number_that_can_be_read() -> None:
    """`B` for one, `B ×2` for more; a pool's name only among several; who was never read has no letter."""
    html = findings_words.chips([CohortShare("a<b", "B", 1), CohortShare("c", "", 1_200)], 2)

    assert ">B</span></span> " in html
    assert "a&lt;b" in html
    assert '<span class="mute">not read</span> ×1,200' in html
    assert "c " not in findings_words.chips([CohortShare("c", "B", 2)], 1).replace("class", "")

    many = findings_words.chips([CohortShare("c", letter, 1) for letter in "ABCDEFG"], 1)
    assert "and 3 more cohorts" in many


def test_a_long_or_hostile_name_stays_on_one_line() -> None:
    """Lists keep their shape."""
    assert "\n" not in findings_words.brief(HOSTILE)
    assert len(findings_words.brief("x" * 500)) == findings_words.LONGEST_NAME


def test_what_a_pool_shares_is_said_with_how_that_is_known() -> None:
    """A store that nobody speaks of is only assumed not to be there."""
    stored = replace(DOMAIN, kv_store=Store.LMCACHE, kv_store_basis=Basis.INFERRED, router_basis=Basis.DECLARED)

    assert findings_words.shared_words(DOMAIN) == ["a router that hashes prefixes (assumed)"]
    assert findings_words.shared_words(stored) == [
        "a router that hashes prefixes (fleet.yaml)",
        "a KV store shared through LMCache (seen in its settings)",
    ]
