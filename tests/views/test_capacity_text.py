"""Capacity in words: numbers with their unit and bound, one sentence that says how it is."""

from dataclasses import replace

import pytest

from dashboard.capacity.outliers import Outlier
from dashboard.fleet import Basis, Replica
from dashboard.views import capacity_text as words
from dashboard.views.capacity_data import Measure, Rank, Sum, outliers_of, pools_of, ranks_of
from tests.builders import alike, document, engine, fleet, replica

DOCUMENT = document()
TOKENS, GIB, REQUESTS = Measure


@pytest.mark.parametrize(
    ("number", "measure", "text"),
    [
        (1_340_000, TOKENS, "1,340,000"),
        (46.44, GIB, "46.4"),
        (1187.9, REQUESTS, "1,187"),
        (9.19, REQUESTS, "9.1"),
        (0.068, REQUESTS, "0.06"),
    ],
)
def test_an_amount_is_whole_and_requests_are_rounded_down(number: float, measure: Measure, text: str) -> None:
    assert words.amount(number, measure) == text


@pytest.mark.parametrize(
    ("number", "measure", "text"),
    [
        (1_639_344, TOKENS, "1.64 M"),
        (660_000, TOKENS, "660 k"),
        (999_999, TOKENS, "1.00 M"),
        (99_960, TOKENS, "100 k"),
        (5_280_000, TOKENS, "5.28 M"),
        (12, TOKENS, "12"),
        (2e15, TOKENS, "2,000 T"),
        (46.44, GIB, "46.4 GiB"),
        (162.9, REQUESTS, "162"),
    ],
)
def test_a_label_is_brief(number: float, measure: Measure, text: str) -> None:
    assert words.brief(number, measure) == text


@pytest.mark.parametrize(
    ("marks", "measure", "texts"),
    [
        ((0, 5e5, 1e6, 1.5e6), TOKENS, ["0", "0.5 M", "1.0 M", "1.5 M"]),
        ((0, 2e5, 4e5), TOKENS, ["0", "200 k", "400 k"]),
        ((0, 25, 50), GIB, ["0", "25 GiB", "50 GiB"]),
        ((0, 0.25, 0.5), REQUESTS, ["0", "0.25", "0.50"]),
        ((), TOKENS, []),
    ],
)
def test_an_axis_has_one_scale(marks: tuple[float, ...], measure: Measure, texts: list[str]) -> None:
    assert words.tick_texts(marks, measure) == texts


def test_a_share_has_a_sign() -> None:
    assert (words.percent(-0.183), words.percent(0.12)) == ("−18 %", "+12 %")


def ranks(*tokens: int | None, basis: Basis = Basis.REPORTED) -> tuple[Rank, ...]:
    """Ranks of one pool that hold this many tokens."""
    members = [
        replica(f"chat-{place}", document=DOCUMENT, engines=(engine(held, basis=basis, reason="Because."),))
        for place, held in enumerate(tokens)
    ]
    return ranks_of(fleet(members, [DOCUMENT]), None)


@pytest.mark.parametrize(
    ("tokens", "title"),
    [
        ([100, 100, 100, 100, 80], "One rank has less KV cache than its peers"),
        ([100, 100, 100, 100, 80, 70], "Two ranks have less KV cache than their peers"),
        ([100, 100, 100, 100, 130], "One rank has more KV cache than its peers"),
        ([100, 100, 100, 130, 130], "Two ranks have more KV cache than their peers"),
        ([100, 100, 100], "All ranks are close to the median of their peers"),
        ([100, 100, 200, 200], "Ranks of one pool differ, without a majority"),
        ([None, None], "KV cache capacity: not reported"),
        ([], "No engine data"),
    ],
)
def test_the_title_says_how_it_is(tokens: list[int | None], title: str) -> None:
    found = ranks(*tokens)
    assert words.title(found, outliers_of(found, TOKENS), TOKENS) == title


def test_the_lead_says_where_and_of_how_many() -> None:
    found = ranks(100, 100, 100, 80, None)
    lead = words.lead(found, outliers_of(found, TOKENS), TOKENS, 0)
    assert lead.startswith("chat: ")
    assert lead.endswith("4 of 5 ranks known.")


@pytest.mark.parametrize(
    ("tokens", "silent", "told"),
    [
        ([100, 100], 0, " 2 ranks known."),
        ([100, 100], 3, " 2 ranks known; 3 replicas without engine data."),
        ([100, None], 1, " 1 of 2 ranks known; 1 replica without engine data."),
    ],
)
def test_the_lead_never_calls_all_ranks_known_where_replicas_are_silent(
    tokens: list[int | None], silent: int, told: str
) -> None:
    """Nobody knows how many ranks a replica has that was not read."""
    assert words.lead(ranks(*tokens), {}, TOKENS, silent).endswith(told)


def test_the_lead_names_few_pools() -> None:
    found = [rank for each in "abcde" for rank in ranks_of(fleet(_short_pool(each), [DOCUMENT]), None)]
    lead = words.lead(found, outliers_of(found, TOKENS), TOKENS, 0)
    assert lead.startswith("pool-a, pool-b, pool-c and 2 more pools: ")


def _short_pool(name: str) -> list[Replica]:
    members = alike(f"pool-{name}", 4, DOCUMENT)
    return [*members[:3], replace(members[3], engines=(engine(800_000),))]


def test_the_lead_of_a_calm_fleet_says_what_would_be_named() -> None:
    found = ranks(100, 100, 100)
    assert words.lead(found, {}, TOKENS, 0).startswith("No rank is more than 10 % off the median")


def test_the_lead_of_an_unknown_fleet_says_why() -> None:
    assert words.lead(ranks(None, None), {}, TOKENS, 0) == "Because."
    assert words.lead((), {}, TOKENS, 0) == ""


def test_an_outlier_is_told_beside_the_median() -> None:
    rank = ranks(80, basis=Basis.ASSUMED)[0]
    told = words.outlier_sentence(rank, Outlier(0, 80, 100, -0.2), TOKENS)
    assert told == "≤ 80 tokens, 20 % less than the median (100)"
    assert "20 % more" in words.outlier_sentence(rank, Outlier(0, 120, 100, 0.2), TOKENS)


def test_a_rank_is_named_by_number_where_its_replica_has_several() -> None:
    one, two, _ = ranks_of(
        fleet([replica("a"), replica("b", engines=(engine(dp_rank=0), engine(dp_rank=1)))]),
        None,
    )
    assert (words.rank_name(one), words.rank_name(two)) == ("a", "b, rank 0")


def test_a_sum_says_when_it_is_a_bound_or_not_known() -> None:
    assert words.sum_text(Sum(4_400_000, 3, at_most=True), TOKENS) == "≤ 4,400,000"
    assert words.sum_text(Sum(4_400_000, 3, at_most=False), TOKENS) == "4,400,000"
    assert words.sum_text(Sum(None, 0, at_most=False), TOKENS) == "not known"


def naive(tokens: int | None, would: int | None, basis: Basis = Basis.REPORTED) -> tuple[bool, str]:
    """What is said of a pool of one rank."""
    one = engine(tokens, naive_tokens=would, basis=basis, reason="A bound." if basis is Basis.ASSUMED else None)
    (pool,) = pools_of(ranks_of(fleet([replica(engines=(one,))]), None))
    return words.naive_text(pool)


@pytest.mark.parametrize(
    ("tokens", "would", "said"),
    [
        (1000, 1000, (False, "equal")),
        (1000, 1004, (False, "equal")),
        (1000, 6300, (True, "6,300: 6.3 × too much")),
        (1000, 1200, (True, "1,200: 20 % too much")),
        (1000, 700, (True, "700: 30 % too little")),
        (None, None, (False, "Unknown: no rank reports both.")),
    ],
)
def test_naive_tokens_are_told_where_they_mislead(
    tokens: int | None, would: int | None, said: tuple[bool, str]
) -> None:
    assert naive(tokens, would) == said


def test_what_is_partly_assumed_is_compared_where_vllm_tells() -> None:
    members = [replica("a", engines=(engine(100),)), replica("b", engines=(engine(100, basis=Basis.ASSUMED),))]
    (pool,) = pools_of(ranks_of(fleet(members), None))
    assert words.naive_text(pool) == (False, "equal (of ranks that report their tokens)")


def test_an_assumed_pool_says_why_it_is_a_bound() -> None:
    assert naive(1000, 1000, Basis.ASSUMED) == (False, "A bound.")


def test_known_ranks_are_counted_when_not_all_are() -> None:
    (some,) = pools_of(ranks(100, None))
    (whole,) = pools_of(ranks(100, 100))
    assert (words.ranks_text(some), words.ranks_text(whole)) == ("1 of 2 known", "2")


@pytest.mark.parametrize(
    ("text", "length"),
    [("32768", 32768), ("32,768", 32768), ("32k", 32768), (" 128 K ", 131072), ("50000 tokens", 50000)]
    + [(text, None) for text in ("own length", "", "0", "-1", "1e9", "٣", "9" * 13, "k", "<b>")],
)
def test_a_length_is_read_or_refused(text: str, length: int | None) -> None:
    assert words.parse_length(text) == length


def test_a_length_is_named_shortly() -> None:
    assert [words.length_words(each) for each in (None, 32768, 50000)] == ["own length", "32 k", "50,000"]
