"""The evidence of a finding: every value with who told it, the reference marked, what differs from it tinted."""

import pytest

from dashboard.fleet import State
from dashboard.rules.findings import Evidence, Severity
from dashboard.web.findings_evidence import (
    MOST_COHORTS,
    MOST_ROWS,
    People,
    compare_links,
    evidence_table,
    replicas_html,
)
from tests.builders import story
from tests.findings_builder import BLOCK_SIZE, evidence, finding

FLEET = story()
IDS = tuple(each.id for each in FLEET.replicas if each.pool == "chat-70b")
NAMES = {each.id: each.name for each in FLEET.replicas}
POOLS = {each.id: each.pool for each in FLEET.replicas if each.pool}
LETTERS = {**dict.fromkeys(IDS[:15], "A"), IDS[15]: "B", IDS[16]: "C"}
PEOPLE = People(NAMES, POOLS, LETTERS, {"chat-70b": {BLOCK_SIZE}})


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
    """On a tie nobody is the odd one; nor is what another setting's reference stands beside."""
    assert not [row for row in rows(evidence(), evidence(value="16")) if "odd" in row]
    assert "odd" not in rows(evidence("devices.name", '"H200"'), evidence(value="16", is_reference=True))[0]


def test_replicas_stand_by_cohort_the_few_by_name_the_many_counted() -> None:
    """Names are links; of a reference the first three are enough, the others are one link away."""
    odd, reference = rows(
        evidence(replicas=IDS[15:17]), evidence(value="16", replicas=(*IDS[:15], IDS[17]), is_reference=True)
    )

    assert 'href="replica?replica=http%3A%2F%2Fchat-70b-16%3A8000"' in odd
    assert ">B</span> <a" in odd
    assert '×15 <a href="replica?replica=http%3A%2F%2Fchat-70b-01%3A8000"' in reference
    assert '<a href="compare?pool=chat-70b&amp;cohort=A" title="All of this cohort">and 12 more</a>' in reference
    assert reference.index("not read") > reference.index("×15")


def test_a_cohort_whose_names_find_no_room_is_still_counted_and_can_be_opened() -> None:
    """Nobody is left out of the numbers; one replica stands by its name, whatever the room."""
    (alone,) = rows(evidence(value="16", replicas=IDS[:16], is_reference=True))
    letters = {**LETTERS, IDS[14]: "B"}
    html = replicas_html(IDS[:16], People(NAMES, POOLS, letters, {}), 3)

    assert ">B</span> <a" in alone
    assert ">chat-70b-16</a>" in alone
    assert '>B</span> ×2 <a href="compare?pool=chat-70b&amp;cohort=B" title="All of this cohort">show them</a>' in html


def test_who_was_never_read_is_found_on_replicas_and_who_is_gone_is_only_counted() -> None:
    """A cohort that there is not cannot be opened."""
    unread = People(NAMES, POOLS, {}, {})
    gone = People(NAMES, {}, {}, {})

    assert '<a href="replicas?pool=chat-70b" title="All of this pool">and 2 more</a>' in replicas_html(
        IDS[:5], unread, 3
    )
    assert '<span class="mute">and 2 more</span>' in replicas_html(IDS[:5], gone, 3)
    assert replicas_html(IDS[:5], gone, 0) == '<span class="mute">not read</span> ×5'


def test_cohorts_of_two_pools_stand_apart() -> None:
    """Both have an A; they are not the same."""
    pair = [each.id for each in FLEET.replicas if each.pool in {"deepseek-v3/prefill", "deepseek-v3/decode"}]
    html = replicas_html(pair, People(NAMES, POOLS, dict.fromkeys(pair, "A"), {}), 60)

    assert html.count(">A</span>") == 2


def test_many_cohorts_are_cut_and_the_rest_is_counted() -> None:
    """A pool in which no two agree makes no page of letters."""
    people = [f"id-{number}" for number in range(MOST_COHORTS + 5)]
    letters = {each: "A" * (number + 1) for number, each in enumerate(people)}
    html = replicas_html(people, People({}, {}, letters, {}), 60)

    assert html.count('class="letter') == MOST_COHORTS
    assert html.endswith('<span class="mute">and 5 replicas of other cohorts</span>')


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
    """The second row of a setting has its name only for those who hear it; a route stands nowhere else."""
    first, second, other = rows(evidence(), evidence(value="16"), evidence("/server_info", '"answers"'))

    assert f'href="compare?pool=chat-70b&amp;path={BLOCK_SIZE}"' in first
    assert f'<span class="said">{BLOCK_SIZE}</span>' in second
    assert "href=" not in other


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("engines.kv_cache_size_tokens", "capacity?pool=chat-70b"),
        ("devices.name", "capacity?pool=chat-70b"),
        ("replicas.reason", "replicas?pool=chat-70b"),
    ],
)
def test_what_is_no_setting_leads_to_the_page_that_shows_it(path: str, address: str) -> None:
    """Capacity for engines and devices, Replicas for how a replica stands, both with the pool chosen."""
    (row,) = rows(evidence(path, "1"))

    assert f'<a href="{address}" title="Open in ' in row
    assert "Open in Compare" not in row


def test_what_is_no_setting_of_a_fleet_leads_to_the_page_without_a_pool() -> None:
    """A finding of the whole fleet names no pool."""
    table = evidence_table(finding(FLEET, evidence=(evidence("replicas.host", "1"),), pools=()), PEOPLE)

    assert '<a href="replicas" title="Open in Replicas">' in table


def test_a_setting_breaks_after_dots_and_underscores_only() -> None:
    """Words stay whole in a narrow column; what is foreign stays text."""
    (long,) = rows(evidence("compilation_config.cudagraph_capture_sizes", "1"))
    (foreign,) = rows(evidence("<script>.a_b", "1"))

    assert "<code>compilation_<wbr>config.<wbr>cudagraph_<wbr>capture_<wbr>sizes</code>" in long
    assert "<code>&lt;script&gt;.<wbr>a_<wbr>b</code>" in foreign


def test_compare_is_linked_per_setting_and_pool() -> None:
    """Of a pair, both sides; what Compare does not know is not linked."""
    both = finding(FLEET, pools=("p", "d"), evidence=(evidence(), evidence("x.y", "1")))
    html = compare_links(both, People(NAMES, POOLS, LETTERS, {"p": {BLOCK_SIZE}, "d": {BLOCK_SIZE}}))

    assert html.count("<a ") == 2
    assert "</code> in p</a> · " in html
    assert compare_links(both, People(NAMES, POOLS, LETTERS, {})) == ""


def test_many_or_huge_values_are_cut() -> None:
    """Compare shows all of them whole."""
    table = evidence_table(
        finding(FLEET, evidence=tuple(evidence(value=str(number)) for number in range(MOST_ROWS + 5))), PEOPLE
    )
    (row,) = rows(evidence(value=f'"{"x" * 100_000}"'))

    assert "and 5 more values" in table
    assert table.count("<tr>") == MOST_ROWS + 1
    assert len(row) < 1_000
