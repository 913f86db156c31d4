"""A suppression covers the replicas that it names until it expires; all other findings stay active."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import State
from dashboard.fleet.pieces import plain
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import (
    Confidence,
    Draft,
    Evidence,
    Finding,
    Remedy,
    Severity,
    Suppression,
)
from dashboard.rules.policy import FleetData, Policy, suppress, unused_suppressions
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import FleetSubject
from tests import builders
from tests.rules.made_up import text_of

TODAY = builders.NOW.date()
YESTERDAY = TODAY - timedelta(days=1)
REPLICAS = {
    each.id: each
    for each in (
        *(builders.replica(f"chat-{n}", labels={"site": "north" if n < 3 else "south", "rack": "7"}) for n in range(5)),
        *(builders.replica(f"embed-{n}", pool="embed", labels={"site": "north"}) for n in range(2)),
        builders.replica("v6", pool="chat", id="http://[::1]:8000"),
        builders.down("nowhere", pool=None),
    )
}
IDS = {each.name: each.id for each in REPLICAS.values()}


def found(*names: str, rule: str = "RT-01", pools: tuple[str, ...] = ("chat",), **more: Any) -> Finding:
    """A finding on the replicas of these names."""
    given: dict[str, Any] = {
        "id": f"{rule}{names}",
        "severity": Severity.WARNING,
        "confidence": Confidence.REPORTED,
        "subject": "chat",
        "cohorts": (),
        "text": plain("Wrong."),
        "why": "",
        "remedy": Remedy("Do something."),
        "evidence": (),
    }
    return Finding(rule=rule, pools=pools, replicas=tuple(IDS[name] for name in names), **{**given, **more})


def suppression(rule: str = "RT-01", *, until: date = TODAY, **more: Any) -> Suppression:
    return Suppression(rule, "kv-team", "known", until, **more)


def under(*suppressions: Suppression) -> FleetData:
    return FleetData(replicas=tuple(REPLICAS.values()), policy=Policy(suppressions=suppressions))


def applied(findings: Iterable[Finding], *suppressions: Suppression) -> tuple[list[Finding], list[Finding]]:
    """The active and the suppressed findings, on whatever cohorts."""
    both = suppress(findings, under(*suppressions), (), TODAY)
    active, suppressed = ([replace(each, cohorts=()) for each in side] for side in both)
    return active, suppressed


def names(findings: Iterable[Finding]) -> list[list[str]]:
    return [[REPLICAS[each].name for each in finding.replicas] for finding in findings]


EVERY = ["chat-0", "chat-1", "chat-4", "v6", "embed-0", "nowhere"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, EVERY),
        ({"pool": "chat"}, ["chat-0", "chat-1", "chat-4", "v6"]),
        ({"pool": "emb*"}, ["embed-0"]),
        ({"replicas": ("chat-1",)}, ["chat-1"]),
        ({"replicas": ("http://chat-1:8000", "embed-*")}, ["chat-1", "embed-0"]),
        ({"replicas": ("chat-[04]",)}, ["chat-0", "chat-4"]),
        ({"replicas": ("http://[::1]:8000",)}, ["v6"]),
        ({"labels": {"site": "north"}}, ["chat-0", "chat-1", "embed-0"]),
        ({"labels": {"site": "north", "rack": "7"}}, ["chat-0", "chat-1"]),
        ({"pool": "chat", "labels": {"site": "north"}, "replicas": ("*-0", "*-4")}, ["chat-0"]),
        ({"replicas": ("nowhere",)}, ["nowhere"]),
        ({"rule": "CO-01"}, []),
        ({"pool": "CHAT"}, []),
        ({"replicas": ("chat-2",)}, []),
        ({"labels": {"rack": "8"}}, []),
        ({"pool": "embed", "replicas": ("chat-0",)}, []),
    ],
)
def test_rule_pool_replicas_and_labels_must_all_match(limits: dict[str, Any], expected: list[str]) -> None:
    other = found("chat-0", rule="CP-01")
    findings = [found(*EVERY, pools=("chat", "embed")), other]
    active, suppressed = applied(findings, own := suppression(**limits))
    rest = [each for each in EVERY if each not in expected]

    assert names(suppressed) == ([expected] if expected else [])
    assert names(active) == [*([rest] if rest else []), ["chat-0"]]
    assert active[-1] == other
    assert [each.suppression for each in suppressed] == [own] * bool(expected)
    assert unused_suppressions(findings, under(own)) == [own] * (not expected)


FIRST, SECOND = (suppression(replicas=(f"chat-{n}", f"chat-{n + 1}"), number=n + 1) for n in range(2))
EXPIRED, LONG_EXPIRED = (suppression(until=YESTERDAY - timedelta(days=days)) for days in (0, 30))
EXPIRED_HERE = suppression(until=YESTERDAY, replicas=("chat-0",))
RENEWED, RENEWED_HERE = suppression(number=2), suppression(replicas=("chat-0",))


@pytest.mark.parametrize(
    ("suppressions", "active", "suppressed"),
    [
        ([], {"chat-0 chat-1": None}, {}),
        ([EXPIRED], {"chat-0 chat-1": EXPIRED}, {}),
        ([EXPIRED_HERE], {"chat-0 chat-1": EXPIRED_HERE}, {}),
        ([LONG_EXPIRED, EXPIRED], {"chat-0 chat-1": EXPIRED}, {}),
        ([EXPIRED, RENEWED], {}, {"chat-0 chat-1": RENEWED}),
        ([RENEWED, EXPIRED], {}, {"chat-0 chat-1": RENEWED}),
        ([EXPIRED, RENEWED_HERE], {"chat-1": EXPIRED}, {"chat-0": RENEWED_HERE}),
        ([EXPIRED_HERE, RENEWED_HERE], {"chat-1": None}, {"chat-0": RENEWED_HERE}),
        ([FIRST, SECOND], {}, {"chat-0 chat-1": FIRST}),
        ([SECOND, FIRST], {}, {"chat-1": SECOND, "chat-0": FIRST}),
    ],
)
def test_the_first_unexpired_suppression_applies_and_the_last_expired_one_is_marked(
    suppressions: list[Suppression],
    active: dict[str, Suppression | None],
    suppressed: dict[str, Suppression],
) -> None:
    findings = [found("chat-0", "chat-1")]
    left, covered = applied(findings, *suppressions)

    assert dict(zip(map(" ".join, names(left)), (each.expired for each in left), strict=True)) == active
    assert dict(zip(map(" ".join, names(covered)), (each.suppression for each in covered), strict=True)) == suppressed
    assert unused_suppressions(findings, under(*suppressions)) == []


@pytest.mark.parametrize(
    ("limits", "is_suppressed"),
    [
        ({}, True),
        ({"pool": "c*"}, True),
        ({"pool": "embed"}, False),
        ({"replicas": ("*",)}, False),
        ({"labels": {"site": "north"}}, False),
    ],
)
def test_a_finding_without_replicas_is_matched_by_rule_and_pool(limits: dict[str, Any], *, is_suppressed: bool) -> None:
    active, suppressed = applied([found()], entry := suppression(**limits))

    assert (len(suppressed), len(active)) == ((1, 0) if is_suppressed else (0, 1))
    assert unused_suppressions([found()], under(entry)) == [entry] * (not is_suppressed)


def test_a_finding_on_the_fleet_is_suppressed_in_one_of_its_pools() -> None:
    def shared(fleet: FleetSubject) -> Iterator[Draft]:
        """Replicas share something."""
        ids = tuple(each.id for each in fleet.all_replicas)
        yield Draft(ids, plain("Shared."), (Evidence("x", '"y"', State.REPORTED, ids),), Remedy("Separate them."))

    declared = rule("ID-99", text_of({"any pool": ("warning", "They collide.")}), scope=Scope.FLEET, least=1)(shared)
    document = builders.document()
    members = [builders.replica(f"{pool}-1", pool=pool, document=document) for pool in ("a", "b")]
    fleet = builders.fleet(members, [document])
    policy = Policy(suppressions=(suppression("ID-99", pool="a", number=1),))

    result = inspect_fleet([declared], replace(fleet, policy=policy), builders.NOW)

    assert [each.pools for each in result.findings] == [("b",)]
    assert [each.pools for each in result.suppressed] == [("a",)]
    assert {pool: tally.warning for pool, tally in result.tallies.items()} == {"a": 0, "b": 1}


members_of = st.lists(st.sampled_from(sorted(IDS)), unique=True, max_size=5)
rules = st.sampled_from(["RT-01", "CO-01", "ID-02"])
findings_of = st.lists(
    st.builds(
        lambda rule, members, pools: found(*members, rule=rule, pools=tuple(pools)),
        rules,
        members_of,
        st.lists(st.sampled_from(["chat", "embed"]), unique=True),
    ),
    max_size=6,
)
suppressions_of = st.lists(
    st.builds(
        suppression,
        rules,
        until=st.sampled_from([YESTERDAY - timedelta(days=9), YESTERDAY, TODAY, TODAY + timedelta(days=9)]),
        pool=st.sampled_from([None, "chat", "embed", "*"]),
        replicas=st.sampled_from([(), ("chat-*",), ("*-0", "nowhere"), ("http://[::1]:8000",)]),
        labels=st.sampled_from([{}, {"site": "north"}, {"site": "north", "rack": "7"}]),
        number=st.integers(1, 99),
    ),
    max_size=5,
)


def pairs(findings: Iterable[Finding]) -> Counter[tuple[str, str, str]]:
    """Count each replica of each finding; a finding without replicas counts once."""
    return Counter((each.id, each.rule, replica) for each in findings for replica in each.replicas or ("",))


@given(findings_of, suppressions_of, st.randoms(use_true_random=False))
def test_active_and_suppressed_are_together_what_was_found_in_any_order_of_suppressions(
    findings: list[Finding], suppressions: list[Suppression], random: Any
) -> None:
    shuffled = random.sample(suppressions, len(suppressions))
    active, suppressed = applied(findings, *suppressions)
    named = {each.rule for each in suppressions}

    assert pairs(active) + pairs(suppressed) == pairs(findings)
    assert all(each.suppression and each.suppression.until >= TODAY for each in suppressed)
    assert not any(each.suppression for each in active)
    assert [each for each in active if each.rule not in named] == [f for f in findings if f.rule not in named]
    assert len(active) <= len(findings)
    assert list(map(pairs, applied(findings, *shuffled))) == [pairs(active), pairs(suppressed)]
    unused = (unused_suppressions(findings, under(*each)) for each in (shuffled, suppressions))
    assert len({repr(sorted(map(repr, each))) for each in unused}) == 1


@given(findings_of, suppressions_of)
def test_expired_suppressions_mark_what_they_suppressed_before(
    findings: list[Finding], suppressions: list[Suppression]
) -> None:
    active, suppressed = applied(findings, *(replace(each, until=YESTERDAY) for each in suppressions))
    _, before = applied(findings, *(replace(each, until=TODAY) for each in suppressions))

    assert [replace(each, expired=None) for each in active] == findings
    assert suppressed == []
    assert {each.id for each in active if each.expired} == {each.id for each in before}


@given(findings_of, suppressions_of)
def test_a_suppression_is_unused_where_it_suppresses_nothing_alone(
    findings: list[Finding], suppressions: list[Suppression]
) -> None:
    alone = [each for each in suppressions if not applied(findings, replace(each, until=TODAY))[1]]

    assert unused_suppressions(findings, under(*suppressions)) == alone


def test_what_a_suppressed_finding_explains_is_suppressed_with_it() -> None:
    """On its replicas alone, under the same entry."""
    cause, effect = found("chat-0", "chat-1"), found("chat-0", "chat-4", rule="EF-01", explained_by=("RT-01",))
    active, suppressed = applied([effect, cause, found("chat-4")], suppression(replicas=("chat-0", "chat-1")))

    assert [(each.rule, names([each])) for each in suppressed] == [
        ("RT-01", [["chat-0", "chat-1"]]),
        ("EF-01", [["chat-0"]]),
    ]
    assert suppressed[0].suppression is suppressed[1].suppression
    assert [(each.rule, names([each])) for each in active] == [("EF-01", [["chat-4"]]), ("RT-01", [["chat-4"]])]


def test_what_an_active_finding_explains_too_stays_active() -> None:
    effect = found("chat-0", rule="EF-01", explained_by=("RT-01", "RT-13"))
    both = [found("chat-0"), found("chat-0", rule="RT-13")]

    assert names(applied([effect, *both], suppression())[0]) == [["chat-0"], ["chat-0"]]
    later = suppression("RT-13", until=TODAY + timedelta(days=1))
    active, suppressed = applied([effect, *both], later, suppression())
    assert active == []
    assert suppressed[-1].rule == "EF-01"
    assert suppressed[-1].suppression == suppression()


def test_a_suppression_of_what_explains_nothing_leaves_it_active() -> None:
    effect = found("chat-0", rule="EF-01", explained_by=("RT-13",))

    assert applied([found("chat-0"), effect], suppression())[0] == [effect]
