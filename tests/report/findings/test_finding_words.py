"""The words that every format of findings shares."""

from dataclasses import replace
from typing import Any

from dashboard.report.findings import words
from dashboard.rules.domain import Basis, ImpactContext, Router
from dashboard.rules.findings import CohortShare, Confidence, OutcomeKind, Severity
from tests import builders
from tests.report.judged import domain, finding, fleet, outcome, suppression

NAMES = {"http://chat-3:8000": "chat-3", "http://chat-4:8000": "chat-4"}


def some(number: int) -> tuple[str, ...]:
    return tuple(f"http://chat-{each}:8000" for each in range(1, number + 1))


def test_replicas_are_told_as_cohorts_with_their_names() -> None:
    assert words.who(finding(), NAMES) == "B x2 (chat-3 and chat-4)"


def test_of_two_pools_each_share_names_its_pool_and_who_was_never_read_has_no_letter() -> None:
    shares = (CohortShare("", "", some(1)), CohortShare("a", "A", some(3)), CohortShare("b", "B", some(1_200)))

    assert words.shares(finding(cohorts=shares)) == "1 not read, a A x3, b B x1,200"


def test_a_finding_on_no_replica_says_so() -> None:
    assert words.who(finding(replicas=(), cohorts=()), NAMES) == "no replica"


def test_of_many_names_the_first_four_are_told_and_the_rest_counted() -> None:
    assert words.named(["a", "b", "c", "d"]) == "a, b, c and d"
    assert words.named(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"


def test_a_finding_says_that_its_suppression_expired_and_how_sure_it_is() -> None:
    odd = finding(expired=suppression(), is_rollout=True, assumptions=("a", "b"), unknown=3, total=40)

    assert words.remarks(odd) == [
        "Suppression by ann expired on 2026-04-30 (canary).",
        "Follows the rollout in this pool: one severity lower.",
        "Assumed: a; b.",
        "Not evaluated on 3 of 40 replicas (setting not reported).",
    ]
    assert words.remarks(finding()) == []
    assert words.remarks(finding(confidence=Confidence.DERIVED)) == ["Derived from reported settings."]


def test_pools_with_the_same_reason_stand_together() -> None:
    why = "a.b: told by 0 of 4 replicas."
    outcomes = [outcome("RT-01", OutcomeKind.SKIPPED, why, subject=pool) for pool in ("a", "b")]
    outcomes.append(outcome("CO-01", OutcomeKind.ERROR, "ValueError: 1"))
    judged = fleet(outcomes=outcomes)

    assert words.skipped(judged.inspection) == [f"RT-01 in a and b: {why}"]
    assert words.raised(judged.inspection) == ["CO-01 in chat: ValueError: 1"]


def test_a_rule_on_the_whole_fleet_is_told_with_the_pools_in_which_it_found_something() -> None:
    fleet_wide = finding("ID-05", subject="fleet", pools=("a", "b"))

    assert words.where(fleet_wide) == "a and b"
    assert words.places(fleet_wide) == ("a", "b")
    assert words.where(finding("ID-05", subject="fleet", pools=())) == "fleet", "nobody said of which pool they are"
    assert words.where(finding("PD-01", subject="p + d", pools=("p", "d"))) == "p + d"
    assert words.where(finding()) == "chat"


def test_advice_that_was_given_before_is_found_by_its_pool_and_in_the_same_pool_by_its_replicas() -> None:
    other = finding(replicas=("http://chat-3:8000",), cohorts=(CohortShare("chat", "C", ("http://chat-3:8000",)),))

    assert words.as_in(finding(subject="b"), finding(), NAMES) == "Same cause and fix as chat."
    assert words.as_in(finding(), other, NAMES) == "Same cause and fix as RT-01 on C x1 (chat-3)."
    assert words.as_in(finding(), finding(), NAMES) == "Same cause and fix as RT-01 above."


def test_who_did_not_answer_is_told_with_the_reason_if_there_is_one() -> None:
    silent = builders.fleet([builders.down("chat-9"), replace(builders.down("chat-8"), failure=None)])

    assert words.answered(silent) == "0 of 2 answered"
    assert words.unread(silent) == ["chat-9: Nothing listens there.", "chat-8: no usable reply"]


def test_what_is_assumed_is_listed_once_for_each_pool_with_findings_that_rest_on_its_router() -> None:
    """Not for a pool whose router is known, nor for one without such findings, nor for another assumption."""
    resting: dict[str, Any] = {"assumptions": ("router is approximate",)}
    found = [finding(**resting), finding("RT-13", **resting), finding(pools=("known",), **resting)]
    found += [finding("CO-02", pools=("calm",)), finding(pools=("seed",), assumptions=("PYTHONHASHSEED is unset",))]
    found.append(finding(pools=("b", "gone"), **resting))
    assumed = domain(Router.APPROXIMATE, Basis.ASSUMED)
    domains = {"chat": assumed, "known": domain(Router.APPROXIMATE), "calm": assumed, "seed": assumed, "b": assumed}

    found.append(finding("RT-05", pools=("shown",), severity_behind=((ImpactContext.PREFIX_HASH, Severity.CRITICAL),)))
    domains["shown"] = domain(Router.KV_EVENTS, Basis.INFERRED)

    assert words.assumptions(fleet(*found, inspected={"domains": domains}).inspection) == [
        "b: router is approximate (assumed); declare it under pools in fleet.yaml.",
        "chat: router is approximate (assumed); declare it under pools in fleet.yaml.",
        "shown: router is kv-events (assumed); declare it under pools in fleet.yaml.",
    ]


def test_a_router_that_is_not_declared_is_named_with_what_it_would_change() -> None:
    both = ((ImpactContext.PREFIX_HASH, Severity.CRITICAL), (ImpactContext.KV_EVENTS, Severity.CRITICAL))
    apart = ((ImpactContext.PREFIX_HASH, Severity.CRITICAL), (ImpactContext.KV_EVENTS, Severity.WARNING))

    assert words.undeclared(finding(severity_behind=both)) == (
        "Router not declared: critical behind prefix-hash or kv-events."
    )
    assert words.undeclared(finding(severity_behind=apart)) == (
        "Router not declared: critical behind prefix-hash, warning behind kv-events."
    )
    assert words.undeclared(finding()) == ""
    assert words.remarks(finding(severity_behind=both)) == [words.undeclared(finding(severity_behind=both))]
