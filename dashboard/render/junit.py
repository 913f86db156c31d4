"""The outcomes of a fleet as JUnit XML: a suite for each pool, a case for each rule, as CI systems read it.

The elements are those of Jenkins' junit-10.xsd (jenkinsci/xunit-plugin), at most one result in a case.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import end_cut, visible, without_commands
from dashboard.fleet.grouping import grouped
from dashboard.render.verdict import Verdict, failing
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Outcome, OutcomeKind, Severity
from dashboard.views import finding_text
from dashboard.views.effect import finding_line

LONGEST = 1000  # characters of an attribute
WITHOUT_VERDICT = frozenset({OutcomeKind.SKIPPED, OutcomeKind.NOT_APPLICABLE})

ByRule = Mapping[tuple[str, str], Sequence[Finding]]  # by rule and subject


def to_junit(fleet: Fleet, fail_on: Severity | None, verdict: Verdict) -> str:
    """Return the outcomes. Findings below `fail_on`, and suppressed ones, are in the output of a case that passes.

    Any deviation from a baseline of the verdict fails its case. The last suite is about coverage.
    """
    inspection = fleet.inspection
    active, suppressed = _by_rule(inspection.findings), _by_rule(inspection.suppressed)
    suites: dict[str, list[ET.Element]] = defaultdict(list)
    for outcome in inspection.outcomes:
        key = (outcome.rule, outcome.subject)
        failed = failing(active.get(key, ()), fail_on, verdict.baselines)
        case = _case(outcome, failed, active.get(key, ()), suppressed.get(key, ()), fleet)
        suites[outcome.subject].append(case)
    root = ET.Element("testsuites", name=_line(fleet.name))
    root.extend(_suite(subject, cases) for subject, cases in sorted(suites.items()))
    targets = [_coverage(fleet, verdict)]
    if verdict.left_out:
        targets.append(ET.Element("testcase", classname="targets", name="findings that are not new"))
        _result(targets[-1], "skipped", "left out", verdict.left_out)
    root.append(_suite("targets", targets))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.attrib[count]) for suite in root)))
    ET.indent(root)
    return without_commands(ET.tostring(root, encoding="unicode", xml_declaration=False)) + "\n"


def _by_rule(findings: Sequence[Finding]) -> ByRule:
    return grouped(((finding.rule, finding.subject), finding) for finding in findings)


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=_line(name), tests=str(len(cases)))
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _case(
    outcome: Outcome,
    failed: Sequence[Finding],
    active: Sequence[Finding],
    suppressed: Sequence[Finding],
    fleet: Fleet,
) -> ET.Element:
    name = f"{outcome.rule} {BY_ID[outcome.rule].name}"
    case = ET.Element("testcase", classname=_line(outcome.subject), name=name)
    if failed:
        more = f" (and {len(failed) - 1:,} more)" if len(failed) > 1 else ""
        where = finding_text.where(failed[0])
        place = "" if where == outcome.subject else f"{where}: "
        _result(case, "failure", failed[0].severity, f"{place}{failed[0].sentence}{more}", _texts(failed, fleet))
    elif outcome.kind is OutcomeKind.ERROR:
        _result(case, "error", "error", "rule error", outcome.reason)
    elif outcome.kind in WITHOUT_VERDICT:
        _result(case, "skipped", outcome.kind, outcome.reason)
    elif suppressed and not active:
        _result(case, "skipped", "suppressed", finding_text.suppressions(suppressed))
    elif outcome.silent and outcome.unknown == outcome.total and not active:
        _result(case, "skipped", "partially evaluated", "No replica reports all settings of this rule.")
    if rest := [*(each for each in active if each not in failed), *suppressed]:
        ET.SubElement(case, "system-out").text = visible(_texts(rest, fleet))
    return case


def _coverage(fleet: Fleet, verdict: Verdict) -> ET.Element:
    case = ET.Element("testcase", classname="targets", name="enough replicas answered")
    if verdict.too_little:
        _result(case, "failure", "unread", verdict.too_little, "\n".join(finding_text.unreachable(fleet)))
    return case


def _result(case: ET.Element, tag: str, kind: str, message: str, text: str = "") -> None:
    result = ET.SubElement(case, tag, type=str(kind), message=_line(message))
    result.text = visible(text) or None


def _texts(findings: Sequence[Finding], fleet: Fleet) -> str:
    """Return findings in full, a paragraph each."""
    return "\n\n".join("\n".join(_text(each, fleet)) for each in findings)


def _text(finding: Finding, fleet: Fleet) -> list[str]:
    suppressed = finding_text.suppressions([finding])
    return [
        f"{finding.severity}: {finding.sentence}",
        f"Where: {finding_text.where(finding)}, {finding_text.replicas_text(finding, fleet.names)}",
        f"Why: {finding.why}",
        *([measured] if (measured := finding_line(fleet, finding)) else []),
        f"Do: {finding.remedy.sentence}",
        *finding_text.paste_lines(finding.remedy),
        *finding_text.remarks(finding),
        *([f"{suppressed[:1].upper()}{suppressed[1:]}."] if suppressed else []),
    ]


def _line(text: str) -> str:
    return visible(end_cut(text, LONGEST))
