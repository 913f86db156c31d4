"""The verdict on prefix sharing in a table's cell."""

from dashboard.analysis.assembly import Fleet
from dashboard.report.pools.sharing import sharing_verdicts
from dashboard.views.pool_comparison import worst_by_path
from dashboard.web.prefix_words import prefix_words
from tests.builders import story


def cell(shown: Fleet, number: int = 0, *, is_quiet: bool = False) -> str:
    pool = shown.pools[number]
    named = worst_by_path(shown.inspection, pool.name)
    return prefix_words(sharing_verdicts(shown)[pool.name], named, is_quiet=is_quiet)


def test_a_cell_has_the_glyph_of_the_severity_and_the_cohorts_that_differ() -> None:
    assert "B and C differ from A" in cell(story())
    assert 'class="glyph critical"' in cell(story())
    assert "versions differ" in cell(story(), 4)
    assert 'class="glyph warning"' in cell(story(), 4)


def test_a_cell_is_quiet_where_nothing_uses_shared_prefixes() -> None:
    assert cell(story(), is_quiet=True) == '<span class="mute">not needed here (B and C differ from A)</span>'
