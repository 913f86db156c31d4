"""What the matrix opens: every value of one path with who has it and who said it, or the replicas of one cohort."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.compare import ValueHolders, group_by_value
from dashboard.fleet import Cohort, Pool, State
from dashboard.fleet.formatting import STATE_WORDS, count, natural, whole_text
from dashboard.report.pools.order import by_path
from dashboard.report.replicas.sources import SOURCES
from dashboard.rules.subject import FINGERPRINT
from dashboard.views import pages
from dashboard.views.names import replica_names
from dashboard.web import links, markup, named_paths
from dashboard.web.matrix import Opened

MOST_TOLD = 10  # different texts shown of which a part is equal
MOST_NAMED = 60  # replicas named per value; the page Replicas lists all


def draw(fleet: Fleet, pool: Pool) -> None:
    """Open what the URL names: a path, or a cohort. It stays in the URL, so that the link can be handed on."""
    path, letter = st.query_params.get(pages.PATH), st.query_params.get(pages.COHORT)
    cohort = next((cohort for cohort in pool.cohorts if cohort.letter == letter), None)
    if path:
        st.dialog("All values of one setting", width="large", on_dismiss=close)(_path)(fleet, pool, path)
    elif cohort:
        st.dialog("One cohort", width="large", on_dismiss=close)(_cohort)(fleet, pool, cohort)


def open_from(opened: Opened, pool: Pool) -> None:
    """Put what the reader opened into the URL: the dialog opens with the next `draw`. A replica has its own page."""
    close()
    if opened.path:
        st.query_params[pages.PATH] = opened.path
    elif opened.column in pool.replicas:
        links.open_url(links.to(pages.REPLICA_PAGE, replica=opened.column))
    elif opened.column:
        st.query_params[pages.COHORT] = opened.column


def close() -> None:
    """Take what was open out of the URL."""
    for name in (pages.PATH, pages.COHORT):
        st.query_params.pop(name, None)


def _path(fleet: Fleet, pool: Pool, path: str) -> None:
    replicas = {replica.id: replica for replica in fleet.replicas}
    names = {each.id: each.name for each in replicas.values()}
    held = group_by_value(pool, fleet.documents, path)
    st.html(f'<p class="dialog-head">{markup.code(path)} in {markup.bold(pool.name)}</p>')
    if named := by_path(fleet.inspection, pool.name).get(path):
        st.html(named_paths.finding_lines(named))
    if path == FINGERPRINT:
        st.html(
            markup.notice("info", "Each engine computes its block hashes itself: the page of a replica shows them.")
        )
        return
    if not any(value.sources for value in held):
        st.html(markup.notice("info", "No replica of this pool tells of this setting."))
    for value in held:
        told = {replicas[member].identity[path].value for member in value.replicas if path in replicas[member].identity}
        _value(value, names, sorted(told))


def _value(value: ValueHolders, names: Mapping[str, str], as_told: Sequence[str]) -> None:
    """Draw one value. `as_told` are the whole texts where only a part of them is compared, such as a model's name."""
    letters = " ".join(markup.letter(letter) for letter in value.cohorts)
    said_by = " and ".join(SOURCES[source] for source in value.sources)
    state = STATE_WORDS.get(value.state)
    parts = [f"{letters} {markup.bold(count(value.count, 'replica'))}"]
    parts += [markup.muted(f"said by {said_by}")] if said_by else []
    st.html(f'<div class="value-head">{" · ".join(parts)}</div>')
    if state is None:
        st.code(whole_text(value.value, value.state), language="json", wrap_lines=True)
    else:
        st.html(f'<p class="none">{markup.text(state)}</p>')
    if as_told:
        st.html("<p>Only that part is compared. As told:</p>")
        st.code("\n".join(whole_text(text, State.REPORTED) for text in as_told[:MOST_TOLD]), language=None)
    st.html(f'<p class="members">{replica_links(value.replicas, names)}</p>')


def _cohort(fleet: Fleet, pool: Pool, cohort: Cohort) -> None:
    names = replica_names(fleet)
    number = count(len(cohort.replicas), "replica")
    st.html(
        f'<p class="dialog-head">{markup.letter(cohort.letter)} {markup.bold(number)} of {markup.bold(pool.name)}</p>'
    )
    if cohort.distinguishing:
        st.html("<p>The fewest settings that together tell it from all other cohorts:</p>")
        st.code(
            "\n".join(f"{told.path} = {whole_text(told.value, told.state)}" for told in cohort.distinguishing),
            language=None,
            wrap_lines=True,
        )
    st.html(f'<p class="members">{replica_links(cohort.replicas, names)}</p>')
    if cohort.read_in_part:
        partly = f"Tell less: {replica_links(cohort.read_in_part, names)}"
        st.html(f'<p class="members">{partly}</p>')
    st.html(f'<p class="next">{" · ".join(_next(pool, cohort.letter))}</p>')


def _next(pool: Pool, letter: str) -> Iterator[str]:
    """Link to what a reader may want to know next of one cohort among several."""
    if len(pool.cohorts) > 1:
        compared = links.to(pages.COMPARE, pool=pool.name, reference=letter)
        yield markup.link(compared, f"Compare with {letter}")
        yield markup.link(links.to(pages.COMPARE, pool=pool.name, converge=letter), f"What if all were like {letter}")


def replica_links(replicas: Iterable[str], names: Mapping[str, str]) -> str:
    """Write replicas as links to their pages, the first ones by name."""
    members = sorted(replicas, key=lambda member: natural(names.get(member, member)))
    shown = [
        markup.link(links.to(pages.REPLICA_PAGE, replica=member), markup.text(names.get(member, member)))
        for member in members[:MOST_NAMED]
    ]
    more = [f"and {len(members) - MOST_NAMED:,} more"] if len(members) > MOST_NAMED else []
    return ", ".join([*shown, *more])
