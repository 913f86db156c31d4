"""What traffic shows begins when a whole window shows it, and ends when a whole window does not."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet, assemble, inspected
from dashboard.analysis.flapping import Watch
from dashboard.analysis.plan import plan_of, planned
from dashboard.analysis.symptoms import SymptomWatch, with_symptoms
from dashboard.fleet.history import RecentEvents, Symptom, UsualTraffic
from dashboard.fleet.traffic import Traffic
from dashboard.rules.domain import PoolDeclaration, Router
from dashboard.rules.findings import Finding, OutcomeKind, Severity, Suppression
from dashboard.rules.policy import Policy
from tests import builders
from tests.analysis.whatif.pools import pool_of
from tests.builders import NOW

WINDOW = 15  # minutes
RATE, POOL_RATE = "traffic.prefix_hit_rate", "traffic.pool_prefix_hit_rate"
ODD = builders.replica("chat-9").id
CACHING = "cache_config.enable_prefix_caching"
ROUTED = Policy({"*": PoolDeclaration(router=Router.APPROXIMATE)})


def used(hits: float, minutes: float = WINDOW, requests: float = 500) -> Traffic:
    return Traffic(60 * minutes, queries=1_000_000, hits=hits, prompt_tokens=1_000_000, requests=requests)


def pool(odd: float | None, minutes: float = WINDOW, odd_minutes: float | None = None, **fields: Any) -> Fleet:
    """Four replicas: three find 62% of their tokens, chat-9 these hits; None: it was not read twice."""
    usual_hits = fields.pop("usual_hits", 620_000)
    read = pool_of(fields.pop("settings", {}), fields.pop("usual", {}), **fields)
    traffic = {each.id: {0: used(usual_hits, minutes)} for each in read.replicas if each.id != ODD}
    if odd is not None:
        traffic[ODD] = {0: used(odd, minutes if odd_minutes is None else odd_minutes)}
    return replace(read, traffic=traffic, traffic_window=60.0 * WINDOW)


def watched(polls: Mapping[float, Fleet], watch: SymptomWatch | None = None) -> list[Symptom | None]:
    """What is known of the hit rate of chat-9 after each poll, at these minutes."""
    watch = watch or SymptomWatch()
    return [
        watch.add_poll(read, NOW + minute * timedelta(minutes=1)).get(RATE, {}).get(ODD)
        for minute, read in polls.items()
    ]


def low(read: Fleet) -> Finding:
    (found,) = (each for each in read.inspection.findings if each.rule == "EF-01")
    return found


def shown(read: Fleet) -> Fleet:
    """The fleet with what its traffic shows at once."""
    return assemble(with_symptoms(read, NOW), NOW)


def test_it_begins_with_the_first_whole_window() -> None:
    assert [each is not None for each in watched({1: pool(0, 1), 14: pool(0, 14), 15: pool(0)})] == [False, False, True]


def test_it_ends_a_whole_window_after_the_last_read_that_showed_it() -> None:
    well: dict[float, Fleet] = {minute: pool(620_000 + minute) for minute in (1, 14, 15)}

    assert [each is not None for each in watched({0: pool(0), **well})] == [True, True, True, False]


def test_a_rate_near_the_limit_is_one_symptom() -> None:
    found = watched({minute: pool(470_000 if minute % 10 == 0 else 475_000 + minute) for minute in range(60)})

    assert len(set(found)) == 1


def test_its_numbers_are_those_of_its_begin() -> None:
    (first, last) = watched({0: pool(0), 1: pool(50_000)})

    assert first == last == Symptom(0.0, 0.62, 900.0, NOW)


def test_a_poll_without_a_new_read_changes_nothing() -> None:
    read = pool(0)

    assert [each is not None for each in watched({0: read, 14: read, 100: read})] == [True, True, True]


def test_a_restart_begins_no_symptom_and_marks_one_that_lasts() -> None:
    started = pool(620_000, odd_minutes=1, started_at=NOW + timedelta(minutes=1))
    found = watched({0: pool(0), 2: started, 16: pool(620_000, started_at=NOW + timedelta(minutes=1))})

    assert [each and each.is_past for each in found] == [False, True, None]
    assert watched({0: pool(0, odd_minutes=1)}) == [None]


def test_what_the_new_process_shows_begins_anew() -> None:
    again: dict[str, Any] = {"started_at": NOW + timedelta(minutes=1)}
    polls: dict[float, Fleet] = {
        0: pool(0),
        2: pool(0, odd_minutes=1, **again),
        17: pool(9_000, **again),
        18: pool(20_000, **again),
    }

    old, past, *new = watched(polls)

    assert (old, past) == (Symptom(0.0, 0.62, 900.0, NOW), Symptom(0.0, 0.62, 900.0, NOW, is_past=True))
    assert new == [Symptom(0.009, 0.62, 900.0, NOW + timedelta(minutes=17))] * 2


def test_a_restart_during_the_poll_that_read_the_former_process_is_one() -> None:
    """A poll asks its replicas one after the other: the start is before its end."""
    before, again = (dict[str, Any](started_at=NOW + timedelta(seconds=at)) for at in (-3_600, -2))
    found = watched({0: pool(0, **before), 1: pool(620_000, odd_minutes=1, **again)})

    assert [each and each.is_past for each in found] == [False, True]


def test_a_past_symptom_stays_past_over_a_restart_of_the_dashboard() -> None:
    past = RecentEvents(symptoms={RATE: {ODD: Symptom(0.0, 0.62, 900.0, NOW, is_past=True)}})
    watch = SymptomWatch()
    watch.resume(replace(pool(None), recent=past), NOW)

    assert [each and each.is_past for each in watched({1: pool(620_000, 1)}, watch)] == [True]


def test_what_a_cold_cache_showed_begins_anew_an_hour_after_the_start() -> None:
    started: dict[str, Any] = {"started_at": NOW - timedelta(minutes=20)}
    found = watched({minute: pool(minute * 1_000, **started) for minute in (0, 39, 40, 41)})

    assert [each and each.began - NOW for each in found] == [timedelta(minutes=at) for at in (0, 0, 40, 40)]
    (cold, warm) = (
        low(assemble(replace(pool(0, **started), recent=RecentEvents(symptoms={RATE: {ODD: each}})), NOW))
        for each in (found[1], found[3])
        if each
    )
    assert (cold.severity, warm.severity) == (Severity.INFO, Severity.WARNING)


def test_a_replica_that_is_not_read_keeps_its_explanation() -> None:
    """Findings on its settings are those of the last poll that read it, and so is what traffic showed."""
    lost = pool(None, fresh=False, settings={CACHING: False}, usual={CACHING: True}, policy=ROUTED)
    symptoms = RecentEvents(symptoms={RATE: {ODD: Symptom(0.0, 0.62, 900.0, NOW)}})

    assert not [each for each in assemble(replace(lost, recent=symptoms), NOW).inspection.findings if each.is_effect]


def test_a_restart_of_the_dashboard_proves_nothing() -> None:
    """Its windows begin anew: the symptom of the last poll stays until a whole window is without it."""
    watch = SymptomWatch()
    watch.resume(replace(pool(None), recent=RecentEvents(symptoms={RATE: {ODD: Symptom(0.0, 0.62, 900.0, NOW)}})), NOW)
    found = watched({1: pool(0, 1), 14: pool(1, 14), 16: pool(620_001, 14), 17: pool(620_000)}, watch)

    assert [each is not None for each in found] == [True, True, True, False]


def test_a_process_without_start_time_that_restarted_is_not_past() -> None:
    assert [each and each.is_past for each in watched({0: pool(0), 2: pool(9, odd_minutes=1, started_at=None)})] == [
        False,
        False,
    ]


def test_a_replica_that_is_not_read_proves_nothing() -> None:
    assert watched({0: pool(0), 60: pool(None, fresh=False)})[1] is not None


def test_without_counters_it_ends_after_two_windows() -> None:
    assert [each is not None for each in watched({0: pool(0), 16: pool(None), 30: pool(None, 16)})] == [
        True,
        True,
        False,
    ]


def test_it_ends_with_its_replica_and_with_the_option() -> None:
    gone = pool(None)
    gone = replace(gone, replicas=tuple(each for each in gone.replicas if each.id != ODD))

    assert watched({0: pool(0), 1: gone}) == [Symptom(0.0, 0.62, 900.0, NOW), None]
    assert watched({0: pool(0), 1: replace(pool(0), traffic_window=0.0)})[1] is None


def test_a_fallen_rate_of_a_pool_lasts_until_a_whole_window_is_without_it() -> None:
    usual = {"chat": UsualTraffic(Traffic(86_400, queries=1e7, hits=9e6, requests=9_000))}
    low_pool, well = (replace(pool(0, usual_hits=hits), usual=usual) for hits in (100_000, 800_000))
    watch = SymptomWatch()
    found = [
        watch.add_poll(read, NOW + minute * timedelta(minutes=1)).get(POOL_RATE, {})
        for minute, read in ((0, low_pool), (1, well), (15, replace(well, traffic=pool(1, usual_hits=800_000).traffic)))
    ]

    assert [[*each] for each in found] == [["chat"], ["chat"], []]
    shown = assemble(replace(low_pool, recent=RecentEvents(symptoms={POOL_RATE: found[0]})), NOW)
    assert [each.rule for each in shown.inspection.findings if each.pools == ("chat",) and each.is_effect] == ["EF-04"]


def test_two_findings_of_a_rule_on_the_same_replicas_have_different_ids() -> None:
    own = {ODD: Symptom(20.0, 0.0, 900.0, NOW)}
    symptoms = {"traffic.preemptions": own, "traffic.waiting": own}
    found = assemble(replace(pool(0), recent=RecentEvents(symptoms=symptoms)), NOW).inspection.findings

    assert len({each.id for each in found if each.rule == "EF-03"}) == 2


def test_symptoms_of_no_replica_are_left_out() -> None:
    """As a saved fleet may have them."""
    own = {"chat": Symptom(0.0, 0.62, 900.0, NOW), "gone": Symptom(0.0, 0.62, 900.0, NOW)}
    read = assemble(replace(pool(None), recent=RecentEvents(symptoms={RATE: own, "traffic.none": own})), NOW)

    assert not [each for each in read.inspection.findings if each.is_effect]
    assert not [each for each in read.inspection.outcomes if each.kind is OutcomeKind.ERROR]


def test_a_watch_goes_on_after_the_last_fleet_of_the_history() -> None:
    read = replace(pool(0), recent=RecentEvents(symptoms={RATE: {ODD: Symptom(0.0, 0.5, 900.0, NOW)}}))
    watch = Watch()
    watch.resume(read)
    recent = watch.add_poll(pool(0, 1), NOW + timedelta(minutes=1))

    assert recent.symptoms[RATE][ODD].others == 0.5


def test_a_past_symptom_is_info_and_says_when_it_ends() -> None:
    read = pool(0)
    past = RecentEvents(symptoms={RATE: {ODD: Symptom(0.0, 0.62, 900.0, NOW, is_past=True)}})
    restarted = assemble(replace(read, recent=past), NOW)
    found = low(restarted)

    assert (found.severity, found.why) == (Severity.INFO, "Restarted since. The finding ends after 15 min without it.")
    assert found.remedy.sentence == "Wait 15 min."
    assert "EF-01" not in {each.key for each in plan_of(restarted).causes}


def test_a_past_symptom_whose_cause_is_still_there_is_no_cause_of_its_own() -> None:
    read = pool(0, settings={CACHING: False}, usual={CACHING: True}, policy=ROUTED)
    past = RecentEvents(symptoms={RATE: {ODD: Symptom(0.0, 0.62, 900.0, NOW, is_past=True)}})
    read = assemble(replace(read, recent=past), NOW)

    assert (low(read).severity, low(read).explained_by) == (Severity.INFO, ("RT-13",))
    assert "EF-01" not in {each.key for each in plan_of(read).causes}


def test_a_finding_says_of_which_time_its_numbers_are() -> None:
    early, late = (Symptom(0.0, 0.62, 900.0, NOW + timedelta(minutes=minutes)) for minutes in (0, 9))
    other = pool(0).replicas[0].id
    one, both = (
        low(assemble(replace(pool(0), recent=RecentEvents(symptoms={RATE: own})), NOW)).sentence
        for own in ({ODD: late}, {ODD: late, other: early})
    )

    assert one == "Prefix hit rate 0%; the rest of the pool 62%, first measured in the 15 min to 2026-03-02 11:51 UTC."
    assert both.endswith(", first measured in 15 min each, from 2026-03-02 11:42 UTC to 2026-03-02 11:51 UTC.")


def test_the_remedy_is_that_of_the_findings_that_explain_it() -> None:
    one = shown(pool(0, settings={CACHING: False}, usual={CACHING: True}, policy=ROUTED))
    size = "cache_config.block_size"
    two = shown(pool(0, settings={CACHING: False, size: 32}, usual={CACHING: True, size: 16}, policy=ROUTED))

    assert low(one).remedy.sentence.startswith("Fix RT-13 first: enable prefix caching")
    assert low(two).explained_by == ("RT-01", "RT-13")
    assert low(two).remedy.sentence.startswith("Fix RT-01 and RT-13 first. RT-01: set `block_size`")
    assert " RT-13: enable prefix caching" in low(two).remedy.sentence


def test_at_a_past_time_the_reason_is_that_of_the_history() -> None:
    past = assemble(replace(pool(None), traffic={}, recorded_traffic={}), NOW)
    skipped = {each.reason for each in past.inspection.outcomes if each.rule == "EF-01"}

    assert skipped == {"The history has counters of pools and cohorts, not of replicas."}


def test_a_fleet_of_the_past_has_its_symptoms_and_no_traffic() -> None:
    read = shown(pool(0))
    past = assemble(replace(read, traffic={}, traffic_window=0.0), NOW)

    assert low(past) == low(read)
    assert {each.kind for each in past.inspection.outcomes if each.rule == "EF-02"} == {OutcomeKind.SKIPPED}


def test_traffic_changes_no_verdict_on_sharing_no_other_finding_and_no_id() -> None:
    read = pool(0, settings={CACHING: False}, usual={CACHING: True}, policy=ROUTED)
    quiet, busy = assemble(replace(read, traffic={}, traffic_window=0.0), NOW), shown(read)
    others = tuple(each for each in busy.inspection.findings if not each.is_effect)

    assert others == quiet.inspection.findings
    assert len(others) < len(busy.inspection.findings)
    assert busy.sharing == quiet.sharing
    assert [each for each in busy.inspection.outcomes if not each.rule.startswith("EF")] == [
        each for each in quiet.inspection.outcomes if not each.rule.startswith("EF")
    ]


def test_equal_symptoms_are_not_evaluated_again() -> None:
    before = shown(pool(0))
    after = inspected(replace(before, traffic=pool(1).traffic), NOW, before=before)

    assert after.inspection.findings == before.inspection.findings
    assert low(after) is low(before)


def test_the_id_of_a_finding_does_not_depend_on_its_numbers() -> None:
    assert low(shown(pool(0))).id == low(shown(pool(50_000))).id


def test_what_a_finding_explains_is_no_cause_of_the_fix_plan() -> None:
    read = shown(pool(0, settings={CACHING: False}, usual={CACHING: True}, policy=ROUTED))
    plan = plan_of(read)

    assert low(read).explained_by == ("RT-13",)
    assert [each.key for each in plan.causes] == [CACHING, "CO-14"]
    assert {one.rule for one in plan.causes[0].findings} == {"RT-13"}


def test_what_a_suppressed_finding_explains_is_neither_active_nor_a_cause() -> None:
    accepted = replace(ROUTED, suppressions=(Suppression("RT-13", "kv-team", "known", NOW.date()),))
    read = shown(pool(0, settings={CACHING: False}, usual={CACHING: True}, policy=accepted))
    suppressed = {each.rule: each.suppression for each in read.inspection.suppressed}

    assert suppressed == dict.fromkeys(("RT-13", "EF-01"), accepted.suppressions[0])
    assert [each.key for each in plan_of(read).causes] == ["CO-14"]


def test_what_no_finding_explains_is_the_last_action_of_its_severity() -> None:
    read = shown(pool(0, settings={"scheduler_config.max_num_seqs": 8}, usual={"scheduler_config.max_num_seqs": 16}))
    keys = [each.key for each in plan_of(read).causes if each.severity is Severity.WARNING]

    assert keys[-1] == "EF-01"
    assert len(keys) > 1
    assert all(
        not one.is_effect for cause in plan_of(read).causes for fix in cause.fixes for one in (*fix.fixed, *fix.new)
    )


def test_what_traffic_shows_changes_no_other_cause_of_the_fix_plan() -> None:
    seats = "scheduler_config.max_num_seqs"
    low_rate, usual_rate = (shown(pool(hits, settings={seats: 8}, usual={seats: 16})) for hits in (0, 620_000))
    before, after = planned(usual_rate), low_rate
    known, own = plan_of(before).causes, plan_of(planned(after, before)).causes

    assert own == plan_of(after).causes
    assert [each.key for each in own if not any(each is one for one in known)] == ["EF-01"]
    assert len(own) == len(known) + 1
