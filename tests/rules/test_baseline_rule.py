"""BL-01: evidence from the baseline's file, remedies that can be pasted, and notes on baselines that match nothing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.documents.findings import findings_json
from dashboard.fleet import Baseline, State, Tolerance
from dashboard.rules.apply_method import IMAGE_FIRST
from dashboard.rules.domain import PoolDeclaration, Router
from dashboard.rules.findings import Evidence, Finding
from dashboard.rules.policy import Policy
from dashboard.views.finding_list import list_findings
from dashboard.views.findings import evidence_blocks
from dashboard.web import draw
from tests.builders import HOSTILE, NOW, document, fleet, replica
from vllm_fleet_provider.shared.spelling import canonical_text

SEQS, TOKENS = "scheduler_config.max_num_seqs", "scheduler_config.max_num_batched_tokens"
SIZES, LARGEST = "compilation_config.cudagraph_capture_sizes", "compilation_config.max_cudagraph_capture_size"
LOGPROBS, BLOCKS = "model_config.max_logprobs", "cache_config.block_size"
UTILIZATION = "cache_config.gpu_memory_utilization"
FILE = "baselines/agreed.yaml"
AGREED = Baseline("agreed", "chat", {SEQS: "128"}, comments={SEQS: "fits the GPU"}, file=FILE)
DERIVED = [1, 2, 4, *range(8, 257, 8)]  # vLLM's sizes for 128 requests
SET = f"Set the expected values on these replicas and restart them. Or change the values in {FILE}."


def compared(*baselines: Baseline, settings: tuple[dict[str, Any], ...] = ({},) * 2, **policy: Any) -> Fleet:
    """Compare a pool of replicas with these settings with baselines."""
    documents = [document(each) for each in settings]
    members = [replica(f"chat-{number}", document=each) for number, each in enumerate(documents)]
    built = fleet(members, list({each.id: each for each in documents}.values()))
    return inspected(replace(built, policy=Policy(baselines=baselines, **policy)), NOW)


def found(built: Fleet) -> list[Finding]:
    return [each for each in built.inspection.findings if each.rule == "BL-01"]


def table_of(finding: Finding) -> str:
    """Return the evidence as the page draws it."""
    none = empty_fleet("test")
    return draw.html_of(evidence_blocks(none, list_findings(none), finding))


def expecting(expected: dict[str, Any], tolerated: dict[str, Tolerance] | None = None) -> Baseline:
    texts = {path: canonical_text(value) for path, value in expected.items()}
    return replace(AGREED, expected=texts, tolerated=tolerated or {})


def test_the_evidence_is_the_value_of_the_replicas_and_that_of_the_file_with_its_comment() -> None:
    built = compared(AGREED)
    (finding,) = found(built)
    table = table_of(finding)
    (part,) = (each for each in json.loads(findings_json(built, NOW))["findings"] if each["rule"] == "BL-01")

    assert finding.evidence == (
        Evidence(SEQS, "256", State.REPORTED, finding.replicas),
        Evidence(SEQS, "128", State.REPORTED, holder=FILE, is_reference=True, comment="fits the GPU"),
    )
    assert FILE in table
    assert "“fits the GPU”" in table
    assert [(each["holder"], each["comment"]) for each in part["evidence"]] == [(None, None), (FILE, "fits the GPU")]


def test_hostile_names_files_and_comments_are_one_line_and_no_markup() -> None:
    baseline = replace(AGREED, name=HOSTILE * 9, comments={SEQS: HOSTILE * 9}, file=HOSTILE)
    (finding,) = found(compared(replace(baseline, tolerated={"seed": Tolerance(("1",))})))

    assert len(finding.sentence.splitlines()) == 1
    assert len(finding.sentence) < 300
    assert "<script" not in table_of(finding)


PINNED = {TOKENS: 8192, SIZES: [*DERIVED, *range(272, 513, 16)], LARGEST: 512}
FOLLOWS = f"from max_num_seqs, which may have several values: remove %s from {FILE}, or list %s under `ignored`."
LIMITS = {SEQS: 128, TOKENS: 8192, SIZES: DERIVED, LARGEST: 256}
TWO_LIMITS = {SEQS: Tolerance(("128", "256"))}


@pytest.mark.parametrize(
    ("baseline", "own", "sentence", "snippets"),
    [
        pytest.param(AGREED, {}, SET, ["--max-num-seqs 128"], id="set"),
        pytest.param(
            expecting({SEQS: None}),
            {},
            f"Remove --max-num-seqs on these replicas and restart them. Or change the values in {FILE}.",
            [],
            id="remove",
        ),
        pytest.param(
            expecting({SEQS: None, LOGPROBS: 5}),
            {},
            SET.replace("values on", "values and remove --max-num-seqs on"),
            ["--max-logprobs 5"],
            id="set and remove",
        ),
        pytest.param(
            expecting({SEQS: "sixteen"}),
            {},
            f"Correct the expected value in {FILE}. max_num_seqs: the baseline has text instead of a number or switch.",
            [],
            id="text instead of a number",
        ),
        pytest.param(
            expecting({SEQS: "sixteen", LOGPROBS: 5}),
            {},
            f"{SET} max_num_seqs: the baseline has text instead of a number or switch.",
            ["--max-logprobs 5"],
            id="text instead of a number, and a value to set",
        ),
        pytest.param(
            expecting(LIMITS),
            {**LIMITS, SEQS: 64, SIZES: DERIVED[:19], LARGEST: 128},
            f"{SET} Remove --cudagraph-capture-sizes and --max-cudagraph-capture-size where set: vLLM derives the "
            "value from the settings above.",
            ["--max-num-seqs 128"],
            id="derived by vLLM",
        ),
        pytest.param(
            expecting({}, {UTILIZATION: Tolerance((), 0.9, 0.95)}),
            {UTILIZATION: 0.97},
            f"{SET} Choose a value for gpu_memory_utilization: 0.9 to 0.95.",
            [],
            id="range",
        ),
        pytest.param(
            expecting(PINNED, TWO_LIMITS),
            LIMITS,
            f"{SIZES} and {LARGEST} follow {FOLLOWS % ('them', 'them')}",
            [],
            id="derived from a limit with several allowed values",
        ),
        pytest.param(
            expecting({TOKENS: 8192, SIZES: PINNED[SIZES], LOGPROBS: 5}, TWO_LIMITS),
            LIMITS,
            f"{SET} {SIZES} follows {FOLLOWS % ('it', 'it')}",
            ["--max-logprobs 5"],
            id="derived from such a limit, and a value to set",
        ),
    ],
)
def test_the_remedy_pastes_what_can_be_set_and_explains_the_rest(
    baseline: Baseline, own: dict[str, Any], sentence: str, snippets: list[str]
) -> None:
    (finding,) = found(compared(baseline, settings=(own, own)))

    assert finding.remedy.sentence == sentence
    assert [each.text for each in finding.remedy.snippets] == snippets


@pytest.mark.parametrize(
    ("own", "snippets"),
    [
        (
            [{"version": "0.31.0", BLOCKS: 32, LOGPROBS: 5}],
            [(["image: vllm/vllm-openai:v0.32.0"], True), ([], True)],
        ),
        ([{"version": "0.31.0", LOGPROBS: 20}], [(["image: vllm/vllm-openai:v0.32.0"], False)]),
        (
            [{"version": "0.31.0", LOGPROBS: 5}, {"version": "0.32.0", LOGPROBS: 5}],
            [(["image: vllm/vllm-openai:v0.32.0"], False), (["--max-logprobs 20"], False)],
        ),
    ],
    ids=["image and more", "image alone", "right image elsewhere"],
)
def test_where_the_image_deviates_it_is_changed_first(
    own: list[dict[str, Any]], snippets: list[tuple[list[str], bool]]
) -> None:
    """Other deviations may be defaults of the other version."""
    baseline = expecting({"version": "0.32.0", BLOCKS: 16, LOGPROBS: 20})
    findings = found(compared(baseline, settings=tuple(own), pools={"*": PoolDeclaration(router=Router.PREFIX_HASH)}))

    assert [
        ([each.text for each in finding.remedy.snippets], finding.remedy.sentence.endswith(IMAGE_FIRST))
        for finding in findings
    ] == snippets


def test_a_baseline_for_no_pool_and_a_misspelled_path_have_a_note() -> None:
    paths = ("block_size", "cache_config.blocksize", "cache_config.kv_offloading_backend", "a.b", "cache_config")
    baseline = replace(
        AGREED, expected={**dict.fromkeys(paths, "1"), "x.config.c": "1", "model_config.dtype": '"half"'}
    )
    other = replace(AGREED, pool="embed-*", file="baselines/embed.yaml")
    meant = f"in {FILE} is not reported by any replica; did you mean cache_config.block_size?"

    assert compared(baseline, other).inspection.notes == (
        f"block_size {meant}",
        f"cache_config.blocksize {meant}",
        "pool embed-* in baselines/embed.yaml matches no pool; correct it or remove the baseline.",
    )
