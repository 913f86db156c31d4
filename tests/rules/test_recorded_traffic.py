"""What is known of the traffic of replicas at a past time: that of all with one document together."""

from dataclasses import replace

from dashboard.fleet.traffic import summed
from dashboard.rules.policy import NO_PART, NOT_RECORDED
from tests.analysis.whatif.pools import LARGER, pool_of
from tests.used import traffic

NOW = pool_of(LARGER)
SMALL = [each for each in NOW.replicas if each.name != "chat-9"]
LARGE = next(each for each in NOW.replicas if each.name == "chat-9")
USUAL = traffic(0.6)
PAST = replace(NOW, recorded_traffic={("chat", SMALL[0].document or ""): USUAL})


def test_a_cohort_has_what_was_recorded_of_its_settings() -> None:
    assert PAST.traffic_of([each.id for each in SMALL]) == USUAL


def test_of_a_part_of_a_cohort_nothing_is_known() -> None:
    assert PAST.traffic_of([SMALL[0].id]).refused == (NO_PART,)


def test_settings_without_a_record_are_left_out_of_a_pool_and_named_alone() -> None:
    assert PAST.traffic_of([each.id for each in NOW.replicas]) == USUAL
    assert PAST.traffic_of([LARGE.id]).refused == (NOT_RECORDED,)


def test_a_process_behind_two_addresses_counts_once() -> None:
    first, second, third = SMALL
    same = replace(second, same_process=(first.id,)), replace(first, same_process=(second.id,))
    live = replace(
        NOW, replicas=(*same, third, LARGE), traffic={each.id: {0: USUAL} for each in (first, second, third)}
    )
    assert live.traffic_of([first.id, second.id, third.id]) == summed([USUAL, USUAL])
    assert live.traffic_of([second.id]) == USUAL
