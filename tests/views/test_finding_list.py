"""The list of findings: unique keys, filters and search, groups of equal findings."""

from dataclasses import replace
from typing import Any

from dashboard.fleet.pieces import to_plain
from dashboard.rules.findings import Confidence, Finding, Severity
from dashboard.views.filters import read_search
from dashboard.views.finding_list import FindingFilter, FindingList, group_findings, list_findings, row_entries
from tests.builders import alike, document, fleet, story
from tests.findings_builder import finding, sighted, suppression, with_findings

CHAT = ["chat-70b-16"]


def listed(*findings: Finding, **more: Any) -> FindingList:
    return list_findings(with_findings(story(), *findings, **more))


def test_parts_of_one_finding_have_numbered_keys() -> None:
    built = story()
    known = listed(finding(built), finding(built, CHAT), suppressed=(finding(built, CHAT, suppression=suppression()),))

    assert [each.key for each in (*known.active, *known.suppressed)] == ["0123456789", "0123456789.2", "0123456789.3"]
    assert known.find("0123456789.3") is known.suppressed[0]
    assert known.find("0123456789.4") is None


def test_a_search_finds_names_addresses_labels_settings_rules_and_text_in_any_case() -> None:
    shared = document()
    built = fleet([replace(each, labels={"zone": "eu-3"}) for each in alike("chat", 2, shared)], [shared])
    (only,) = list_findings(with_findings(built, finding(built, ["chat-01"]))).active

    for words in ("CHAT-01", "http://chat-01:8000", "block_size", "rt-01", "size-differs", "INSTEAD of 32", "eu-3"):
        assert FindingFilter(read_search(words, {})).matches(only), words
    assert not FindingFilter(read_search("block_size chat-02", {})).matches(only)


def test_findings_of_one_rule_on_the_same_settings_are_one_group_whatever_their_pools_and_values() -> None:
    """Another severity, confidence or assumption makes a different group."""
    built = story()
    same = [finding(built, [name], id=name, sentence=f"Of {name}.") for name in ("chat-70b-16", "gemma-27b-01")]
    other = [
        finding(built, CHAT, id="x", sentence="S", severity=Severity.INFO),
        finding(built, CHAT, id="y", sentence="S", confidence=Confidence.DERIVED),
        finding(built, CHAT, id="z", sentence="S", assumptions=("router is approximate",)),
    ]
    known = listed(same[0], *other, same[1], suppressed=(finding(built, CHAT, id="s", suppression=suppression()),))

    assert [[each.key for each in group] for group in group_findings(known.active)] == [
        ["chat-70b-16", "gemma-27b-01"],
        ["x"],
        ["y"],
        ["z"],
    ]
    assert [each.key for each in known.group_of(known.active[0])] == ["chat-70b-16", "gemma-27b-01"]
    assert known.group_of(known.suppressed[0]) == [known.suppressed[0]]


def test_a_finding_of_an_unknown_rule_is_listed() -> None:
    """A saved fleet may be older than the rules of the program."""
    known = listed(finding(story(), rule="ZZ-99"))

    assert "ZZ-99" in known.rules
    assert FindingFilter().matches(known.active[0])


def test_rows_of_one_rule_and_text_name_the_cause_that_tells_them_apart() -> None:
    own = [finding(story(), id=cause, rule="EF-01", explained_by=(cause,)) for cause in ("RT-01", "RT-05")]
    rows = row_entries(group_findings(listed(*own).active), {}, (), None).items

    assert [each.head for each in rows] == [rows[0].head] * 2
    assert [to_plain(each.lines[0]).partition("likely cause: ")[2] for each in rows] == ["RT-01", "RT-05"]


def test_times_are_shown_where_they_tell_rows_apart_and_what_began_under_watch_is_new() -> None:
    built = sighted(with_findings(story(), *(finding(story(), id=rule, rule=rule) for rule in ("RT-01", "RT-02"))))
    groups = group_findings(list_findings(built).active)
    both, first = (row_entries(each, {}, (), None).items for each in (groups, groups[:1]))

    assert all(" · " in to_plain(each.lines[0]) for each in both)
    assert to_plain(first[0].lines[0]) == "RT-01 block-size-differs new"
