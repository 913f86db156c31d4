"""What Overview says, as a report: is the fleet fine, and what is wrong first."""

from collections.abc import Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingVerdict
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import plain
from dashboard.report.findings import headline
from dashboard.report.findings.first import first_findings
from dashboard.report.findings.headline import FleetSummary
from dashboard.report.pools.sharing import is_doubtful, is_needed, is_unshared, sharing_verdicts, suppressed_pools
from dashboard.views.blocks import Entries, Figures, Paragraph, Section, Tone, View
from dashboard.views.context import context_of
from dashboard.views.excluded import unread_entries
from dashboard.views.finding_entries import brief_entries
from dashboard.views.glossary import BASIS, COHORT, POOL, glossary
from dashboard.views.overview_figures import overview_figures
from dashboard.views.pools_table import pools_table


def overview_report(fleet: Fleet, name: str = "") -> View:
    """Report how the fleet is. `name` is the snapshot's."""
    now, sentences = headline.standing(fleet), sharing_verdicts(fleet)
    parts = [
        Section("numbers", "In numbers", (Figures(tuple(overview_figures(fleet, now))),)),
        *([Section("pools", "Pools", (pools_table(fleet, now, sentences),))] if fleet.pools else []),
        _first(fleet, now),
        *([Section("not-read", "Not read whole", unread_entries(now.unread))] if now.unread else []),
        glossary((POOL, COHORT, BASIS)),
    ]
    lead = more_words(fleet, now, sentences)
    return View("Overview", headline.title(now), lead, context_of(fleet, name=name), tuple(parts))


def more_words(fleet: Fleet, now: FleetSummary, sentences: Mapping[str, SharingVerdict]) -> str:
    """Say in a sentence or two what was found, and what follows from it; pools in the order of their `sentences`."""
    domains = fleet.inspection.domains
    needed = {name: told for name, told in sentences.items() if is_needed(domains.get(name))}
    unshared, doubtful = ([name for name in needed if so(needed[name])] for so in (is_unshared, is_doubtful))
    suppressed = suppressed_pools(fleet.inspection)
    return headline.more(now, unshared, fleet.inspection, doubtful=doubtful, suppressed=suppressed)


def calm_paragraph(fleet: Fleet, now: FleetSummary) -> Paragraph:
    """Say how far it goes that no finding stands first; of a fleet of which nothing was read, that nobody knows."""
    if not now.read:
        return Paragraph(plain("No settings of any pool were read, so nothing could be judged."), Tone.UNKNOWN)
    return Paragraph(plain(" ".join(headline.calm(now, fleet))), Tone.GOOD)


def _first(fleet: Fleet, now: FleetSummary) -> Section:
    found = first_findings(fleet)
    left = f"{count(found.left, 'more finding' if found.groups else 'finding')}." if found.left else ""
    entries: tuple[Entries, ...] = (brief_entries(found.groups, found.names),) if found.groups else ()
    calm = () if found.groups else (calm_paragraph(fleet, now),)
    more = (Paragraph(plain(left)),) if left else ()
    return Section("first", "What is wrong first", (*entries, *calm, *more))
