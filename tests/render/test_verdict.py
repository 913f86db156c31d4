"""The exit code of a check, and the sentence that explains it."""

from dataclasses import replace

import pytest

from dashboard.fleet import Baseline, Failure, FailureKind, ReplicaState, State
from dashboard.render.verdict import failing, verdict_of
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Evidence, OutcomeKind, Severity
from dashboard.rules.policy import Policy
from tests import builders
from tests.inspected_fleets import EVIL, finding, fleet, outcome, suppression

CRITICAL, WARNING, INFO = Severity
NEVER = None
AGREED = Policy(baselines=(Baseline("agreed", "chat", file="chat.yaml"),))


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
    found = finding(severity=severity)

    assert verdict_of(fleet(found), fail_on, 100).code == code
    assert verdict_of(fleet(suppressed=[replace(found, suppression=suppression())]), fail_on, 100).code == 0
    assert failing([found], fail_on) == [found] * code


def test_the_sentence_of_a_fleet_that_passes_counts_what_does_not_fail() -> None:
    assert verdict_of(fleet(), CRITICAL, 100).sentence == "exit 0: no findings; 4 of 4 answered; --fail-on critical."
    milder = verdict_of(fleet(finding(severity=WARNING)), CRITICAL, 100)
    assert milder.sentence.startswith("exit 0: no findings at or above critical (0 critical, 1 warning, 0 info); ")
    never = verdict_of(fleet(finding()), NEVER, 100)
    assert never.sentence.startswith("exit 0: findings never fail (1 critical, 0 warning, 0 info); ")


def test_the_sentence_names_a_missing_key_and_counts_what_is_wrong_with_the_options() -> None:
    """With a lower coverage a wrong key, or a misspelt pool, would be a green gate without a reason."""
    key = Failure(FailureKind.UNAUTHORIZED, "no valid API key")
    checked = fleet(inspected={"notes": ("pools.chatt matches no pool.",)})
    first, *others = checked.replicas
    locked = replace(first, state=ReplicaState.PARTIAL, probes=(builders.probe("/inference/v1/config", failure=key),))
    verdict = verdict_of(replace(checked, replicas=(locked, *others)), CRITICAL, 75)

    assert verdict.sentence == (
        "exit 0: no findings; 4 of 4 answered (1 partially: no valid API key); --fail-on critical; "
        "1 configuration warning."
    )


def test_the_sentence_names_rules_and_pools_that_fail_and_counts_equal_ones() -> None:
    found = [finding("RT-01"), finding("BL-01"), finding("BL-01"), finding("BL-01", WARNING)]
    found += [finding("ID-05", subject="fleet", pools=("a", "b"))]

    assert verdict_of(fleet(*found), WARNING, 100).sentence == (
        "exit 1: 4 critical findings (RT-01 in chat, BL-01 x2 in chat, ID-05 in a and b) "
        "and 1 warning (BL-01 in chat); --fail-on warning."
    )
    expired = verdict_of(fleet(finding(expired=suppression())), CRITICAL, 100)
    assert "(RT-01 in chat, suppression expired on 2026-04-30)" in expired.sentence
    many = verdict_of(fleet(*(finding(subject=f"pool-{number}") for number in (*range(7), 6))), CRITICAL, 100)
    assert "8 critical findings (RT-01 x8 in pool-0, pool-1, pool-2 and 4 more);" in many.sentence


@pytest.mark.parametrize("severity", [CRITICAL, WARNING])
def test_the_sentence_names_every_rule_that_fails(severity: Severity) -> None:
    """With "8 more" the reader of a failed check does not know what failed."""
    rules = [f"CO-{number:02}" for number in range(1, 10)]
    sentence = verdict_of(fleet(*(finding(each, severity) for each in rules)), severity, 100).sentence

    assert [each for each in rules if sentence.count(each) != 1] == []
    assert sentence.count(" in chat") == (9 if severity is CRITICAL else 5)


@pytest.mark.parametrize(
    ("fail_on", "min_coverage", "code"), [(CRITICAL, 80, 0), (CRITICAL, 80.1, 3), (CRITICAL, 0, 0), (NEVER, 100, 3)]
)
def test_coverage_is_in_percent_of_all_targets(fail_on: Severity | None, min_coverage: float, code: int) -> None:
    assert verdict_of(fleet(down=1), fail_on, min_coverage).code == code


def test_low_coverage_names_the_unreachable_replicas_after_findings_that_fail() -> None:
    short = "only 4 of 5 answered, below --min-coverage 100% (unreachable: lost-1)"

    assert verdict_of(fleet(down=1), CRITICAL, 100).sentence == f"exit 3: {short}; otherwise no findings."
    both = verdict_of(fleet(finding(), down=1), CRITICAL, 100)
    assert (both.code, both.too_little) == (1, short)
    assert both.sentence.endswith(f"; also {short}.")


def test_a_replica_that_refuses_the_api_key_has_not_answered() -> None:
    refused = builders.probe("/v1/models", failure=Failure(FailureKind.UNAUTHORIZED, "It refuses the given API key."))
    locked = builders.replica("locked", state=ReplicaState.PARTIAL, probes=(refused,))
    short = (
        "only 2 of 2 answered, 1 of them without a valid API key, below --min-coverage 100% (no valid API key: locked)"
    )

    verdict = verdict_of(builders.fleet([builders.replica("open"), locked]), CRITICAL, 100)
    assert (verdict.code, verdict.too_little) == (3, short)
    assert verdict_of(builders.fleet([builders.replica("open"), locked]), CRITICAL, 50).code == 0
    alike = replace(locked, same_digest_as="http://open:8000")
    assert verdict_of(builders.fleet([builders.replica("open"), alike]), CRITICAL, 100).code == 0


@pytest.mark.parametrize("min_coverage", [0, 100])
def test_a_check_without_targets_has_not_passed(min_coverage: float) -> None:
    verdict = verdict_of(builders.fleet(), CRITICAL, min_coverage)

    assert (verdict.code, verdict.sentence) == (3, "exit 3: no targets, nothing was checked.")


def test_a_target_list_that_cannot_be_read_hides_targets() -> None:
    unread = ("a.json: not JSON.", f"{EVIL}: no file matches")
    verdict = verdict_of(fleet(finding(subject=EVIL)), CRITICAL, 100, unread)

    assert "2 target lists could not be read (a.json: not JSON and <b>" in verdict.sentence
    assert len(verdict.sentence.splitlines()) == 1
    assert "\x1b" not in verdict.sentence
    assert verdict_of(fleet(), CRITICAL, 100, unread).code == 3
    assert verdict_of(fleet(), CRITICAL, 0, unread).code == 0


def test_a_finding_that_another_router_would_make_fail_is_counted_where_none_is_declared() -> None:
    behind = ((ImpactContext.PREFIX_HASH, CRITICAL), (ImpactContext.KV_EVENTS, CRITICAL))
    milder = fleet(finding(severity=WARNING, severity_behind=behind), finding(severity=WARNING))
    undeclared = "router not declared: 1 finding would fail behind prefix-hash or kv-events."

    assert verdict_of(milder, CRITICAL, 100).sentence.endswith(undeclared)
    assert verdict_of(milder, CRITICAL, 100).code == 0
    assert "router" not in verdict_of(milder, WARNING, 100).sentence
    assert "router" not in verdict_of(milder, NEVER, 100).sentence


def test_rules_that_raised_are_named_whatever_the_code_is() -> None:
    raised = [outcome(rule, OutcomeKind.ERROR, "ValueError: x") for rule in ("CO-02", "CO-01", "CO-02")]

    for code, checked in ((0, fleet(outcomes=raised)), (1, fleet(finding(), outcomes=raised))):
        verdict = verdict_of(checked, CRITICAL, 100)
        assert verdict.code == code
        assert verdict.sentence.endswith("; rule errors: CO-01, CO-02.")


def test_any_deviation_from_a_named_baseline_fails_unless_nothing_does() -> None:
    deviates = finding("BL-01", INFO, evidence=(Evidence("seed", "1", State.REPORTED, holder="chat.yaml"),))
    checked = fleet(deviates, policy=AGREED)

    named = verdict_of(checked, CRITICAL, 100, baselines=("chat.yaml",))
    assert (named.code, named.baselines) == (1, ("chat.yaml",))
    assert named.sentence.endswith("; --fail-on critical, and any deviation from --baseline chat.yaml.")
    assert verdict_of(checked, CRITICAL, 100).code == 0
    assert verdict_of(checked, NEVER, 100, baselines=("chat.yaml",)).code == 0


@pytest.mark.parametrize(
    ("file", "why"), [("chat.yaml", "Not reported by any replica: seed"), ("other.yaml", "it matches no pool")]
)
def test_a_baseline_that_no_replica_was_compared_with_has_not_passed(file: str, why: str) -> None:
    skipped = outcome("BL-01", OutcomeKind.SKIPPED, "Not reported by any replica: seed.")
    verdict = verdict_of(fleet(outcomes=[skipped], policy=AGREED), CRITICAL, 100, baselines=(file,))

    assert verdict.code == 3
    assert verdict.sentence == f"exit 3: no replica was compared with {file} ({why}); otherwise no findings."


@pytest.mark.parametrize(
    ("unread", "unknown", "words"),
    [
        (0, 2, "; 2 of 6 replicas in chat compared with chat.yaml in part."),
        (2, 2, "; 2 of 6 replicas in chat not read, not compared with chat.yaml."),
        (
            1,
            2,
            "chat not read, not compared with chat.yaml; 1 of 6 replicas in chat compared with chat.yaml in part.",
        ),
        (1, 0, "any deviation from --baseline chat.yaml."),
    ],
)
def test_replicas_that_were_compared_in_part_or_not_at_all_are_counted(unread: int, unknown: int, words: str) -> None:
    checked = fleet(outcomes=[outcome("BL-01", unknown=unknown, total=6, unread=unread)], policy=AGREED)

    assert verdict_of(checked, CRITICAL, 0, baselines=("chat.yaml",)).sentence.endswith(words)
