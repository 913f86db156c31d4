"""The findings of a fleet as SARIF 2.1.0, for tools that track findings over time.

Property names are those of the OASIS standard, sections 3.13 to 3.58. The replicas of a finding are its logical
locations. GitHub's code scanning also requires a file: the one with the options.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import end_cut, iso, safe_json
from dashboard.render.rule_markdown import headline, page_path, rule_page, severities
from dashboard.render.verdict import PASSED, Verdict
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import Finding, Outcome, OutcomeKind, Severity
from dashboard.rules.registry import Rule
from dashboard.views import finding_text
from dashboard.views.effect import finding_line

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
VERSION = "2.1.0"
TOOL = "vllm-fleet-dashboard"
LEVELS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
LONGEST = 1000  # characters of one line
# The only fingerprint that GitHub's code scanning looks at; elsewhere any name does.
FINGERPRINT = "primaryLocationLineHash"
INDEX = {rule.id: number for number, rule in enumerate(ALL_RULES)}

Json = dict[str, Any]


def to_sarif(fleet: Fleet, verdict: Verdict, file: str) -> str:
    """Return the findings. `file` is the path of the options, relative to the repository of the run.

    Suppressed findings are marked. Passed rules are left out; skipped rules and rule errors are notifications.
    """
    inspection = fleet.inspection
    run = {
        "tool": {"driver": {"name": TOOL, "version": __version__, "rules": [_rule(rule) for rule in ALL_RULES]}},
        "invocations": [_invocation(fleet, verdict)],
        "results": [_result(each, fleet, file) for each in (*inspection.findings, *inspection.suppressed)],
        "columnKind": "unicodeCodePoints",
        "properties": {
            "fleet": _text(fleet.name),
            "answered": finding_text.answered(fleet),
            "notes": [_text(each) for each in inspection.notes],
            "rollouts": [_text(each) for each in finding_text.rollouts(inspection)],
        },
    }
    document = json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}, indent=2)
    return safe_json(document.encode()).decode() + "\n"


def _rule(rule: Rule) -> Json:
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": headline(rule)},
        "fullDescription": {"text": rule.page.problem},
        "help": {"text": f"{rule.page.fix}\n\nExceptions: {rule.page.exceptions}", "markdown": rule_page(rule)},
        "defaultConfiguration": {"level": LEVELS[min(rule.severity.values(), key=lambda each: each.rank)]},
        "properties": {"family": rule.family, "severities": severities(rule), "page": page_path(rule.id)},
    }


def _invocation(fleet: Fleet, verdict: Verdict) -> Json:
    notifications = [
        _notification(each)
        for each in fleet.inspection.outcomes
        if each.kind in {OutcomeKind.ERROR, OutcomeKind.SKIPPED}
    ]
    if verdict.too_little:
        notifications.append({"level": "error", "message": {"text": _text(verdict.too_little)}})
    if verdict.left_out:
        notifications.append({"level": "note", "message": {"text": _text(verdict.left_out)}})
    times = {"endTimeUtc": iso(fleet.polled_at)} if fleet.polled_at else {}
    return {
        "executionSuccessful": not verdict.too_little,
        "exitCode": verdict.code,
        "exitCodeDescription": _text(verdict.sentence),
        "toolExecutionNotifications": notifications,
        "properties": {"passed": verdict.code == PASSED},
        **times,
    }


def _notification(outcome: Outcome) -> Json:
    raised = outcome.kind is OutcomeKind.ERROR
    kind = "rule error" if raised else "skipped"
    return {
        "level": "error" if raised else "note",
        "message": {"text": _text(f"{outcome.rule} in {outcome.subject}: {kind}: {outcome.reason}")},
        "associatedRule": {"id": outcome.rule, "index": INDEX[outcome.rule]},
    }


def _result(finding: Finding, fleet: Fleet, file: str) -> Json:
    names = fleet.names
    replicas = finding_text.replicas_text(finding, names)
    lines = [
        f"{finding_text.where(finding)}, {replicas}: {finding.sentence}",
        finding_line(fleet, finding),
        finding.why,
        finding.remedy.sentence,
        *(line for text in finding_text.paste_lines(finding.remedy) for line in text.splitlines()),
        *finding_text.remarks(finding),
    ]
    return {
        "ruleId": finding.rule,
        "ruleIndex": INDEX[finding.rule],
        "kind": "fail",
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join(_text(line) for line in lines if line)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": 1}},
                "logicalLocations": _locations(finding, names),
            }
        ],
        "partialFingerprints": {FINGERPRINT: f"{finding.id}:1"},
        "suppressions": _suppressions(finding),
        "properties": _properties(finding, replicas),
    }


def _locations(finding: Finding, names: Mapping[str, str]) -> list[Json]:
    pools = [{"name": _text(each), "kind": "pool"} for each in finding.pools]
    replicas = [
        {"name": _text(names[each]), "fullyQualifiedName": _text(each), "kind": "replica"} for each in finding.replicas
    ]
    return [*pools, *replicas]


def _suppressions(finding: Finding) -> list[Json]:
    """Return the suppression; an empty list means none."""
    entry = finding.suppression
    if entry is None:
        return []
    justification = f"{entry.reason} ({entry.owner}, until {entry.until})"
    return [{"kind": "external", "status": "accepted", "justification": _text(justification)}]


def _properties(finding: Finding, who: str) -> Json:
    return {
        "id": finding.id,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "assumptions": list(finding.assumptions),
        "severity_behind": dict(finding.severity_behind),
        "subject": _text(finding.subject),
        "cohorts": _text(who),
        "unknown": finding.unknown,
        "total": finding.total,
        "isRollout": finding.is_rollout,
        "isExpired": finding.expired is not None,
        "paths": [_text(path) for path in finding.paths],
    }


def _text(text: str) -> str:
    return end_cut(text, LONGEST)
