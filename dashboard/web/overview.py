"""What Overview shows of a fleet, as HTML: the headline, the cards, the lists."""

from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica
from dashboard.report.findings import headline
from dashboard.report.findings.headline import FleetSummary
from dashboard.report.pools.order import ordered
from dashboard.report.pools.sharing import sharing_verdicts
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.blocks import Figure, Tone
from dashboard.views.overview import more_words
from dashboard.views.overview_figures import overview_figures
from dashboard.web import links, markup
from dashboard.web.first_things import first_things
from dashboard.web.pool_table import pool_table
from dashboard.web.state import shared

MOST_POOLS = 15  # rows before the lists below; the calmest pools beyond them are one click away


class Overview(NamedTuple):
    """The parts of the page that only change with the fleet: HTML, the replicas not read whole, pools by need.

    `more_pools` is the table of the calmest pools, empty where `pools` holds all.
    """

    head: str
    cards: str
    pools: str
    more_pools: str
    first: list[tuple[str, str, str]]
    calm: list[str]
    unread: tuple[Replica, ...]
    order: tuple[str, ...]


@shared(max_entries=4)
def overview(generation: int, polled_at: datetime | None, _fleet: Fleet) -> Overview:  # noqa: ARG001  # the cache's key
    """Write the page for one fleet; every session that shows it shares the result."""
    now = headline.standing(_fleet)
    sentences = sharing_verdicts(_fleet)
    order = ordered(_fleet, sentences, now.by_pool)
    more = more_words(_fleet, now, {pool.name: sentences[pool.name] for pool in order})
    return Overview(
        head=markup.heading(markup.text(headline.title(now)), markup.text(more)),
        cards=markup.cards(_cards(_fleet, now)),
        pools=pool_table(_fleet, order[:MOST_POOLS], sentences, now.by_pool),
        more_pools=pool_table(_fleet, order[MOST_POOLS:], sentences, now.by_pool) if len(order) > MOST_POOLS else "",
        first=first_things(_fleet),
        calm=headline.calm(now, _fleet),
        unread=now.unread,
        order=tuple(pool.name for pool in order),
    )


def _cards(fleet: Fleet, now: FleetSummary) -> list[str]:
    """Draw the six numbers; those that a page can show lead there."""
    shown = overview_figures(fleet, now)
    addresses = {
        shown.replicas: links.to(pages.REPLICAS),
        shown.critical: links.to(pages.FINDINGS, severity=Severity.CRITICAL),
        shown.warnings: links.to(pages.FINDINGS, severity=Severity.WARNING),
        shown.capacity: links.to(pages.CAPACITY),
    }
    if now.unread:
        addresses[shown.unknown] = links.to(pages.REPLICAS)
    return [
        markup.card(figure.label, _value(figure), markup.parts(figure.note), address=addresses.get(figure))
        for figure in shown
    ]


def _value(figure: Figure) -> str:
    glyph = markup.glyph(figure.tone, "") if figure.tone is not Tone.PLAIN else ""
    return f"{glyph}{markup.text(figure.value)}"
