"""The verdicts of the rules and on prefix sharing as text: of every YAML case, the simulated fleet and captures.

`python -m tests.tools.rule_set` writes the committed file again. It has no sentences: a changed line is a changed
verdict. `RULE_SET` in dashboard/rules/catalogue.py says when to raise the number, which is the first line.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dashboard.compare import sharing_verdict
from dashboard.fleet import Document, Pool, Replica
from dashboard.rules.catalogue import BY_ID, RULE_SET
from dashboard.rules.findings import Finding, Inspection
from tests import builders
from tests.frozen import frozen_fleet
from tests.rules.case import built, cases
from tests.saved_fleets import built_of_captures

COMMITTED = Path(__file__).parents[1] / "rules" / "rule_set.txt"


def text() -> str:
    """Return what is committed: the number of the rule set, then the verdicts, one case or finding a line."""
    return "\n".join([str(RULE_SET), *_of_cases(), *_of_fleets()]) + "\n"


def verdict_of(finding: Finding) -> str:
    """Return id, rule, severity, confidence, subject and replicas of a finding, and a digest of its evidence."""
    rows = sorted((each.path, each.value, each.state, each.replicas, each.is_reference) for each in finding.evidence)
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()[:8]
    words = [finding.id, finding.rule, finding.severity, finding.confidence, f"evidence {digest}"]
    marks = ["rollout"] * finding.is_rollout + ["suppressed"] * (finding.suppression is not None)
    replicas = ",".join(each.removeprefix("http://").removesuffix(":8000") for each in finding.replicas)
    return " ".join([*words, f"unknown {finding.unknown}", *marks, f"{finding.subject}: {replicas}"])


def _of_cases() -> Iterator[str]:
    for case in cases():
        inspection = case.inspected(BY_ID[case.rule])
        outcomes = ", ".join(f"{each.subject} {each.kind} {each.unknown}" for each in inspection.outcomes)
        yield f"{case.rule} {case.name}: {outcomes}"
        yield from (f"    {verdict_of(each)}" for each in inspection.findings)
        replicas, documents = built(case.fleet)
        known = {each.id: each for each in documents}
        yield from _of_sharing(builders.compared(replicas, known, tuple(case.ignore)), replicas, known)


def _of_fleets() -> Iterator[str]:
    fleets = {"demo": frozen_fleet(), "captures": built_of_captures()}
    for name, fleet in fleets.items():
        yield name
        yield from _of_inspection(fleet.inspection)
        yield from _of_sharing(fleet.pools, fleet.replicas, fleet.documents)


def _of_inspection(inspection: Inspection) -> Iterator[str]:
    yield from (f"    {each.rule} {each.subject} {each.kind} {each.unknown}" for each in inspection.outcomes)
    yield from (f"    {verdict_of(each)}" for each in (*inspection.findings, *inspection.suppressed))


def _of_sharing(pools: Iterable[Pool], replicas: Iterable[Replica], documents: Mapping[str, Document]) -> Iterator[str]:
    """Yield the verdict on each pool that was read, with that on each pair of its cohorts."""
    by_id = {each.id: each for each in replicas}
    for pool in pools:
        if pool.cohorts:
            found = sharing_verdict(pool, by_id, documents)
            cells = (f"{each.one}{each.other} {each.share} ({each.cause})" for each in found.cells)
            yield f"    {pool.name} shares prefixes: {found.share}; {', '.join(cells)}"


if __name__ == "__main__":
    COMMITTED.write_text(text())
