"""The evidence of a finding: every value with who told it, the reference marked, what differs from it tinted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.models import State
from dashboard.rules.findings import Severity
from dashboard.ui.findings_evidence import MOST_ROWS, People, compare_links, evidence_table
from tests.builders import story
from tests.findings_builder import BLOCK_SIZE, evidence, finding

if TYPE_CHECKING:
    from dashboard.rules.findings import Evidence

FLEET = story()
IDS = tuple(each.id for each in FLEET.replicas if each.pool == "chat-70b")
NAMES = {each.id: each.name for each in FLEET.replicas}
LETTERS = {**dict.fromkeys(IDS[:15], "A"), IDS[15]: "B", IDS[16]: "C"}
PEOPLE = People(NAMES, LETTERS, {"chat-70b": {BLOCK_SIZE}})


def rows(*told: Evidence) -> list[str]:
    """The rows of the table of these values, of a warning."""
    table = evidence_table(finding(FLEET, evidence=told, severity=Severity.WARNING), PEOPLE)
    return table.split("<tr>")[2:]


def test_the_reference_is_marked_and_what_differs_is_tinted() -> None:
    """By the severity of the finding."""
    odd, reference = rows(evidence(replicas=IDS[16:17]), evidence(value="16", replicas=IDS[:16], is_reference=True))

    assert '<span class="odd warning"><code>32</code></span>' in odd
    assert '<code>16</code> <span class="tag">reference</span>' in reference


def test_without_a_reference_nothing_is_tinted() -> None:
    """On a tie nobody is the odd one."""
    assert not [row for row in rows(evidence(), evidence(value="16")) if "odd" in row]


def test_replicas_stand_by_cohort_the_few_by_name_the_many_counted() -> None:
    """Names are links; of a reference the first three are enough."""
    odd, reference = rows(
        evidence(replicas=IDS[15:17]), evidence(value="16", replicas=(*IDS[:15], IDS[17]), is_reference=True)
    )

    assert 'href="replica?replica=http%3A%2F%2Fchat-70b-16%3A8000"' in odd
    assert ">B</span> <a" in odd
    assert '×15 <a href="replica?replica=http%3A%2F%2Fchat-70b-01%3A8000"' in reference
    assert "and 12 more" in reference
    assert reference.index("not read") > reference.index("×15")


def test_a_cohort_whose_names_find_no_room_is_still_counted() -> None:
    """Nobody is left out of the numbers."""
    (row,) = rows(evidence(value="16", replicas=IDS[:16], is_reference=True))

    assert ">B</span> ×1 " in row


def test_who_is_no_replica_is_named() -> None:
    """The router as configured, the median of the peers, the other pool."""
    router, median = rows(evidence(value="64", holder="router", is_reference=True), evidence("a.b", "5", holder="<m>"))

    assert "the router, as fleet.yaml says" in router
    assert '<span class="mute">&lt;m&gt;</span>' in median


def test_what_is_no_value_is_written_in_words() -> None:
    """Redacted and not reported are no values; null is one, and says what it means."""
    redacted, absent, null = rows(
        evidence("a", state=State.REDACTED),
        evidence("b", "", state=State.ABSENT),
        evidence("c", "null", state=State.NULL),
    )

    assert "<em>redacted</em>" in redacted
    assert "<em>not reported</em>" in absent
    assert '<code>null</code> <span class="mute">not set</span>' in null


def test_a_setting_is_named_once_and_leads_to_compare_where_compare_knows_it() -> None:
    """The second row of a setting has its name only for those who hear it; a capacity is no setting of Compare."""
    first, second, other = rows(evidence(), evidence(value="16"), evidence("engines.kv_cache_size_tokens", "1"))

    assert f'href="compare?pool=chat-70b&amp;path={BLOCK_SIZE}"' in first
    assert f'<span class="said">{BLOCK_SIZE}</span>' in second
    assert "href=" not in other
    assert "<code>engines.<wbr>kv_cache_size_tokens</code>" in other


def test_compare_is_linked_per_setting_and_pool() -> None:
    """Of a pair, both sides; what Compare does not know is not linked."""
    both = finding(FLEET, pools=("p", "d"), evidence=(evidence(), evidence("x.y", "1")))
    html = compare_links(both, People(NAMES, LETTERS, {"p": {BLOCK_SIZE}, "d": {BLOCK_SIZE}}))

    assert html.count("<a ") == 2
    assert "</code> in p</a> · " in html
    assert compare_links(both, People(NAMES, LETTERS, {})) == ""


def test_many_or_huge_values_are_cut() -> None:
    """Compare shows all of them whole."""
    table = evidence_table(
        finding(FLEET, evidence=tuple(evidence(value=str(number)) for number in range(MOST_ROWS + 5))), PEOPLE
    )
    (row,) = rows(evidence(value=f'"{"x" * 100_000}"'))

    assert "and 5 more values" in table
    assert table.count("<tr>") == MOST_ROWS + 1
    assert len(row) < 1_000
