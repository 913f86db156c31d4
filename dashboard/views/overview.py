"""The page Overview: the fleet in six numbers, its pools, the top findings, and replicas with incomplete data."""

from collections.abc import Iterable
from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis, Pool, formatting
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Piece, Style, page, plain
from dashboard.rules.findings import Severity
from dashboard.views import fleet_summary, pages
from dashboard.views.blocks import Block, Figure, Figures, Paragraph, Section, Tone, View
from dashboard.views.context import context_of
from dashboard.views.excluded import unread_entries
from dashboard.views.finding_entries import brief_entries
from dashboard.views.finding_list import list_findings, top_findings
from dashboard.views.findings_summary import incomplete_text
from dashboard.views.fleet_summary import FleetSummary
from dashboard.views.glossary import BASIS, COHORT, POOL, glossary
from dashboard.views.pools_table import pools_table
from dashboard.views.replicas import INCOMPLETE
from dashboard.views.sharing import (
    is_doubtful,
    is_needed,
    pools_by_urgency,
    suppressed_pools,
)
from dashboard.views.sorting import sort_table

NUMBERS, POOLS, FIRST, UNREAD = "numbers", "pools", "first", "not-read"  # anchors
MOST_UNREAD = 8  # groups of replicas with incomplete data


def overview_report(fleet: Fleet, name: str = "", sort: str = "", now: datetime | None = None) -> View:
    """Return the view of a fleet. `name` is the snapshot's; `sort` is one of the table of pools, empty: by urgency.

    Ages count from `now`; without it times are shown.
    """
    summary = fleet_summary.summarize(fleet)
    pools = pools_by_urgency(fleet)
    incomplete = Section(UNREAD, "Incomplete data", unread_entries(summary.unread, MOST_UNREAD))
    return View(
        title="Overview",
        headline=fleet_summary.fleet_title(summary),
        lead=more_words(fleet, summary, pools),
        context=context_of(fleet, name=name),
        parts=(
            Section(NUMBERS, "Summary", (Figures(overview_figures(fleet, summary)),)),
            *(
                [Section(POOLS, "Pools", (sort_table(pools_table(fleet, pools), sort, pages.OVERVIEW),))]
                if fleet.pools
                else []
            ),
            _top_findings(fleet, summary, now),
            *([incomplete] if summary.unread else []),
            glossary((POOL, COHORT, BASIS)),
        ),
    )


def more_words(fleet: Fleet, now: FleetSummary, pools: Iterable[Pool]) -> str:
    """Return the counts of findings and their consequences, pools in the given order."""
    domains = fleet.inspection.domains
    needed = {pool.name: fleet.sharing[pool.name] for pool in pools if is_needed(domains.get(pool.name))}
    unshared = [name for name, verdict in needed.items() if verdict.is_certain]
    doubtful = [name for name, verdict in needed.items() if is_doubtful(verdict)]
    suppressed = suppressed_pools(fleet.inspection)
    return fleet_summary.fleet_lead(now, unshared, fleet.inspection, doubtful=doubtful, suppressed=suppressed)


def calm_paragraph(fleet: Fleet, now: FleetSummary) -> Paragraph:
    """Return what "no findings" is based on; unknown where no settings were read."""
    if not now.read:
        return Paragraph(plain("No pool reports its settings, so no rule was evaluated."), Tone.UNKNOWN)
    first, *rest = fleet_summary.no_findings_sentences(now, fleet)
    return Paragraph((Piece(first, Style.STRONG), Piece("".join(f" {each}" for each in rest))), Tone.GOOD)


def overview_figures(fleet: Fleet, now: FleetSummary) -> tuple[Figure, ...]:
    """Return the six numbers of a fleet in reading order, with links to the pages that list what they count."""
    return (
        _replicas(now),
        _pools(now),
        _findings(now, fleet, Severity.CRITICAL, "Critical"),
        _findings(now, fleet, Severity.WARNING, "Warnings"),
        _unknown(now, fleet),
        _capacity(fleet),
    )


def _top_findings(fleet: Fleet, summary: FleetSummary, now: datetime | None) -> Section:
    found = top_findings(list_findings(fleet))
    listed = brief_entries(found.groups, found.names, now)
    blocks: list[Block] = [listed] if found.groups else [calm_paragraph(fleet, summary)]
    if found.left:
        number = count(found.left, "more finding" if found.groups else "finding")
        blocks.append(Paragraph((Piece(number, link=page(pages.FINDINGS)),)))
    return Section(FIRST, "Top findings", tuple(blocks))


def _replicas(now: FleetSummary) -> Figure:
    parts = [f"{now.down:,} down" if now.down else "", f"{now.partial:,} partial" if now.partial else ""]
    states = " · ".join(filter(None, parts)) or "all up"
    number = f"{now.replicas - now.down:,} / {now.replicas:,}"
    return Figure("Replicas", number, states, link=page(pages.REPLICAS))


def _pools(now: FleetSummary) -> Figure:
    split = len(now.split)
    counts = ((split, "split"), (now.read - split, "uniform"), (now.pools - now.read, "not reported"))
    note = ", ".join(f"{number:,} {what}" for number, what in counts if number) or "no model reported"
    return Figure("Pools", f"{now.pools:,}", note)


def _findings(now: FleetSummary, fleet: Fleet, severity: Severity, label: str) -> Figure:
    number = getattr(now.found, severity)
    pools = {pool for each in fleet.inspection.findings if each.severity is severity for pool in each.pools}
    suppressed = sum(each.severity is severity for each in fleet.inspection.suppressed)
    notes = [f"in {count(len(pools), 'pool')}"] if pools else []
    notes += [f"{suppressed:,} suppressed"] if suppressed else []
    note = " · ".join(notes) or ("no findings" if now.read else "not evaluated")
    link = page(pages.FINDINGS, severity=severity)
    return Figure(label, f"{number:,}", note, Tone(severity) if number else Tone.PLAIN, link)


def _unknown(now: FleetSummary, fleet: Fleet) -> Figure:
    number = len(now.unread)
    if number:
        note = "replicas with incomplete data" if number > 1 else "replica with incomplete data"
        return Figure("Unknown", f"{number:,}", note, Tone.UNKNOWN, page(pages.REPLICAS, state=INCOMPLETE))
    lacking = incomplete_text(fleet.inspection)
    return Figure(
        "Unknown", "–" if lacking else "0", lacking or "data complete", Tone.UNKNOWN if lacking else Tone.PLAIN
    )


def _capacity(fleet: Fleet) -> Figure:
    held, tokens = fleet.total, fleet.total.tokens.value
    parts = ["tokens"] if tokens is not None else []
    least = "" if held.whole else "≥ "
    parts += [f"{least}{formatting.size(held.bytes.value)}"] if held.bytes.value is not None else []
    parts += [f"{least}{count(held.devices, held.noun)}"] if held.devices else []
    parts += [f"{count(held.unknown, 'rank')} unknown"] if held.unknown else []
    basis = "upper bound" if held.basis is Basis.ASSUMED else held.basis
    label = f"KV cache, {basis}" if tokens is not None else "KV cache"
    return Figure(label, formatting.short(tokens, held.basis), " · ".join(parts), link=page(pages.CAPACITY))
