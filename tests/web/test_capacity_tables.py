"""The tables of Capacity: pools added up once, and every rank."""

import re
from typing import Any

from dashboard.fleet import Basis
from dashboard.report.capacity.pools import pools_of
from dashboard.report.capacity.ranks import Measure, outliers_of, ranks_of
from dashboard.web.capacity_controls import RANK, Choice
from dashboard.web.capacity_tables import pools_table, ranks_table
from tests.builders import HOSTILE, alike, document, engine, fleet, replica

DOCUMENT = document()


def cells(*members: Any, length: int | None = None, measure: Measure = Measure.TOKENS) -> list[str]:
    """The cells of the only pool, without tags."""
    pools = pools_of(ranks_of(fleet(members, [DOCUMENT]), length))
    row = pools_table(pools, Choice(measure, length, "chat", RANK)).split("<tbody>")[1]
    return [re.sub("<[^>]+>", " ", cell).strip() for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)]


def test_a_pool_is_one_row() -> None:
    assert cells(*alike("chat", 2, DOCUMENT), length=32768) == [
        "chat", "2", "2,400,000", "73.2", "368.0", "reported", "the same",
    ]  # fmt: skip


def test_what_is_not_known_is_counted_beside() -> None:
    unknown = replica("x", engines=(engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None),))
    row = cells(replica("a", engines=(engine(basis=Basis.ASSUMED),)), unknown)
    assert row[1:5] == ["1 of 2 known", "≤ 1,200,000", "≤ 9.1   1 of 2 ranks", "184.0   1 of 2 ranks"]


def test_a_length_that_no_replica_serves_is_not_served() -> None:
    assert cells(*alike("chat", 2, DOCUMENT), length=262_144)[3] == "not served"


def test_a_length_that_some_serve_is_told_with_those_that_do_not() -> None:
    small = replica("small", document=DOCUMENT, engines=(engine(max_model_len=4096),))
    assert cells(replica("big", document=DOCUMENT), small, length=32768)[3] == "36.6   1 not served"


def test_a_pool_leads_to_its_bars_with_the_same_choices() -> None:
    pools = pools_of(ranks_of(fleet([replica()]), 32768))
    table = pools_table(pools, Choice(Measure.GIB, 32768, "chat", RANK))
    assert 'href="capacity?pool=chat&amp;measure=GiB&amp;length=32768"' in table
    assert 'href="capacity?pool=chat"' in pools_table(pools, Choice(Measure.TOKENS, None, "chat", RANK))


def test_a_misleading_number_is_marked() -> None:
    pools = pools_of(ranks_of(fleet([replica(engines=(engine(100, naive_tokens=630),))]), None))
    assert '<span class="glyph warning"' in pools_table(pools, Choice(Measure.TOKENS, None, "chat", RANK))


def test_a_basis_that_is_known_is_a_tag_and_one_that_is_not_is_quiet() -> None:
    """How a number is known stands out from the number."""
    unknown = replica("x", engines=(engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None),))
    tables = [
        pools_table(pools_of(ranks_of(fleet([one]), None)), Choice(Measure.TOKENS, None, "chat", RANK))
        for one in (replica(), unknown)
    ]

    assert '<span class="tag">reported</span>' in tables[0]
    assert 'class="tag"' not in tables[1]


def test_every_rank_is_a_row_with_typed_columns() -> None:
    unknown = engine(None, dp_rank=1, basis=Basis.UNKNOWN, kv_cache_bytes=None, reason=HOSTILE)
    ranks = ranks_of(
        fleet([*alike("chat", 3, DOCUMENT), replica("x", engines=(engine(800_000), unknown))], [DOCUMENT]), None
    )
    table = ranks_table(ranks, outliers_of(ranks, Measure.TOKENS))
    assert table["KV tokens"].dtype == "Int64"
    assert table["KV tokens"].to_list()[:4] == [1_200_000, 1_200_000, 1_200_000, 800_000]
    assert table["KV tokens"].isna().to_list() == [False] * 4 + [True]
    assert table["to the median"].to_list() == ["", "", "", "−33 %", ""]
    assert table["Reason"].to_list()[4] == HOSTILE


def test_no_rank_is_an_empty_table() -> None:
    assert ranks_table((), {}).empty
