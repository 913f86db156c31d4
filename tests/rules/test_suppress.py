"""Suppressions take exactly what they name, until their day is over; everything else stays as it was."""

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
from dashboard.rules.domain import ImpactContext
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import (
    Confidence,
    Draft,
    Evidence,
    Finding,
    Remedy,
    Severity,
    Suppression,
    tally_pools,
)
from dashboard.rules.policy import Policy, Suppressed, suppress
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import FleetSubject
from tests import builders

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
    """A finding on some replicas, by their names."""
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


def narrowed(finding: Finding, part: tuple[str, ...]) -> Finding:
    return replace(finding, replicas=part)


def sorted_out(findings: Iterable[Finding], *suppressions: Suppression) -> Suppressed:
    return suppress(findings, suppressions, TODAY, REPLICAS, narrowed)


def names(findings: Iterable[Finding]) -> list[list[str]]:
    return [[REPLICAS[each].name for each in finding.replicas] for finding in findings]


def test_without_suppressions_everything_stands() -> None:
    findings = [found("chat-0"), found("chat-1", rule="CO-01")]

    assert sorted_out(findings) == Suppressed(findings, [], [])


def test_a_suppression_of_the_rule_takes_the_whole_finding_and_says_whose_it_is() -> None:
    told = sorted_out([finding := found("chat-0", "chat-1"), other := found("chat-0", rule="CO-01")], suppression())

    assert told.active == [other]
    assert told.suppressed == [replace(finding, suppression=suppression())]
    assert told.unused == []


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
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
    ],
)
def test_pool_replicas_and_labels_narrow_it_all_at_once(limits: dict[str, Any], taken: list[str]) -> None:
    everybody = ["chat-0", "chat-1", "chat-4", "v6", "embed-0", "nowhere"]

    told = sorted_out([found(*everybody, pools=("chat", "embed"))], suppression(**limits))

    assert names(told.suppressed) == [taken]
    assert names(told.active) == [[each for each in everybody if each not in taken]]
    assert told.unused == []


@pytest.mark.parametrize(
    "limits",
    [
        {"rule": "CO-01"},
        {"pool": "embed"},
        {"pool": "CHAT"},
        {"replicas": ("chat-2",)},
        {"labels": {"site": "south"}},
        {"labels": {"rack": "8"}},
        {"pool": "embed", "replicas": ("chat-0",)},
    ],
)
def test_one_that_matches_nothing_takes_nothing_and_is_reported(limits: dict[str, Any]) -> None:
    findings = [found("chat-0", "chat-1")]

    assert sorted_out(findings, suppression(**limits)) == Suppressed(findings, [], [suppression(**limits)])


def test_it_holds_on_its_last_day_and_no_longer() -> None:
    finding = found("chat-0")

    assert sorted_out([finding], suppression(until=TODAY)).active == []
    assert sorted_out([finding], ended := suppression(until=YESTERDAY)).active == [replace(finding, expired=ended)]


def test_one_that_ended_splits_nothing_so_that_counts_are_as_without_it() -> None:
    ended = suppression(until=YESTERDAY, replicas=("chat-0",))

    told = sorted_out([finding := found("chat-0", "chat-1"), other := found("chat-1")], ended)

    assert told == Suppressed([replace(finding, expired=ended), other], [], [])


def test_one_that_ended_and_matches_nothing_any_more_is_reported_too() -> None:
    ended = suppression(until=YESTERDAY, replicas=("chat-4",))

    assert sorted_out([found("chat-0")], ended) == Suppressed([found("chat-0")], [], [ended])


@pytest.mark.parametrize("turn", [1, -1])
def test_a_renewed_one_goes_before_the_one_that_ended_wherever_it_stands(turn: int) -> None:
    entries = [suppression(until=YESTERDAY, number=1), renewed := suppression(until=TODAY, number=2)][::turn]

    told = sorted_out([finding := found("chat-0")], *entries)

    assert told == Suppressed([], [replace(finding, suppression=renewed)], [])


def test_what_a_renewed_one_leaves_says_that_the_other_ended() -> None:
    ended, renewed = suppression(until=YESTERDAY), suppression(replicas=("chat-0",))

    told = sorted_out([finding := found("chat-0", "chat-1")], ended, renewed)

    assert told.active == [replace(finding, replicas=(IDS["chat-1"],), expired=ended)]
    assert names(told.suppressed) == [["chat-0"]]


def test_what_the_one_that_ended_does_not_name_is_not_marked() -> None:
    """The renewed one took all that the ended one was about."""
    ended, renewed = suppression(until=YESTERDAY, replicas=("chat-0",)), suppression(replicas=("chat-0",))

    told = sorted_out([found("chat-0", "chat-1")], ended, renewed)

    assert [each.expired for each in told.active] == [None]


def test_of_several_that_ended_the_last_one_is_told() -> None:
    long_ago = suppression(until=YESTERDAY - timedelta(days=30), number=1)
    last = suppression(until=YESTERDAY, number=2)

    assert sorted_out([found("chat-0")], long_ago, last).active[0].expired == last


def test_several_share_a_finding_and_the_first_goes_before_the_second() -> None:
    first = suppression(replicas=("chat-0", "chat-1"), number=1)
    second = suppression(replicas=("chat-1", "chat-2"), number=2)

    told = sorted_out([found("chat-0", "chat-1", "chat-2", "chat-3")], first, second)

    assert names(told.active) == [["chat-3"]]
    assert names(told.suppressed) == [["chat-0", "chat-1"], ["chat-2"]]
    assert [each.suppression for each in told.suppressed] == [first, second]


def test_one_whose_replicas_another_took_is_not_called_unused() -> None:
    """Whether it matches does not hang on the order in which they are written."""
    assert (
        sorted_out([found("chat-0")], suppression(number=1), suppression(replicas=("chat-0",), number=2)).unused == []
    )


def test_two_entries_without_a_number_are_two() -> None:
    used, unused = suppression(pool="chat"), suppression(pool="embed")

    assert sorted_out([found("chat-0")], used, unused).unused == [unused]


@pytest.mark.parametrize(
    ("limits", "takes"),
    [
        ({}, True),
        ({"pool": "chat"}, True),
        ({"pool": "c*"}, True),
        ({"pool": "embed"}, False),
        ({"replicas": ("*",)}, False),
        ({"labels": {"site": "north"}}, False),
    ],
)
def test_a_finding_that_names_no_replica_is_matched_by_rule_and_pool(limits: dict[str, Any], *, takes: bool) -> None:
    told = sorted_out([found()], suppression(**limits))

    assert (len(told.active), len(told.suppressed), len(told.unused)) == ((0, 1, 0) if takes else (1, 0, 1))


def test_what_is_suppressed_in_one_pool_no_longer_counts_there() -> None:
    """A finding over the fleet is narrowed to the pools of the replicas that are left."""

    def shared(fleet: FleetSubject) -> Iterator[Draft]:
        """All replicas share something."""
        ids = tuple(each.id for each in fleet.all_replicas)
        yield Draft(ids, plain("Shared."), (Evidence("x", '"y"', State.REPORTED, ids),), Remedy("Part them."))

    made = rule("ID-99", {ImpactContext.MODEL: Severity.WARNING}, scope=Scope.FLEET, least=1)(shared)
    document = builders.document()
    members = [
        builders.replica("a-1", pool="a", document=document),
        builders.replica("b-1", pool="b", document=document),
    ]
    fleet = builders.fleet(members, [document])
    policy = Policy(suppressions=(suppression("ID-99", pool="a", number=1),))

    told = inspect_fleet([made], fleet.pools, fleet.replicas, fleet.documents, policy, builders.NOW)

    assert [each.pools for each in told.findings] == [("b",)]
    assert [each.pools for each in told.suppressed] == [("a",)]
    assert {pool: tally.warning for pool, tally in tally_pools(told).items()} == {"a": 0, "b": 1}


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
    """Every replica of every finding; a finding without one counts once."""
    return Counter((each.id, each.rule, replica) for each in findings for replica in each.replicas or ("",))


@given(findings_of, suppressions_of)
def test_suppressed_and_active_cover_exactly_what_was_found(
    findings: list[Finding], suppressions: list[Suppression]
) -> None:
    told = sorted_out(findings, *suppressions)

    assert pairs(told.active) + pairs(told.suppressed) == pairs(findings)
    assert all(each.suppression and each.suppression.until >= TODAY for each in told.suppressed)
    assert not any(each.suppression for each in told.active)


@given(findings_of, suppressions_of)
def test_findings_of_other_rules_stay_as_they_are(findings: list[Finding], suppressions: list[Suppression]) -> None:
    told = sorted_out(findings, *suppressions)
    named = {each.rule for each in suppressions}

    assert [each for each in told.active if each.rule not in named] == [f for f in findings if f.rule not in named]
    assert len(told.active) <= len(findings), "no count ever grows"


@given(findings_of, suppressions_of, st.randoms(use_true_random=False))
def test_what_stands_does_not_hang_on_the_order_of_suppressions(
    findings: list[Finding], suppressions: list[Suppression], random: Any
) -> None:
    told = sorted_out(findings, *suppressions)
    random.shuffle(mixed := list(suppressions))
    again = sorted_out(findings, *mixed)

    assert pairs(again.active) == pairs(told.active)
    assert pairs(again.suppressed) == pairs(told.suppressed)
    assert Counter(map(repr, again.unused)) == Counter(map(repr, told.unused))


@given(findings_of, suppressions_of)
def test_those_that_ended_take_nothing_and_mark_what_they_took(
    findings: list[Finding], suppressions: list[Suppression]
) -> None:
    ended = [replace(each, until=YESTERDAY) for each in suppressions]
    as_they_were = [replace(each, until=TODAY) for each in suppressions]

    told = sorted_out(findings, *ended)
    taken = {each.id for each in sorted_out(findings, *as_they_were).suppressed}

    assert [replace(each, expired=None) for each in told.active] == findings
    assert told.suppressed == []
    assert {each.id for each in told.active if each.expired} == taken


@given(findings_of, suppressions_of)
def test_unused_is_what_takes_nothing_alone(findings: list[Finding], suppressions: list[Suppression]) -> None:
    unused = sorted_out(findings, *suppressions).unused
    alone = [each for each in suppressions if not sorted_out(findings, replace(each, until=TODAY)).suppressed]

    assert unused == alone
