"""Findings become alerts: equal labels are one alert, which lasts until a poll proves its end."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.notify.alerts import (
    MOST_LISTED,
    MOST_POOLS,
    Alert,
    AlertChanges,
    AlertEvent,
    AlertKey,
    alerts_of,
    compare_alerts,
)
from dashboard.rules.findings import Finding
from dashboard.rules.policy import Policy
from tests import builders, findings_builder
from tests.builders import NOW
from tests.notify.polls import CRITICAL, DOCUMENT, FLEET, INFO, POLL, WARNING, alerts, lived, lost, poll, problem

BLOCKS = AlertKey("RT-01", "chat", "critical")


def steps(*fleets: Fleet) -> list[AlertChanges]:
    """What each poll of a sequence changed."""
    found: list[AlertChanges] = []
    known: dict[AlertKey, Alert] = {}
    for fleet in lived(*fleets):
        assert fleet.polled_at is not None
        found.append(compare_alerts(known, alerts_of(fleet, fleet.polled_at), fleet, fleet.polled_at))
        known = found[-1].firing
    return found


def test_findings_with_equal_labels_are_one_alert_that_lists_them() -> None:
    (alert,) = alerts(poll(0, problem(), problem("chat-02", path="cache_config.cache_dtype", sentence="Another one.")))

    assert alert.key == BLOCKS
    assert alert.annotations["findings"] == "2"
    assert alert.annotations["replicas"] == "2"
    assert alert.annotations["summary"].startswith("chat: 2 findings, such as: Block size is 32")
    assert alert.annotations["description"].splitlines() == [
        "Block size is 32 instead of 16, which 2 of 3 replicas have. (A x1 (chat-01))",
        "Another one. (A x1 (chat-02))",
    ]


def test_other_rules_pools_and_severities_are_other_alerts() -> None:
    found = alerts(poll(0, problem(), problem("embed-01"), problem(severity=WARNING), problem(rule="RT-05")))

    assert [each.key for each in found] == [
        BLOCKS,
        AlertKey("RT-01", "embed", "critical"),
        AlertKey("RT-01", "chat", "warning"),
        AlertKey("RT-05", "chat", "critical"),
    ]


def test_a_finding_of_a_rule_on_the_whole_fleet_has_its_pool_where_it_is_one() -> None:
    """As the label `pool` of /metrics and the page Findings have it."""
    one = problem(rule="ID-05", subject="fleet", sentence="1 of 3 replicas of this pool is unreachable.")
    two = replace(problem("embed-01", rule="ID-02", subject="fleet"), pools=("chat", "embed"))
    none = replace(problem(rule="ID-07", subject="fleet"), pools=())
    found = alerts(poll(0, one, two, none))

    assert [each.pool for each in found] == ["chat", "fleet", "fleet"]
    assert found[0].annotations["summary"] == "chat: 1 of 3 replicas of this pool is unreachable."


def test_an_alert_has_the_cluster_that_its_pools_are_in() -> None:
    placed = (("a", "east", "east/chat"), ("b", "east", "east/embed"), ("c", "west", "west/chat"))
    replicas = [
        builders.replica(name, pool=pool, document=DOCUMENT, labels={"cluster": cluster})
        for name, cluster, pool in placed
    ]
    fleet = builders.fleet(replicas, [DOCUMENT])
    found = [findings_builder.finding(fleet, names) for names in (["a"], ["a", "b"], ["a", "c"])]
    clusters = {each.pool: each.cluster for each in alerts(poll(0, *found, fleet=fleet))}

    assert clusters["east/chat"] == "east"
    assert sorted(clusters.values()) == ["", "east", "east"]


def test_a_long_list_is_cut_and_counted() -> None:
    (alert,) = alerts(poll(0, *[problem(sentence=f"Number {number}.") for number in range(MOST_LISTED + 3)]))

    assert alert.annotations["description"].splitlines()[-1] == "3 more"
    assert len(alert.annotations["description"].splitlines()) == MOST_LISTED + 1


def test_hostile_text_becomes_one_bounded_plain_line_in_labels() -> None:
    pool = "a\n\u202e" + "x" * 1_000
    fleet = builders.fleet([builders.replica("odd", pool=pool, document=DOCUMENT)], [DOCUMENT])
    found = findings_builder.finding(fleet, ["odd"], sentence="\x1b[2J" + "y" * 100_000, why="z" * 100_000)
    (alert,) = alerts(poll(0, found, fleet=fleet))

    assert len(alert.pool) == 200
    assert alert.pool.isprintable()
    assert "\x1b" not in alert.annotations["description"]
    assert max(map(len, alert.annotations.values())) <= 2_000


def test_pools_beyond_the_first_share_one_label_so_that_alerts_are_bounded() -> None:
    pools = [f"pool-{number:03}" for number in range(MOST_POOLS + 5)]
    fleet = builders.fleet([builders.replica(each, pool=each, document=DOCUMENT) for each in pools], [DOCUMENT])
    found = alerts(poll(0, *[findings_builder.finding(fleet, [each]) for each in pools], fleet=fleet))

    assert len(found) == MOST_POOLS + 1
    assert found[-1].pool == "other"
    assert found[-1].annotations["findings"] == "5"


def test_an_alert_begins_lasts_and_ends_at_once() -> None:
    first, second, third, last = steps(poll(0), poll(1, problem()), poll(2, problem()), poll(3))

    assert (first.new, first.ended) == ((), ())
    assert [each.key for each in second.new] == [BLOCKS]
    assert (third.new, third.ended) == ((), ())
    (ended,) = last.ended
    assert (ended.since, ended.until, ended.event) == (NOW + POLL, NOW + 3 * POLL, AlertEvent.RESOLVED)


def test_an_alert_begins_with_the_first_of_its_findings() -> None:
    further = problem(path="cache_config.cache_dtype")
    *_, last = lived(poll(0), poll(1, problem()), poll(2, problem(), further))
    (alert,) = alerts(last)

    assert (alert.since, alert.at) == (NOW + POLL, NOW + 2 * POLL)


def test_while_an_alert_lasts_its_text_changes_and_its_begin_does_not() -> None:
    *_, last = steps(poll(0, problem()), poll(1, problem()), poll(2, problem(sentence="64 instead of 16.")))
    alert = last.firing[BLOCKS]

    assert alert.annotations["summary"] == "chat: 64 instead of 16."
    assert (alert.since, alert.at) == (NOW, NOW + 2 * POLL)
    assert last.new == ()


def test_a_further_finding_of_an_alert_is_new() -> None:
    *_, last = steps(poll(0, problem()), poll(1, problem(), problem(path="cache_config.cache_dtype")))

    assert [each.key for each in last.new] == [BLOCKS]
    assert last.new[0].since == NOW


def test_another_severity_ends_one_alert_and_begins_the_other() -> None:
    *_, last = steps(poll(0, problem(severity=WARNING)), poll(1, problem()))

    assert [each.severity for each in last.new] == [CRITICAL]
    assert [each.severity for each in last.ended] == [WARNING]


def test_a_suppressed_alert_ends_as_suppressed_with_owner_and_date_in_place_of_what_to_do() -> None:
    hidden = replace(problem(), suppression=findings_builder.suppression(owner="ann", reason="canary"))
    _, last, after = steps(poll(0, problem()), poll(1, suppressed=(hidden,)), poll(2))
    (ended,) = last.ended

    assert (ended.until, ended.event) == (NOW + POLL, AlertEvent.SUPPRESSED)
    assert ended.annotations["suppression"] == "Suppressed until 2026-12-24 by ann: canary"
    assert "action" not in ended.annotations
    assert (after.new, after.ended) == ((), ())


def test_a_suppression_ends_an_alert_also_while_its_replica_cannot_be_read() -> None:
    gone = replace(lost(FLEET, "chat-01"), policy=Policy(suppressions=(findings_builder.suppression(),)))
    (ended,) = steps(poll(0, problem()), poll(1, fleet=gone))[-1].ended

    assert ended.event is AlertEvent.SUPPRESSED


def test_what_goes_on_with_another_severity_is_not_suppressed() -> None:
    other = problem("chat-02", path="cache_config.cache_dtype")
    hidden = replace(other, suppression=findings_builder.suppression())
    before, after = poll(0, problem(), other), poll(1, problem(severity=WARNING), suppressed=(hidden,))

    assert [each.event for each in steps(before, after)[-1].ended] == [AlertEvent.RESOLVED]


def test_nothing_ends_while_a_replica_of_it_cannot_be_read() -> None:
    gone = lost(FLEET, "chat-01")
    _, held, ended = steps(poll(0, problem()), poll(1, fleet=gone), poll(2))

    assert [*held.firing] == [BLOCKS]
    assert [each.key for each in ended.ended] == [BLOCKS]


def test_an_alert_ends_when_its_finding_ends_although_it_comes_and_goes() -> None:
    recurs = problem(rule="ID-15", path="findings.RT-01", severity=INFO)
    back = steps(poll(0, problem()), poll(1, recurs), poll(2, problem(), recurs), poll(3, recurs))

    assert [[each.rule for each in step.new] for step in back] == [["RT-01"], ["ID-15"], ["RT-01"], []]
    assert [[each.rule for each in step.ended] for step in back] == [[], ["RT-01"], [], ["RT-01"]]


def test_a_clock_that_jumps_back_never_ends_an_alert_before_its_begin() -> None:
    (ended,) = steps(poll(10, problem()), poll(3))[-1].ended
    assert ended.until == ended.since


NAMES = ("chat-01", "chat-02", "embed-01")
PROBLEMS = st.lists(
    st.builds(problem, st.sampled_from(NAMES), severity=st.sampled_from([CRITICAL, WARNING])), max_size=4
)


@given(st.lists(st.tuples(PROBLEMS, st.sets(st.sampled_from(NAMES))), max_size=8))
def test_every_alert_that_fires_ends_and_none_ends_that_did_not_fire(
    polls: Iterable[tuple[list[Finding], set[str]]],
) -> None:
    fleets = [poll(number, *found, fleet=lost(FLEET, *gone)) for number, (found, gone) in enumerate(polls)]
    firing: set[AlertKey] = set()
    for step in steps(*fleets, poll(len(fleets))):
        new, ended = {each.key for each in step.new}, {each.key for each in step.ended}
        assert ended <= firing
        assert not ended & {*step.firing}
        assert new <= {*step.firing}
        assert {*step.firing} - firing <= new
        firing = {*step.firing}
    assert not firing
