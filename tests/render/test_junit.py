"""JUnit XML as Jenkins, GitLab and others read it: a suite for each pool, a case for each rule."""

from xml.etree import ElementTree as ET

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.render.junit import to_junit
from dashboard.render.verdict import verdict_of
from dashboard.rules.findings import OutcomeKind, Severity
from tests.inspected_fleets import evil, finding, fleet, outcome, suppression

CRITICAL, WARNING, _ = Severity
# Jenkins' junit-10.xsd: per element its attributes, the required ones, and its children.
SCHEMA = {
    "testsuites": ({"name", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped"},
        {"name", "tests", "failures", "errors"},
        {"testcase"},
    ),
    "testcase": ({"name", "classname"}, {"name"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
}


def written(checked: Fleet, fail_on: Severity | None = CRITICAL) -> ET.Element:
    text = to_junit(checked, fail_on, verdict_of(checked, fail_on, 100))
    return ET.fromstring(text)  # noqa: S314  our own


def case(root: ET.Element, name: str) -> tuple[str, dict[str, str], str]:
    """Return tag, attributes and text of the result of a case, and its output; a case that passes has no result."""
    found = next(each for each in root.iter("testcase") if each.attrib["name"].startswith(name))
    result = next((each for each in found if each.tag != "system-out"), None)
    if result is None:
        return "", {}, found.findtext("system-out") or ""
    return result.tag, result.attrib, (result.text or "") + (found.findtext("system-out") or "")


def test_a_finding_that_fails_is_a_failure_of_its_rule_in_the_suite_of_its_pool() -> None:
    root = written(fleet(finding(), finding(replicas=("http://chat-1:8000",)), finding("CO-01", WARNING)))
    tag, attributes, text = case(root, "RT-01 block-size-differs")

    assert [suite.attrib["name"] for suite in root] == ["chat", "targets"]
    assert (tag, attributes["type"], text.count("--block-size 16")) == ("failure", "critical", 2)
    assert attributes["message"].endswith("which 2 of 4 replicas have. (and 1 more)")


@pytest.mark.parametrize(
    ("severity", "fail_on", "tag"), [(WARNING, CRITICAL, ""), (WARNING, WARNING, "failure"), (CRITICAL, None, "")]
)
def test_a_finding_below_the_level_passes_and_is_in_the_output(
    severity: Severity, fail_on: Severity | None, tag: str
) -> None:
    shown, _, text = case(written(fleet(finding("CO-01", severity)), fail_on), "CO-01")

    assert shown == tag
    assert f"{severity}: Block size is 32" in text or tag


@pytest.mark.parametrize(
    ("kind", "reason", "expected"),
    [
        (OutcomeKind.SKIPPED, "Not reported.", ("skipped", {"type": "skipped", "message": "Not reported."}, "")),
        (
            OutcomeKind.NOT_APPLICABLE,
            "Only for: kv-store.",
            ("skipped", {"type": "not applicable", "message": "Only for: kv-store."}, ""),
        ),
        (OutcomeKind.ERROR, "KeyError: 1", ("error", {"type": "error", "message": "rule error"}, "KeyError: 1")),
        (OutcomeKind.PASSED, "", ("", {}, "")),
    ],
)
def test_an_outcome_without_findings_is_skipped_an_error_or_passes(
    kind: OutcomeKind, reason: str, expected: tuple[str, dict[str, str], str]
) -> None:
    assert case(written(fleet(outcomes=[outcome("CO-01", kind, reason)])), "CO-01") == expected


def test_a_suppressed_finding_is_skipped_and_with_a_milder_one_both_are_in_the_output() -> None:
    hidden = finding(suppression=suppression())
    tag, attributes, text = case(written(fleet(suppressed=[hidden])), "RT-01")
    both = case(written(fleet(finding(severity=WARNING), suppressed=[hidden])), "RT-01")

    assert tag == "skipped"
    assert attributes == {"type": "suppressed", "message": "suppressed until 2026-04-30 by ann: canary"}
    assert "Suppressed until 2026-04-30 by ann: canary." in text
    assert (both[0], both[2].count("Block size is 32")) == ("", 2)


def test_foreign_text_stays_within_the_schema() -> None:
    root = written(evil(), None)

    for element in root.iter():
        attributes, required, children = SCHEMA[element.tag]
        assert required <= element.attrib.keys() <= attributes
        assert {child.tag for child in element} <= children
        assert "\x1b" not in (element.text or "")
    assert "<b>![x](http://h/x.png)" in root[0].attrib["name"]


def test_a_rule_of_which_no_replica_reports_all_settings_has_not_passed() -> None:
    root = written(fleet(outcomes=[outcome("CO-04", unknown=4), outcome("CO-05", unknown=3)]))

    assert case(root, "CO-04")[:2] == (
        "skipped",
        {"type": "partially evaluated", "message": "No replica reports all settings of this rule."},
    )
    assert case(root, "CO-05")[0] == ""
