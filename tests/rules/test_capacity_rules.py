"""Rules on capacity: parameters, evidence, hostile names and derived sizes, which YAML cases cannot express."""

import json
from typing import Any

import pytest

from dashboard.capacity.outliers import TOLERANCE
from dashboard.rules.capacity.graphs import LARGEST, SEQS, SIZES, SPECULATED, TOKENS, are_derived_sizes
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Draft
from tests import builders
from tests.builders import HOSTILE
from tests.rules import case


def outlier(**more: Any) -> Draft:
    """Return the finding on a replica with a fifth of the KV cache of three others."""
    usual, odd = ({"engines": [{"tokens": tokens}], **more} for tokens in (500_000, 100_000))
    drafts: list[Draft] = list(BY_ID["CP-01"].check(case.pool({"replicas": 3, **usual}, odd)))
    assert len(drafts) == 1
    return drafts[0]


def test_the_tolerance_is_that_of_the_capacity_page() -> None:
    assert BY_ID["CP-01"].parameters == {"tolerance": TOLERANCE}


def test_a_hostile_device_name_is_short_and_on_one_line() -> None:
    name = f"{HOSTILE}\n\x1b[31m" * 20
    draft = outlier(devices=[{"name": name}])

    assert draft.sentence.isprintable()
    assert len(draft.sentence) < 200
    assert json.loads(draft.evidence[-1].value) == name


def test_a_long_pool_name_is_cut_in_the_snippet() -> None:
    pool = case.pool({"devices": [{"name": "A"}]}, {"devices": [{"name": "B"}]}, name="x" * 5000)
    (draft,) = BY_ID["CP-07"].check(pool)

    assert len(draft.remedy.snippets[0].text) < 200


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({LARGEST: 512, SEQS: 256, TOKENS: 8192}, True),
        ({LARGEST: 1024, SEQS: 1024, TOKENS: 8192}, True),
        ({LARGEST: 256, SEQS: 128, TOKENS: 8192}, True),
        ({LARGEST: 96, SEQS: 50, TOKENS: 8192}, True),
        ({LARGEST: 100, SEQS: 1024, TOKENS: 100}, True),
        ({LARGEST: 400, SEQS: 50, TOKENS: 8192, SPECULATED: 3}, True),
        ({LARGEST: 187, SEQS: 100, TOKENS: 8192, SPECULATED: 16}, True),
        ({LARGEST: 150, SEQS: 100, TOKENS: 8192, SPECULATED: 3}, False),
        ({LARGEST: 510, SEQS: 100, TOKENS: 8192, SPECULATED: 16}, True),
        ({LARGEST: 192, SEQS: 128, TOKENS: 8192}, False),
        ({LARGEST: 513, SEQS: 256, TOKENS: 8192}, False),
        ({LARGEST: 512, SIZES: [1, 2, 4, 512], SEQS: 256, TOKENS: 8192}, False),
        ({LARGEST: 512, SIZES: [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)], SEQS: 256, TOKENS: 8192}, True),
        ({LARGEST: 512, SIZES: [*range(8, 513, 16)], SEQS: 256, TOKENS: 8192}, True),
        ({SIZES: [], SEQS: 256, TOKENS: 8192}, False),
        ({LARGEST: 512}, False),
        ({LARGEST: 512, SEQS: 256}, False),
        ({}, False),
    ],
)
def test_cuda_graph_sizes_are_derived_from_batch_limits(*, settings: dict[str, Any], expected: bool) -> None:
    """vllm/config/vllm.py: twice the requests, at most 512 or 1,024, at most the tokens of a batch."""
    assert are_derived_sizes(builders.document(settings, base={}).settings) is expected
