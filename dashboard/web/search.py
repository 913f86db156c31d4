"""The search of every page: an overlay of find.js, whose words and hits go to and fro within a fragment."""

from typing import Any

import streamlit as st

from dashboard import service
from dashboard.fleet.pieces import Kind, Link
from dashboard.views import pages
from dashboard.views.search import Hit, HitGroup, scope_hits, search_hits
from dashboard.web import links, markup, state
from dashboard.web.pages.findings import known_findings

KEY, ASKED = "search_overlay", "search_asked"  # of the component; of the session: a question without an answer yet
LONGEST = 200  # characters that are searched for

_component = markup.component("search", "find.js")


@st.fragment
def draw(page: str) -> None:
    """Mount the search, with the answer to what the browser asked since the last run."""
    question = st.session_state.pop(ASKED, None)
    found = answer(page, question) if isinstance(question, dict) else None
    _component(key=KEY, data={"found": found}, on_question_change=_keep)


def _keep() -> None:
    """Keep the question; there is none where the page changed while it was on its way."""
    asked = st.session_state.get(KEY)
    st.session_state[ASKED] = asked.get("question") if asked else None


def answer(page: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the hits for a question of the browser by kind, with the URLs to open from a page.

    A question has a text, its number, and whether a scope is searched for.
    """
    text, fleet = str(question.get("text", ""))[:LONGEST], state.fleet()
    if question.get("isScope") is True:
        groups = scope_hits(fleet, text, links.scope(), state.whole())
        urls = [[_scoped(page, hit.link) for hit in group.hits] for group in groups]
    else:
        fleet = state.whole()
        groups = search_hits(fleet, text, known_findings(fleet), service.snapshots().all() if text.strip() else ())
        urls = [[_url(hit) for hit in group.hits] for group in groups]
    return {"number": question.get("number"), "groups": [_shown(*each) for each in zip(groups, urls, strict=True)]}


def _shown(group: HitGroup, urls: list[str]) -> dict[str, Any]:
    hits = [{"name": hit.name, "remark": hit.remark, "url": url} for hit, url in zip(group.hits, urls, strict=True)]
    return {"title": group.title, "more": group.more, "hits": hits}


def _scoped(page: str, link: Link) -> str:
    choices = dict(link.choices)
    return links.scoped(page, cluster=choices[pages.CLUSTER]) if choices else links.scoped(page, link.key)


def _url(hit: Hit) -> str:
    """Return the URL of a hit, which leaves a scope that does not have it."""
    own, leave = {each.name for each in state.fleet().pools}, []
    pools = {hit.link.key} if hit.link.kind is Kind.POOL else hit.pools
    if pools is not None and own.isdisjoint(pools):
        leave.append((pages.CLUSTER, ""))
    if hit.pools is not None and links.scope() not in {None, *hit.pools}:
        leave.append((pages.POOL, ""))
    return links.address(hit.link._replace(choices=(*hit.link.choices, *leave))) or ""
