"""Accepting a finding: scopes, the entry for fleet.yaml, and the preview."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.config import load_options, policy_of
from dashboard.config.rules import suppression_yaml
from dashboard.rules.findings import Finding
from dashboard.views.excluded import covered_text, default_until, scopes
from tests.builders import NOW, alike, document, fleet, replica

SIZE = "cache_config.block_size"
USUAL, LARGE = document(), document({SIZE: 32})
ENTRY: dict[str, Any] = {"owner": "ann", "reason": "canary: larger blocks", "until": date(2027, 1, 31)}
TODAY = date(2026, 11, 22)
SUPPRESSES = "Suppresses this finding on 1 replica of chat until 2027-01-31 (70 days)."


@pytest.fixture(scope="module")
def built() -> Fleet:
    """Two pools in which one canary has another block size."""
    members = [
        each
        for pool in ("chat", "embed")
        for each in (
            *alike(pool, 3, USUAL),
            replica(f"{pool}-odd", pool=pool, document=LARGE, labels={"pool": pool, "track": "canary"}),
        )
    ]
    return inspected(fleet(members, [USUAL, LARGE]), NOW)


@pytest.fixture(scope="module")
def finding(built: Fleet) -> Finding:
    return next(each for each in built.inspection.findings if each.rule == "RT-01" and each.pools == ("chat",))


def test_a_finding_can_be_accepted_for_its_replicas_their_common_labels_or_the_pool(
    built: Fleet, finding: Finding
) -> None:
    assert list(scopes(built, [finding])) == ["only chat-odd", "replicas with track=canary", "pool chat"]


@pytest.mark.parametrize("place", range(3))
def test_the_entry_is_valid_in_fleet_yaml_and_suppresses_the_finding_alone(
    built: Fleet, finding: Finding, place: int, tmp_path: Path
) -> None:
    entry = replace(list(scopes(built, [finding]).values())[place][0], **ENTRY)
    file = tmp_path / "fleet.yaml"
    file.write_text(suppression_yaml([entry]), encoding="utf-8")
    after = inspected(replace(built, policy=policy_of(load_options(file))), NOW).inspection

    assert finding.id in {each.id for each in after.suppressed}
    assert {each.pools for each in after.suppressed} == {("chat",)}
    assert covered_text(built, [finding], [entry], TODAY) == SUPPRESSES


def test_the_preview_names_what_else_is_covered_and_what_stays_active(built: Fleet, finding: Finding) -> None:
    wide = replace(scopes(built, [finding])["pool chat"][0], pool=None, **ENTRY)
    other = replace(wide, pool="embed")

    assert covered_text(built, [finding], [wide], TODAY) == f"{SUPPRESSES} Also suppresses 1 finding: RT-01 in embed."
    left = covered_text(built, [finding], [other], TODAY)
    assert left.startswith("Does not suppress this finding. Also suppresses 1 finding")


def test_the_findings_of_a_cause_are_accepted_together_for_their_replicas_or_their_pools(built: Fleet) -> None:
    found = [each for each in built.inspection.findings if each.rule == "RT-01"]
    only, pools = scopes(built, [*found, found[0]]).items()

    assert (only[0], [each.replicas for each in only[1]]) == (
        "only 2 replicas of 2 pools",
        [("chat-odd",), ("embed-odd",)],
    )
    assert (pools[0], [each.pool for each in pools[1]]) == ("every replica of chat and embed", ["chat", "embed"])
    entries = [replace(each, **ENTRY) for each in only[1]]
    assert covered_text(built, found, entries, TODAY) == (
        "Suppresses these 2 findings on 2 replicas of 2 pools until 2027-01-31 (70 days)."
    )
    assert covered_text(built, found, entries[:1], TODAY).endswith(
        "on 1 replica of chat until 2027-01-31 (70 days), not on 1 replica."
    )


def test_foreign_names_are_quoted_and_an_acceptance_ends_after_90_days() -> None:
    odd = replica("a: [b]", pool="{x}", document=LARGE)
    built = inspected(fleet([*alike("{x}", 3, USUAL), odd], [USUAL, LARGE]), NOW)
    finding = next(each for each in built.inspection.findings if each.rule == "RT-01")
    entry = replace(next(iter(scopes(built, [finding]).values()))[0], **ENTRY)

    (loaded,) = yaml.safe_load(suppression_yaml([entry]))["suppress"]
    assert (loaded["pool"], loaded["replicas"], loaded["until"]) == ("{x}", ["a: [b]"], date(2027, 1, 31))
    assert default_until(date(2026, 11, 23)) == date(2027, 2, 21)
