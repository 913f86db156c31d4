"""Prefix sharing in a few words, its severity, and the groups of many cohorts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dashboard.fleet import EngineFingerprint, State
from dashboard.rules.domain import Router, Store
from dashboard.rules.findings import Severity
from dashboard.rules.subject import FINGERPRINT
from dashboard.views.pool_text import group_lines, sharing_severity, verdict_text
from tests.builders import setting, story
from tests.compare.sharing_pools import BLOCK, CACHING, OFF, SILENT, Cohort, verdict_of

SAME: Cohort = ({}, ["a", "a", "a"])
UNREPORTED: Cohort = ({}, [SILENT] * 3)
NO_BLOCK = {BLOCK: setting(None, State.UNKNOWN)}
RANDOM, XXHASH = {"seed_policy": "random"}, {"cache_config.prefix_caching_hash_algo": "xxhash"}


@pytest.mark.parametrize(
    ("cohorts", "unread", "expected"),
    [
        ([SAME], 0, "all 3 share"),
        ([SAME, ({"version": "0.31.0"}, ["a"])], 0, "all 4 share"),
        ([SAME, ({}, ["b"])], 0, "B differs from A"),
        ([SAME, ({}, ["b"]), ({}, ["c"])], 0, "B and C differ from A"),
        ([SAME, *[({}, [[f"digest {number}"]]) for number in range(7)]], 0, "B, C, D, E and 3 more differ from A"),
        ([({}, ["a", "b"])], 0, "no two replicas share"),
        ([SAME, ({}, ["b", "c"]), ({}, ["d"])], 0, "not all of B share; C differs from A"),
        ([(RANDOM, [SILENT] * 2)], 0, "no two replicas share"),
        ([(NO_BLOCK, ["a"] * 3), ({BLOCK: 16}, [SILENT] * 2), ({BLOCK: 32}, [SILENT])], 0, "cohorts differ"),
        ([(NO_BLOCK, [SILENT] * 3), ({BLOCK: 16}, [SILENT] * 2), ({BLOCK: 32}, [SILENT])], 0, "cohorts differ"),
        ([UNREPORTED, ({BLOCK: 32}, [SILENT])], 0, "B differs from A"),
        ([({}, [SILENT]), ({BLOCK: 32}, [SILENT])], 0, "cohorts differ, no majority"),
        ([UNREPORTED, ({"version": "0.31.0"}, [SILENT])], 0, "versions differ"),
        ([({CACHING: False}, [[OFF]] * 3)], 0, "prefix caching off"),
        ([(XXHASH, [SILENT] * 2)], 0, "probably not shared"),
        ([], 1, "unknown"),
        ([UNREPORTED], 2, "unknown"),
        ([({}, ["a", "a"])], 2, "unknown for 2"),
        ([({}, ["a", "a", SILENT])], 0, "unknown for 1"),
        ([({}, [SILENT])], 0, "one replica"),
    ],
)
def test_the_short_text_names_the_cohorts_that_differ(cohorts: Sequence[Cohort], unread: int, expected: str) -> None:
    assert verdict_text(verdict_of(*cohorts, unread=unread)) == expected


@pytest.mark.parametrize(
    ("cohorts", "kind", "unshared"),
    [
        ([SAME], "good", False),
        ([SAME, ({}, ["b"])], "info", True),
        ([UNREPORTED, ({"version": "0.31.0"}, [SILENT])], "warning", False),
        ([UNREPORTED], "unknown", False),
        ([(XXHASH, [SILENT] * 2)], "unknown", False),
        ([({CACHING: False}, [[EngineFingerprint()]] * 3)], "unknown", False),
    ],
)
def test_a_verdict_without_findings_has_the_severity_of_its_certainty(
    cohorts: Sequence[Cohort], kind: str, *, unshared: bool
) -> None:
    verdict = verdict_of(*cohorts)

    assert sharing_severity(verdict, {}) == kind
    assert verdict.is_certain == unshared


def test_a_finding_on_block_hashes_gives_the_verdict_its_severity() -> None:
    assert sharing_severity(verdict_of(({}, ["a", "b"])), {FINGERPRINT: Severity.WARNING}) == "warning"


def test_a_pool_uses_prefixes_if_it_has_a_router_or_a_store() -> None:
    domain = story().inspection.domains[story().pools[0].name]

    assert domain.uses_prefixes
    assert not replace(domain, router=Router.NONE).uses_prefixes
    assert replace(domain, router=Router.NONE, kv_store=Store.LMCACHE).uses_prefixes


@pytest.mark.parametrize(
    ("cohorts", "line"),
    [
        ([({}, ["b"])], "C shares with no other whole cohort"),
        ([({}, ["b"]), ({}, ["c"])], "C and D share with no other whole cohort"),
        ([({}, ["b", "c"])], "not all replicas of C share with each other"),
        ([({}, [SILENT]), ({}, [SILENT])], "block hashes of C and D are not reported"),
        ([({}, ["b", SILENT])], "block hashes of C are not reported by all replicas"),
    ],
)
def test_the_exceptions_follow_the_groups(cohorts: Sequence[Cohort], line: str) -> None:
    assert group_lines(verdict_of(({}, ["a"] * 4), SAME, *cohorts)) == ["A and B hash alike", line]


def test_without_hashes_there_is_nothing_to_list() -> None:
    assert group_lines(verdict_of(({}, [SILENT] * 2), ({}, [SILENT]))) == []


def test_groups_beyond_eight_are_counted() -> None:
    pairs: list[Cohort] = [({}, [str(number // 2)]) for number in range(20)]

    assert group_lines(verdict_of(*pairs))[-1] == "2 more groups of cohorts that hash alike"
