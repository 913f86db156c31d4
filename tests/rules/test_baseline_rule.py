"""What BL-01 finds can be traced to the baseline's file, and a baseline for no pool is told of."""

import json
from dataclasses import replace

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.documents.findings import findings_json
from dashboard.fleet import Baseline, State, Tolerance
from dashboard.render.verdict import failing
from dashboard.rules.apply_method import IMAGE_FIRST
from dashboard.rules.domain import Declared, Router
from dashboard.rules.findings import Evidence, Finding, Severity
from dashboard.rules.policy import Policy, RuleChange
from dashboard.views.finding_detail import Members, evidence_blocks
from dashboard.vllm.canonical import canonical_text
from dashboard.web import draw
from tests.builders import HOSTILE, NOW, alike, document, fleet, replica

SEQS = "scheduler_config.max_num_seqs"
AGREED = Baseline("agreed", "chat", {SEQS: "128"}, comments={SEQS: "fits the GPU"}, file="baselines/agreed.yaml")


def judged(*baselines: Baseline, **more: RuleChange) -> Fleet:
    told = document()
    policy = Policy(baselines=baselines, rules={"BL-01": more["change"]} if more else {})
    return inspected(replace(fleet(alike("chat", 2, told), [told]), policy=policy), NOW)


def found(built: Fleet) -> list[Finding]:
    return [each for each in built.inspection.findings if each.rule == "BL-01"]


def test_the_evidence_names_the_file_and_what_people_wrote_in_it() -> None:
    (finding,) = found(judged(AGREED))

    assert finding.evidence == (
        Evidence(SEQS, "256", State.REPORTED, finding.replicas),
        Evidence(
            SEQS, "128", State.REPORTED, holder="baselines/agreed.yaml", is_reference=True, comment="fits the GPU"
        ),
    )
    assert finding.remedy.sentence == (
        "Set the expected values on these replicas and restart them. Or change the values in baselines/agreed.yaml."
    )
    table = draw.html_of(evidence_blocks(finding, Members({}, {}, {}, {})))
    assert "baselines/agreed.yaml" in table
    assert "“fits the GPU”" in table


def test_the_document_of_findings_has_the_comment() -> None:
    part = next(each for each in json.loads(findings_json(judged(AGREED), NOW))["findings"] if each["rule"] == "BL-01")

    assert [(each["holder"], each["comment"]) for each in part["evidence"]] == [
        (None, None),
        ("baselines/agreed.yaml", "fits the GPU"),
    ]


def test_what_should_not_be_set_is_removed_and_the_rest_given() -> None:
    (finding,) = found(judged(replace(AGREED, expected={SEQS: "null", "model_config.max_logprobs": "5"})))
    (other,) = found(judged(replace(AGREED, expected={SEQS: "null"})))

    assert finding.remedy.sentence.startswith(
        "Set the expected values and remove --max-num-seqs on these replicas and restart them."
    )
    assert other.remedy.sentence.startswith("Remove --max-num-seqs on these replicas and restart them.")


def test_a_severity_of_fleet_yaml_goes_before_the_rules_own() -> None:
    assert [each.severity for each in found(judged(AGREED, change=RuleChange(severity=Severity.INFO)))] == [
        Severity.INFO
    ]


def test_a_baseline_for_no_pool_is_told_of() -> None:
    notes = judged(AGREED, replace(AGREED, pool="embed-*", file="baselines/embed.yaml")).inspection.notes

    assert notes == ("pool embed-* in baselines/embed.yaml matches no pool; correct it or remove the baseline.",)


def test_its_deviations_fail_whatever_their_severity_where_it_was_given_unless_nothing_does() -> None:
    findings = judged(AGREED).inspection.findings

    assert failing(findings, Severity.CRITICAL) == []
    assert [each.rule for each in failing(findings, Severity.CRITICAL, ("baselines/agreed.yaml",))] == ["BL-01"]
    assert failing(findings, Severity.CRITICAL, ("other.yaml",)) == []
    assert failing(findings, None, ("baselines/agreed.yaml",)) == []


def test_what_people_write_is_shown_on_one_line_and_never_as_markup() -> None:
    told = replace(
        AGREED, name=HOSTILE * 9, comments={SEQS: HOSTILE * 9}, tolerated={"seed": Tolerance(("1",))}, file=HOSTILE
    )
    (finding,) = found(judged(told))

    assert len(finding.sentence.splitlines()) == 1
    assert len(finding.sentence) < 300
    assert "<script" not in draw.html_of(evidence_blocks(finding, Members({}, {}, {}, {})))


def test_a_path_that_no_replica_tells_gets_the_one_that_was_probably_meant() -> None:
    paths = {
        "block_size": "16",
        "cache_config.blocksize": "16",
        "cache_config.kv_offloading_backend": '"native"',
        "a.b": "1",
        "cache_config": "1",
        "x.config.c": "1",
        "model_config.dtype": '"half"',
    }
    told = document()
    built = fleet(alike("chat", 2, told), [told])
    policy = Policy(baselines=(replace(AGREED, expected=paths),))

    meant = "in baselines/agreed.yaml is not reported by any replica; did you mean cache_config.block_size?"
    assert inspected(replace(built, policy=policy), NOW).inspection.notes == (
        f"block_size {meant}",
        f"cache_config.blocksize {meant}",
    )


def test_a_text_where_vllm_has_a_number_is_not_pasted_but_said() -> None:
    (finding,) = found(judged(replace(AGREED, expected={SEQS: '"sixteen"'})))
    (both,) = found(judged(replace(AGREED, expected={SEQS: '"sixteen"', "model_config.max_logprobs": "5"})))

    assert finding.remedy.snippets == ()
    assert finding.remedy.sentence == (
        "Correct the expected value in baselines/agreed.yaml. max_num_seqs: the baseline has text instead of a number "
        "or switch."
    )
    assert [each.text for each in both.remedy.snippets] == ["--max-logprobs 5"]
    assert both.remedy.sentence.startswith("Set the expected values on these replicas and restart them.")


def test_what_vllm_derives_is_not_pasted() -> None:
    sizes, limits = [1, 2, 4, *range(8, 257, 8)], {SEQS: 128, "scheduler_config.max_num_batched_tokens": 8192}
    graphs = {
        "compilation_config.cudagraph_capture_sizes": sizes,
        "compilation_config.max_cudagraph_capture_size": 256,
    }
    expected = {path: canonical_text(value) for path, value in {**limits, **graphs}.items()}
    told = document(
        {
            **limits,
            SEQS: 64,
            "compilation_config.cudagraph_capture_sizes": sizes[:19],
            "compilation_config.max_cudagraph_capture_size": 128,
        }
    )
    policy = Policy(baselines=(replace(AGREED, expected=expected),))
    (finding,) = found(inspected(replace(fleet(alike("chat", 2, told), [told]), policy=policy), NOW))

    assert [each.text for each in finding.remedy.snippets] == ["--max-num-seqs 128"]
    assert finding.remedy.sentence.endswith(
        " Remove --cudagraph-capture-sizes and --max-cudagraph-capture-size where set: vLLM derives the value from the "
        "settings above."
    )


def test_a_range_of_which_the_pool_has_no_value_is_said_and_not_pasted() -> None:
    path = "cache_config.gpu_memory_utilization"
    told = document({path: 0.97})
    policy = Policy(baselines=(replace(AGREED, expected={}, tolerated={path: Tolerance((), 0.9, 0.95)}),))
    (finding,) = found(inspected(replace(fleet(alike("chat", 2, told), [told]), policy=policy), NOW))

    assert finding.remedy.snippets == ()
    assert finding.remedy.sentence.endswith(" Choose a value for gpu_memory_utilization: 0.9 to 0.95.")


def image_and_more(*told: dict[str, object]) -> list[Finding]:
    """What is found on replicas of which a baseline expects a version, a block size and a limit."""
    expected = {"version": '"0.32.0"', "cache_config.block_size": "16", "model_config.max_logprobs": "20"}
    documents = [document(each) for each in told]
    members = [replica(f"chat-{place}", document=each) for place, each in enumerate(documents)]
    policy = Policy({"*": Declared(router=Router.PREFIX_HASH)}, baselines=(replace(AGREED, expected=expected),))
    return found(inspected(replace(fleet(members, documents), policy=policy), NOW))


def test_another_image_comes_first_and_the_rest_is_not_pasted_yet() -> None:
    """As a what-if of the baseline has it: what else deviates may be the default of the other version."""
    hashing, other = image_and_more(
        {"version": "0.31.0", "cache_config.block_size": 32, "model_config.max_logprobs": 5}
    )
    first = IMAGE_FIRST

    assert [each.text for each in hashing.remedy.snippets] == ["image: vllm/vllm-openai:v0.32.0"]
    assert hashing.remedy.sentence.endswith(first)
    assert other.remedy.snippets == ()
    assert other.remedy.sentence.endswith(first)


def test_what_also_deviates_where_the_version_is_right_is_pasted() -> None:
    _, other = image_and_more(
        {"version": "0.31.0", "cache_config.block_size": 16, "model_config.max_logprobs": 5},
        {"version": "0.32.0", "cache_config.block_size": 16, "model_config.max_logprobs": 5},
    )

    assert len(other.replicas) == 2
    assert [each.text for each in other.remedy.snippets] == ["--max-logprobs 20"]


def test_a_version_alone_needs_no_word_on_what_comes_after() -> None:
    (finding,) = image_and_more({"version": "0.31.0", "cache_config.block_size": 16, "model_config.max_logprobs": 20})

    assert "image first" not in finding.remedy.sentence


def test_a_value_outside_a_range_is_shown_beside_the_whole_range() -> None:
    """Not beside its near end alone, as if that were the one value agreed on."""
    path = "cache_config.gpu_memory_utilization"
    told = document({path: 0.9501})
    baseline = replace(AGREED, expected={}, tolerated={path: Tolerance((), 0.9, 0.95)})
    policy = Policy(baselines=(baseline,))
    (finding,) = found(inspected(replace(fleet(alike("chat", 2, told), [told]), policy=policy), NOW))

    assert finding.sentence.endswith(": gpu_memory_utilization is 0.9501, tolerated 0.9 to 0.95.")
    assert [each.value for each in finding.evidence] == ["0.9501", '"0.9 to 0.95"']
    assert "0.9 to 0.95" in draw.html_of(evidence_blocks(finding, Members({}, {}, {}, {})))


def pinned_sizes(**more: object) -> Finding:
    """What is found where a limit of 128 is tolerated beside the agreed sizes of CUDA graphs, those of 256."""
    tokens = "scheduler_config.max_num_batched_tokens"
    sizes, largest = "compilation_config.cudagraph_capture_sizes", "compilation_config.max_cudagraph_capture_size"
    own, agreed = [1, 2, 4, *range(8, 257, 8)], [1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)]
    told = document({SEQS: 128, tokens: 8192, sizes: own, largest: 256})
    pinned = {tokens: 8192, sizes: agreed, largest: 512, **more}
    expected = {path: canonical_text(value) for path, value in pinned.items() if value}
    baseline = replace(AGREED, expected=expected, tolerated={SEQS: Tolerance(("128", "256"))})
    built = replace(fleet(alike("chat", 2, told), [told]), policy=Policy(baselines=(baseline,)))
    return found(inspected(built, NOW))[0]


def test_sizes_that_follow_from_a_tolerated_limit_are_taken_out_of_the_baseline_and_not_pasted() -> None:
    """A replica with the other tolerated limit has other sizes, as it should."""
    finding = pinned_sizes()

    assert finding.remedy.snippets == ()
    assert finding.remedy.sentence == (
        "compilation_config.cudagraph_capture_sizes and compilation_config.max_cudagraph_capture_size follow from "
        "max_num_seqs, which may have several values: remove them from baselines/agreed.yaml, or list them under "
        "`ignored`."
    )


def test_what_else_deviates_beside_such_sizes_is_pasted() -> None:
    finding = pinned_sizes(**{"model_config.max_logprobs": 5, "compilation_config.max_cudagraph_capture_size": None})

    assert [each.text for each in finding.remedy.snippets] == ["--max-logprobs 5"]
    assert finding.remedy.sentence == (
        "Set the expected values on these replicas and restart them. Or change the values in baselines/agreed.yaml. "
        "compilation_config.cudagraph_capture_sizes follows from max_num_seqs, which may have several values: remove "
        "it from baselines/agreed.yaml, or list it under `ignored`."
    )
