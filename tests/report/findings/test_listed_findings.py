"""The list of findings: keys that tell all of them apart, words that find them, groups that say the same."""

from dataclasses import replace
from typing import Any

from dashboard.report.findings import listed as listed_findings
from dashboard.report.findings.listed import Choice, Known
from dashboard.rules.findings import Confidence, Finding, Severity
from tests.builders import replica, story
from tests.findings_builder import finding, suppression, with_findings

CHAT = ["chat-70b-16"]


def listed(*findings: Finding, **more: Any) -> Known:
    """What the page knows of these findings."""
    fleet = with_findings(story(), *findings, **more)
    return listed_findings.known_findings(fleet)


def test_parts_of_one_finding_have_keys_of_their_own_and_the_id_stays_the_first() -> None:
    """An id from elsewhere, such as the report, opens the part that stands."""
    built = story()
    known = listed(finding(built), finding(built, CHAT), suppressed=(finding(built, CHAT, suppression=suppression()),))

    assert [each.key for each in (*known.active, *known.suppressed)] == ["0123456789", "0123456789.2", "0123456789.3"]
    assert known.find("0123456789.3") is known.suppressed[0]
    assert known.find("0123456789.4") is None


def test_a_search_needs_all_its_words_anywhere_in_what_the_finding_says_or_concerns() -> None:
    """Names, addresses, labels, settings, the rule's id and name, the sentence; upper and lower case alike."""
    known = listed(finding(story(), CHAT))

    for words in ("CHAT-70b-16", "http://chat-70b-16:8000", "block_size", "rt-01", "size-differs", "INSTEAD of 32"):
        assert listed_findings.kept(known.active, Choice(search=words)), words
    assert not listed_findings.kept(known.active, Choice(search="block_size chat-70b-17"))


def test_labels_of_a_replica_find_its_findings() -> None:
    """An operator may know a zone, not a name."""
    told = replica("a", labels={"zone": "eu-3"})
    fleet = with_findings(story(), finding(story(), CHAT))
    known = listed_findings._haystack(fleet.inspection.findings[0], "", {"http://chat-70b-16:8000": told})

    assert "eu-3" in known


def test_findings_that_say_the_same_of_several_pools_are_together_and_the_order_stays() -> None:
    """Another sentence, severity or confidence is another entry."""
    built = story()
    same = [finding(built, [name], id=name, sentence="S") for name in ("chat-70b-16", "gemma-27b-01")]
    other = [
        finding(built, CHAT, id="x", sentence="S", severity=Severity.INFO),
        finding(built, CHAT, id="y", sentence="S", confidence=Confidence.DERIVED),
    ]
    known = listed(same[0], *other, same[1])

    assert [[each.key for each in group] for group in listed_findings.grouped(known.active)] == [
        ["chat-70b-16", "gemma-27b-01"],
        ["x"],
        ["y"],
    ]
    assert [each.key for each in known.alike(known.active[0])] == ["chat-70b-16", "gemma-27b-01"]


def test_findings_for_an_assumed_router_stand_apart_from_those_for_one_that_is_known() -> None:
    """The entry says which it is, so one entry cannot hold both."""
    built = story()
    one, other = (finding(built, [name], id=name, sentence="S") for name in ("chat-70b-16", "gemma-27b-01"))
    known = listed(replace(one, assumptions=("router is approximate",)), other)

    assert len(listed_findings.grouped(known.active)) == 2
    assert known.alike(known.active[0]) == [known.active[0]]


def test_what_is_suppressed_stands_alone() -> None:
    """It is no longer among those that say the same."""
    built = story()
    known = listed(finding(built), suppressed=(finding(built, CHAT, id="s", suppression=suppression()),))

    assert known.alike(known.suppressed[0]) == [known.suppressed[0]]


def test_a_rule_that_is_no_longer_known_has_no_family_and_is_still_listed() -> None:
    """A pinned fleet may be older than the program's rules."""
    known = listed(finding(story(), rule="ZZ-99"))

    assert known.active[0].family is None
    assert "ZZ-99" in known.rules
    assert len(listed_findings.kept(known.active, Choice())) == 1
