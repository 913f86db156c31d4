"""What Overview shows of a fleet, as HTML: the headline, the cards, the lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from dashboard import wording
from dashboard.rules.findings import Severity
from dashboard.ui import headline, links, markup
from dashboard.ui.first_things import first_things
from dashboard.ui.pool_table import ordered, pool_table
from dashboard.ui.prefix_words import is_needed, is_unshared, prefix_sentences
from dashboard.ui.totals import total

if TYPE_CHECKING:
    from datetime import datetime

    from dashboard.fleet import Fleet
    from dashboard.models import Replica
    from dashboard.ui.headline import Standing


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
    calm: str
    unread: tuple[Replica, ...]
    order: tuple[str, ...]


@st.cache_resource(max_entries=4, show_spinner=False)
def overview(generation: int, polled_at: datetime | None, _fleet: Fleet) -> Overview:  # noqa: ARG001  # the cache's key
    """Write the page for one fleet; every session that shows it shares the result."""
    now = headline.standing(_fleet)
    sentences = prefix_sentences(_fleet)
    order = ordered(_fleet, sentences, now.by_pool)
    domains = _fleet.inspection.domains
    unshared = [pool.name for pool in order if is_unshared(sentences[pool.name]) and is_needed(domains.get(pool.name))]
    more = headline.more(now, unshared, _fleet.inspection)
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


def _cards(fleet: Fleet, now: Standing) -> list[str]:
    parts = [f"{now.down:,} down" if now.down else "", f"{now.partial:,} partial" if now.partial else ""]
    states = " · ".join(filter(None, parts)) or "all up"
    split = len(now.split)
    counts = ((split, "split"), (now.read - split, "uniform"), (now.pools - now.read, "not read"))
    pools = ", ".join(f"{number:,} {what}" for number, what in counts if number) or "no replica told its model"
    return [
        markup.card(
            "Replicas",
            f"{now.replicas - now.down:,} / {now.replicas:,}",
            markup.text(states),
            address=links.to(links.REPLICAS),
        ),
        markup.card("Pools", f"{now.pools:,}", markup.text(pools)),
        _found(now, fleet, Severity.CRITICAL, "Critical"),
        _found(now, fleet, Severity.WARNING, "Warnings"),
        _unknown(now),
        _capacity(fleet),
    ]


def _found(now: Standing, fleet: Fleet, severity: Severity, label: str) -> str:
    """Count the findings of one severity, and what of them is suppressed."""
    number = getattr(now.found, severity)
    pools = {pool for each in fleet.inspection.findings if each.severity is severity for pool in each.pools}
    suppressed = sum(each.severity is severity for each in fleet.inspection.suppressed)
    notes = [f"in {wording.count(len(pools), 'pool')}"] if pools else []
    notes += [f"{suppressed:,} suppressed"] if suppressed else []
    figure = f"{markup.glyph(severity, '')}{number:,}" if number else "0"
    note = " · ".join(notes) or ("found by no rule" if now.read else "nothing was read")
    return markup.card(label, figure, markup.text(note), address=links.to(links.FINDINGS, severity=severity))


def _unknown(now: Standing) -> str:
    number = len(now.unread)
    rules = f"{wording.count(now.found.unknown, 'rule')} not judged everywhere" if now.found.unknown else ""
    if not number:
        return markup.card("Unknown", "0", markup.text(rules or "every replica was read"))
    note = "replicas not read whole" if number > 1 else "replica not read whole"
    return markup.card("Unknown", f"{markup.glyph('unknown', '')}{number:,}", note)


def _capacity(fleet: Fleet) -> str:
    held = total(fleet.replicas)
    parts = ["tokens"] if held.tokens is not None else []
    least = "" if held.whole else "≥ "
    parts += [f"{least}{wording.size(held.bytes)}"] if held.bytes is not None else []
    parts += [f"{least}{wording.count(held.devices, held.noun)}"] if held.devices else []
    parts += [f"{wording.count(held.unknown, 'rank')} not known"] if held.unknown else []
    label = f"KV cache, {held.basis}" if held.tokens is not None else "KV cache"
    return markup.card(
        label,
        markup.text(wording.short(held.tokens, held.basis)),
        markup.text(" · ".join(parts)),
        address=links.to(links.CAPACITY),
    )
