"""The verdict on prefix sharing and the rules never contradict each other: a law of cases, the demo and captures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import pytest

from dashboard.compare import Share, sharing_verdict
from dashboard.compare.sharing import compare_cohorts
from dashboard.fleet import Document, Pool, Replica
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Severity
from tests import builders
from tests.frozen import frozen_fleet
from tests.rules.case import Case, built, cases, inspected
from tests.saved_fleets import built_of_captures

# What these rules find, replicas do not share prefixes for: RT-01 whatever its severity, the others from warning on.
BLOCK_SIZE = "RT-01"
SPLITTING = tuple(BY_ID[each] for each in (BLOCK_SIZE, "RT-03", "RT-05", "RT-06", "RT-13", "RT-18", "CO-03"))

CACHING = "cache_config.enable_prefix_caching"
DECIDES_THE_HASH = ("speculative_config", "hash_lookahead_tokens", "cache_config.hash_block_size")
ALIKE = {"model_config.model": "org/llama", "model_config.revision": None, "cache_config.block_size": 16}


def contradictions(
    findings: Iterable[Finding], pools: Iterable[Pool], replicas: Sequence[Replica], documents: Mapping[str, Document]
) -> Iterator[tuple[str, str, str]]:
    """Yield the rule and two replicas that a finding sets apart and the verdict says share prefixes."""
    by_id = {each.id: each for each in replicas}
    verdicts = {each.name: sharing_verdict(each, by_id, documents) for each in pools}
    for finding in findings:
        if finding.rule == BLOCK_SIZE or finding.severity is not Severity.INFO:
            for verdict in (verdicts[each] for each in finding.pools):
                cohorts = {each.letter: each for each in verdict.cohorts}
                letters = {one: cohorts[each.letter] for each in verdict.pool.cohorts for one in each.replicas}
                for one, other in _apart(finding):
                    if compare_cohorts(letters[one], letters[other]).share is Share.YES:
                        yield finding.rule, one, other


def _apart(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield a replica of each of two different values in the evidence of a finding."""
    for one, other in combinations(finding.evidence, 2):
        # Alignment decides where a hit ends, not what is shared.
        if one.path == other.path != "cache_config.cache_hit_alignment_tokens" and one.value != other.value:
            yield from product(one.replicas[:1], other.replicas[:1])


def filled(fleet: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a case with block hashes and the weights and blocks of one model, where they have no others.

    Hashes are equal unless settings differ on which a fingerprint depends. Without prefix caching there are none.
    """
    entries = []
    for entry in fleet:
        settings = {**ALIKE, **entry.get("settings", {})}
        decides = {path: value for path, value in settings.items() if path.startswith(DECIDES_THE_HASH)}
        version = settings.get("version") if any(path.startswith("speculative") for path in decides) else None
        own = {"hashes": [repr((sorted(map(str, decides.items())), version))]}
        is_hashing = settings.get(CACHING) is not False and not {"hashes", "engines"} & entry.keys()
        filled_in = {**(own if is_hashing else {}), **entry, "settings": settings}
        entries.append(filled_in if "settings" in entry else entry)
    return entries


@pytest.mark.parametrize("rule", sorted({each.rule for each in cases()}))
def test_no_finding_of_a_case_sets_replicas_apart_that_share_prefixes(rule: str) -> None:
    for case in (each for each in cases() if each.rule == rule):
        assert [*_of_case(case)] == [], case.name


def _of_case(case: Case) -> Iterator[tuple[str, str, str]]:
    for fleet in (case.fleet, filled(case.fleet)):
        replicas, documents = built(fleet)
        known, ignore = {each.id: each for each in documents}, tuple(case.ignore)
        findings = inspected(replicas, documents, SPLITTING, ignore=ignore).findings
        yield from contradictions(findings, builders.compared(replicas, known, ignore), replicas, known)


def test_no_finding_of_the_demo_and_of_captures_sets_replicas_apart_that_share_prefixes() -> None:
    for fleet in (frozen_fleet(), built_of_captures()):
        findings = [each for each in fleet.inspection.findings if BY_ID[each.rule] in SPLITTING]
        assert findings
        assert [*contradictions(findings, fleet.pools, fleet.replicas, fleet.documents)] == []
