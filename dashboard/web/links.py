"""URLs: of pages, of what a text names, and the choices in them. Names of pages and of choices: `views/pages.py`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard.fleet.formatting import one_line
from dashboard.fleet.pieces import Kind, Link
from dashboard.views import pages
from dashboard.views.filters import write_filter

# In the session: the choices that open the fleet that is shown, and the invalid choices of the URL by name.
SHOWN, IGNORED = "shown_choices", "ignored_choices"
YES, NO = "true", "false"
PAGES_OF = {
    Kind.POOL: (pages.COMPARE, pages.POOL),
    Kind.REPLICA: (pages.REPLICA_PAGE, pages.REPLICA),
    Kind.RULE: (pages.FINDINGS, pages.SEARCH),
    Kind.FINDING: (pages.FINDINGS, pages.FINDING),
}

_open_url = st.components.v2.component(
    "open_url", js=Path(__file__).with_name("open_url.js").read_text(encoding="utf-8")
)


def to(page: str, /, **choices: str | None) -> str:
    """Return the URL of a page, relative, as it also works behind a path prefix; it keeps the snapshot or time shown.

    navigate.js adds the rest of pages.CARRIED when a link is followed: HTML that sessions share cannot contain it.
    """
    shown: dict[str, str] = {}
    has_session = get_script_run_ctx(suppress_warning=True) is not None  # a test may have none
    if has_session and choices.keys().isdisjoint(pages.STILL):
        shown = st.session_state.get(SHOWN, {})
    return live(page, **{**shown, **choices})


def live(page: str, /, **choices: str | None) -> str:
    """Return the URL of a page of the live fleet, or of the snapshot or time among the choices."""
    chosen = {name: value for name, value in choices.items() if value is not None}
    return f"{page or './'}?{urlencode(chosen)}" if chosen else page or "./"


def changes_since(side: str) -> str:
    """Return the URL of what changed from a snapshot or a time until now, in the pool of the page if it has one."""
    return live(
        pages.CHANGES, **{pages.FROM: side, pages.TO: pages.LIVE, pages.POOL: scope(), pages.CLUSTER: cluster()}
    )


def scope() -> str | None:
    """Return the pool that every page is limited to; one in the URL may be unknown. Across clusters there is none."""
    return st.query_params.get(pages.POOL) or None if pages.ACROSS not in st.query_params else None


def cluster() -> str | None:
    """Return the cluster that every page is limited to; one in the URL may be unknown."""
    return st.query_params.get(pages.CLUSTER) or None


def scoped(page: str, pool: str = "", cluster: str | None = None) -> str:
    """Return the URL of this page for one pool, or for one cluster; navigate.js takes an empty one for none."""
    dropped = {pages.POOL, pages.ACROSS, *pages.DIALOGS.get(page, ())}
    kept = {name: value for name, value in page_choices().items() if name not in dropped}
    return to(page, **{**kept, pages.POOL: pool, **({} if cluster is None else {pages.CLUSTER: cluster})})


def address(link: Link) -> str | None:
    """Return the URL of what a text names; None for a section of the same page, and for a setting without a pool.

    A choice `snapshot` or `at` replaces the fleet that is shown; the snapshot `live` leaves it.
    """
    key, pool = link.key, link.pool
    choices: dict[str, str | None] = dict(link.choices)
    if choices.get(pages.SNAPSHOT) == pages.LIVE:
        choices[pages.SNAPSHOT] = None
    match link.kind:
        case Kind.SECTION:
            return None
        case Kind.SETTING:
            return to(pages.COMPARE, **{pages.POOL: pool, pages.PATH: key, **choices}) if pool else None
        case Kind.COHORT:
            return to(pages.COMPARE, **{pages.POOL: pool, pages.COHORT: key, **choices})
        case Kind.PAGE:
            return to(key, **choices)
        case Kind.WEB:
            return key
        case Kind.POOL | Kind.REPLICA | Kind.RULE | Kind.FINDING:
            page, name = PAGES_OF[link.kind]
            value = write_filter("rule", key) if link.kind is Kind.RULE else key
            return to(page, **{name: value, **choices})


def open_url(url: str) -> None:
    """Let the browser open a URL of this dashboard as a link does; for tables and charts, whose parts are no links.

    `st.switch_page(query_params=)` would leave a second entry in the browser's history.
    """
    names = (
        name
        for name in (pages.POOL, pages.CLUSTER, *pages.CARRIED)
        if name not in pages.STILL and name in st.query_params
    )
    carried = {name: st.query_params[name] for name in names}
    more = urlencode({name: value for name, value in carried.items() if f"{name}=" not in url})
    with st.container(key="navigate_once"):
        _open_url(key="open_url", data={"address": f"{url}{'&' if '?' in url else '?'}{more}" if more else url})


def keep_choice(page: str, name: str, value: str) -> None:
    """Put a choice that a page made by itself into its URL, in place of the entry in the browser's history.

    `st.query_params` would add an entry: Back would return to the page without the choice, which makes it again.
    """
    if name not in st.query_params:
        url = live(page, **{**st.query_params.to_dict(), name: value})
        with st.container(key="keep_choice"):
            _open_url(key=f"keep_{name}", data={"address": url, "replace": True})


def parse_link(text: str) -> tuple[str, dict[str, str]]:
    """Return the page and the choices of a link that was pasted. Any other text is taken for a snapshot's id.

    Hosts, unknown pages and unknown choices are dropped: the result leads to this dashboard only.
    """
    try:
        parts = urlsplit(text.strip())
        choices = {name: values[0] for name, values in parse_qs(parts.query).items()}
    except ValueError:  # malformed brackets, or too many choices
        return pages.OVERVIEW, {pages.SNAPSHOT: text}
    last = parts.path.rstrip("/").rpartition("/")[2]  # after a path prefix
    page = last if last in pages.KNOWN else pages.OVERVIEW
    of_sides = page == pages.CHANGES and choices.keys() & {pages.FROM, pages.TO}
    if choices.keys().isdisjoint(pages.STILL) and not of_sides:
        return pages.OVERVIEW, {pages.SNAPSHOT: text}
    known = {*pages.KNOWN.get(page, ()), *pages.CARRIED}
    return page, {name: value for name, value in choices.items() if name in known}


def make_file_name(*parts: str) -> str:
    """Join names to a file name: letters and digits, everything else becomes a dash."""
    return "-".join("".join(char if char.isalnum() else "-" for char in part).strip("-") for part in parts).lower()


# Choices of the URL. Streamlit's own binding (`bind="query-params"`) drops a name that two pages share from every link
# between them.


def page_choices() -> dict[str, str]:
    """Return the choices in the URL without those that every page reads."""
    return {name: value for name, value in st.query_params.items() if name not in pages.CARRIED}


def ignored_choices() -> dict[str, str]:
    """Return the invalid choices of the URL by name: the page was drawn without them."""
    return cast("dict[str, str]", st.session_state.get(IGNORED, {}))


def bind(name: str, options: Sequence[str] | None = None, *, default: str | bool | None = None) -> dict[str, Any]:
    """Bind a widget to a choice in the URL; return arguments of the widget, its key among them.

    An invalid value is ignored (see `ignored_choices`): the widget shows the default, else the first option, else an
    empty text. The default is never written into the URL.
    """
    fallback = default if default is not None else options[0] if options else ""
    value = _read(name, options, fallback=fallback)
    if st.session_state.get(name) != value:  # writing an equal value would disturb a reader who types
        st.session_state[name] = value
    return {"key": name, "on_change": _write, "kwargs": {"name": name, "fallback": fallback}}


def bind_several(name: str, options: Sequence[str]) -> dict[str, Any]:
    """Bind a widget of several options to a choice in the URL: percent-encoded options with commas between.

    Options of the URL that there are not are ignored.
    """
    text = st.query_params.get(name, "")
    chosen = {unquote(each) for each in text.split(",") if each}
    value = [each for each in options if each in chosen]
    if len(value) < len(chosen):
        st.session_state[IGNORED] = {**ignored_choices(), name: text}
    if st.session_state.get(name) != value:
        st.session_state[name] = value
    return {"key": name, "on_change": _write, "kwargs": {"name": name}}


def read_choice(name: str, options: Sequence[str], *, default: str | None = None) -> str:
    """Return a choice of the URL without a widget, or before it is drawn."""
    return str(_read(name, options, fallback=options[0] if default is None else default))


def draw_segments(
    label: str, name: str, options: Sequence[str], words: Callable[[str], str] | None = None, default: str | None = None
) -> str:
    """Draw a segmented control that is bound to the URL; return the selected option.

    With `words` for its options the label is for screen readers only.
    """
    bound = bind(name, options, default=default)
    visibility: Literal["collapsed", "visible"] = "collapsed" if words else "visible"
    return str(
        st.segmented_control(
            label, options, **bound, required=True, format_func=words or str, label_visibility=visibility
        )
    )


def draw_select(
    label: str, name: str, options: Sequence[str], width: int, words: Callable[[str], str] = str, **more: Any
) -> str | None:
    """Draw a select box that is bound to the URL; None for the first option, such as everything."""
    bound = bind(name, options)
    shown = st.selectbox(label, options, **bound, format_func=lambda key: one_line(words(key)), width=width, **more)
    return None if shown in {None, options[0]} else str(shown)


def _read(name: str, options: Sequence[str] | None, *, fallback: str | bool) -> str | bool:
    text = st.query_params.get(name)
    if text is None or (name == pages.POOL and not text):
        return fallback
    known = (YES, NO) if isinstance(fallback, bool) else options
    if known is not None and text not in known:
        st.session_state[IGNORED] = {**ignored_choices(), name: text}
        return fallback
    return text == YES if isinstance(fallback, bool) else text


# A change that arrives after a link was followed has a callback and no value: its widget is not on the new page.


def _write(*, name: str, fallback: str | bool = "") -> None:
    if name not in st.session_state:
        return
    value = st.session_state[name]
    if isinstance(value, list):
        value = ",".join(quote(each, safe="/ ") for each in value)
    if value in {None, "", fallback}:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = YES if value is True else str(value)
