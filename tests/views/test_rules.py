"""Outcomes of rules, suppressed findings and ignored settings as tables."""

from dashboard.fleet.pieces import to_plain
from dashboard.rules.findings import Inspection, Outcome, OutcomeKind
from dashboard.views.blocks import Entries, Paragraph, Table
from dashboard.views.excluded import MOST_ROWS, ignored_blocks, ignored_tables, suppressed_blocks
from dashboard.views.finding_list import list_findings
from dashboard.views.rules import error_blocks, outcome_table
from tests.builders import alike, document, fleet, story
from tests.findings_builder import finding, outcome, suppression, with_findings

SKIPPED = OutcomeKind.SKIPPED


def row(*outcomes: Outcome, kind: OutcomeKind = OutcomeKind.PASSED) -> list[str]:
    """The texts of the only row of the table of these outcomes."""
    table = outcome_table(Inspection(outcomes=outcomes), kind)
    assert table is not None
    (cells,) = table.rows
    return [each.text for each in cells]


def skipped(*reasons: str) -> str:
    """The reasons of one rule."""
    outcomes = (outcome(pool=str(number), kind=SKIPPED, reason=each) for number, each in enumerate(reasons))
    return row(*outcomes, kind=SKIPPED)[3]


def test_up_to_three_pools_are_named() -> None:
    pair = outcome(pool="p + d")._replace(pools=("p", "d"))

    assert row(*(outcome(pool=name) for name in "abc"))[2] == "a, b, c"
    assert row(*(outcome(pool=name) for name in "abcd"))[2] == "4 pools"
    assert row(*[pair] * 4)[2] == "4 pairs"
    assert row(outcome(pool="fleet")._replace(pools=()))[2] == "the whole fleet"


def test_a_rule_is_one_row_with_the_sum_of_its_pools() -> None:
    assert row(*(outcome(pool=name, unknown=2, total=8) for name in "abcd")) == [
        "RT-01 block-size-differs",
        "routing",
        "4 pools",
        "8 of 32 replicas",
    ]
    assert row(outcome(total=8))[3] == "–"


def test_reasons_are_grouped_before_the_colon_the_most_frequent_first() -> None:
    none = "x.y: reported by 0 of 8 replicas."

    assert skipped(none, none, "x.y: reported by 1 of 8 replicas.", "a.b: never.") == (
        "x.y: reported by 0 of 8 replicas (×2); reported by 1 of 8 replicas (×1). a.b: never (×1)."
    )
    assert skipped(none, none) == none
    assert skipped(*(f"x: {each}" for each in range(9))).endswith("; 6 more.")
    assert skipped(*(f"{each}: x" for each in range(9))).endswith(" 7 more reasons.")


def test_rule_errors_have_a_line_for_each_rule() -> None:
    errors = [outcome("RT-01", pool, OutcomeKind.ERROR, reason="ValueError: <x>") for pool in "abcd"]
    errors.append(outcome("RT-05", "a", OutcomeKind.ERROR, reason="boom"))
    head, lines = error_blocks(Inspection(outcomes=(*errors, outcome())))

    assert isinstance(head, Paragraph)
    assert isinstance(lines, Entries)
    assert to_plain(head.line).startswith("Rule errors: 2 rules not evaluated.")
    assert to_plain(lines.items[0].head) == "RT-01 block-size-differs on 4 pools: ValueError: <x>."
    assert error_blocks(Inspection(outcomes=(outcome(),))) == ()


def test_suppressed_findings_are_limited_and_entries_without_effect_follow() -> None:
    built = story()
    many = tuple(finding(built, id=str(each), suppression=suppression()) for each in range(MOST_ROWS + 2))
    full, none = (with_findings(built, suppressed=some, notes=("a note",)) for some in (many, ()))
    table, note = suppressed_blocks(full, list_findings(full))

    assert isinstance(table, Table)
    assert (len(table.rows), table.note) == (MOST_ROWS, "2 more not listed.")
    assert [each.text for each in table.rows[0][2:]] == ["ana", "2026-12-24", "a test of larger blocks", "fleet.yaml"]
    assert isinstance(note, Paragraph)
    assert to_plain(note.line) == "a note"
    first, second = suppressed_blocks(none, list_findings(none))
    assert isinstance(first, Paragraph)
    assert to_plain(first.line) == "No suppressed findings."
    assert second == note


def test_ignored_settings_are_named_with_the_pools_that_differ() -> None:
    documents = [document({f"x.y{number}": value for number in range(12)}) for value in (1, 2)]
    members = [each for number, one in enumerate(documents) for each in alike("chat", 1, one, first=number)]
    ignoring = fleet(members, documents, ignore=("x.*",))
    (table,), (paragraph,) = ignored_tables(ignoring), ignored_blocks(ignoring)

    assert table is not None
    assert [each.text for each in table.rows[0][:2]] == ["chat", "12"]
    assert table.rows[0][2].text.startswith("x.y0, ")
    assert table.rows[0][2].text.endswith(" and 4 more")
    assert to_plain(paragraph.line) == "Ignored by fleet.yaml: x.* (these differ in 1 pool)."
    assert ignored_tables(story()) == ()
    assert ignored_blocks(story()) == ()
