"""The frame of every page: the header line, the banner of a snapshot or a past time, warnings, and the footer."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import service
from dashboard.access.visitor import Means, Visitor
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.clusters import clusters_of
from dashboard.config.access import AccessRole
from dashboard.config.load import ReloadStatus
from dashboard.fleet import formatting
from dashboard.fleet.times import write_time
from dashboard.render.html import css_string
from dashboard.rules.catalogue import RULE_SET
from dashboard.store.opening import HistoryStatus
from dashboard.store.packing import StoredSnapshot
from dashboard.store.reviews import earlier, last_review
from dashboard.views import pages
from dashboard.views.context import as_of_text, context_of, context_parts, gap_text, version_parts
from dashboard.views.finding_text import answered
from dashboard.views.help import keys_table
from dashboard.views.setting import other_values
from dashboard.views.summary import found_text, outside_text
from dashboard.web import links, markup, search, sessions, state
from dashboard.web.draw import html_of
from dashboard.web.sides import FIRST_POLL, SIDES, Sides, past_times

TICK_SECONDS = 5  # between looks for a newer fleet; a look costs a few milliseconds
LARGE_FLEET = 1_000  # replicas; a narrow header has no room for such counts next to those of findings
STALE_INTERVALS = 3  # poll intervals after which data is called stale
LONGEST_FILTER = 60  # characters of a choice: anybody can write one into a URL
FOLLOWS = "Shows the polls of another instance."
SINCE = {"1 h ago": "last hour", "24 h ago": "last day", "7 d ago": "last 7 days", FIRST_POLL: "start of the history"}
DAY, CLOCK = "past_day", "past_clock"  # keys of the session
STEP = timedelta(minutes=1)
_STILL = Path(__file__).with_name("still.css").read_text(encoding="utf-8")
# navigate.js copies `data-status` to a live region: screen readers read it as soon as it appears.
_STALE = f'<span class="late" data-status="The data is stale.">{markup.glyph("warning")} <b>stale</b></span>'
SEARCH = (
    '<button type="button" class="search-everything" data-find title="Search (Ctrl K)">'
    '<span class="word">Search</span> <kbd aria-hidden="true">Ctrl K</kbd></button>'
)
_CHOOSE_SCOPE = (
    '<button type="button" class="choose-scope" data-find="scope" title="Limit every page to one cluster or pool">'
    "{}</button>"
)
# navigate.js marks the chosen theme, and keeps it where Streamlit does.
THEMES = '<p class="themes" role="group" aria-label="Theme">Theme {}</p>'.format(
    " ".join(f'<button type="button" data-theme="{each}">{each}</button>' for each in ("System", "Light", "Dark"))
)
# A form: at an OpenID provider the browser goes on there.
SIGN_OUT = '<form method="post" action="./auth/logout"><button type="submit">Sign out</button></form>'
KEYS = f"<h2 tabindex='-1' autofocus>Keys</h2>{html_of([keys_table()])}"
_navigate = markup.component("navigate", "copying.js", "navigate.js")


def draw(fleet: Fleet, page: str, sides: Sides | None = None) -> DeltaGenerator:
    """Draw the header of a page and warnings about targets; return the place for more controls.

    On a comparison it shows both `sides`, and `fleet` is the second one.
    """
    still = _STILL if state.is_screenshot() else ""
    st.html(f"<style>:root{{--fleet:{css_string(fleet.name)}}}{still}</style>")
    with st.container(key="navigate"):
        now = state.age_reference() if page != pages.REVIEW else None  # a review is kept: it has times
        clock = {"now": now.timestamp() * 1000} if now else {}
        entry = (pages.entry_of(page) or ("",))[0]
        names = {"parent": "" if entry == page else entry, "pages": list(pages.TITLES)}
        _navigate(key="navigate_links", data={**names, **clock, "keys": KEYS})
        search.draw(page)
    is_live = not state.is_frozen() if sides is None else sides.is_live
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        st.html(scope_html(fleet, page) + SEARCH)
        _draw_ticking_line(page, sides) if is_live and not state.is_still() else _draw_line(sides)
        controls = st.container(key="header_controls", horizontal=True, vertical_alignment="center", gap="small")
    for failure in service.discovery_failures() if is_live else ():
        st.html(stale_targets_html(failure))
    if (reload := service.reload_status() if is_live else None) is not None:
        st.html(reload_html(reload)) if reload.mistakes or reload.restart_required else None
    if (history := service.history_status() if is_live else None) is not None:
        st.html(history_html(history)) if history.problem or history.follows else None
    return controls


def line_html(
    fleet: Fleet, now: datetime, interval_seconds: float, *, paused: bool = False, pool: str | None = None
) -> str:
    """Return the header line: findings, how many replicas answered, the age of the data, and whether it is paused.

    With a `pool` its findings are counted: the links to them stay in it.
    """
    name = markup.said(f"Fleet {fleet.name}: ")
    if fleet.polled_at is None:
        return f'<div class="asof">{name}waiting for the first poll</div>'
    number, _, word = answered(fleet).rpartition(" ")
    if not pages.choices_of(fleet):
        as_of = _live_as_of(fleet.polled_at, now, interval_seconds, paused=paused)
    elif fleet.past is not None:  # a narrow header leaves the day to the banner
        at = fleet.polled_at
        as_of = f'<b><span class="roomy">{as_of_text(fleet)}{at:%Y-%m-%d} </span>{formatting.clock(at)}</b>'
    else:
        as_of = f'<span class="roomy">{as_of_text(fleet)}</span><b>{formatting.iso(fleet.polled_at)}</b>'
    whole, of_pool = fleet.inspection.tally, fleet.inspection.tallies.get(pool or "")
    tally = markup.tally_glyphs((of_pool or whole)._replace(info=0), of_pool and whole)  # info is no reason to act
    found = f'<span class="found">{tally} · </span>' if tally else ""
    css = "asof long" if len(fleet.replicas) >= LARGE_FLEET else "asof"
    shown = f'{found}<b>{number}</b> <span class="word">{word}</span><span class="sep"> · </span>{as_of}'
    return f'<div class="{css}">{name}{shown}</div>'


def comparison_html(sides: Sides, live: Fleet | None, now: datetime, interval_seconds: float, *, paused: bool) -> str:
    """Return the header line of a comparison: both sides, and the age of the data of a live one.

    `live` is the newest fleet with the same content as the live side.
    """
    if sides.both is None:
        return '<div class="asof">no comparison</div>'
    shown = []
    for side, fleet in zip((sides.before, sides.after), sides.both, strict=True):
        if side.is_live:
            newest = live or fleet
            at = newest.polled_at
            as_of = _live_as_of(at, now, interval_seconds, paused=paused) if at else ""
            shown.append(f"{markup.bold(pages.LIVE)}{_coverage(newest)} · {as_of}")
        elif fleet.past is not None and fleet.polled_at is not None:
            at, polled = fleet.past.at, f"{fleet.polled_at:%H:%M:%S}"
            day = "" if at.date() == fleet.polled_at.date() else f"{fleet.polled_at:%Y-%m-%d} "
            is_poll = at.replace(microsecond=0) == fleet.polled_at.replace(microsecond=0)
            as_of = "" if is_poll else f'<span class="roomy"> · {day}{polled}</span>'
            name = f'<span class="roomy">{at:%Y}-</span>{at:%m-%d %H:%M{":%S" if at.second else ""}}'
            shown.append(f"<b>{name}</b>{_coverage(fleet)}{as_of}")
        else:
            as_of = f'<span class="roomy"> · {formatting.iso(fleet.polled_at)}</span>' if fleet.polled_at else ""
            key = markup.text(formatting.short_id(fleet.snapshot or ""))
            shown.append(f'<b title="{markup.text(side.name)}">{key}</b>{_coverage(fleet)}{as_of}')
    kind = "with-live" if live else "frozen-both"
    kind += " with-past" if any(each.past for each in sides.both) else ""
    return f'<div class="asof {kind}">{markup.said("Compared: ")}{" → ".join(shown)}</div>'


def stale_targets_html(failure: str) -> str:
    """Return the warning that a source of targets cannot be read, so that the last known targets are shown."""
    glyph = markup.glyph("warning", "stale:")
    return markup.notice("warning", f"{glyph} {markup.bold('Targets may be out of date.')} {markup.text(failure)}")


def reload_html(status: ReloadStatus) -> str:
    """Return the warning that options on disk are not in force: they are wrong, or need a restart."""
    if status.mistakes:
        first, more = status.mistakes[0], len(status.mistakes) - 1
        rest = f" and {formatting.count(more, 'more mistake')}" if more else ""
        text = f"{markup.bold(first)}{rest}; using the version of {formatting.clock(status.loaded_at)}"
        return markup.notice("warning", f"{markup.glyph('warning', 'warning:')} {text}")
    names = formatting.joined([markup.code(name) for name in status.restart_required])
    return markup.notice(
        "info", f"{markup.glyph('info', 'info:')} Changed options: {names}. {markup.bold('Restart required')}."
    )


def history_html(status: HistoryStatus) -> str:
    """Return the warning that the last poll was not recorded, or the remark that another instance polls."""
    if status.problem:
        glyph = markup.glyph("warning", "warning:")
        return markup.notice("warning", f"{glyph} {markup.bold('History not recorded.')} {markup.text(status.problem)}")
    return markup.notice("info", f"{markup.glyph('info', 'info:')} {FOLLOWS}")


def draw_banner(page: str) -> None:
    """Draw the banner of the snapshot or past time that is shown, with the way back to this page of the live fleet."""
    fleet, stored = state.fleet(), state.stored()
    live = links.live(page, **links.page_choices())
    leave = [markup.link(links.changes_since(pages.side_of(fleet)), "Changes since then")]
    if fleet.past is not None:
        shown = past_html(fleet)
        leave.append(markup.link(live, "Back to live"))
    elif stored is not None:
        name = f" {markup.bold(f'“{stored.metadata.name}”')}" if stored.metadata.name else ""
        key = markup.code(formatting.short_id(stored.id))
        frozen = f"saved {markup.text(formatting.iso(stored.metadata.saved_at))}, not polled"
        shown = f"{markup.bold('Snapshot')}{name} {key} · {frozen}{_earlier_rules(stored)}"
        every = markup.link(links.to(pages.SNAPSHOTS), "All snapshots")
        leave = [every, *leave, markup.link(live, "Back to the live fleet")]
    else:
        return
    links_html = f'<span class="leave">{" · ".join(leave)}</span>'
    st.html(f'<div class="snapshot-banner"><span>{shown}</span>{links_html}</div>')


def past_html(fleet: Fleet) -> str:
    """Return the time of a past fleet, its last poll, and the gap that the time is in."""
    if fleet.past is None or fleet.polled_at is None:
        return ""
    at, polled_at = fleet.past.at, fleet.polled_at
    day = "" if at.date() == polled_at.date() else f"{polled_at:%Y-%m-%d} "
    as_of = markup.bold(f"As of {at:%Y-%m-%d %H:%M{':%S' if at.second else ''}} UTC")
    gap = f" · {markup.glyph('unknown', 'gap:')} {gap_text(fleet.past.gap)}" if fleet.past.gap else ""
    return f"{as_of}, last poll {day}{polled_at:%H:%M:%S}{gap}"


def draw_siblings(page: str) -> None:
    """Draw links to the pages of the same entry of the navigation, if there are several."""
    place, siblings = st.empty(), pages.entry_of(page)  # always a place: without it the browser would remount the rest
    if len(siblings) > 1:
        mark = {page: ' aria-current="page"', pages.PARENTS.get(page): ' aria-current="true"'}
        links_html = " ".join(
            f'<a href="{markup.text(links.to(each))}"{mark.get(each, "")}>{pages.TITLES[each]}</a>' for each in siblings
        )
        place.html(f'<nav class="siblings" aria-label="Pages of this group">{links_html}</nav>')


def scope_html(fleet: Fleet, page: str) -> str:
    """Return the chips of the cluster and the pool that every page is limited to, which find.js changes.

    Each has the way to all clusters, or all pools.
    """
    pool, cluster = links.scope(), links.cluster()
    if pool is None and cluster is None:
        every = "All clusters" if clusters_of(fleet) else "All pools"
        return _CHOOSE_SCOPE.format(every) if len(fleet.pools) > 1 else ""
    chips = ""
    if cluster is not None:
        known = cluster in clusters_of(state.whole()) or page == pages.CHANGES
        chips = _chip("Cluster", cluster, links.scoped(page, cluster=""), is_known=known)
    if pool is not None:
        known = pool in {each.name for each in fleet.pools} or page == pages.CHANGES
        chips += _chip("Pool", pool, links.scoped(page), is_known=known)
    return chips


def _chip(kind: str, value: str, leave: str, *, is_known: bool) -> str:
    shown = formatting.middle_cut(formatting.one_line(value), LONGEST_FILTER)
    name = markup.text(shown if is_known else f"{shown} (not found)")
    link = f'<a href="{markup.text(leave)}" aria-label="Show all {kind.lower()}s">×</a>'
    choose = _CHOOSE_SCOPE.format(f'<span class="word">{kind}: </span><b title="{name}">{name}</b>')
    return f'<span class="scope">{choose}{link}</span>'


def draw_outside(fleet: Fleet, page: str) -> None:
    """Draw what the page leaves out where it is limited to one pool. Compare is about one pool: its head has it.

    Of one cluster it says what the other clusters have.
    """
    place, pool = st.empty(), links.scope()
    is_scoped = page in pages.SCOPED - {pages.COMPARE} and st.query_params.get(pages.SHOW) != pages.AUDIT
    if fleet.cluster and fleet.replicas and pool is None:
        own = {each.id for each in fleet.inspection.findings}
        others = found_text(each for each in state.whole().inspection.findings if each.id not in own) or "no findings"
        kind, name, every = "cluster", fleet.cluster, links.scoped(page, cluster="")
    elif is_scoped and pool in {each.name for each in fleet.pools}:
        path = st.query_params.get(pages.PATH) if page == pages.SETTINGS else None
        others = other_values(fleet, path, pool) if path else outside_text(fleet, pool, page)
        kind, name, every = "pool", pool, links.scoped(page)
    else:
        return
    rest = f"{markup.bold(f'Other {kind}s:')} {markup.text(others)} · {markup.link(every, f'All {kind}s')}"
    place.html(f'<p class="outside">Only {kind} {markup.bold(name)} · {rest}</p>')


def visitor_html(visitor: Visitor, role: AccessRole | None) -> str:
    """Return who signed in, with the role; empty without a sign-in."""
    if visitor.means is Means.NOBODY:
        return ""
    name = formatting.middle_cut(formatting.one_line(visitor.name), LONGEST_FILTER)
    shown = markup.text(f"{name} ({role.word if role else 'no role'})")
    return f'<span class="visitor" title="Signed in as {shown}">{shown}</span>'


def draw_gear(page: str, sides: Sides | None) -> None:
    """Draw who signed in, then the button and its popover: sign-out, Status, Help, pause of a live page, theme."""
    visitor, options = sessions.visitor(), service.options()
    by_proxy = options.access.proxy.sign_out_url if options and visitor.means is Means.PROXY else None
    if signed_in := visitor_html(visitor, sessions.role()):
        st.html(signed_in)
    is_live = sides is None or sides.is_live
    with st.popover("Status and help", width="content", key="gear"):
        if signed_in:
            st.html(f'<div class="signed-in">{signed_in}{SIGN_OUT if visitor.session or by_proxy else ""}</div>')
        shown = [
            markup.link(links.to(pages.STATUS), "Status"),
            markup.link(links.to(pages.HELP, about=page or "overview"), "Help on this page"),
        ]
        st.html(f'<p class="quick-times">{" · ".join(shown)}</p>')
        if is_live and not state.is_frozen() and not state.is_screenshot():
            st.toggle("Pause updates", key=state.PAUSED)
        st.html(THEMES)


def draw_ignored_choices(page: str) -> None:
    """Warn about choices in the URL that are invalid or that no page has; once the page is drawn."""
    unknown = {name: value for name, value in links.page_choices().items() if name not in pages.KNOWN.get(page, ())}
    ignored = [
        markup.code(formatting.middle_cut(f"{name}={value}", LONGEST_FILTER))
        for name, value in {**unknown, **links.ignored_choices()}.items()
    ]
    if ignored:
        parameters = "parameter" if len(ignored) == 1 else "parameters"
        st.html(markup.notice("warning", f"Ignored invalid URL {parameters} {formatting.joined(ignored)}."))


def draw_footer(fleet: Fleet, page: str, sides: Sides | None = None) -> None:
    """Draw fleet, data time and filters, so that a screenshot can be traced. A comparison has both sides."""
    if sides is None:
        parts = context_parts(context_of(fleet, name=state.snapshot_name(), filters=_filters([fleet], page)))
    else:
        context = sides.context and replace(sides.context, filters=_filters(sides.both or (), page, but=SIDES))
        parts = context_parts(context) if context else ("no comparison", *version_parts(context_of(fleet)))
    shown = " · ".join(f"<span>{markup.text(part)}</span>" for part in parts)
    st.html(f'<footer class="context">{shown}</footer>')


def _filters(fleets: Iterable[Fleet], page: str, but: Collection[str] = ()) -> tuple[tuple[str, str], ...]:
    """Return the choices of the URL that a page follows, in their order."""
    ignored = {*links.ignored_choices(), *but, pages.MANAGE}  # a dialog filters nothing
    known = pages.KNOWN.get(page, set()) - ignored
    choices = {name: value for name, value in links.page_choices().items() if name in known}
    pools = {pool.name for fleet in fleets for pool in fleet.pools}
    if page not in pages.SCOPED or (choices.get(pages.POOL) not in pools and pages.ACROSS not in choices):
        choices.pop(pages.POOL, None)
    return tuple((name, formatting.middle_cut(value, LONGEST_FILTER)) for name, value in choices.items())


def _coverage(fleet: Fleet) -> str:
    return f'<span class="covered"> · {answered(fleet).rpartition(" ")[0]}</span>'


def _live_as_of(polled_at: datetime, now: datetime, interval_seconds: float, *, paused: bool) -> str:
    seconds = (now - polled_at).total_seconds()
    prefix = f"{markup.bold('paused')} · " if paused else ""
    late = f"{_STALE} · " if seconds > STALE_INTERVALS * interval_seconds else ""
    clock = f'<b title="{formatting.iso(polled_at)}">{formatting.clock(polled_at)}</b>'
    age = f'<span class="age">{formatting.age(seconds)}</span>'
    return f'{prefix}{late}<span class="roomy">data as of {clock} · </span>{age}'


def _earlier_rules(stored: StoredSnapshot) -> str:
    """Return what an earlier rule set found when it was saved: the page shows findings of today's rules."""
    then = stored.metadata
    if then.rule_set == RULE_SET:
        return ""
    found = f"{then.critical:,} critical, {formatting.count(then.warning, 'warning')}, {then.info:,} info"
    return markup.text(f" · evaluated by rule set {RULE_SET}; rule set {then.rule_set} found {found} when saved")


def _draw_line(sides: Sides | None) -> None:
    shown, paused = state.latest_equal(), state.is_paused() and not state.is_frozen()
    if sides is None:
        st.html(line_html(shown, state.now(), service.interval_seconds(), paused=paused, pool=links.scope()))
        return
    live = sides.live and (sides.live if state.is_frozen() else shown)
    now = live.polled_at if live and live.polled_at and state.is_screenshot() else service.now()
    st.html(comparison_html(sides, live, now, service.interval_seconds(), paused=paused))


@st.fragment(run_every=TICK_SECONDS)
def _draw_ticking_line(page: str, sides: Sides | None) -> None:
    _draw_line(sides)
    if state.is_outdated(page):
        st.rerun()


def draw_time_menu(page: str) -> None:
    """Draw the button and its popover; nothing without a history."""
    if service.history() is None:
        return
    past, now = state.fleet().past, service.now().astimezone(UTC).replace(second=0, microsecond=0)
    shown = past.at if past else now
    with st.popover("Time", width="content", key="time_menu"):
        st.html(markup.section("Open a past time (UTC)"))
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            day = st.date_input("Date", shown.date(), max_value=now.date(), key=DAY, width=140)
            clock = st.time_input("Time", shown.time(), step=STEP, key=CLOCK, width=110)
            time = datetime.combine(day, clock, UTC)
            st.html(f'<p class="go">{markup.link(_url_at(page, time), "Open", css="button")}</p>')
        times = sorted(past_times().items(), key=itemgetter(1), reverse=True)
        quick = [markup.link(_url_at(page, time), label) for label, time in times]
        back = [markup.link(links.live(page, **links.page_choices()), "Back to live")] if past else []
        st.html(f'<p class="quick-times">{" · ".join([*quick, *back])}</p>')
        st.html(markup.section("Changes since"))
        since = [markup.link(links.changes_since(write_time(time)), SINCE.get(label, label)) for label, time in times]
        live = service.current()
        if last := last_review(earlier(service.snapshots(), live), live):
            since.append(markup.link(links.changes_since(last.id), "last review"))
        st.html(f'<p class="quick-times">{" · ".join(since)}</p>')


def _url_at(page: str, time: datetime) -> str:
    return links.live(page, **{**links.page_choices(), pages.AT: write_time(time)})
