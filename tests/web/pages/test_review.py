"""Review: the agenda of a meeting, what is new since the last review, and meeting mode."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.fleet import Source
from dashboard.rules.findings import Suppression
from dashboard.rules.policy import Policy
from dashboard.store.snapshots import Snapshots
from dashboard.views import pages
from dashboard.views.review import AGENDA
from dashboard.web.share import OFFERED
from tests.builders import NOW, alike, document, engine, fleet, replica, story
from tests.findings_builder import inspected_story, sighted
from tests.page_runner import (
    WEEK,
    address,
    earlier,
    frozen,
    html,
    open_page,
    rerun,
    review,
    show_with_snapshots,
    visit,
)
from tests.store.folders import damage

DOCUMENT, ODD = document(), document({"cache_config.block_size": 32})
FIRST = "First review of this fleet"


def meeting(app: AppTest) -> str:
    """The bar of a meeting, which comes with its style sheet; empty outside of a meeting."""
    pieces = [str(piece.proto.body) for piece in app.get("html")]
    return "".join(piece.partition("</style>")[2] for piece in pieces if 'class="agenda meeting"' in piece)


def test_the_last_review_is_the_newest_earlier_snapshot_of_this_fleet(store: Snapshots) -> None:
    """Another one can be selected. Snapshots of the same data and of other fleets are no options."""
    live = story()
    last, older = frozen(store, earlier(live)), frozen(store, earlier(live, ago=2 * WEEK), "older")
    frozen(store, replace(earlier(live, ago=timedelta(days=1)), name="other"), "another fleet")
    frozen(store, live, "the same data")
    app = review(live, store)

    assert f"from={last}&amp;to=live" in html(app)
    assert [option.rpartition(" ")[2] for option in app.selectbox[0].options] == [last[:10], older[:10]]
    assert f"from={older}&amp;to=live" in html(review(live, store, **{"from": older}))


def test_a_snapshot_that_is_no_review_is_compared_only_if_it_is_chosen(store: Snapshots) -> None:
    live = story()
    other = frozen(store, earlier(live), "before the upgrade")
    app = review(live, store)
    assert "No earlier snapshot is a review" in html(app)
    assert app.selectbox[0].value == ""

    app.selectbox[0].set_value(other)
    assert f"from={other}&amp;to=live" in html(rerun(app))
    assert address(app, "from") == other


@pytest.mark.parametrize(
    ("is_folder", "problem"), [(False, "changed after saving"), (True, "Snapshots cannot be read. The history")]
)
def test_an_unreadable_last_review_is_a_warning_and_the_page_is_complete(
    store: Snapshots, *, is_folder: bool, problem: str
) -> None:
    live = story()
    if is_folder:
        store.folder.mkdir()
        (store.folder / "history.db").write_text("no database, but as long as the header of one is" * 10)
    else:
        damage(store, frozen(store, earlier(live)), content=b"\x1f\x8b")
    shown = html(review(live, store))

    assert problem in shown
    assert "The last review cannot be opened" in shown
    assert FIRST not in shown
    assert "Findings</h2>" in shown


def test_suppressions_are_ordered_by_their_end_with_expired_ones_last(store: Snapshots) -> None:
    until = {"RT-01": date(2026, 4, 1), "RT-05": date(2026, 3, 20), "CP-03": date(2026, 3, 1)}
    entries = tuple(Suppression(rule, f"owner of {rule}", "a trial", day) for rule, day in until.items())
    suppressing = inspected(replace(story(), policy=Policy(suppressions=entries)), NOW)
    shown = html(review(suppressing, store)).partition("Suppressed</h2>")[2]
    places = [shown.index(f"owner of {rule}") for rule in ("RT-05", "RT-01", "CP-03")]

    assert places == sorted(places)
    assert "Suppression by owner of CP-03 expired on 2026-03-01 (a trial)." in shown


@pytest.mark.parametrize(
    ("reviewed", "present", "absent"),
    [
        pytest.param(
            fleet(alike("chat", 3, DOCUMENT, sources=(Source.METRICS,)), [DOCUMENT]),
            (
                "<h1>Fleet is consistent: 3 replicas, 1 pool</h1>",
                "No findings in what was read.",
                "All replicas were read.",
            ),
            ('class="glyph critical"',),
            id="no findings",
        ),
        pytest.param(
            fleet([replica("chat-1"), replica("chat-2")]),
            ("<h1>No rule was evaluated</h1>", "No settings compared: no pool reports its configuration."),
            (),
            id="no settings reported",
        ),
    ],
)
def test_the_review_of_an_unusual_fleet(
    store: Snapshots, reviewed: Fleet, present: Sequence[str], absent: Sequence[str]
) -> None:
    shown = html(review(reviewed, store))

    assert [text for text in present if text not in shown] == []
    assert [text for text in absent if text in shown] == []


def test_a_meeting_shows_one_section_named_by_the_url_with_links_for_its_keys(store: Snapshots) -> None:
    app = review(story(), store)
    assert 'href="review?meeting=1"' in html(app)
    assert (meeting(app), html(app).count("</h2>") > len(AGENDA)) == ("", True)

    app = review(story(), store, meeting="1", section="findings")
    assert "Findings</h2>" in html(app)
    assert "Capacity</h2>" not in html(app)
    bar = meeting(app)
    assert 'href="review?meeting=1&amp;section=new" class="previous"' in bar
    assert 'href="review?meeting=1&amp;section=differences" class="next"' in bar
    assert 'href="review" class="leave"' in bar
    assert len(re.findall('aria-current="true">Findings', bar)) == 1


def test_a_meeting_begins_with_the_first_section_and_ends_with_the_last(store: Snapshots) -> None:
    first = meeting(review(story(), store, meeting="1", section="nope"))
    last = meeting(review(story(), store, meeting="1", section=list(AGENDA)[-1]))

    assert (first.count('class="previous"'), first.count('class="next"')) == (0, 1)
    assert (last.count('class="previous"'), last.count('class="next"')) == (1, 0)


def test_a_meeting_shows_its_snapshot_and_stays_in_it(store: Snapshots) -> None:
    key = frozen(store, story(), "Ops <b>")
    show_with_snapshots(story(), store.folder)
    bar = meeting(visit("review", meeting="1", snapshot=key))

    assert f"Snapshot “Ops &lt;b&gt;” {key[:10]}</span> · 20" in bar
    assert f'href="review?snapshot={key[:10]}" class="leave"' in bar


def test_charts_of_a_pool_are_drawn_when_its_fold_is_opened(store: Snapshots) -> None:
    uneven = fleet([replica("chat-1", engines=(engine(900_000),)), replica("chat-2", engines=(engine(600_000),))])
    app = review(uneven, store)
    assert not app.get("plotly_chart")

    for place in range(9):
        app.session_state[f"review_capacity_{place}_aside"] = True
    assert rerun(app).get("plotly_chart")


def test_the_review_filters_by_what_is_new_and_sorts_by_it_as_the_url_says() -> None:
    built = sighted(inspected_story())
    app = open_page(built, "review")
    every = html(app).count('<li class="critical"')
    app.selectbox(pages.NEW).set_value("1h")
    app.selectbox(pages.SORT).set_value("-since")
    rerun(app)

    assert (address(app, pages.NEW), address(app, pages.SORT)) == ("1h", "-since")
    assert "1 of 4 findings shown: new since 2026-03-02T10:42:05Z." in html(app)
    assert html(app).count('<li class="critical"') < every
    assert app.session_state[OFFERED]().context.filters[0] == ("new_since", "2026-03-02T10:42:05Z")
    assert "findings shown: new since 2026-03-02T11:12:05Z." in html(open_page(built, "review", new="30m"))
