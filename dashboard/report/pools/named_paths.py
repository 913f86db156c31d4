"""Which settings of a pool a finding names, and which findings those are: what a comparison marks."""

from collections import defaultdict
from collections.abc import Mapping

from dashboard.rules.findings import Finding, Inspection, Severity


def by_path(inspection: Inspection, pool: str) -> Mapping[str, list[Finding]]:
    """Return the findings of a pool by the settings that they name, the worst first."""
    named: dict[str, list[Finding]] = defaultdict(list)
    for finding in inspection.findings:
        for path in finding.paths if pool in finding.pools else ():
            named[path].append(finding)
    return named


def worst(named: Mapping[str, list[Finding]]) -> dict[str, Severity]:
    """Return the worst severity of each setting that a finding names."""
    return {path: findings[0].severity for path, findings in named.items()}
