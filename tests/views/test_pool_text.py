"""What replicas of a pool share: traits, and its router and KV store with how they are known."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.fleet.pieces import Style, to_plain
from dashboard.rules.domain import ImpactContext, Origin, Router
from dashboard.views.blocks import Block, Paragraph
from dashboard.views.compare import cohort_blocks
from dashboard.views.finding_list import list_findings
from dashboard.views.findings import finding_section
from dashboard.views.pool_text import LONGEST, domain_text, trait_paragraphs
from tests.builders import HOSTILE, NOW, document, down, fleet, replica
from tests.findings_builder import DOMAIN, finding, with_findings

ODD = {"cache_config.block_size": 32}
USUAL = document()
LABELS = {"pool": "chat", "image": "4f2"}
NEW = [
    replica(f"chat-{number}", document=document(ODD), labels=LABELS, started_at=NOW - number * timedelta(minutes=9))
    for number in range(1, 4)
]
OLD = [replica(f"chat-{number}", document=USUAL) for number in range(4, 9)]
EXPECTED = """All 3: image 4f2; none of the other 6.
All 3: started 2026-03-02 11:15 to 11:33 UTC; none of the other 5 (not reported by 1 more)."""


def texts(blocks: tuple[Block, ...]) -> list[str]:
    return [to_plain(each.line) for each in blocks if isinstance(each, Paragraph)]


def test_a_finding_and_a_cohort_have_the_same_sentence() -> None:
    built = fleet([*NEW, *OLD, down("chat-9", started_at=None)], [document(ODD), USUAL])
    pool = built.pools[0]
    found = with_findings(built, finding(built, [each.name for each in NEW]))
    known = list_findings(found)

    assert EXPECTED in texts(finding_section(found, known, known.active[0], ()).blocks)
    assert EXPECTED in texts(cohort_blocks(built, pool, pool.cohorts[1]))


def test_foreign_labels_are_cut_on_one_line_and_a_label_started_is_a_label() -> None:
    labels = {"pool": "chat", "started": HOSTILE, "x" * 200: "é" * 200}
    group = [replica(f"chat-{number}", document=USUAL, labels=labels) for number in range(2)]
    (paragraph,) = trait_paragraphs(fleet([*group, *OLD], [USUAL]), [each.id for each in group], ["chat"])
    code = [each.text for each in paragraph.line if each.style is Style.CODE]

    assert to_plain(paragraph.line).startswith("Both: ")
    assert len(code) == 2
    assert all(len(each) <= LONGEST and "\n" not in each for each in code)


def test_without_a_trait_there_is_no_sentence() -> None:
    assert trait_paragraphs(fleet(OLD, [USUAL]), [each.id for each in OLD[:2]], ["chat"]) == ()


@pytest.mark.parametrize(
    ("change", "context", "words"),
    [
        (
            {"router": Router.KV_EVENTS, "router_basis": Origin.DETECTED},
            ImpactContext.KV_EVENTS,
            "Router: kv-events (detected); if not, declare it under pools in fleet.yaml.",
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
    assert domain_text(replace(DOMAIN, **change), context) == words  # type: ignore[arg-type]
