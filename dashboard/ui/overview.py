"""What Overview shows of a fleet, as HTML: the headline, the cards, the lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from dashboard import wording
from dashboard.ui import headline, markup
from dashboard.ui.pool_table import ordered, pool_table, prefix_sentences
from dashboard.ui.prefix_words import severity
from dashboard.ui.telling import most_telling
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
    telling: list[tuple[str, str, str]]
    unread: tuple[Replica, ...]
    order: tuple[str, ...]


@st.cache_resource(max_entries=4, show_spinner=False)
def overview(generation: int, polled_at: datetime | None, _fleet: Fleet) -> Overview:  # noqa: ARG001  # the cache's key
    """Write the page for one fleet; every session that shows it shares the result."""
    now = headline.standing(_fleet)
    sentences = prefix_sentences(_fleet)
    order = ordered(_fleet, sentences)
    kinds = {pool.name: severity(pool, sentences[pool.name].verdict) for pool in order}
    unshared, versions = ([name for name in kinds if kinds[name] == kind] for kind in ("critical", "warning"))
    return Overview(
        head=markup.heading(markup.text(headline.title(now)), markup.text(headline.more(now, unshared, versions))),
        cards=markup.cards(_cards(_fleet, now)),
        pools=pool_table(_fleet, order[:MOST_POOLS], sentences),
        more_pools=pool_table(_fleet, order[MOST_POOLS:], sentences) if len(order) > MOST_POOLS else "",
        telling=most_telling(_fleet),
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
        markup.card("Replicas", f"{now.replicas - now.down:,} / {now.replicas:,}", markup.text(states)),
        markup.card("Pools", f"{now.pools:,}", markup.text(pools)),
        _differences(now),
        _unknown(now),
        _capacity(fleet),
    ]


def _differences(now: Standing) -> str:
    if not now.read:
        return markup.card("Differences", wording.NOT_KNOWN, "nothing was read")
    if not now.differences:
        return markup.card("Differences", f"{markup.glyph('good', 'good:')}0", "in what was told within a pool")
    note = f"settings, in {wording.count(len(now.split), 'pool')}"
    return markup.card("Differences", f"{markup.glyph('differs', '')}{now.differences:,}", markup.text(note))


def _unknown(now: Standing) -> str:
    number = len(now.unread)
    if not number:
        return markup.card("Unknown", "0", "every replica was read")
    return markup.card(
        "Unknown",
        f"{markup.glyph('unknown', '')}{number:,}",
        "replicas not read whole" if number > 1 else "replica not read whole",
    )


def _capacity(fleet: Fleet) -> str:
    held = total(fleet.replicas)
    parts = ["tokens"] if held.tokens is not None else []
    least = "" if held.whole else "≥ "
    parts += [f"{least}{wording.size(held.bytes)}"] if held.bytes is not None else []
    parts += [f"{least}{wording.count(held.devices, 'GPU')}"] if held.devices else []
    parts += [f"{wording.count(held.unknown, 'rank')} not known"] if held.unknown else []
    label = f"KV cache, {held.basis}" if held.tokens is not None else "KV cache"
    return markup.card(label, markup.text(wording.short(held.tokens, held.basis)), markup.text(" · ".join(parts)))
