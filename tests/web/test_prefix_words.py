"""The verdict on prefix sharing as HTML: a table's cell, and the statement above the matrix."""

from dashboard.analysis.assembly import Fleet
from dashboard.compare import MAJORITY
from dashboard.report.pools.compared import Choice, compared
from dashboard.report.pools.order import by_path, worst
from dashboard.report.pools.sharing import sharing_verdicts
from dashboard.web.prefix_words import prefix_band, prefix_words
from tests.builders import HASHING, HOSTILE, SAME_KV, alike, document, fleet, hashing, replica, story

ALL = Choice(only_differences=True, section=None, search="", reference=MAJORITY, by_replica=False)


def cell(shown: Fleet, number: int = 0, *, is_quiet: bool = False) -> str:
    """The cell of one pool."""
    pool = shown.pools[number]
    return prefix_words(
        sharing_verdicts(shown)[pool.name], worst(by_path(shown.inspection, pool.name)), is_quiet=is_quiet
    )


def test_a_cell_has_the_glyph_of_the_severity_and_the_cohorts_that_differ() -> None:
    assert "B and C differ from A" in cell(story())
    assert 'class="glyph critical"' in cell(story())
    assert "versions differ" in cell(story(), 4)
    assert 'class="glyph warning"' in cell(story(), 4)


def test_a_cell_is_quiet_where_nothing_uses_shared_prefixes() -> None:
    assert cell(story(), is_quiet=True) == '<span class="mute">not needed here (B and C differ from A)</span>'


def test_the_claim_is_bold_its_basis_is_quiet_and_foreign_values_are_escaped_code() -> None:
    documents = [document(), document({"cache_config.prefix_caching_hash_algo": HOSTILE})]
    split = fleet(
        [*alike("chat", 3, documents[0]), replica("chat-9", document=documents[1])], documents, policy=HASHING
    )
    band = prefix_band(compared(split, split.pools[0], ALL))

    assert "<b>B</b><b> does not share prefixes with </b><b>A</b>" in band
    assert "<script>" not in band
    assert "<code>&lt;script&gt;" in band

    same = document(SAME_KV)
    measured = fleet(alike("chat", 2, same, engines=hashing("a")), [same])
    assert '<b>All 2 replicas share prefixes</b><span class="mute"> (measured)</span>' in prefix_band(
        compared(measured, measured.pools[0], ALL)
    )
