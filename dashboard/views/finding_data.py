"""Findings as a table for programs: one shape in every file, named as in the JSON document of findings."""

from collections.abc import Iterable, Mapping

from dashboard.fleet.sightings import NO_SIGHTINGS, Sighting
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Cell, Column, Table, Value, data_cell
from dashboard.views.finding_text import cohorts_text, named_cohorts
from dashboard.views.since import SIGHTING_COLUMNS, sighting_cells

FINDINGS = "findings"  # one file has the findings of all lists
COLUMNS = (
    Column("severity"),
    Column("rule"),
    Column("name"),
    Column("id"),
    Column("pools"),
    Column("replicas"),
    Column("addresses"),
    Column("cohorts"),
    Column("sentence"),
    Column("why"),
    Column("remedy"),
    Column("snippets"),
    Column("paths"),
    Column("confidence"),
    Column("assumptions"),
    Column("is_rollout"),
    Column("unknown", is_number=True),
    Column("total", is_number=True),
    *SIGHTING_COLUMNS,
)


def findings_data(
    found: Iterable[Finding],
    names: Mapping[str, str],
    sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings,
    *,
    name: str = FINDINGS,
    caption: str = "Findings",
) -> Table:
    """Return a row for each finding, with all its pools and replicas.

    `names` is by the replicas' ids, `sightings` by fingerprint.
    """
    return Table(name, caption, COLUMNS, tuple(finding_row(each, names, sightings) for each in found))


def finding_row(
    finding: Finding, names: Mapping[str, str], sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings
) -> tuple[Cell, ...]:
    """Return the cells of one finding; replicas and addresses are in the order of its cohorts."""
    cohorts = named_cohorts(finding, names)
    rule = BY_ID.get(finding.rule)
    values: tuple[Value, ...] = (
        finding.severity.value,
        finding.rule,
        rule.name if rule else "",
        finding.id,
        finding.pools,
        tuple(name for each in cohorts for name in each.names),
        tuple(replica for each in cohorts for replica in each.replicas),
        cohorts_text(finding),
        finding.sentence,
        finding.why,
        finding.remedy.sentence,
        tuple(each.text for each in finding.remedy.snippets),
        finding.paths,
        finding.confidence.value,
        finding.assumptions,
        finding.is_rollout,
        finding.unknown,
        finding.total,
    )
    sighting = sightings.get(finding.fingerprint) if sightings else None
    return (*map(data_cell, values), *sighting_cells(sighting))
