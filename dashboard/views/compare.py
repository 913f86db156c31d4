"""What the page Compare says of one pool, as a report."""

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif.models import WhatIf
from dashboard.compare import MAJORITY
from dashboard.fleet import Pool, Replica
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import plain
from dashboard.report.findings import listed as listed_findings
from dashboard.report.findings.listed import grouped, kept, known_findings
from dashboard.report.pools.compared import (
    Choice,
    Compared,
    compared,
    equal_words,
    grey_words,
    head_words,
    hidden_words,
    members_of,
    pool_named,
    unmatched_words,
)
from dashboard.views.blocks import Block, Paragraph, Section, View
from dashboard.views.context import context_of
from dashboard.views.finding_entries import FindingContext, full_entries
from dashboard.views.glossary import COHORT, REFERENCE, glossary
from dashboard.views.pool_blocks import cohorts_table, difference_table, sharing_band, sharing_blocks
from dashboard.views.slugs import slug
from dashboard.views.whatif import whatif_report

ONLY_DIFFERENCES = Choice(only_differences=True, section=None, search="", reference=MAJORITY, by_replica=False)


def compare_report(
    fleet: Fleet, pool: str, choice: Choice = ONLY_DIFFERENCES, *, what: WhatIf | None = None, name: str = ""
) -> View:
    """Report how the replicas of the pool of this name differ, seen as chosen.

    `what` is what would change if they converged, where that was asked. `name` is the snapshot's.
    """
    own = pool_named(fleet, pool)
    members = members_of(fleet, own)
    found = compared(fleet, own, choice)
    return View(
        title="Compare",
        headline=own.name,
        lead=head_words(own, members, fleet.inspection.domains.get(pool)),
        context=context_of(fleet, name=name, filters=_filters(own, choice)),
        parts=(
            _sharing(own, members, found),
            _settings(own, members, found, choice),
            Section("cohorts", "Cohorts", (cohorts_table(own, {each.id: each for each in members}, slug(pool)),)),
            _findings(fleet, own),
            *(whatif_report(fleet, what) if what else ()),
            glossary((COHORT, REFERENCE)),
        ),
    )


def _filters(pool: Pool, choice: Choice) -> list[tuple[str, str]]:
    """Return what was chosen, by the names that stand in the address of the page."""
    told = {
        "pool": pool.name,
        "show": "" if choice.only_differences else "All settings",
        "search": choice.search,
        "section": choice.section or "",
        "reference": "" if choice.reference == MAJORITY else choice.reference.text,
        "columns": "Replicas" if choice.by_replica else "",
    }
    return [(key, value) for key, value in told.items() if value]


def _sharing(pool: Pool, members: list[Replica], found: Compared) -> Section:
    blocks: list[Block] = [sharing_band(found), *sharing_blocks(found.sharing, slug(pool.name))]
    if pool.cohorts:
        names = {each.id: each.name for each in members}
        deciding = f"prefix-settings-{slug(pool.name)}"
        blocks.append(
            difference_table(found, found.prefix, names, name=deciding, caption="What decides prefix sharing")
        )
    return Section("prefix-sharing", "Prefix sharing", tuple(blocks))


def _settings(pool: Pool, members: list[Replica], found: Compared, choice: Choice) -> Section:
    if not found.matrix.rows:
        said = unmatched_words(found.matrix, choice) if choice.is_filtered else equal_words(pool, found.matrix, members)
        return Section("settings", "Settings", (Paragraph(plain(said)),))
    names = {each.id: each.name for each in members}
    notes = (hidden_words(pool, found.matrix, members), *grey_words(found.matrix, found.named))
    caption = f"Settings of {pool.name}"
    table = difference_table(
        found, found.matrix, names, name=f"settings-{slug(pool.name)}", caption=caption, notes=notes
    )
    return Section("settings", "Settings", (table,))


def _findings(fleet: Fleet, pool: Pool) -> Section:
    known = known_findings(fleet)
    own = kept(known.active, listed_findings.Choice(pool=pool.name))
    told: Block = Paragraph(plain("No finding names this pool."))
    if own:
        told = full_entries(grouped(own), FindingContext(known.names, fleet.inspection))
    return Section("findings", count(len(own), "finding") if own else "Findings", (told,))
