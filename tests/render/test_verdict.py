"""The exit code of a check, and the sentence that says why."""

from dataclasses import replace

import pytest

from dashboard.fleet import Baseline, ReplicaState, State
from dashboard.render.verdict import failing, verdict_of
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Evidence, OutcomeKind, Severity
from dashboard.rules.policy import Policy
from tests import builders
from tests.report.judged import EVIL, finding, fleet, outcome, suppression

CRITICAL, WARNING, INFO = Severity
NEVER = None
AGREED = Policy(baselines=(Baseline("agreed", "chat", file="chat.yaml"),))


def test_a_clean_fleet_passes_and_says_that_all_answered() -> None:
    verdict = verdict_of(fleet(), CRITICAL, 100)

    assert (verdict.code, verdict.too_little) == (0, "")
    assert verdict.sentence == "exit 0: no finding; 4 of 4 answered; --fail-on critical."


def test_the_sentence_names_rules_and_pools_that_fail() -> None:
    found = [finding("RT-01", subject="chat-70b"), finding("CO-01", subject="chat-70b"), finding("CO-02", WARNING)]

    assert verdict_of(fleet(*found), CRITICAL, 100).sentence == (
        "exit 1: 2 critical findings (RT-01 in chat-70b, CO-01 in chat-70b); --fail-on critical."
    )
    assert verdict_of(fleet(*found), WARNING, 100).sentence == (
        "exit 1: 2 critical findings (RT-01 in chat-70b, CO-01 in chat-70b) and 1 warning (CO-02 in chat); "
        "--fail-on warning."
    )


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [
        (CRITICAL, CRITICAL, 1),
        (CRITICAL, INFO, 1),
        (CRITICAL, NEVER, 0),
        (WARNING, CRITICAL, 0),
        (WARNING, WARNING, 1),
        (INFO, WARNING, 0),
        (INFO, INFO, 1),
    ],
)
def test_a_finding_fails_at_its_level_and_above(severity: Severity, fail_on: Severity | None, code: int) -> None:
    assert verdict_of(fleet(finding(severity=severity)), fail_on, 100).code == code


def test_milder_findings_are_counted_though_they_do_not_fail() -> None:
    milder, never = fleet(finding(severity=WARNING)), fleet(finding())

    assert (
        "no finding at or above critical (0 critical, 1 warning, 0 info)" in verdict_of(milder, CRITICAL, 100).sentence
    )
    assert "findings do not count (1 critical, 0 warning, 0 info)" in verdict_of(never, NEVER, 100).sentence


def test_what_is_suppressed_fails_nothing() -> None:
    hidden = finding(suppression=suppression())

    assert verdict_of(fleet(suppressed=[hidden]), INFO, 100).code == 0


def test_a_suppression_that_ended_is_named_as_the_reason() -> None:
    again = finding(expired=suppression())

    assert "(RT-01 in chat, whose suppression ended on 2026-04-30)" in verdict_of(fleet(again), CRITICAL, 100).sentence


def test_a_replica_that_did_not_answer_fails_the_check_and_is_named() -> None:
    verdict = verdict_of(fleet(down=1), CRITICAL, 100)

    assert verdict.code == 3
    assert verdict.sentence == (
        "exit 3: only 4 of 5 answered, and --min-coverage is 100 % (not read: lost-1); apart from that, no finding."
    )


@pytest.mark.parametrize(("min_coverage", "code"), [(80, 0), (80.1, 3), (0, 0), (100, 3)])
def test_coverage_is_in_percent_of_all_targets(min_coverage: float, code: int) -> None:
    assert verdict_of(fleet(down=1), CRITICAL, min_coverage).code == code


def test_a_replica_that_was_read_in_part_counts_as_answered() -> None:
    told = builders.document()
    partial = builders.replica("chat-1", document=told, state=ReplicaState.PARTIAL)

    verdict = verdict_of(builders.fleet([partial], [told]), NEVER, 100)
    assert verdict.code == 0
    assert "1 of 1 answered (1 in part)" in verdict.sentence


def test_a_finding_that_another_router_would_make_fail_is_counted_where_none_is_declared() -> None:
    behind = ((ImpactContext.PREFIX_HASH, CRITICAL), (ImpactContext.KV_EVENTS, CRITICAL))
    milder = fleet(finding(severity=WARNING, severity_behind=behind), finding(severity=WARNING))
    words = "router not declared: 1 finding would fail behind prefix-hash or kv-events."

    assert verdict_of(milder, CRITICAL, 100).sentence.endswith(words)
    assert verdict_of(milder, CRITICAL, 100).code == 0
    assert "router" not in verdict_of(milder, WARNING, 100).sentence
    assert "router" not in verdict_of(milder, NEVER, 100).sentence


def test_findings_go_before_coverage_and_both_are_said() -> None:
    verdict = verdict_of(fleet(finding(), down=1), CRITICAL, 100)

    assert verdict.code == 1
    assert "; also, only 4 of 5 answered" in verdict.sentence


def test_never_still_demands_that_enough_could_be_read() -> None:
    assert verdict_of(fleet(finding(), down=1), NEVER, 100).code == 3


@pytest.mark.parametrize("min_coverage", [0, 100])
def test_no_targets_at_all_have_not_passed(min_coverage: float) -> None:
    verdict = verdict_of(builders.fleet(), CRITICAL, min_coverage)

    assert verdict.code == 3
    assert verdict.sentence == ("exit 3: there was no target to ask, and a fleet that did not answer has not passed.")


def test_a_list_of_targets_that_cannot_be_read_hides_targets() -> None:
    unread = ("a.json: not JSON.", f"{EVIL}: no file matches")
    verdict = verdict_of(fleet(), CRITICAL, 100, unread)

    assert verdict.code == 3
    assert "2 lists of targets could not be read (a.json: not JSON and <b>" in verdict.sentence
    assert len(verdict.sentence.splitlines()) == 1
    assert verdict_of(fleet(), CRITICAL, 0, unread).code == 0


def test_a_rule_on_the_whole_fleet_is_named_with_its_pools() -> None:
    found = [finding("ID-05", subject="fleet", pools=pools) for pools in (("a",), ("a", "b"), ("b",))]

    assert verdict_of(fleet(*found), CRITICAL, 100).sentence == (
        "exit 1: 3 critical findings (ID-05 in a, ID-05 in a and b, ID-05 in b); --fail-on critical."
    )


def test_findings_of_one_rule_in_one_pool_are_counted_where_they_are_named() -> None:
    """Two replicas that deviate otherwise are two findings: what is named adds up to what is counted."""
    found = [finding("RT-01"), finding("BL-01"), finding("BL-01"), finding("BL-01", WARNING)]

    assert verdict_of(fleet(*found), WARNING, 100).sentence == (
        "exit 1: 3 critical findings (RT-01 in chat, BL-01 in chat x2) and 1 warning (BL-01 in chat); "
        "--fail-on warning."
    )


def test_rules_that_raised_are_named_whatever_the_code_is() -> None:
    raised = [outcome(rule, OutcomeKind.ERROR, "ValueError: x") for rule in ("CO-02", "CO-01", "CO-02")]

    for code, judged in ((0, fleet(outcomes=raised)), (1, fleet(finding(), outcomes=raised))):
        verdict = verdict_of(judged, CRITICAL, 100)
        assert verdict.code == code
        assert verdict.sentence.endswith("; not judged, for the rule itself raised an error: CO-01, CO-02.")


def test_of_many_findings_five_are_named_and_the_rest_counted() -> None:
    many = [finding(subject=f"pool-{number}") for number in (*range(7), 6)]

    sentence = verdict_of(fleet(*many), CRITICAL, 100).sentence

    assert "8 critical findings (" in sentence
    assert "RT-01 in pool-4, 3 more);" in sentence
    assert "pool-5" not in sentence


def test_the_sentence_is_one_line_whatever_a_pool_is_called() -> None:
    sentence = verdict_of(fleet(finding(subject=EVIL)), CRITICAL, 100).sentence

    assert len(sentence.splitlines()) == 1
    assert "\x1b" not in sentence


def test_failing_are_those_at_or_above_the_level() -> None:
    mild, bad = finding(severity=INFO), finding()

    assert failing([mild, bad], WARNING) == [bad]
    assert failing([mild, bad], NEVER) == []


def test_any_deviation_from_a_baseline_that_is_named_fails_and_the_sentence_names_it() -> None:
    deviates = finding("BL-01", INFO, evidence=(Evidence("seed", "1", State.REPORTED, holder="chat.yaml"),))
    judged = fleet(deviates, policy=AGREED)

    named = verdict_of(judged, CRITICAL, 100, baselines=("chat.yaml",))
    assert (named.code, named.baselines) == (1, ("chat.yaml",))
    assert named.sentence == (
        "exit 1: 1 info finding (BL-01 in chat); --fail-on critical, and any deviation from --baseline chat.yaml."
    )
    assert verdict_of(judged, CRITICAL, 100).code == 0
    assert verdict_of(judged, NEVER, 100, baselines=("chat.yaml",)).code == 0


@pytest.mark.parametrize(
    ("file", "why"),
    [("chat.yaml", "Not told by any replica: seed"), ("other.yaml", "it is for no pool that is here")],
)
def test_a_baseline_that_no_replica_was_held_against_has_not_passed(file: str, why: str) -> None:
    skipped = outcome("BL-01", OutcomeKind.SKIPPED, "Not told by any replica: seed.")
    verdict = verdict_of(fleet(outcomes=[skipped], policy=AGREED), CRITICAL, 100, baselines=(file,))

    assert verdict.code == 3
    assert verdict.sentence == f"exit 3: no replica was held against {file} ({why}); apart from that, no finding."


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        (0, "."),
        (1, "; 1 of 4 replicas in chat does not tell all of chat.yaml."),
        (2, "; 2 of 4 replicas in chat do not tell all of chat.yaml."),
    ],
)
def test_replicas_that_do_not_tell_all_of_a_baseline_are_counted(unknown: int, words: str) -> None:
    passed = outcome("BL-01", unknown=unknown)
    verdict = verdict_of(fleet(outcomes=[passed], policy=AGREED), CRITICAL, 100, baselines=("chat.yaml",))

    assert verdict.code == 0
    assert verdict.sentence.endswith(f"and any deviation from --baseline chat.yaml{words}")


@pytest.mark.parametrize(
    ("down", "unknown", "words"),
    [
        (1, 1, "; 1 of 6 replicas in chat was not read, so not held against chat.yaml."),
        (2, 2, "; 2 of 6 replicas in chat were not read, so not held against chat.yaml."),
        (
            1,
            2,
            "chat was not read, so not held against chat.yaml; 1 of 6 replicas in chat does not tell all of chat.yaml.",
        ),
        (1, 0, "any deviation from --baseline chat.yaml."),
    ],
)
def test_a_replica_that_was_not_read_is_not_said_to_tell_less_than_all(down: int, unknown: int, words: str) -> None:
    passed = outcome("BL-01", unknown=unknown, total=6)
    judged = fleet(outcomes=[passed], policy=AGREED, down=down)

    assert verdict_of(judged, CRITICAL, 0, baselines=("chat.yaml",)).sentence.endswith(words)


@pytest.mark.parametrize(("others_are_fresh", "words"), [(True, "was not read"), (False, "does not tell all")])
def test_where_nobody_was_read_now_replicas_are_held_as_they_were_before(words: str, *, others_are_fresh: bool) -> None:
    """What a replica told before it went down counts only where no other replica of its pool tells anything now."""
    judged = fleet(outcomes=[outcome("BL-01", unknown=1)], policy=AGREED)
    first, *others = judged.replicas
    members = (replace(first, fresh=False), *(replace(each, fresh=others_are_fresh) for each in others))
    verdict = verdict_of(replace(judged, replicas=members), CRITICAL, 0, baselines=("chat.yaml",))

    assert f"; 1 of 4 replicas in chat {words}" in verdict.sentence
