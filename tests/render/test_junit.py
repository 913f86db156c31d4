"""JUnit XML as Jenkins, GitLab and others read it: a suite for each pool, a case for each rule."""

from xml.etree import ElementTree as ET

from dashboard.analysis.assembly import Fleet
from dashboard.render.junit import to_junit
from dashboard.render.verdict import verdict_of
from dashboard.rules.findings import OutcomeKind, Severity
from tests.inspected_fleets import evil, finding, fleet, outcome, suppression

CRITICAL, WARNING, INFO = Severity
# Jenkins' junit-10.xsd: per element its attributes, those that it must have, and what may stand in it.
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


def written(judged: Fleet, fail_on: Severity | None = CRITICAL) -> ET.Element:
    text = to_junit(judged, fail_on, verdict_of(judged, fail_on, 100))
    return ET.fromstring(text)  # noqa: S314  our own


def case(root: ET.Element, name: str) -> ET.Element:
    return next(each for each in root.iter("testcase") if each.attrib["name"].startswith(name))


def result(root: ET.Element, name: str) -> ET.Element | None:
    return next((each for each in case(root, name) if each.tag != "system-out"), None)


def test_a_finding_that_fails_is_a_failure_of_its_rule_in_the_suite_of_its_pool() -> None:
    root = written(fleet(finding(), finding(replicas=("http://chat-1:8000",)), finding("CO-01", WARNING)))
    failure = result(root, "RT-01 block-size-differs")

    assert [suite.attrib["name"] for suite in root] == ["chat", "targets"]
    assert failure is not None
    assert failure.tag == "failure"
    assert failure.attrib["type"] == "critical"
    assert failure.attrib["message"].endswith("which 2 of 4 replicas have. (and 1 more)")
    assert (failure.text or "").count("--block-size 16") == 2


def test_what_is_below_the_level_passes_and_is_told_in_the_output() -> None:
    root = written(fleet(finding("CO-01", WARNING)))

    assert result(root, "CO-01") is None
    assert (case(root, "CO-01").findtext("system-out") or "").startswith("warning: Block size is 32")
    assert result(written(fleet(finding("CO-01", WARNING)), WARNING), "CO-01") is not None
    assert result(written(fleet(finding()), None), "RT-01") is None


def test_what_was_not_judged_is_skipped_with_its_reason_and_a_rule_that_raised_is_an_error() -> None:
    root = written(
        fleet(
            outcomes=[
                outcome("CO-01", OutcomeKind.SKIPPED, "told by none."),
                outcome("CO-02", OutcomeKind.NOT_APPLICABLE, "Only for: kv-store."),
                outcome("CO-03", OutcomeKind.ERROR, "KeyError: 1"),
                outcome("CO-04", OutcomeKind.PASSED),
            ]
        )
    )
    told = {name: result(root, name) for name in ("CO-01", "CO-02", "CO-03", "CO-04")}

    assert {name: each.tag if each is not None else "" for name, each in told.items()} == {
        "CO-01": "skipped",
        "CO-02": "skipped",
        "CO-03": "error",
        "CO-04": "",
    }
    assert told["CO-01"] is not None
    assert told["CO-01"].attrib == {"type": "skipped", "message": "told by none."}
    assert told["CO-03"] is not None
    assert told["CO-03"].text == "KeyError: 1"


def test_what_is_suppressed_is_skipped_until_its_day() -> None:
    root = written(fleet(suppressed=[finding(suppression=suppression())]))
    skipped = result(root, "RT-01")

    assert skipped is not None
    assert skipped.attrib == {"type": "suppressed", "message": "suppressed until 2026-04-30 by ann: canary"}
    assert "Suppressed until 2026-04-30 by ann: canary." in (case(root, "RT-01").findtext("system-out") or "")


def test_a_milder_finding_beside_a_suppressed_one_passes_and_both_are_in_the_output() -> None:
    root = written(fleet(finding(severity=WARNING), suppressed=[finding(suppression=suppression())]))

    assert result(root, "RT-01") is None
    assert (case(root, "RT-01").findtext("system-out") or "").count("Block size is 32") == 2


def test_too_few_answers_are_a_failure_too() -> None:
    root = written(fleet(down=1))
    failure = result(root, "enough replicas answered")

    assert failure is not None
    assert failure.attrib["message"].startswith("only 4 of 5 answered")
    assert failure.text == "lost-1: Nothing listens there."


def test_foreign_text_is_well_formed_and_nothing_stands_where_the_schema_has_no_place_for_it() -> None:
    root = written(evil(), None)

    for element in root.iter():
        attributes, needed, children = SCHEMA[element.tag]
        assert needed <= element.attrib.keys() <= attributes
        assert {child.tag for child in element} <= children
        assert "\x1b" not in (element.text or "")
    assert "<b>![x](http://h/x.png)" in root[0].attrib["name"]
