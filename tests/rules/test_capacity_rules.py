"""Rules on capacity: what cases cannot show, such as foreign names and numbers of any size."""

import json
from typing import Any

import pytest

from dashboard.capacity.outliers import FEWEST, TOLERANCE
from dashboard.fleet import Basis
from dashboard.rules.capacity.graphs import LARGEST, SEQS, SIZES, SPECULATED, TOKENS, are_derived_sizes
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.findings import Draft, Family
from tests import builders
from tests.builders import HOSTILE
from tests.rules import subjects

CAPACITY = tuple(each for each in ALL_RULES if each.family is Family.CAPACITY)

STRANGE: list[Any] = [None, True, -1, 0.5, 2**63, "16", "", HOSTILE, [], [[1]], {}, {"a": [None]}]


def drafts(rule: str, *entries: dict[str, Any], **parameters: Any) -> list[Draft]:
    return list(BY_ID[rule].check(subjects.pool(*entries), **parameters))


def holding(tokens: int | None, number: int = 1, **more: Any) -> dict[str, Any]:
    """Replicas whose one engine holds some tokens."""
    return {"replicas": number, "engines": [{"tokens": tokens, "basis": Basis.REPORTED}], **more}


def test_the_tolerance_is_that_of_the_capacity_page() -> None:
    assert BY_ID["CP-01"].parameters == {"tolerance": TOLERANCE}


def test_fewer_engines_than_make_a_median_are_not_judged() -> None:
    assert drafts("CP-01", holding(500_000, FEWEST - 2), holding(100_000)) == []
    assert len(drafts("CP-01", holding(500_000, FEWEST - 1), holding(100_000))) == 1


def test_a_device_whose_name_is_an_attack_stays_on_one_line_and_short() -> None:
    devices = [{"name": f"{HOSTILE}\n\x1b[31m" * 20}]
    (draft,) = drafts("CP-01", holding(500_000, 3, devices=devices), holding(100_000, devices=devices))

    assert draft.sentence.isprintable()
    assert len(draft.sentence) < 200
    assert json.loads(draft.evidence[-1].value) == devices[0]["name"]


def test_the_median_stands_in_the_evidence_as_what_the_others_are_held_against() -> None:
    (draft,) = drafts("CP-01", holding(500_000, 3), holding(100_000))
    told = {(each.value, each.holder, each.is_reference) for each in draft.evidence if each.path.startswith("engines.")}

    assert told == {("100000", "", False), ("500000", "median", True)}


def test_below_and_above_are_two_findings() -> None:
    found = drafts("CP-01", holding(500_000, 4), holding(100_000), holding(900_000))

    assert sorted("below" if " below " in each.sentence else "above" for each in found) == ["above", "below"]


def test_engines_of_one_replica_take_the_devices_of_its_other_engines_where_theirs_are_not_told() -> None:
    ranks = {"engines": [{"tokens": 500_000}, {"tokens": 100_000, "dp_rank": 1}]}
    found = drafts("CP-01", {**ranks, "devices": [{"name": "H200"}]}, holding(500_000, 2, devices=[{"name": "H200"}]))

    assert [each.replicas for each in found] == [("http://chat-1:8000",)]
    assert "DP rank 1" in found[0].sentence
    assert "4 engines on H200" in found[0].sentence


def test_what_a_replica_does_not_tell_of_its_shape_is_as_on_most_others() -> None:
    usual = holding(500_000, 3, settings={"parallel_config.tensor_parallel_size": 4})

    assert len(drafts("CP-01", usual, holding(100_000))) == 1


def test_the_remedy_names_the_likely_cause() -> None:
    usual = holding(500_000, 3, settings={"cache_config.cache_dtype": "fp8"})
    (draft,) = drafts("CP-01", usual, holding(250_000, settings={"cache_config.cache_dtype": "auto"}))

    assert "Likely cause: `cache_dtype` is auto (others: fp8)." in draft.remedy.sentence
    assert [each.text for each in draft.remedy.snippets] == ["--kv-cache-dtype fp8"]


def test_a_pool_with_a_name_of_any_length_gets_a_short_snippet() -> None:
    pool = subjects.pool({"devices": [{"name": "A"}]}, {"devices": [{"name": "B"}]}, name="x" * 5000)
    (draft,) = BY_ID["CP-07"].check(pool)

    assert len(draft.remedy.snippets[0].text) < 200


@pytest.mark.parametrize(
    ("told", "expected"),
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
def test_sizes_of_cuda_graphs_follow_from_batch_limits_as_vllm_has_it(*, told: dict[str, Any], expected: bool) -> None:
    """vllm/config/vllm.py: twice the requests, at most 512 or 1,024, at most the tokens of a batch."""
    assert are_derived_sizes(builders.document(told, base={}).settings) is expected


def test_who_has_no_graphs_at_all_is_not_held_against_who_has() -> None:
    usual = {"settings": {LARGEST: 8, SIZES: [1, 2, 4, 8]}, "replicas": 3}

    assert drafts("CP-05", usual, {"settings": {LARGEST: 0, SIZES: []}}) == []
    assert drafts("CP-05", usual, {"settings": {LARGEST: None, SIZES: []}}) == []


def test_a_long_list_of_sizes_is_not_pasted() -> None:
    usual = {"settings": {LARGEST: 512, SIZES: [*range(2, 513, 2)]}, "replicas": 3}
    (draft,) = drafts("CP-05", usual, {"settings": {LARGEST: 512, SIZES: [1, 512]}})

    assert draft.remedy.snippets == ()
    assert draft.remedy.sentence.startswith("Set `compilation_config.cudagraph_capture_sizes` as on the rest")


def test_a_largest_size_that_is_no_number_promises_nothing() -> None:
    (draft,) = drafts("CP-05", {"settings": {LARGEST: "512"}, "replicas": 3}, {"settings": {LARGEST: "8"}})

    assert draft.sentence == 'compilation_config.max_cudagraph_capture_size is "8"; 3 of 4 replicas use "512".'


def test_a_likely_cause_is_pasted_in_place_of_a_command_that_looks_for_one() -> None:
    one = {"parallel_config.tensor_parallel_size": 1}
    (unexplained,) = drafts("CP-01", holding(500_000, 3, settings=one), holding(100_000, settings=one))
    (above,) = drafts("CP-01", holding(500_000, 3, settings=one), holding(900_000, settings=one))

    assert [each.kind for each in unexplained.remedy.snippets] == ["shell"]
    assert all("--gpu-memory-utilization" in each.remedy.sentence for each in (unexplained, above))


def test_a_cause_that_the_others_do_not_set_is_removed() -> None:
    path = "cache_config.num_gpu_blocks_override"
    usual = holding(500_000, 3, settings={path: None})
    (draft,) = drafts("CP-01", usual, holding(250_000, settings={path: 512}))

    assert draft.remedy.sentence == (
        "Likely cause: `num_gpu_blocks_override` is 512 (others: unset). "
        "Remove `--num-gpu-blocks-override` from these replicas and restart them."
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("rule", CAPACITY, ids=lambda rule: rule.id)
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: json.dumps(value)[:20])
def test_no_rule_raises_whatever_a_setting_holds(rule: Any, value: Any) -> None:
    """One strange value among three plain ones is at most a difference, and never an error."""
    paths = [path for path in rule.needs if "." in path or path.startswith("opt")] or ["cache_config.cache_dtype"]
    plain = {"settings": dict.fromkeys(paths, 1), "replicas": 3}
    found = list(rule.check(subjects.pool(plain, {"settings": dict.fromkeys(paths, value)})))

    assert all(draft.sentence.isprintable() for draft in found)
    assert all(set(draft.replicas) == {"http://chat-4:8000"} for draft in found)
