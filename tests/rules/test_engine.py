"""The engine gives every rule one outcome per subject, and completes drafts to findings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from dashboard.fleet.pieces import plain
from dashboard.rules.domain import ImpactContext, PoolDeclaration, Router
from dashboard.rules.findings import (
    CohortShare,
    Confidence,
    Draft,
    Evidence,
    Inspection,
    OutcomeKind,
    Remedy,
    Severity,
    Suppression,
    Tally,
    UnevaluatedReplicas,
    tally_replicas,
)
from dashboard.rules.policy import Policy, RuleChange
from dashboard.rules.registry import Rule, Scope, rule
from dashboard.rules.subject import FleetSubject, PairSubject, PoolSubject
from tests import builders
from tests.rules import case
from tests.rules.made_up import text_of

BLOCKS = "cache_config.block_size"
MODEL, HASHES, EVENTS, APPROXIMATE = (
    ImpactContext.MODEL,
    ImpactContext.PREFIX_HASH,
    ImpactContext.KV_EVENTS,
    ImpactContext.APPROXIMATE,
)
CRITICAL, WARNING, INFO = Severity
NOT_APPLICABLE = OutcomeKind.NOT_APPLICABLE
GUESSED = "If the router is approximate: the router guesses wrong."
ASSUMED = ("router is approximate",)
UNSET = ("seed is unset",)
TEXT = text_of(
    {
        "any pool": ("warning", "Clients notice."),
        "kv-events": ("critical", "The index notices."),
        "approximate": ("critical", "The router guesses wrong."),
    }
)


def declare(check: Any, severity: Mapping[ImpactContext, Severity] | None = None, **more: Any) -> Rule:
    """Declare a rule of these tests."""
    declared = rule(**{"id_": "RT-91", "text": TEXT, "needs": (BLOCKS,), "least": 1, **more})(check)
    return replace(declared, severity=severity or {MODEL: WARNING, EVENTS: CRITICAL})


def blocks_differ(subject: PoolSubject) -> Iterator[Draft]:
    """Block sizes differ from 16."""
    for value, replicas in subject.values(BLOCKS).items():
        if value.value != "16":
            yield draft_of(*replicas, evidence=(Evidence(BLOCKS, value.value, value.state, replicas),))


def nothing_differs(_subject: object) -> tuple[Draft, ...]:
    """Pass always."""
    return ()


def draft_of(*replicas: str, **more: Any) -> Draft:
    return Draft(replicas, **{"text": plain("Wrong."), "evidence": (), "remedy": Remedy("Do something."), **more})


def inspected(rules: Rule | list[Rule], *entries: dict[str, Any], policy: Policy | None = None) -> Inspection:
    return case.inspected(*case.built(entries), rules if isinstance(rules, list) else [rules], policy)


def blocks(size: int, **more: Any) -> dict[str, Any]:
    return {"settings": {BLOCKS: size}, **more}


@pytest.mark.parametrize(
    ("severity", "router", "change", "override", "expected"),
    [
        ({MODEL: WARNING, EVENTS: CRITICAL}, None, {}, None, (WARNING, "Clients notice.", ())),
        ({MODEL: WARNING, EVENTS: CRITICAL}, Router.KV_EVENTS, {}, None, (CRITICAL, "The index notices.", ())),
        ({MODEL: INFO, APPROXIMATE: CRITICAL}, None, {}, None, (WARNING, GUESSED, ASSUMED)),
        (
            {MODEL: INFO, APPROXIMATE: CRITICAL},
            Router.APPROXIMATE,
            {},
            None,
            (CRITICAL, "The router guesses wrong.", ()),
        ),
        ({APPROXIMATE: CRITICAL, MODEL: WARNING}, None, {}, None, (WARNING, "Clients notice.", ())),
        ({MODEL: CRITICAL}, None, {}, None, (CRITICAL, "Clients notice.", ())),
        ({MODEL: CRITICAL}, None, {"assumptions": UNSET}, None, (WARNING, "Clients notice.", UNSET)),
        ({MODEL: WARNING}, None, {"severity": INFO}, None, (INFO, "Clients notice.", ())),
        ({APPROXIMATE: WARNING}, None, {"severity": CRITICAL}, None, (WARNING, GUESSED, ASSUMED)),
        ({APPROXIMATE: WARNING}, None, {"severity": CRITICAL, "why": "Own."}, None, (CRITICAL, "Own.", ())),
        ({APPROXIMATE: WARNING}, None, {}, CRITICAL, (CRITICAL, GUESSED, ASSUMED)),
        ({MODEL: WARNING}, None, {}, INFO, (INFO, "Clients notice.", ())),
    ],
)
def test_the_severity_is_the_worst_context_s_and_a_warning_at_most_where_assumed_unless_the_operator_set_it(
    severity: Mapping[ImpactContext, Severity],
    router: Router | None,
    change: dict[str, Any],
    override: Severity | None,
    expected: tuple[Severity, str, tuple[str, ...]],
) -> None:
    def changed(subject: PoolSubject) -> Iterator[Draft]:
        yield from (replace(each, **change) for each in blocks_differ(subject))

    changed.__doc__ = blocks_differ.__doc__
    policy = Policy({"chat": PoolDeclaration(router=router)}, {"RT-91": RuleChange(severity=override)})
    (finding,) = inspected(declare(changed, severity), blocks(32), policy=policy).findings
    (plainly,) = inspected(declare(blocks_differ), blocks(32)).findings

    assert (finding.severity, finding.why, finding.assumptions) == expected
    assert (finding.confidence is Confidence.ASSUMED) == bool(finding.assumptions)
    assert (finding.context is None) == ("why" in change)
    assert finding.id == plainly.id, "severity and wording are no part of the id"


OTHERS = {MODEL: INFO, HASHES: CRITICAL, EVENTS: INFO}
PUBLISHING = {"settings": {BLOCKS: 32, "kv_events_config.enable_kv_cache_events": True}}


@pytest.mark.parametrize(
    ("entry", "policy", "behind"),
    [
        (blocks(32), Policy(), ((HASHES, CRITICAL),)),
        (PUBLISHING, Policy(), ((HASHES, CRITICAL),)),
        (blocks(32), Policy({"chat": PoolDeclaration(router=Router.APPROXIMATE)}), ()),
        (blocks(32), Policy(rules={"RT-91": RuleChange(severity=INFO)}), ()),
    ],
    ids=["assumed", "detected from settings", "declared", "severity set by the operator"],
)
def test_a_finding_lists_the_routers_behind_which_it_is_worse_where_none_is_declared(
    entry: dict[str, Any], policy: Policy, behind: object
) -> None:
    (finding,) = inspected(declare(blocks_differ, OTHERS), entry, policy=policy).findings

    assert (finding.severity, finding.assumptions) == (INFO, ())
    assert finding.severity_behind == behind


def test_a_rule_on_the_fleet_assumes_no_router_that_one_of_its_pools_declares() -> None:
    def everywhere(fleet: FleetSubject) -> Iterator[Draft]:
        for subject in fleet.subjects:
            yield from blocks_differ(subject)

    of_fleet = declare(everywhere, {APPROXIMATE: CRITICAL}, scope=Scope.FLEET)
    policy = Policy(pools={"chat": PoolDeclaration(router=Router.APPROXIMATE)})
    entries = (blocks(32), blocks(16, pool="other"))
    (assumed,) = inspected(of_fleet, *entries).findings
    (known,) = inspected(of_fleet, *entries, policy=policy).findings

    assert (assumed.severity, assumed.assumptions) == (WARNING, ASSUMED)
    assert (known.severity, known.assumptions) == (CRITICAL, ())


def test_an_error_in_one_rule_does_not_stop_the_others() -> None:
    def broken(_subject: object) -> Iterator[Draft]:
        raise KeyError("x" * 500)
        yield

    found = inspected([declare(broken, id_="RT-90"), declare(blocks_differ)], blocks(32))

    assert [each.kind for each in found.outcomes] == [OutcomeKind.ERROR, OutcomeKind.FAILED]
    assert found.outcomes[0].reason.startswith("KeyError: 'xxx")
    assert len(found.outcomes[0].reason) == 200


NOTHING_REPORTED = "cache_config.block_size: reported by 0 of 3 replicas."


@pytest.mark.parametrize(
    ("declared", "entries", "kind", "reason"),
    [
        (declare(nothing_differs), [blocks(16)], OutcomeKind.PASSED, ""),
        (declare(blocks_differ), [{"replicas": 2}, {"state": "down"}], OutcomeKind.SKIPPED, NOTHING_REPORTED),
        (declare(blocks_differ, least=2), [blocks(32)], NOT_APPLICABLE, "One replica: nothing to compare."),
        (declare(blocks_differ, {ImpactContext.KV_STORE: INFO}), [blocks(32)], NOT_APPLICABLE, "Only for kv-store."),
        (declare(blocks_differ, id_="RT-92"), [blocks(32)], NOT_APPLICABLE, "Disabled in fleet.yaml."),
    ],
)
def test_a_rule_without_a_finding_has_an_outcome_with_a_reason(
    declared: Rule, entries: list[dict[str, Any]], kind: OutcomeKind, reason: str
) -> None:
    policy = Policy(rules={"RT-92": RuleChange(enabled=False)})
    (outcome,) = inspected(declared, *entries, policy=policy).outcomes

    assert (outcome.kind, outcome.reason, outcome.findings) == (kind, reason, 0)


def test_replicas_that_do_not_report_a_setting_are_unknown_unless_their_version_lacks_it() -> None:
    path = "cache_config.prefix_match_unit"
    known, old = {"settings": {path: 1}}, {"settings": {"version": "0.12.0"}}
    (outcome,) = inspected(declare(nothing_differs, needs=(path,)), known, old, {"state": "down"}).outcomes

    assert (outcome.unknown, outcome.total) == (1, 3)


@pytest.mark.parametrize(("others", "unread", "silent"), [({"settings": {"seed": 0}}, 1, 0), ({"fresh": False}, 0, 1)])
def test_a_stale_replica_counts_as_read_where_no_other_one_is_fresh(
    others: dict[str, Any], unread: int, silent: int
) -> None:
    stale = {"fresh": False, "settings": {"version": "0.33.0"}}
    needing = declare(nothing_differs, needs=("seed",), least=0)
    (outcome,) = inspected(needing, {"settings": {"seed": 0}, **others}, stale).outcomes

    assert (outcome.unread, outcome.silent, outcome.unknown) == (unread, silent, 1)


def test_replicas_without_an_answer_are_unknown_beside_those_that_a_rule_cannot_evaluate() -> None:
    def unsure(subject: PoolSubject) -> Iterator[UnevaluatedReplicas]:
        yield UnevaluatedReplicas((subject.members[0].id,))

    (outcome,) = inspected(declare(unsure), blocks(16, replicas=2), {"state": "down"}).outcomes

    assert (outcome.unknown, outcome.unread, outcome.silent) == (2, 1, 1)


def test_a_rule_counts_replicas_that_it_cannot_evaluate_and_is_skipped_where_it_evaluates_none() -> None:
    def unsure(subject: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
        yield UnevaluatedReplicas(tuple(each.id for each in subject.members), "seed: reported by 0 of 2 replicas.")

    def partly(subject: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
        yield UnevaluatedReplicas(tuple(each.id for each in subject.members)[:1])
        yield from blocks_differ(subject)

    (skipped,) = inspected(declare(unsure), blocks(16, replicas=2)).outcomes
    (passed,) = inspected(declare(partly), blocks(16, replicas=2)).outcomes
    (failed,) = inspected(declare(partly), blocks(32, replicas=2)).outcomes

    assert (skipped.kind, skipped.reason) == (OutcomeKind.SKIPPED, "seed: reported by 0 of 2 replicas.")
    assert (skipped.unknown, skipped.total) == (2, 2)
    assert (passed.kind, passed.unknown) == (OutcomeKind.PASSED, 1)
    assert (failed.kind, failed.unknown) == (OutcomeKind.FAILED, 1)


def name_the_pair(pair: PairSubject) -> tuple[Draft, ...]:
    return (draft_of(*(each.id for each in pair.all_replicas)),)


def test_prefill_is_paired_with_the_decode_pool_of_its_name_else_of_its_model() -> None:
    entries = [
        blocks(16, pool="a/prefill", role="prefill", served=["m"]),
        blocks(16, pool="a/decode", role="decode", served=["m"]),
        blocks(16, pool="p", role="prefill", served=["m", "x"]),
        blocks(16, pool="d", role="decode", served=["x"]),
        blocks(16, pool="lonely", role="decode", served=["y"]),
    ]
    found = inspected(declare(name_the_pair, {ImpactContext.DISAGGREGATED: INFO}, scope=Scope.PAIR), *entries)

    assert {each.pools for each in found.findings} == {("a/prefill", "a/decode"), ("p", "a/decode"), ("p", "d")}


def test_pools_of_two_clusters_are_no_pair() -> None:
    entries = [
        blocks(16, pool="east/p", role="prefill", served=["m"], labels={"cluster": "east"}),
        blocks(16, pool="west/d", role="decode", served=["m"], labels={"cluster": "west"}),
        blocks(16, pool="east/d", role="decode", served=["m"], labels={"cluster": "east"}),
    ]
    found = inspected(declare(name_the_pair, {ImpactContext.DISAGGREGATED: INFO}, scope=Scope.PAIR), *entries)

    assert {each.pools for each in found.findings} == {("east/p", "east/d")}


def test_a_pool_declared_not_disaggregated_is_in_no_pair() -> None:
    entries = [blocks(16, pool="a/prefill", role="prefill"), blocks(16, pool="a/decode", role="decode")]
    policy = Policy(pools={"a/decode": PoolDeclaration(disaggregated=False)})

    assert not inspected(declare(name_the_pair, scope=Scope.PAIR), *entries, policy=policy).outcomes


@pytest.mark.parametrize(
    ("hours_ago", "expected"),
    [(1, (True, INFO, ((EVENTS, WARNING),))), (20, (False, INFO, ((HASHES, WARNING), (EVENTS, CRITICAL))))],
)
def test_a_difference_along_a_rollout_is_one_step_milder_behind_every_router(
    hours_ago: float, expected: tuple[bool, Severity, object]
) -> None:
    old = {"settings": {BLOCKS: 16, "version": "0.31.0"}, "started_hours_ago": 90, "replicas": 3}
    new = blocks(32, started_hours_ago=hours_ago)
    declared = declare(blocks_differ, {MODEL: INFO, HASHES: WARNING, EVENTS: CRITICAL})
    found = inspected(declared, old, new)
    (known,) = inspected(declared, old, new, policy=Policy({"chat": PoolDeclaration(router=Router.KV_EVENTS)})).findings
    (finding,) = found.findings

    assert (finding.is_rollout, finding.severity, finding.severity_behind) == expected
    assert known.severity is (WARNING if finding.is_rollout else CRITICAL)
    assert [each.replicas for each in found.rollouts.values()] == [("http://chat-4:8000",)] * finding.is_rollout


def test_findings_are_sorted_worst_first() -> None:
    mild = declare(blocks_differ, {MODEL: INFO}, id_="RT-90")
    found = inspected([mild, declare(blocks_differ)], blocks(32), blocks(64, pool="other"))

    assert [(each.severity, each.subject) for each in found.findings] == [
        (WARNING, "chat"),
        (WARNING, "other"),
        (INFO, "chat"),
        (INFO, "other"),
    ]


def test_the_id_of_a_finding_depends_on_values_and_not_on_replicas() -> None:
    first = inspected(declare(blocks_differ), blocks(16, replicas=3), blocks(32))
    later = inspected(declare(blocks_differ), blocks(16, replicas=5), blocks(32, replicas=2))
    other = inspected(declare(blocks_differ), blocks(16, replicas=3), blocks(64))

    assert first.findings[0].id == later.findings[0].id != other.findings[0].id


def test_the_active_part_of_a_suppressed_finding_counts_its_own_cohorts() -> None:
    until = builders.NOW.date() + timedelta(days=1)
    policy = Policy(suppressions=(Suppression("RT-91", "me", "known", until, replicas=("chat-4",), number=1),))
    found = inspected(declare(blocks_differ), blocks(16, replicas=3), blocks(32, replicas=2), policy=policy)

    assert [each.cohorts for each in found.findings] == [(CohortShare("chat", "B", ("http://chat-5:8000",)),)]
    assert [each.replicas for each in found.suppressed] == [("http://chat-4:8000",)]


def test_options_that_match_nothing_have_a_note() -> None:
    policy = Policy(
        pools={"caht": PoolDeclaration(), "c*": PoolDeclaration()},
        suppressions=(Suppression("RT-99", "me", "known", date(2027, 1, 1), number=1),),
    )

    assert inspected(declare(nothing_differs), blocks(16), policy=policy).notes == (
        "suppress[0] in fleet.yaml (RT-99, me) matches no finding; remove it.",
        "pools.caht in fleet.yaml matches no pool; correct or remove it.",
    )


def test_a_declaration_without_the_cluster_has_the_name_with_it() -> None:
    found = inspected(
        declare(nothing_differs), blocks(16, pool="eu/chat"), policy=Policy(pools={"chat": PoolDeclaration()})
    )

    assert found.notes == ("pools.chat in fleet.yaml matches no pool; write '*/chat' for the pools of all clusters.",)


NAMED, FIRST, SECOND = (
    PoolDeclaration(router=router) for router in (Router.NONE, Router.KV_EVENTS, Router.APPROXIMATE)
)


@pytest.mark.parametrize(
    ("pool", "options"),
    [
        ("chat-70b", NAMED),
        ("chat-8b", FIRST),
        ("embed", SECOND),
        ("CHAT-8B", SECOND),
        ("[odd]", NAMED),
    ],
)
def test_the_options_of_a_pool_are_under_its_name_else_under_the_first_glob(
    pool: str, options: PoolDeclaration
) -> None:
    policy = Policy(pools={"chat-*": FIRST, "*": SECOND, "chat-70b": NAMED, "[odd]": NAMED})

    assert policy.declared(pool) == options
    assert Policy(pools={"other": NAMED}).declared(pool) == PoolDeclaration()


def test_findings_and_unknowns_are_counted_per_replica_per_pool_and_for_the_fleet() -> None:
    entries = [
        blocks(16, replicas=3),
        blocks(32),
        {"state": "down"},
        {"pool": "unreported", "replicas": 2},
    ]
    replicas, _ = case.built(entries)
    found = inspected(declare(blocks_differ), *entries, policy=Policy({"*": PoolDeclaration(router=Router.KV_EVENTS)}))
    by_replica = tally_replicas(found, replicas)

    assert found.tally == Tally(critical=1, unknown=1)
    assert found.tallies == {"chat": Tally(critical=1), "unreported": Tally(unknown=1)}
    assert by_replica["http://chat-4:8000"].worst is CRITICAL
    assert by_replica["http://chat-1:8000"] == Tally()
    assert by_replica["http://chat-5:8000"] == Tally(unknown=1)
    assert Tally(warning=2, info=1).worst is WARNING
    assert Tally(unknown=3).worst is None
