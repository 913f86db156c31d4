"""Tables of traffic: rates with what they are of, and in place of a rate why there is none."""

import pytest

from dashboard.fleet.traffic import Traffic, summed
from dashboard.views.blocks import Cell, Table
from dashboard.views.traffic import TrafficRow, rate_in_sentence, traffic_of, traffic_table
from tests.builders import alike, document, fleet
from tests.used import traffic, with_traffic

CACHING_OFF = document({"cache_config.enable_prefix_caching": False})


def cell(row: TrafficRow, title: str) -> Cell:
    table = shown(row)
    return table.rows[0][[each.title for each in table.columns].index(title)]


def shown(*rows: TrafficRow) -> Table:
    return traffic_table(rows, "Cohort", "traffic", "Traffic")


@pytest.mark.parametrize(
    ("used", "is_off", "text"),
    [
        (traffic(0.62), False, "62%"),
        (traffic(0.0), True, "0%, caching off"),
        (traffic(0.0, requests=3), True, "caching off"),
        (Traffic(), False, "not read twice yet"),
        (traffic(0.62, requests=3), False, "not enough traffic"),
        (traffic(None), False, "unsupported"),
        (traffic(None)._replace(refused=("hits rose by more than queries",)), False, "not counted"),
    ],
)
def test_in_place_of_a_hit_rate_is_the_reason_never_zero_or_nothing(used: Traffic, is_off: bool, text: str) -> None:  # noqa: FBT001
    rate = cell(TrafficRow("A", used, is_off=is_off), "Prefix hit rate")

    assert rate.text == text
    assert rate.hint
    assert (rate.value is None) == (used.hit_rate is None)


def test_a_number_that_is_not_known_is_not_zero() -> None:
    assert cell(TrafficRow("A", Traffic()), "Preemptions").text == "unknown"
    assert cell(TrafficRow("A", Traffic(60.0, requests=0.0, first_tokens=0.0)), "Preemptions").text == "unsupported"


def test_without_requests_there_is_no_time_to_the_first_token() -> None:
    idle = TrafficRow("A", Traffic(60.0, requests=0.0, first_tokens=0.0))

    assert cell(idle, "Time to first token").text == "no requests"
    assert cell(TrafficRow("A", traffic(0.5, first_token_seconds=750.0)), "Time to first token").text == "2.5 s"


def test_rates_of_a_connector_have_a_column_where_one_was_asked() -> None:
    asked = TrafficRow("A", traffic(0.5, external_queries=50_000.0, external_hits=10_000.0))

    unused, few = (TrafficRow("B", traffic(0.5, external_queries=number)) for number in (0.0, 100.0))
    silent = TrafficRow("C", traffic(0.5))
    every = shown(asked, unused, few, silent)

    assert [row[-1].text for row in every.rows] == ["20%", "not used", "not enough traffic", "unsupported"]
    assert cell(asked, "External hit rate").value == 0.2
    assert "External hit rate" not in [each.title for each in shown(TrafficRow("A", traffic(0.5))).columns]


def test_programs_read_numbers_and_why_a_rate_is_missing() -> None:
    data = shown(TrafficRow("A", traffic(0.62, requests=3)), TrafficRow("B", traffic(0.62))).data
    keys = [each.key or each.title for each in data.columns]
    (few, many) = ({key: each.value for key, each in zip(keys, row, strict=True)} for row in data.rows)

    assert few["prefix_hit_rate"] is None
    assert str(few["prefix_hit_rate_missing"]).startswith("Not enough traffic: 3 requests (minimum 20)")
    assert (many["prefix_hit_rate"], many["requests_per_minute"]) == (0.62, 20.0)


def test_a_cohort_has_its_share_of_the_prompts_and_the_spread_of_its_replicas() -> None:
    members = alike("chat", 3, document())
    built = with_traffic(fleet(members, [document()]), {members[0].id: 0.1}, 0.6)

    row = traffic_of(built, "A", "chat", [each.id for each in members[:2]])

    assert [each.hit_rate for each in row.parts] == pytest.approx([0.1, 0.6])
    assert row.share == pytest.approx(2 / 3)
    assert cell(row, "Prefix hit rate")[:1] == ("35%",)
    assert cell(row, "Prefix hit rate").note == "10% to 60%"
    assert shown(row).note.startswith("Traffic of the last 15 min")


def test_prefix_caching_that_is_off_on_every_replica_is_marked() -> None:
    members = [*alike("chat", 2, CACHING_OFF), *alike("chat", 1, document(), first=3)]
    built = with_traffic(fleet(members, [CACHING_OFF, document()]), {}, 0.0)
    ids = [each.id for each in members]

    assert traffic_of(built, "B", "chat", ids[:2]).is_off
    assert not traffic_of(built, "all", "chat", ids).is_off


def test_a_replica_that_decides_the_rate_of_its_cohort_is_named() -> None:
    members = alike("chat", 4, document())
    built = with_traffic(fleet(members, [document()]), {members[0].id: traffic(0.5, requests=100_000)}, 0.5)
    row = traffic_of(built, "A", "chat", [each.id for each in members])

    assert cell(row, "Prefix hit rate").note == f"{members[0].name} has 99% of the tokens"
    assert not cell(traffic_of(built, "B", "chat", [each.id for each in members[:2]]), "Prefix hit rate").note
    assert not cell(traffic_of(built, "C", "chat", [each.id for each in members[1:]]), "Prefix hit rate").note


def test_the_rate_of_a_cohort_says_what_was_not_counted_of_it() -> None:
    members = alike("chat", 4, document())
    lies = {
        each.id: traffic(None)._replace(refused=(f"hits is '-{number}', expected 0 to 9",))
        for number, each in enumerate(members[1:])
    }
    row = traffic_of(with_traffic(fleet(members, [document()]), lies, 0.5), "A", "chat", [each.id for each in members])

    assert cell(row, "Prefix hit rate").text == "50%"
    assert cell(row, "Prefix hit rate").hint == (
        "300.0 k of 600.0 k prompt tokens in 15 min. Not counted: hits is '-0', expected 0 to 9; "
        "hits is '-1', expected 0 to 9; hits is '-2', expected 0 to 9."
    )


def test_of_many_sentences_on_counters_the_first_are_shown_and_the_rest_counted() -> None:
    lies = (Traffic(60, refused=(f"hits is '-{number}'",)) for number in range(1000))
    row = TrafficRow("A", summed(lies))

    assert cell(row, "Prefix hit rate").hint == "Not counted: hits is '-0'; hits is '-1'; hits is '-2'; 29 more."


def test_a_sentence_says_that_a_hit_rate_is_unknown_and_why() -> None:
    asked = {"external_queries": 100_000.0, "external_hits": 80_000.0}

    assert rate_in_sentence(traffic(0.62)) == "62%"
    assert rate_in_sentence(traffic(0.0, requests=0)) == "unknown (no requests)"
    assert rate_in_sentence(traffic(0.62, **asked), is_external=True) == "80%"
    assert rate_in_sentence(traffic(0.62, external_queries=10.0, external_hits=0.0), is_external=True) == (
        "unknown (not enough traffic)"
    )
