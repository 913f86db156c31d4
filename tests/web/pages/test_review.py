"""The review is the agenda of a meeting: the same sections in the same order each time, and notes that are kept."""

import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import inspected
from dashboard.fleet import FailureKind, Note, Source
from dashboard.rules.findings import Suppression
from dashboard.rules.policy import Policy
from dashboard.store import Snapshots
from tests.builders import HOSTILE, NOW, alike, document, down, fleet, hostile, replica, story
from tests.page_runner import PAGES, SCRIPT, WEEK, a_finding, earlier, frozen, html, rerun, review

AGENDA = ["Status", "New", "Findings", "Differences", "Capacity", "Unreachable", "Suppressed"]
TITLES = [
    "critical findings; 1 replica is down</h1>",
    "New since the last review</h2>",
    "Findings</h2>",
    "Differences by pool</h2>",
    "Capacity by pool</h2>",
    "Unreachable or partial</h2>",
    "Suppressed</h2>",
]
FIRST = "First review of this fleet"
MEETING_TYPE = "font-size: 20.25px"


def style(app: AppTest) -> str:
    """Return the style sheet of the page."""
    return next(str(piece.proto.body) for piece in app.get("html") if "<style>" in piece.proto.body)


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    """An empty folder of snapshots."""
    return Snapshots(tmp_path / "snapshots")


def test_the_sections_stand_in_the_order_of_the_agenda(store: Snapshots) -> None:
    """Is it fine, what is new, findings, differences, capacity, what was not read, what is suppressed."""
    app = review(story(), store)
    shown = html(app)

    places = [shown.index(title) for title in TITLES]
    assert places == sorted(places)
    agenda = [shown.index(f"</span> {title}") for title in AGENDA]
    assert agenda == sorted(agenda)


def test_the_numbers_lead_to_what_they_count(store: Snapshots) -> None:
    shown = html(review(story(), store))

    assert 'class="card" href="findings?severity=critical"' in shown
    assert 'class="card" href="replicas"' in shown
    assert 'class="card" href="capacity"' in shown


def test_a_finding_says_where_who_why_and_what_to_do_and_leads_to_its_evidence(store: Snapshots) -> None:
    told = story()
    shown = html(review(told, store))

    assert f'href="findings?finding={a_finding(told)}"' in shown
    assert "<code>block_size</code> is <code>32</code>; 16 of 17 replicas use <code>16</code>." in shown
    assert "chat-70b-17" in shown
    assert "Why it matters" in shown
    assert "What to do" in shown
    assert "<pre><code>--block-size 16</code></pre>" in shown


def test_what_is_said_of_several_pools_is_one_entry(store: Snapshots) -> None:
    """Two pools with the same odd replica: one sentence, one field."""
    usual, odd = document(), document({"cache_config.block_size": 32})
    members = [
        each
        for pool in ("east", "west")
        for each in (*alike(pool, 3, usual), replica(f"{pool}-odd", pool=pool, document=odd))
    ]
    shown = html(review(fleet(members, [usual, odd]), store))

    assert shown.count("<code>block_size</code> is <code>32</code>; 3 of 4 replicas use <code>16</code>.") == 1
    assert "<b>east and west</b>" in shown


def test_only_pools_that_differ_are_laid_out_and_the_others_stand_in_one_sentence(store: Snapshots) -> None:
    shown = html(review(story(), store))

    assert 'href="compare?pool=chat-70b"' in shown
    assert 'title="cache_config.block_size"' in shown
    assert " uniform pools: " in shown
    assert "gemma-27b" in shown


def test_the_capacity_of_every_pool_stands_in_one_table(store: Snapshots) -> None:
    shown = html(review(story(), store))

    assert "KV cache capacity of the pools" in shown
    assert 'href="capacity?pool=gemma-27b"' in shown


def test_what_was_not_read_stands_with_its_reason(store: Snapshots) -> None:
    shown = html(review(story(), store))

    assert "No answer within 5 s." in shown
    assert "/v1/config answers 401" in shown


def test_the_first_review_says_that_there_is_nothing_to_compare_with(store: Snapshots) -> None:
    shown = html(review(story(), store))

    assert FIRST in shown
    assert 'href="changes' not in shown


def test_the_last_review_is_the_newest_older_snapshot_of_this_fleet(store: Snapshots) -> None:
    """Not a snapshot of the same data, not one of another fleet, not an older one."""
    told = story()
    last = frozen(store, earlier(told))
    frozen(store, earlier(told, ago=2 * WEEK), "older")
    frozen(store, replace(earlier(told, ago=timedelta(days=1)), name="other"), "another fleet")
    frozen(store, told, "the same data")

    app = review(told, store)

    assert f"from={last}&amp;to=live" in html(app)
    assert app.selectbox[0].options[0].endswith(last[:10])
    assert len(app.selectbox[0].options) == 2


def test_another_earlier_snapshot_can_be_chosen(store: Snapshots) -> None:
    told = story()
    frozen(store, earlier(told))
    older = frozen(store, earlier(told, ago=2 * WEEK))

    app = review(told, store, **{"from": older})

    assert f"from={older}&amp;to=live" in html(app)


def test_what_changed_since_the_last_review_is_told_by_cohort(store: Snapshots) -> None:
    """Three replicas were restarted with another block size: that is one entry, and the findings that came of it."""
    usual, other = document(), document({"cache_config.block_size": 32})
    before = fleet(alike("chat", 10, usual), [usual])
    after = fleet([*alike("chat", 7, usual), *alike("chat", 3, other, first=8)], [usual, other])
    frozen(store, earlier(before))

    shown = html(review(after, store))

    assert "3 of 10 replicas of chat" in shown
    assert "block_size 16 -&gt; 32" in shown
    assert (
        "<code>block_size</code> is <code>32</code>; 7 of 10 replicas use <code>16</code>."
        in shown[: shown.index("Differences by pool</h2>")]
    )
    assert FIRST not in shown


def test_a_last_review_that_cannot_be_opened_does_not_hide_the_page(store: Snapshots) -> None:
    """Its file is damaged: the page says so and shows the rest."""
    told = story()
    last = frozen(store, earlier(told))
    (store.folder / f"{last}.json.gz").write_bytes(b"\x1f\x8b")

    shown = html(review(told, store))

    assert "copy or export it again" in shown
    assert "The last review cannot be opened" in shown
    assert FIRST not in shown
    assert "Findings</h2>" in shown


def test_a_folder_of_snapshots_that_cannot_be_read_is_not_taken_for_an_empty_one(store: Snapshots) -> None:
    """Something else is called so: what the last review was is not known."""
    store.folder.write_text("")

    shown = html(review(story(), store))

    assert "A snapshot cannot be read in its folder" in shown
    assert "The last review cannot be opened" in shown
    assert FIRST not in shown
    assert "Findings</h2>" in shown


def test_what_is_suppressed_stands_by_its_end_and_what_expired_below(store: Snapshots) -> None:
    """Who answers for it and until when, soonest to end first; what is over counts again, and says so."""
    until = {"RT-01": date(2026, 4, 1), "RT-05": date(2026, 3, 20), "CP-03": date(2026, 3, 1)}
    entries = tuple(Suppression(rule, f"owner of {rule}", "a trial", day) for rule, day in until.items())
    told = inspected(replace(story(), policy=Policy(suppressions=entries)), NOW)

    shown = html(review(told, store)).partition("Suppressed</h2>")[2]

    places = [shown.index(f"owner of {rule}") for rule in ("RT-05", "RT-01", "CP-03")]
    assert places == sorted(places)
    assert "Suppression by owner of CP-03 expired on 2026-03-01 (a trial)." in shown


def test_a_calm_fleet_looks_calm(store: Snapshots) -> None:
    told = document()
    shown = html(review(fleet(alike("chat", 3, told, sources=(Source.METRICS,)), [told]), store))

    assert "<h1>No critical findings or warnings</h1>" in shown
    assert "No findings in what was read." in shown
    assert 'class="glyph critical"' not in shown
    assert "All replicas were read." in shown


def test_a_fleet_that_tells_no_settings_is_not_called_calm(store: Snapshots) -> None:
    shown = html(review(fleet([replica("chat-1"), replica("chat-2")]), store))

    assert "<h1>No rule was evaluated</h1>" in shown
    assert "No settings compared: no pool reports its configuration." in shown


def test_a_fleet_of_which_nothing_answers_says_so(store: Snapshots) -> None:
    lost = [down(f"chat-{index}", pool=None, kind=FailureKind.DNS, detail="No such name.") for index in range(30)]
    shown = html(review(fleet(lost), store))

    assert "<h1>No replica answered</h1>" in shown
    assert "No such name." in shown
    assert "30 replicas" in shown


def test_many_pools_are_folded_after_the_first(store: Snapshots) -> None:
    """A hundred pools do not push what follows out of sight."""
    told = document()
    members = [replica(f"r{index}", pool=f"pool-{index:03}", document=told) for index in range(100)]
    shown = html(review(fleet(members, [told]), store))

    assert "<summary>and 85 more</summary>" in shown


def test_what_is_foreign_stays_text(store: Snapshots) -> None:
    """Names, values, notes and the names of snapshots may hold anything."""
    told = hostile()
    last = frozen(store, earlier(told), HOSTILE)
    store.note(last, "fine", Note(HOSTILE, HOSTILE[:80]))
    key = frozen(store, told, HOSTILE)
    store.note(key, "fine", Note(HOSTILE, HOSTILE[:80], NOW))

    shown = html(review(told, store, snapshot=key))

    assert "<script" not in shown
    assert "<img" not in shown


def test_a_meeting_is_dressed_and_left_by_the_address(store: Snapshots) -> None:
    """The button begins it; what the browser is told names its keys."""
    app = review(story(), store)
    assert "Meeting mode</span>" not in html(app)
    assert MEETING_TYPE not in style(app)

    app.button(key="begin_meeting").click()
    rerun(app)

    assert app.query_params["meeting"] == "1"
    assert "Meeting mode</span>" in html(app)
    assert MEETING_TYPE in style(app)
    assert "<kbd>Page Down</kbd>" in html(app)
    assert not any(each.key == "begin_meeting" for each in app.button)


def test_a_meeting_keeps_in_sight_which_snapshot_it_looks_at(store: Snapshots) -> None:
    """With the agenda, which stays when the band above it has scrolled away."""
    stored = store.freeze(story(), "Ops <b>", NOW)
    service.put(story(), NOW, store.folder)
    app = AppTest.from_file(SCRIPT, default_timeout=20)
    app.switch_page(str(PAGES / "review.py"))
    app.query_params["meeting"], app.query_params["snapshot"] = "1", stored.id

    shown = re.search(r'<p class="shown">(.*?)</p><nav class="agenda"', html(rerun(app)))

    assert shown
    assert f"Snapshot “Ops &lt;b&gt;” {stored.id[:10]}</span> · data as of 20" in shown.group(1)


def test_another_page_in_a_meeting_leads_back_to_the_review(store: Snapshots) -> None:
    service.put(story(), NOW, store.folder)
    app = AppTest.from_file(SCRIPT, default_timeout=20)
    app.query_params["meeting"] = "1"

    assert 'href="review" class="back">Back to the review' in html(rerun(app))
