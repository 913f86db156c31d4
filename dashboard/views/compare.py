"""The page Compare: how the replicas of one pool differ, and what would change if they did not."""

from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif.models import WhatIf
from dashboard.compare import MAJORITY
from dashboard.fleet import Pool, Replica
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import plain
from dashboard.views.blocks import Block, Paragraph, Section, View
from dashboard.views.context import context_of
from dashboard.views.finding_entries import FindingContext, full_entries
from dashboard.views.finding_list import FindingFilter, group_findings, list_findings
from dashboard.views.glossary import COHORT, REFERENCE, glossary
from dashboard.views.pages import COLUMNS, POOL, SEARCH, SECTION, SHOW
from dashboard.views.pages import REFERENCE as REFERENCE_CHOICE
from dashboard.views.pool_blocks import cohorts_table, difference_table, sharing_band, sharing_blocks
from dashboard.views.pool_comparison import (
    ONLY_DIFFERENCES,
    Comparison,
    MatrixChoice,
    compare_chosen,
    equal_text,
    head_text,
    hidden_text,
    members_of,
    pool_named,
    uncovered_text,
    unmatched_text,
)
from dashboard.views.slugs import slug
from dashboard.views.whatif import whatif_section

SHARING, SETTINGS = "prefix-sharing", "settings"  # anchors of the sections that a page draws around its controls


def compare_report(
    fleet: Fleet, pool: str, choice: MatrixChoice = ONLY_DIFFERENCES, *, what: WhatIf | None = None, name: str = ""
) -> View:
    """Return how the replicas of a pool differ, as chosen. `what` is a what-if, `name` is the snapshot's."""
    own = pool_named(fleet, pool)
    members = members_of(fleet, own)
    found = compare_chosen(fleet, own, choice)
    cohorts = cohorts_table(own, {each.id: each for each in members}, slug(pool))
    return View(
        title="Compare",
        headline=own.name,
        lead=head_text(own, members, fleet.inspection.domains.get(pool)),
        context=context_of(fleet, name=name, filters=_filters(own, choice)),
        parts=(
            sharing_section(own, members, found),
            settings_section(own, members, found, choice),
            Section("cohorts", "Cohorts", (cohorts,), is_exported_only=True),
            _findings(fleet, own),
            *((whatif_section(fleet, what),) if what else ()),
            glossary((COHORT, REFERENCE)),
        ),
    )


def _filters(pool: Pool, choice: MatrixChoice) -> list[tuple[str, str]]:
    choices = {
        POOL: pool.name,
        SHOW: "" if choice.only_differences else "All settings",
        SEARCH: choice.search,
        SECTION: choice.section or "",
        REFERENCE_CHOICE: "" if choice.reference == MAJORITY else choice.reference.text,
        COLUMNS: "Replicas" if choice.by_replica else "",
    }
    return [(key, value) for key, value in choices.items() if value]


def sharing_section(pool: Pool, members: list[Replica], found: Comparison) -> Section:
    """Return which cohorts share prefixes, and the settings that decide it."""
    blocks: list[Block] = [sharing_band(found), *sharing_blocks(found.sharing, slug(pool.name))]
    if pool.cohorts:
        names = {each.id: each.name for each in members}
        name, caption = f"prefix-settings-{slug(pool.name)}", "What decides prefix sharing"
        table = difference_table(found, found.prefix, pool, names, name=name, caption=caption)
        blocks.append(replace(table, is_interactive=True))
    return Section(SHARING, "Prefix sharing", tuple(blocks))


def settings_section(pool: Pool, members: list[Replica], found: Comparison, choice: MatrixChoice) -> Section:
    """Return the settings of a pool as chosen."""
    if not found.matrix.rows:
        text = unmatched_text(found.matrix, choice) if choice.is_filtered else equal_text(pool, found.matrix, members)
        return Section(SETTINGS, "Settings", (Paragraph(plain(text)),))
    names = {each.id: each.name for each in members}
    notes = (hidden_text(pool, found.matrix, members), *uncovered_text(found.matrix, found.named))
    name, caption = f"settings-{slug(pool.name)}", f"Settings of {pool.name}"
    table = difference_table(found, found.matrix, pool, names, name=name, caption=caption, notes=notes)
    return Section(SETTINGS, "Settings", (replace(table, is_interactive=True),))


def _findings(fleet: Fleet, pool: Pool) -> Section:
    known = list_findings(fleet)
    own = list(filter(FindingFilter(pool=pool.name).matches, known.active))
    block: Block = Paragraph(plain("No findings in this pool."))
    if own:
        block = full_entries(group_findings(own), FindingContext(known.names, fleet.inspection))
    title = count(len(own), "finding") if own else "Findings"
    return Section("findings", title, (block,), is_exported_only=True)
