"""The outcomes of a fleet as JUnit XML: a suite for each pool, a case for each rule, as CI systems read it.

The elements are those of Jenkins' junit-10.xsd (jenkinsci/xunit-plugin), at most one result in a case.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import end_cut, visible, without_commands
from dashboard.render.verdict import Verdict, failing
from dashboard.report.findings import words
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Outcome, OutcomeKind, Severity
from dashboard.views.names import replica_names

LONGEST = 1000  # characters of an attribute
NO_JUDGEMENT = frozenset({OutcomeKind.SKIPPED, OutcomeKind.NOT_APPLICABLE})

Found = dict[tuple[str, str], list["Finding"]]  # by rule and subject


def to_junit(fleet: Fleet, fail_on: Severity | None, verdict: Verdict) -> str:
    """Write the outcomes. What is below `fail_on`, or suppressed, fails no case but stands in its output.

    Any deviation from a baseline of the verdict fails its case. A last suite says whether enough replicas answered.
    """
    inspection = fleet.inspection
    names = replica_names(fleet)
    active, hidden = _by_outcome(inspection.findings), _by_outcome(inspection.suppressed)
    suites: dict[str, list[ET.Element]] = defaultdict(list)
    for outcome in inspection.outcomes:
        key = (outcome.rule, outcome.subject)
        suites[outcome.subject].append(
            _case(outcome, failing(active[key], fail_on, verdict.baselines), active[key], hidden[key], names)
        )
    root = ET.Element("testsuites", name=_line(fleet.name))
    for subject, cases in sorted(suites.items()):
        root.append(_suite(subject, cases))
    root.append(_suite("targets", [_answered(fleet, verdict)]))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.attrib[count]) for suite in root)))
    ET.indent(root)
    return without_commands(ET.tostring(root, encoding="unicode", xml_declaration=False)) + "\n"


def _by_outcome(findings: Sequence[Finding]) -> Found:
    found: Found = defaultdict(list)
    for finding in findings:
        found[finding.rule, finding.subject].append(finding)
    return found


def _suite(name: str, cases: list[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=_line(name), tests=str(len(cases)))
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _case(
    outcome: Outcome,
    bad: Sequence[Finding],
    active: Sequence[Finding],
    hidden: Sequence[Finding],
    names: Mapping[str, str],
) -> ET.Element:
    name = f"{outcome.rule} {BY_ID[outcome.rule].name}"
    case = ET.Element("testcase", classname=_line(outcome.subject), name=name)
    if bad:
        more = f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else ""
        _result(case, "failure", bad[0].severity, f"{_place(bad[0])}{bad[0].sentence}{more}", _told(bad, names))
    elif outcome.kind is OutcomeKind.ERROR:
        _result(case, "error", "error", "the rule itself raised an error", outcome.reason)
    elif outcome.kind in NO_JUDGEMENT:
        _result(case, "skipped", outcome.kind, outcome.reason)
    elif hidden and not active:
        _result(case, "skipped", "suppressed", words.suppressions(hidden))
    mild = [each for each in active if each not in bad]
    if mild or hidden:
        ET.SubElement(case, "system-out").text = _fit(_told([*mild, *hidden], names))
    return case


def _place(finding: Finding) -> str:
    """Write where a finding is, if the name of its suite does not say it."""
    place = words.where(finding)
    return "" if place == finding.subject else f"{place}: "


def _answered(fleet: Fleet, verdict: Verdict) -> ET.Element:
    case = ET.Element("testcase", classname="targets", name="enough replicas answered")
    if verdict.too_little:
        _result(case, "failure", "unread", verdict.too_little, "\n".join(words.unread(fleet)))
    return case


def _result(case: ET.Element, tag: str, kind: str, message: str, text: str = "") -> None:
    result = ET.SubElement(case, tag, type=str(kind), message=_line(message))
    result.text = _fit(text) or None


def _told(findings: Sequence[Finding], names: Mapping[str, str]) -> str:
    """Write findings in full, a paragraph each."""
    return "\n\n".join("\n".join(_lines(each, words.who(each, names))) for each in findings)


def _lines(finding: Finding, who: str) -> list[str]:
    return [
        f"{finding.severity}: {finding.sentence}",
        f"Where: {words.where(finding)}, {who}",
        f"Why: {finding.why}",
        f"Do: {finding.remedy.sentence}",
        *words.pasteable(finding.remedy),
        *words.remarks(finding),
        *([f"It is {words.suppressions([finding])}."] if finding.suppression else []),
    ]


def _line(text: str) -> str:
    return _fit(end_cut(text, LONGEST))


def _fit(text: str) -> str:
    return visible(text)
