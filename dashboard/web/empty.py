"""The empty states, each with its cause and what to do, and the guide for a first visit."""

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from dashboard.fleet import SourceStatus
from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.views import pages
from dashboard.web import links, markup, state
from dashboard.web.markup import LONGEST_TITLE

CONFIG_EXAMPLE = """\
name: my-fleet
targets:
  - http://10.0.0.11:8000
  - url: http://10.0.0.12:8000
    labels: {pool: chat, name: chat-2}"""
MOST_SOURCES = 10  # that are named

_guide = markup.component("guide", "guide.js", css="surface")


def no_replicas(sources: Sequence[SourceStatus]) -> None:
    """Draw that no source lists a replica, with what each asked for; without sources an example."""
    asked = [one_line(each.failure or f"{each.name}: lists no replica") for each in sources[:MOST_SOURCES]]
    status = markup.link(links.to(pages.STATUS), "Status")
    _draw(
        "No replicas found" if asked else "No replicas configured",
        "List your vLLM servers in <code>fleet.yaml</code>, which is read again when it changes. "
        "<code>fleet.example.yaml</code> explains every option.",
        f"<pre>{markup.text(chr(10).join(asked) or CONFIG_EXAMPLE)}</pre>{status if asked else ''}",
    )


def no_data_yet() -> None:
    _draw("Waiting for the first poll", "This page updates when the poll ends.")


def no_pool_labels() -> None:
    """Draw how replicas that do not report a model get a pool: by a label."""
    title = markup.bold("Assign replicas to pools.")
    how = "Add the label <code>pool</code> to each target in <code>fleet.yaml</code>."
    replicas = markup.link(links.to(pages.REPLICAS), "Replicas")
    notice = f"{title} {how} {replicas} shows what each one reports.<pre>{markup.text(CONFIG_EXAMPLE)}</pre>"
    st.html(markup.notice("unknown", notice))


def nothing_answered() -> None:
    """Draw that no replica reports its model, so that there is no pool."""
    overview = markup.link(links.to(pages.OVERVIEW), "Overview")
    _draw("No pools to compare", f"No replica reports its model. {overview} shows the reason and the fix.")


def unknown(title: str, why: str) -> None:
    """Draw that nothing is known, which is not the same as equal settings or no findings."""
    glyph = markup.glyph("unknown", "unknown:")
    st.html(markup.notice("unknown", f"{glyph} {markup.bold(title)} {markup.text(why)}"))


def too_few_chosen() -> None:
    """Draw that a comparison needs two replicas, and where they are chosen."""
    replicas = markup.link(links.to(pages.REPLICAS), "Replicas")
    _draw("Choose at least two replicas", "Tick them on the page Replicas, or add a snapshot.", replicas)


def no_settings_reported(where: str) -> None:
    """Draw that no replica of a pool or a fleet reports its settings, and where the fix is."""
    glyph, replicas = markup.glyph("unknown", "unknown:"), markup.link(links.to(pages.REPLICAS), "Replicas")
    title = markup.bold(f"No replica of this {where} reports its settings.")
    how = f"The page of each replica shows how to enable them: {replicas}."
    st.html(markup.notice("unknown", f"{glyph} {title} {how}"))


def no_such_scope(kind: Literal["pool", "cluster"], name: str, every: str) -> None:
    """Draw that no replica is in the pool or the cluster of the URL; `every` is the page for all of them."""
    title = f"{kind.capitalize()} “{middle_cut(one_line(name), LONGEST_TITLE)}” not found"
    lacks = "belongs to it" if kind == "pool" else "has this label <code>cluster</code>"
    _draw(title, f"No replica of this fleet {lacks}.", markup.link(every, f"Show all {kind}s"))


def no_such_page() -> None:
    overview = markup.link(links.live(pages.OVERVIEW), "Overview")
    _draw("Page not found", "This dashboard has no page at this URL.", overview)


def no_such_fleet(why: str) -> None:
    """Draw that the snapshot, or the past time, of the URL cannot be opened."""
    what = "this snapshot" if pages.SNAPSHOT in st.query_params else "the fleet of this time"
    snapshots = markup.link(links.live(pages.SNAPSHOTS), "All snapshots")
    live = markup.link(links.live(pages.OVERVIEW), "Live fleet")
    _draw(f"Cannot open {what}", markup.text(why), f"{snapshots} · {live}")


def no_history() -> None:
    """Draw that nothing was recorded at the time that is shown."""
    snapshots = markup.link(links.to(pages.SNAPSHOTS), "Snapshots")
    _draw(
        "No history",
        "No poll was recorded for this fleet and time. <code>history</code> in <code>fleet.yaml</code> "
        "enables recording.",
        snapshots,
    )


def nobody_changed_anything() -> None:
    _draw(
        "No changes in this range",
        "Listed are saved, renamed, imported and deleted snapshots, edited notes, and accepted findings.",
    )


def same_twice() -> None:
    _draw("Both sides are the same fleet", "Select another one above.")


def filter_hides_all(sentence: str, url: str) -> None:
    """Draw that the filters exclude everything; `sentence` says of what, `url` is this page without them."""
    _draw("No matches for these filters", markup.text(sentence), markup.link(url, "Clear filters"))


def all_equal(title: str, compared: str, *, is_good: bool = True) -> None:
    """Draw that nothing differs: good news unless something else is bad. `compared` says what was compared."""
    glyph = f"{markup.glyph('good', 'good:')} " if is_good else ""
    notice = f"{glyph}{markup.bold(title)} {markup.text(compared)}"
    st.html(markup.notice("good" if is_good else "unknown", notice))


def draw_guide() -> None:
    """Draw the guide until the reader closes it for good; not in a screenshot, a meeting or a snapshot."""
    if not state.is_screenshot() and not state.is_meeting() and not state.is_frozen():
        with st.container(key="guide"):
            _guide(key="first_visit", data={"html": guide_html()})


def guide_html() -> str:
    findings = markup.link(links.to(pages.FINDINGS), "Findings")
    compare = markup.link(links.to(pages.COMPARE), "Compare")
    steps = (
        "A pool groups interchangeable replicas. A cohort is a set of replicas with identical settings.",
        f"{findings} shows the impact and the fix of each problem; {compare} lists every setting that differs.",
        "Read-only. Use Share for a permanent link.",
    )
    return (
        '<aside class="guide" aria-label="Guide for a first visit" hidden><div class="guide-head">'
        '<b>New here?</b><button type="button" class="copy">Got it</button></div>'
        f"<ol>{''.join(f'<li>{step}</li>' for step in steps)}</ol></aside>"
    )


def _draw(title: str, sentence: str, more: str = "") -> None:
    st.html(f'<div class="empty"><h2>{markup.text(title)}</h2><p>{sentence}</p>{more}</div>')
