"""The engine gives every rule one outcome on every subject, whatever the rule does."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from dashboard.fleet import State
from dashboard.fleet.pieces import plain
from dashboard.rules.domain import Declared, ImpactContext, Router
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import (
    CohortShare,
    Confidence,
    Draft,
    Evidence,
    Inspection,
    NotEvaluated,
    OutcomeKind,
    Remedy,
    Severity,
    Suppression,
)
from dashboard.rules.policy import Policy, RuleChange
from dashboard.rules.registry import Rule, Scope, rule
from dashboard.rules.subject import FleetSubject, PairSubject, PoolSubject
from tests import builders
from tests.rules.case import built

BLOCKS = "cache_config.block_size"
FIX = Remedy("Do something.")
SEVERITY = {ImpactContext.MODEL: Severity.WARNING, ImpactContext.KV_EVENTS: Severity.CRITICAL}


def made(check: Any, **more: Any) -> Rule:
    """A rule that is only here."""
    given = {"id_": "RT-91", "severity": SEVERITY, "needs": (BLOCKS,), "least": 1}
    return rule(**{**given, **more})(check)


def fails(subject: PoolSubject) -> Iterator[Draft]:
    """Something is wrong.

    Why it matters:
        - any pool: Clients notice.
        - kv-events: The index notices.
    """
    held = subject.values(BLOCKS)
    for told, replicas in held.items():
        if told.value != "16":
            yield Draft(replicas, plain("Wrong."), (Evidence(BLOCKS, told.value, told.state, replicas),), FIX)


def passes(_subject: object) -> tuple[Draft, ...]:
    """Nothing is wrong."""
    return ()


def inspected(rules: list[Rule], *entries: dict[str, Any], policy: Policy | None = None) -> Inspection:
    replicas, documents = built(list(entries))
    fleet = builders.fleet(replicas, documents)
    return inspect_fleet(rules, fleet.pools, fleet.replicas, fleet.documents, policy or Policy(), builders.NOW)


def blocks(size: int, **more: Any) -> dict[str, Any]:
    return {"settings": {BLOCKS: size}, **more}


def test_a_rule_without_a_draft_passed() -> None:
    (outcome,) = inspected([made(passes)], blocks(16)).outcomes

    assert (outcome.kind, outcome.findings, outcome.total) == (OutcomeKind.PASSED, 0, 1)


def test_a_rule_with_a_draft_failed_and_says_where() -> None:
    found = inspected([made(fails)], blocks(16, replicas=3), blocks(32))
    (finding,) = found.findings

    assert [each.kind for each in found.outcomes] == [OutcomeKind.FAILED]
    assert finding.pools == ("chat",)
    assert finding.replicas == ("http://chat-4:8000",)
    assert finding.cohorts == (CohortShare("chat", "B", ("http://chat-4:8000",)),)
    assert (finding.severity, finding.why) == (Severity.WARNING, "Clients notice.")


def test_severity_and_reason_are_those_of_the_facet_that_makes_it_worst() -> None:
    policy = Policy(pools={"ch*": Declared(router=Router.KV_EVENTS)})
    (finding,) = inspected([made(fails)], blocks(32), policy=policy).findings

    assert (finding.severity, finding.why) == (Severity.CRITICAL, "The index notices.")


def approximately(**more: Any) -> Rule:
    """A rule that is critical behind an approximate router, and worth knowing elsewhere."""
    return made(
        guesses, severity={ImpactContext.MODEL: Severity.INFO, ImpactContext.APPROXIMATE: Severity.CRITICAL}, **more
    )


def guesses(subject: PoolSubject) -> Iterator[Draft]:
    """Something is wrong.

    Why it matters:
        - any pool: Clients notice.
        - approximate: The router guesses wrong.
    """
    yield from fails(subject)


def test_a_router_that_is_only_assumed_makes_nothing_worse_than_a_warning_and_is_listed() -> None:
    declared = Policy(pools={"chat": Declared(router=Router.APPROXIMATE)})
    (assumed,) = inspected([approximately()], blocks(32)).findings
    (known,) = inspected([approximately()], blocks(32), policy=declared).findings

    assert (assumed.severity, assumed.confidence) == (Severity.WARNING, Confidence.ASSUMED)
    assert assumed.assumptions == ("router is approximate",)
    assert assumed.why == "If the router is approximate: the router guesses wrong."
    assert (known.severity, known.confidence, known.assumptions) == (Severity.CRITICAL, Confidence.REPORTED, ())
    assert known.why == "The router guesses wrong."
    assert assumed.id == known.id
    assert assumed.context is known.context is ImpactContext.APPROXIMATE


def test_a_reason_that_is_known_goes_before_one_as_bad_that_is_assumed() -> None:
    severity = {ImpactContext.APPROXIMATE: Severity.CRITICAL, ImpactContext.MODEL: Severity.WARNING}
    (finding,) = inspected([made(guesses, severity=severity)], blocks(32)).findings

    assert (finding.severity, finding.why, finding.assumptions) == (Severity.WARNING, "Clients notice.", ())


def test_what_a_rule_assumes_makes_its_finding_a_warning_at_most_and_is_listed() -> None:
    def assuming(subject: PoolSubject) -> Iterator[Draft]:
        yield from (replace(each, assumptions=("seed is unset",)) for each in fails(subject))

    critical = {"severity": {ImpactContext.MODEL: Severity.CRITICAL}}
    (assumed,) = inspected([made(assuming, **critical)], blocks(32)).findings
    (known,) = inspected([made(fails, **critical)], blocks(32)).findings

    assert (assumed.severity, assumed.confidence) == (Severity.WARNING, Confidence.ASSUMED)
    assert assumed.assumptions == ("seed is unset",)
    assert (known.severity, known.confidence) == (Severity.CRITICAL, Confidence.REPORTED)


def test_what_a_rule_calls_critical_itself_is_a_warning_too_where_it_rests_on_an_assumed_router() -> None:
    def critical(subject: PoolSubject) -> Iterator[Draft]:
        yield from (replace(each, severity=Severity.CRITICAL) for each in fails(subject))

    def for_another_reason(subject: PoolSubject) -> Iterator[Draft]:
        yield from (replace(each, why="fleet.yaml expects 16.") for each in critical(subject))

    severity = {ImpactContext.APPROXIMATE: Severity.WARNING}
    (assumed,) = inspected([made(critical, severity=severity)], blocks(32)).findings
    (known,) = inspected([made(for_another_reason, severity=severity)], blocks(32)).findings

    assert (assumed.severity, assumed.assumptions) == (Severity.WARNING, ("router is approximate",))
    assert (known.severity, known.assumptions, known.context) == (Severity.CRITICAL, (), None)


def test_a_finding_names_the_routers_behind_which_it_would_be_worse_where_none_is_declared() -> None:
    severity = {
        ImpactContext.MODEL: Severity.INFO,
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.INFO,
    }
    rule = made(fails, severity=severity)
    declared = Policy(pools={"chat": Declared(router=Router.APPROXIMATE)})
    set_by_hand = Policy(rules={rule.id: RuleChange(severity=Severity.INFO)})
    (undeclared,) = inspected([rule], blocks(32)).findings
    (known,) = inspected([rule], blocks(32), policy=declared).findings
    (chosen,) = inspected([rule], blocks(32), policy=set_by_hand).findings

    assert (undeclared.severity, undeclared.assumptions) == (Severity.INFO, ())
    assert undeclared.severity_behind == ((ImpactContext.PREFIX_HASH, Severity.CRITICAL),)
    assert known.severity_behind == chosen.severity_behind == ()


def test_a_router_that_settings_show_is_not_declared_either() -> None:
    """Events are published, but a router that hashes prefixes may listen to them all the same."""
    severity = {
        ImpactContext.MODEL: Severity.INFO,
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.INFO,
    }
    publishing = {"settings": {BLOCKS: 32, "kv_events_config.enable_kv_cache_events": True}}
    (finding,) = inspected([made(fails, severity=severity)], publishing).findings

    assert (finding.severity, finding.assumptions) == (Severity.INFO, ())
    assert finding.severity_behind == ((ImpactContext.PREFIX_HASH, Severity.CRITICAL),)


def test_a_severity_that_the_operator_set_stays_whatever_is_assumed() -> None:
    policy = Policy(rules={"RT-91": RuleChange(severity=Severity.CRITICAL)})
    (finding,) = inspected([approximately()], blocks(32), policy=policy).findings

    assert (finding.severity, finding.assumptions) == (Severity.CRITICAL, ("router is approximate",))


def test_an_assumed_router_that_another_pool_really_has_is_no_assumption_for_both() -> None:
    """A rule on the whole fleet is as bad as in the pool where it is known."""

    def everywhere(fleet: FleetSubject) -> Iterator[Draft]:
        """Something is wrong.

        Why it matters:
            - approximate: The router guesses wrong.
        """
        for subject in fleet.subjects:
            yield from fails(subject)

    rule_ = made(everywhere, scope=Scope.FLEET, severity={ImpactContext.APPROXIMATE: Severity.CRITICAL})
    policy = Policy(pools={"chat": Declared(router=Router.APPROXIMATE)})
    entries = (blocks(32), blocks(16, pool="other"))

    (assumed,) = inspected([rule_], *entries).findings
    (known,) = inspected([rule_], *entries, policy=policy).findings

    assert (assumed.severity, assumed.assumptions) == (Severity.WARNING, ("router is approximate",))
    assert (known.severity, known.assumptions) == (Severity.CRITICAL, ())


def test_what_is_said_under_a_pools_name_goes_before_a_glob() -> None:
    policy = Policy(pools={"*": Declared(router=Router.KV_EVENTS), "chat": Declared(router=Router.NONE)})
    (finding,) = inspected([made(fails)], blocks(32), policy=policy).findings

    assert finding.severity is Severity.WARNING


def test_a_rule_that_raises_is_an_error_and_costs_the_others_nothing() -> None:
    def broken(_subject: object) -> Iterator[Draft]:
        """Raise."""
        raise KeyError("x" * 500)
        yield

    found = inspected([made(broken, id_="RT-90"), made(fails)], blocks(32))

    assert [each.kind for each in found.outcomes] == [OutcomeKind.ERROR, OutcomeKind.FAILED]
    assert found.outcomes[0].reason.startswith("KeyError: 'xxx")
    assert len(found.outcomes[0].reason) == 200


def test_what_nobody_tells_is_skipped_and_said() -> None:
    (outcome,) = inspected([made(fails)], {"replicas": 2}, {"state": "down"}).outcomes

    assert outcome.kind is OutcomeKind.SKIPPED
    assert outcome.reason == "cache_config.block_size: reported by 0 of 3 replicas."


def test_who_does_not_tell_is_counted_but_not_who_cannot() -> None:
    """A version that has no such setting owes no answer; a replica that is down might have one."""
    told = {"settings": {"cache_config.prefix_match_unit": 1}}
    old = {"settings": {"version": "0.12.0"}}
    (outcome,) = inspected(
        [made(passes, needs=("cache_config.prefix_match_unit",))], told, old, {"state": "down"}
    ).outcomes

    assert (outcome.unknown, outcome.total) == (1, 3)


def test_a_comparison_does_not_apply_to_a_single_replica() -> None:
    (outcome,) = inspected([made(passes, least=2)], blocks(16)).outcomes

    assert (outcome.kind, outcome.reason) == (
        OutcomeKind.NOT_APPLICABLE,
        "One replica: nothing to compare.",
    )


def test_a_rule_for_another_domain_does_not_apply() -> None:
    (outcome,) = inspected([made(fails, severity={ImpactContext.KV_STORE: Severity.INFO})], blocks(32)).outcomes

    assert (outcome.kind, outcome.reason) == (OutcomeKind.NOT_APPLICABLE, "Only for kv-store.")


def test_a_rule_can_be_disabled_made_milder_and_given_parameters() -> None:
    def with_parameter(subject: PoolSubject, *, wrong: int = 32) -> Iterator[Draft]:
        """Ask for a parameter."""
        for replica in subject.members:
            if subject.value(replica.id, BLOCKS) == wrong:
                yield Draft((replica.id,), plain("Wrong."), (), FIX)

    changes = {"RT-91": RuleChange(severity=Severity.INFO, parameters={"wrong": 16})}
    (finding,) = inspected([made(with_parameter)], blocks(16), policy=Policy(rules=changes)).findings
    off = inspected([made(fails)], blocks(32), policy=Policy(rules={"RT-91": RuleChange(enabled=False)}))

    assert finding.severity is Severity.INFO
    assert [each.reason for each in off.outcomes] == ["Disabled in fleet.yaml."]


def test_the_severity_of_one_case_goes_before_that_of_the_rule() -> None:
    def mild(_subject: object) -> tuple[Draft, ...]:
        """Be mild."""
        return (Draft((), plain("Mild."), (), FIX, severity=Severity.INFO),)

    (finding,) = inspected([made(mild)], blocks(16)).findings

    assert (finding.severity, finding.cohorts) == (Severity.INFO, ())


def test_prefill_is_paired_with_the_decode_pool_of_its_name_else_of_its_model() -> None:
    def both(pair: PairSubject) -> tuple[Draft, ...]:
        """Name the pair."""
        return (Draft(tuple(each.id for each in pair.all_replicas), plain("A pair."), (), FIX),)

    entries = [
        blocks(16, pool="a/prefill", role="prefill", served=["m"]),
        blocks(16, pool="a/decode", role="decode", served=["m"]),
        blocks(16, pool="p", role="prefill", served=["m", "x"]),
        blocks(16, pool="d", role="decode", served=["x"]),
        blocks(16, pool="lonely", role="decode", served=["y"]),
    ]
    found = inspected([made(both, scope=Scope.PAIR, severity={ImpactContext.DISAGGREGATED: Severity.INFO})], *entries)

    assert {each.pools for each in found.findings} == {("a/prefill", "a/decode"), ("p", "a/decode"), ("p", "d")}


def test_a_pool_that_is_declared_no_part_of_a_pair_is_none() -> None:
    def both(_pair: object) -> tuple[Draft, ...]:
        """Say so."""
        return (Draft((), plain("A pair."), (), FIX),)

    entries = [blocks(16, pool="a/prefill", role="prefill"), blocks(16, pool="a/decode", role="decode")]
    policy = Policy(pools={"a/decode": Declared(disaggregated=False)})

    assert not inspected([made(both, scope=Scope.PAIR)], *entries, policy=policy).outcomes


def test_a_rule_over_the_fleet_sees_replicas_of_no_pool_too() -> None:
    def unread(fleet: FleetSubject) -> tuple[Draft, ...]:
        """Name who was not read."""
        return (
            Draft(
                tuple(each.id for each in fleet.all_replicas if each.document is None),
                plain("Unread."),
                (),
                FIX,
            ),
        )

    found = inspected([made(unread, scope=Scope.FLEET)], blocks(16), {"state": "down"}, {"state": "down", "pool": None})
    (finding,) = found.findings

    assert len(finding.replicas) == 2
    assert finding.pools == ("chat",)
    assert finding.unknown == 2


def test_a_difference_along_a_rollout_is_one_step_milder_and_marked() -> None:
    old = {"settings": {BLOCKS: 16, "version": "0.31.0"}, "started_hours_ago": 90}
    new = {"settings": {BLOCKS: 32}, "started_hours_ago": 1}
    policy = Policy(pools={"chat": Declared(router=Router.KV_EVENTS)})
    going = inspected([made(fails)], {**old, "replicas": 3}, new, policy=policy)
    over = inspected([made(fails)], {**old, "replicas": 3}, {**new, "started_hours_ago": 20}, policy=policy)

    assert [(each.is_rollout, each.severity) for each in going.findings] == [(True, Severity.WARNING)]
    assert going.rollouts["chat"].replicas == ("http://chat-4:8000",)
    assert [(each.is_rollout, each.severity) for each in over.findings] == [(False, Severity.CRITICAL)]


def test_along_a_rollout_other_routers_are_named_only_where_it_would_still_be_worse_there() -> None:
    severity = {
        ImpactContext.MODEL: Severity.INFO,
        ImpactContext.PREFIX_HASH: Severity.WARNING,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
    }
    old = {"settings": {BLOCKS: 16, "version": "0.31.0"}, "started_hours_ago": 90, "replicas": 3}
    new = {"settings": {BLOCKS: 32}, "started_hours_ago": 1}
    (finding,) = inspected([made(fails, severity=severity)], old, new).findings

    assert (finding.is_rollout, finding.severity) == (True, Severity.INFO)
    assert finding.severity_behind == ((ImpactContext.KV_EVENTS, Severity.WARNING),)


def test_findings_are_sorted_worst_first() -> None:
    mild = made(fails, id_="RT-90", severity={ImpactContext.MODEL: Severity.INFO})
    found = inspected([mild, made(fails)], blocks(32), blocks(64, pool="other"))

    assert [(each.severity, each.subject) for each in found.findings] == [
        (Severity.WARNING, "chat"),
        (Severity.WARNING, "other"),
        (Severity.INFO, "chat"),
        (Severity.INFO, "other"),
    ]


def test_a_finding_keeps_its_id_while_it_says_the_same() -> None:
    first = inspected([made(fails)], blocks(16, replicas=3), blocks(32))
    later = inspected([made(fails)], blocks(16, replicas=5), blocks(32, replicas=2))
    other = inspected([made(fails)], blocks(16, replicas=3), blocks(64))

    assert first.findings[0].id == later.findings[0].id != other.findings[0].id


def test_what_is_suppressed_is_kept_apart_with_its_cohorts_counted_anew() -> None:
    until = builders.NOW.date() + timedelta(days=1)
    policy = Policy(suppressions=(Suppression("RT-91", "me", "known", until, replicas=("chat-4",), number=1),))
    found = inspected([made(fails)], blocks(16, replicas=3), blocks(32, replicas=2), policy=policy)

    assert [each.cohorts for each in found.findings] == [(CohortShare("chat", "B", ("http://chat-5:8000",)),)]
    assert [each.replicas for each in found.suppressed] == [("http://chat-4:8000",)]


def test_options_that_match_nothing_are_told() -> None:
    policy = Policy(
        pools={"caht": Declared(), "c*": Declared()},
        suppressions=(Suppression("RT-99", "me", "known", date(2027, 1, 1), number=1),),
    )

    assert inspected([made(passes)], blocks(16), policy=policy).notes == (
        "suppress[0] in fleet.yaml (RT-99, me) matches no finding; remove it.",
        "pools.caht in fleet.yaml matches no pool; correct or remove it.",
    )


@pytest.mark.parametrize("state", [State.REDACTED, State.UNKNOWN])
def test_what_was_not_told_is_never_a_value(state: State) -> None:
    entries = [blocks(16), {"settings": {BLOCKS: {"state": str(state)}}}]

    assert not inspected([made(fails)], *entries).findings


def test_who_does_not_report_what_a_rule_needs_is_counted_and_where_nobody_does_the_rule_is_skipped() -> None:
    def unsure(subject: PoolSubject) -> Iterator[Draft | NotEvaluated]:
        """Nothing is known."""
        yield NotEvaluated(tuple(each.id for each in subject.members), "seed: reported by 0 of 2 replicas.")

    def in_part(subject: PoolSubject) -> Iterator[Draft | NotEvaluated]:
        """Something is wrong, and something is not known."""
        yield NotEvaluated(tuple(each.id for each in subject.members)[:1])
        yield from fails(subject)

    (skipped,) = inspected([made(unsure)], blocks(16, replicas=2)).outcomes
    (passed,) = inspected([made(in_part)], blocks(16, replicas=2)).outcomes
    (failed,) = inspected([made(in_part)], blocks(32, replicas=2)).outcomes

    assert (skipped.kind, skipped.reason) == (OutcomeKind.SKIPPED, "seed: reported by 0 of 2 replicas.")
    assert (skipped.unknown, skipped.total) == (2, 2)
    assert (passed.kind, passed.unknown) == (OutcomeKind.PASSED, 1)
    assert (failed.kind, failed.unknown) == (OutcomeKind.FAILED, 1)
