"""Compare: how the replicas of one pool differ, setting by setting; or chosen ones, of any pools and snapshots."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.compare import BASELINE, MAJORITY, Reference, Share, parse_reference
from dashboard.errors import SnapshotError
from dashboard.fleet import Baseline, Pool
from dashboard.fleet.formatting import natural, one_line
from dashboard.fleet.pieces import Kind, Link
from dashboard.render.tabular import matrix_csv
from dashboard.views import compare, pages
from dashboard.views.across import cluster_pools
from dashboard.views.blocks import DifferenceTable, View
from dashboard.views.chosen_columns import (
    OpenedSnapshot,
    add_snapshot,
    chosen_columns,
    not_shown,
    read_chosen,
    snapshot_notes,
    with_snapshots,
)
from dashboard.views.help import TERMS
from dashboard.views.plan import pool_section
from dashboard.views.pool_comparison import (
    ORIGIN_WORDS,
    OriginFilter,
    SettingChoice,
    compare_chosen,
    coverage_text,
    equal_text,
    hidden_text,
    members_of,
    pool_named,
    unmatched_text,
)
from dashboard.views.pool_text import router_section
from dashboard.views.snapshots import describe_snapshot
from dashboard.views.summary import outside_text
from dashboard.views.timeline import with_timeline
from dashboard.web import causes, draw, empty, filter_box, links, markup, share, state, timeline
from dashboard.web.pages import across, baselines
from dashboard.web.pages.overview import pool_order
from dashboard.web.state import shared

MOST_REPLICA_COLUMNS = 12  # a larger pool is compared by cohorts only
LEAST_CHOSEN = 2  # replicas to compare
ORIGIN_HELP = "Whether an argument, a config file or a variable sets the value. Only the configuration API reports it."
ADDED = "added_snapshot"  # key of the choice that adds columns
ACROSS = "Across clusters"
COHORTS, REPLICAS = "Cohorts", "Replicas"
EVERY_SECTION = "all"
COPY = '<div class="foot"><button type="button" class="copy" data-copy-table>Copy table</button></div>'
DEFAULT_POOL = "compared_pool"  # in the session: the pool that is shown without a scope, until it is gone


@shared(max_entries=24, has_times=True)
def shown(
    fleet: Fleet, pool_name: str, choice: SettingChoice
) -> tuple[DifferenceTable, Mapping[str, draw.PreparedPieces]]:
    """Compare a pool as chosen: its settings, and the sections prepared, by anchor. Sessions share the result."""
    pool = pool_named(fleet, pool_name)
    settings, deciding = compare_chosen(fleet, pool, choice)
    return settings, {
        compare.SETTINGS: draw.prepare(
            compare.settings_section(settings, members_of(fleet, pool), choice).blocks, COPY
        ),
        compare.DECIDING: draw.prepare_sections(
            (*compare.deciding_section(settings, deciding), *router_section(fleet, pool))
        ),
    }


@shared(max_entries=24)
def head_of(fleet: Fleet, pool: str) -> tuple[str, draw.PreparedPieces, draw.PreparedPieces]:
    """Return the verdict on a pool as HTML, its pairs of cohorts and its causes prepared."""
    section = compare.sharing_section(fleet, pool_named(fleet, pool))
    verdict = f'<div data-testid="verdict">{draw.html_of(section.blocks)}</div>'
    return verdict, draw.prepare_sections(section.parts), draw.prepare_sections(pool_section(fleet, pool))


def read_pool(pools: Sequence[str]) -> str:
    """Return the pool of the URL, else the one that was shown last, else the worst one."""
    kept = st.session_state.get(DEFAULT_POOL)
    name = links.read_choice(pages.POOL, pools, default=kept if kept in pools else pools[0])
    if links.scope() is None:
        st.session_state[DEFAULT_POOL] = name
    return name


def choose(pool: Pool, names: Mapping[str, str], baseline: Baseline | None) -> SettingChoice:
    """Draw the controls of the matrix and return their choice. `names` is by replica id."""
    rows = filter_box.draw_rows()
    sections = {path.partition(".")[0] for cohort in pool.cohorts for path in cohort.settings}
    options = [EVERY_SECTION, *sorted(sections)]
    reference = _choose_reference(pool, names, baseline)
    with filter_box.draw_button(pages.SECTION, pages.ORIGIN, pages.COLUMNS):
        section = links.draw_select("Section", pages.SECTION, options, 240)
        origin = choose_origin()
        columns = COHORTS
        if len(pool.replicas) <= MOST_REPLICA_COLUMNS:
            columns = links.draw_segments("Columns", pages.COLUMNS, (COHORTS, REPLICAS))
    return rows._replace(
        section=section,
        reference=parse_reference(reference, pool, baseline),
        by_replica=columns == REPLICAS,
        origin=origin,
    )


def _choose_reference(pool: Pool, names: Mapping[str, str], baseline: Baseline | None) -> str:
    letters = [cohort.letter for cohort in pool.cohorts]
    replicas = sorted(
        (each for cohort in pool.cohorts for each in cohort.replicas), key=lambda each: natural(names[each])
    )
    expected = {BASELINE.text: f"baseline {baseline.name}"} if baseline else {}
    has_majority = any(difference.majority for difference in pool.differences) or not pool.differences
    labels = {
        **names,
        **expected,
        **{letter: f"cohort {letter}" for letter in letters},
        MAJORITY.text: "majority" if has_majority else "majority (none)",
    }
    options = [MAJORITY.text, *expected, *letters, *replicas]
    words = TERMS["reference"]
    chosen = links.draw_select("Reference", pages.REFERENCE, options, 175, labels.__getitem__, help=words)
    return chosen or MAJORITY.text


def open_clicked(clicked: Link) -> None:
    """Put the clicked setting or cohort into the URL, which opens its dialog; go to the page of a replica."""
    close()
    if clicked.kind is Kind.REPLICA:
        draw.open_link(clicked)
    else:
        st.query_params[pages.PATH if clicked.kind is Kind.SETTING else pages.COHORT] = clicked.key


def close() -> None:
    for name in pages.DIALOGS[pages.COMPARE]:
        st.query_params.pop(name, None)


def draw_dialog(fleet: Fleet, pool: Pool, reference: Reference) -> None:
    """Open the dialog that the URL names: of a setting, a cohort, baselines or a cause. It stays there."""
    path, letter = st.query_params.get(pages.PATH), st.query_params.get(pages.COHORT)
    cohort = next((cohort for cohort in pool.cohorts if cohort.letter == letter), None)
    if path:
        st.dialog(markup.markdown_code(path), width="large", on_dismiss=close)(_draw_setting)(fleet, pool, path)
    elif cohort:
        title = f"Cohort {cohort.letter} of {markup.markdown_code(pool.name)}"
        st.dialog(title, width="large", on_dismiss=close)(draw.draw_blocks)(
            compare.cohort_blocks(fleet, pool, cohort), "dialog"
        )
    elif pages.CHECK in st.query_params:
        title = f"Baseline of {markup.markdown_code(pool.name)}"
        st.dialog(title, width="large", on_dismiss=close)(baselines.draw_dialog)(fleet, pool, reference)
    else:
        causes.draw_cause(fleet)


def _draw_setting(fleet: Fleet, pool: Pool, path: str) -> None:
    draw.draw_blocks(compare.setting_blocks(fleet, pool, path), "dialog")
    timeline.draw_setting_of_pool(fleet, path, pool)


def draw_page() -> None:
    fleet = state.fleet()
    if not fleet.pools:
        empty.nothing_answered()
        return

    if replicas := st.query_params.get(pages.CHOSEN):
        draw_chosen(fleet, replicas)
        return
    if links.read_choice(pages.ACROSS, ["", pages.CLUSTER]):
        across.draw_across(state.whole())
        return
    draw_pool(fleet)


def draw_pool(fleet: Fleet) -> None:
    # Each part is drawn in its final order: nothing moves while a page is drawn.
    pools = pool_order(fleet)
    name = read_pool(pools)
    with st.container(key="pool_head", horizontal=True, vertical_alignment="center"):
        pool = pool_named(fleet, name)
        members = members_of(fleet, pool)
        head = compare.pool_lead(fleet, pool)
        head += f" · other pools: {outside_text(fleet, name, pages.COMPARE)}" if links.scope() else ""
        st.html(markup.heading(f"Compare {markup.text(name)}", markup.text(head)), width="content")
        bound = links.bind(pages.POOL, pools, default="" if links.scope() else name)  # it is the scope of all pages
        st.selectbox("Pool", pools, **bound, format_func=one_line, label_visibility="collapsed", width=280)
        if len(cluster_pools(state.whole(), name)) > 1:
            every = links.to(pages.COMPARE, pool=pool.name_within, across=pages.CLUSTER, cluster="")
            st.html(markup.link(every, ACROSS))
    verdict, pairs, causes_of_pool = head_of(fleet, name)
    with st.container(key="band"):
        st.html(verdict)
    if causes_of_pool:
        with st.container(key="first"):
            draw.draw_prepared(causes_of_pool, "compare_plan")
    with draw.controls_row("controls"):
        choice = choose(pool, fleet.names, fleet.policy.baseline(name))
        settings, prepared = shown(fleet, name, choice)
        matrix = settings.matrix
        st.download_button(
            "CSV",
            data=lambda: matrix_csv(settings, (coverage_text(fleet), hidden_text(matrix, members))),
            file_name=f"{links.make_file_name(fleet.name, name, *pages.choices_of(fleet).values())}.csv",
            mime="text/csv",
            on_click="ignore",
            help="What the table shows, values uncut.",
        )
        baselines.offer(fleet, pool, choice.reference)
    clicked = None
    if matrix.rows:
        clicked = draw.draw_prepared(prepared[compare.SETTINGS], "compare_settings")
    elif not pool.cohorts and any(member.fresh for member in members):
        empty.no_settings_reported("pool")
    elif choice.is_filtered:
        empty.filter_hides_all(unmatched_text(matrix, choice), links.to(pages.COMPARE, pool=name))
    elif sum(len(cohort.replicas) for cohort in pool.cohorts) > 1:
        is_good = fleet.sharing[name].share is Share.YES
        head = "No difference:" if is_good else "No setting differs:"
        empty.all_equal(head, equal_text(matrix, members), is_good=is_good)
    else:
        empty.unknown("Nothing to compare.", hidden_text(matrix, members))

    clicked = draw.draw_prepared(prepared[compare.DECIDING], "compare_deciding") or clicked
    draw.draw_prepared(pairs, "compare_pairs")
    past = timeline.draw_pool(fleet, pool)
    share.offer(lambda: with_timeline(compare.compare_report(fleet, pool.name, choice), past), charts=bool(past))

    if clicked:
        open_clicked(clicked)
    draw_dialog(fleet, pool, choice.reference)
    if links.page_choices():  # a choice on this pool means nothing for another one
        links.keep_choice(pages.COMPARE, pages.POOL, name)


@shared(max_entries=8, has_times=True)
def chosen_view(
    fleet: Fleet, ids: tuple[str, ...], choice: SettingChoice, notes: dict[str, str]
) -> tuple[View, draw.PreparedPieces]:
    """Return the comparison of chosen replicas, and its sections prepared."""
    view = compare.chosen_report(fleet, ids, choice, notes)
    return view, draw.prepare_sections(view.parts)


def choose_origin() -> OriginFilter:
    words = {str(key): text for key, text in ORIGIN_WORDS.items()}
    chosen = links.draw_select("Origin", pages.ORIGIN, list(words), 195, words.__getitem__, help=ORIGIN_HELP)
    return OriginFilter(chosen or OriginFilter.ANY)


def draw_chosen(shown: Fleet, text: str) -> None:
    columns = chosen_columns(text)
    opened, problems = _open_snapshots({each.snapshot: None for each in columns if each.snapshot})
    fleet = with_snapshots(shown, columns, opened)
    ids = read_chosen(fleet, text)
    if sentences := not_shown(fleet, text, opened, problems):
        st.html(markup.notice("warning", markup.text(" ".join(sentences))))
    if len(ids) < LEAST_CHOSEN:
        empty.too_few_chosen()
        if ids:
            _choose_snapshot(text, ids)
        return
    head = st.container()
    with draw.controls_row("filters"):
        rows = filter_box.draw_rows()
        origin = choose_origin()
        first = compare.chosen_reference(fleet, ids).key or ids[0]
        options = [first, *(each for each in ids if each != first)]
        reference = links.draw_select("Reference", pages.REFERENCE, options, 240, fleet.names.__getitem__) or first
        _choose_snapshot(text, ids)
    choice = rows._replace(origin=origin, reference=compare.chosen_reference(fleet, ids, reference), by_replica=True)
    view, pieces = chosen_view(fleet, ids, choice, snapshot_notes(columns, opened))

    def url_of(column: str) -> str:
        frozen = next((each for each in columns if each.snapshot and each.key == column), None)
        if frozen is None:
            return links.to(pages.REPLICA_PAGE, replica=column)
        return links.live(pages.REPLICA_PAGE, replica=frozen.replica, snapshot=frozen.snapshot)

    across.draw_columns(head, view, pieces, "chosen", url_of)


def _open_snapshots(asked: dict[str, None]) -> tuple[dict[str, OpenedSnapshot], dict[str, str]]:
    """Return the snapshots by their texts in the URL, and why the others cannot be opened."""
    opened, problems = {}, {}
    for text in asked:
        try:
            key = service.snapshots().named(text)
            opened[text] = OpenedSnapshot(service.open_snapshot(key), service.snapshots().get(key).metadata.name)
        except SnapshotError as error:
            problems[text] = str(error)
    return opened, problems


def _choose_snapshot(text: str, ids: tuple[str, ...]) -> None:
    """Draw the choice of a snapshot, which adds each replica as it was then; nothing without snapshots."""
    try:
        known = {each.id: each for each in service.snapshots().all()}
    except SnapshotError:  # the page Snapshots has the reason
        return
    if known:
        st.selectbox(
            "Add snapshot",
            list(known),
            index=None,
            key=ADDED,
            format_func=lambda key: one_line(describe_snapshot(known[key])),
            on_change=_add_snapshot,
            args=(text, ids),
            placeholder="none",
            width=240,
        )


def _add_snapshot(text: str, ids: tuple[str, ...]) -> None:
    if key := st.session_state[ADDED]:
        st.query_params[pages.CHOSEN] = add_snapshot(text, key, ids)
        st.session_state[ADDED] = None
