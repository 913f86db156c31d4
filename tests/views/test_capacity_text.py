"""Capacity as text: numbers with unit and bound, the title, the lead, outliers and the naive estimate."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.capacity.sums import capacity_of
from dashboard.fleet import Basis, KVCacheGroup, Replica
from dashboard.views import capacity_text
from dashboard.views.capacity_text import Measure, ranks_of
from tests.builders import alike, document, engine, fleet, replica

DOCUMENT = document()
TOKENS, GIB, REQUESTS = Measure
EVEN = "No rank is more than 10% off the median of its pool and device."


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
    assert capacity_text.amount(number, measure) == text


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
    assert capacity_text.short_value(number, measure) == text


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
    assert capacity_text.tick_texts(marks, measure) == texts


def ranks(*tokens: int | None, basis: Basis = Basis.REPORTED) -> list[Any]:
    """Ranks of one pool with these tokens."""
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
def test_the_title_is_the_state_of_the_fleet(tokens: list[int | None], title: str) -> None:
    assert capacity_text.title(ranks(*tokens)) == title


@pytest.mark.parametrize(
    ("pool", "tokens", "title"),
    [
        ("chat", [100, 100, 100, 100, 80], "chat: one rank has less KV cache than its peers"),
        ("chat", [100, 100, 200, 200], "chat: ranks differ, without a majority"),
        ("chat", [None], "chat: KV cache capacity: not reported"),
        ("embed", [100, 100, 100, 100, 80], "embed: no engine data"),
    ],
)
def test_the_title_of_a_pool_is_about_its_own_ranks(pool: str, tokens: list[int | None], title: str) -> None:
    assert capacity_text.pool_title(pool, [rank for rank in ranks(*tokens) if rank.pool == pool]) == title


@pytest.mark.parametrize(
    ("tokens", "silent", "lead"),
    [
        ([100, 100, 100, 80, None], 0, "chat: under even load this rank fills first. 4 of 5 ranks known."),
        ([100, 100], 0, f"{EVEN} 2 ranks known."),
        ([100, 100], 3, f"{EVEN} 2 ranks known; 3 replicas without engine data."),
        ([100, None], 1, f"{EVEN} 1 of 2 ranks known; 1 replica without engine data."),
        ([None, None], 0, "Because."),
        ([], 0, ""),
    ],
)
def test_the_lead_is_the_consequence_and_the_number_of_known_ranks(
    tokens: list[int | None], silent: int, lead: str
) -> None:
    """The number of ranks of an unreachable replica is unknown, so "all" would be wrong."""
    assert capacity_text.lead(ranks(*tokens), silent) == lead


def test_the_lead_names_three_pools() -> None:
    found = ranks_of(fleet([replica for each in "abcde" for replica in _short_pool(each)], [DOCUMENT]))

    assert capacity_text.lead(found, 0).startswith("pool-a, pool-b, pool-c and 2 more pools: ")


def _short_pool(name: str) -> list[Replica]:
    members = alike(f"pool-{name}", 4, DOCUMENT)
    return [*members[:3], replace(members[3], engines=(engine(800_000),))]


def test_an_outlier_is_compared_with_the_median() -> None:
    *_, low, high = ranks(100, 100, 100, 100, 100, 80, 120, basis=Basis.ASSUMED)

    assert capacity_text.outlier_sentence(low) == "≤ 80 tokens, 20% less than the median (100)"
    assert capacity_text.outlier_sentence(high) == "≤ 120 tokens, 20% more than the median (100)"


@pytest.mark.parametrize(
    ("tokens", "naive", "basis", "expected"),
    [
        (1000, 1000, Basis.REPORTED, (False, "equal")),
        (1000, 1004, Basis.REPORTED, (False, "equal")),
        (1000, 6300, Basis.REPORTED, (True, "6,300: 6.3 × too much")),
        (1000, 1200, Basis.REPORTED, (True, "1,200: 20% too much")),
        (1000, 700, Basis.REPORTED, (True, "700: 30% too little")),
        (None, None, Basis.REPORTED, (False, "Unknown: no rank reports both.")),
        (1000, 1000, Basis.ASSUMED, (False, "Because.")),
    ],
)
def test_the_naive_estimate_is_compared_with_reported_tokens(
    tokens: int | None, naive: int | None, basis: Basis, expected: tuple[bool, str]
) -> None:
    one = engine(tokens, naive_tokens=naive, basis=basis, reason="Because." if basis is Basis.ASSUMED else None)

    assert capacity_text.naive_text(capacity_of([replica(engines=(one,))])) == expected


def test_groups_that_do_not_keep_every_token_are_counted_of_the_first_rank_that_counts() -> None:
    groups = (
        KVCacheGroup(0, 0, "full_attention", 16, 65_536, 8),
        KVCacheGroup(0, 1, "sliding_window", 16, 65_536, 8, sliding_window=1024),
    )
    hybrids = [replica(f"chat-{number}", kv_cache_groups=groups, fresh=number > 0) for number in range(3)]
    uniform = replica("embed-1", pool="embed", kv_cache_groups=groups[:1])

    assert capacity_text.window_texts(fleet([*hybrids, uniform])) == {
        "chat": ": 1 of 2 KV cache groups keep only a window or a state"
    }
    assert capacity_text.window_texts(fleet([replica("a")])) == {}
    assert capacity_text.naive_text(capacity_of([replica(engines=(engine(1000, naive_tokens=6300),))]), ": why")[1] == (
        "6,300: 6.3 × too much: why"
    )


@pytest.mark.parametrize(
    ("text", "length"),
    [("32768", 32768), ("32,768", 32768), ("32k", 32768), (" 128 K ", 131072), ("50000 tokens", 50000)]
    + [(text, None) for text in ("own length", "", "0", "-1", "1e9", "٣", "9" * 13, "k", "<b>")],
)
def test_a_length_is_parsed_or_rejected(text: str, length: int | None) -> None:
    assert capacity_text.parse_length(text) == length
