"""Changes between any two of: a snapshot, a past time and the live fleet; and what happened in between."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.render.export import Format, written
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.writer import HistoryWriter
from dashboard.views.context import context_line
from dashboard.web import share
from tests.builders import NOW
from tests.page_runner import address, copied, html, rerun, visit
from tests.past_fleets import DUE, LAST, MENDED, ODD, fleet_at, show_with_history

NINE, TEN, ELEVEN = (f"2026-03-02T{hour}:00Z" for hour in ("09", "10", "11"))
GAP = "No poll was recorded"


@pytest.fixture(autouse=True)
def history(tmp_path: Path) -> Database:
    return show_with_history(tmp_path)


def changes(before: str = NINE, after: str = "live", **url: str) -> AppTest:
    return visit("changes", **{"from": before, "to": after, **url})


def text_of(part: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", part))


def header(app: AppTest) -> str:
    return text_of(next(part for part in html(app).split("\n") if 'class="asof' in part)).strip()


def between(app: AppTest) -> list[str]:
    """The rows of what happened in between: its text without times."""
    table = html(app).partition("What happened in between")[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [text_of(row).strip() for row in rows if "<td" in row]


def test_two_past_times_are_compared_and_name_themselves() -> None:
    app = changes(NINE, TEN)

    assert "block_size 16 -&gt; 32" in html(app)
    assert header(app) == ("Compared: 2026- 03-02 09:00 · 4 of 4 · 08:42:05 → 2026- 03-02 10:00 · 4 of 4 · 09:42:05")
    footer = text_of(html(app).rpartition('<footer class="context">')[2])
    assert "before: history at 2026-03-02T09:00Z, data as of 2026-03-02T08:42:05Z" in footer
    assert [toggle.label for toggle in app.toggle if toggle.label == "Pause updates"] == []


def test_what_changed_and_changed_back_is_listed_though_the_ends_are_alike() -> None:
    app = changes(NINE, ELEVEN)

    assert "No settings changed on 4 replicas." in html(app)
    rows = between(app)
    assert len(rows) == 6
    assert [GAP in row for row in rows] == [True, False, False, False, False, False], "newest first"
    assert "1 replica restarted" in rows[-1]
    assert "block_size 16 -&gt; 32" in rows[-1]
    assert "2026-03-02 between 08:42 and 09:42" in rows[-1]
    assert "Events (6)" in html(app)
    assert "5 changes and 1 gap in between" in html(app), "in the head of the page"


def test_a_row_leads_to_the_moment_and_a_replica_to_the_fleet_that_had_it() -> None:
    page = html(changes(NINE, ELEVEN))

    assert 'href="./?at=2026-03-02T09%3A42%3A05Z"' in page
    assert "replica?replica=http%3A%2F%2Fchat-05%3A8000&amp;at=2026-03-02T10%3A42%3A05Z" in page


@pytest.mark.parametrize(
    ("sides", "rows"),
    [((TEN, "live"), 4), (("live", TEN), 4), ((ELEVEN, "live"), 1), ((NINE, "2026-03-02T09:05Z"), 0)],
)
def test_a_range_has_what_happened_in_it_in_either_order(sides: tuple[str, str], rows: int) -> None:
    assert len(between(changes(*sides))) == rows


def test_a_range_without_changes_and_gaps_says_that_nothing_was_recorded() -> None:
    page = text_of(html(changes(NINE, "2026-03-02T09:05Z")))

    assert "No change in between; the polls had no gap." in page


def test_a_snapshot_is_compared_with_a_time() -> None:
    key = service.snapshots().save(fleet_at(ODD), "odd", NOW).id

    assert "block_size 32 -&gt; 16" in html(changes(key, ELEVEN))
    assert len(between(changes(key, ELEVEN))) == 4


def test_a_snapshot_of_another_fleet_has_no_range() -> None:
    key = service.snapshots().save(replace(fleet_at(ODD), name="other"), "odd", NOW).id
    page = html(changes(key, ELEVEN))

    assert "Different fleets" in page
    assert "Events" not in page


@pytest.mark.parametrize(
    ("url", "rows", "texts"),
    [
        ({"pool": "chat"}, 6, []),
        ({"path": "block_size"}, 5, ["restarted", "Finding began", "restarted", "Finding ended", GAP]),
        ({"path": "max_num_seqs"}, 1, [GAP]),
        ({"replica": "chat-05"}, 2, ["added", GAP]),
        ({"replica": "chat-04"}, 5, ["restarted", "Finding began", "restarted", "Finding ended", GAP]),
        ({"replica": "http://chat-04:8000"}, 5, ["restarted", "Finding began", "restarted", "Finding ended", GAP]),
        ({"replica": "chat-02"}, 1, [GAP]),
    ],
)
def test_pool_setting_and_replica_filter_the_comparison_and_the_range(
    url: dict[str, str], rows: int, texts: list[str]
) -> None:
    app = changes(NINE, ELEVEN, **url)
    shown = between(app)

    assert len(shown) == rows
    assert [text for row, text in zip(reversed(shown), texts, strict=False) if text not in row] == []
    view = app.session_state[share.OFFERED]()
    (name, value) = next(iter(url.items()))
    assert f"filters: {name}={value}" in context_line(view.context)
    assert f"{name}={value}" in text_of(html(app).rpartition('<footer class="context">')[2])
    assert f"{name}=" in copied(app)[0]


def test_findings_that_are_too_many_to_look_up_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.web.pages.changes.MOST_LOOKED_UP", 0)
    page = text_of(html(app := changes(NINE, ELEVEN, path="block_size")))

    assert "Not listed: 1 earlier finding that began and ended in between. Choose a shorter range." in page
    assert len(between(app)) == 3
    assert "Not listed" not in html(changes(NINE, ELEVEN))


def test_an_unknown_pool_is_ignored_with_a_warning() -> None:
    assert "Ignored invalid URL parameter <code>pool=nope</code>." in html(changes(pool="nope"))


@pytest.mark.parametrize("at", ["2026-99-01", "2026-03-02T25:00Z", "2020-01-01", "2999-01-01"])
def test_a_side_without_a_poll_is_one_sentence(at: str) -> None:
    app = changes(at, "live")

    assert header(app) == "no comparison"
    assert re.search("is not a time; write|The history has no poll at|is in the future", html(app))


def test_a_time_can_be_typed_or_chosen_and_is_in_the_url() -> None:
    app = changes()
    side = app.selectbox(key="changes_side_from")
    assert side.value == NINE
    assert "1 h ago (2026-03-02T10:42Z)" in side.options
    side.set_value("2026-03-02T10:42Z")
    rerun(app)

    assert address(app, "from") == "2026-03-02T10:42Z"


def test_without_snapshots_the_last_day_is_compared_by_default_or_all_of_a_younger_history() -> None:
    assert header(visit("changes")).startswith("Compared: 2026- 03-02 08:42:05 · 4 of 4")
    service.put(fleet_at(LAST), NOW + timedelta(days=2), service.snapshots().folder, history=service.history())

    assert header(visit("changes")).startswith("Compared: 2026- 03-03 11:42 ")


def test_a_moment_is_swapped_and_shared_with_its_filters() -> None:
    app = changes(NINE, TEN, pool="chat")

    assert "changes?from=2026-03-02T10%3A00Z&amp;to=2026-03-02T09%3A00Z&amp;pool=chat" in html(app)
    assert copied(app)[0].endswith("/changes?from=2026-03-02T09%3A00Z&to=2026-03-02T10%3A00Z&pool=chat")


def test_a_long_list_is_cut_and_counted_and_exports_have_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.views.changes_text.MOST_ROWS", 2)
    app = changes(NINE, ELEVEN)
    view = app.session_state[share.OFFERED]()

    assert len(between(app)) == 2
    assert "4 earlier entries not listed" in html(app)
    assert "Finding began" not in html(app)
    assert "Finding began" in written(view, Format.JSON).decode()


def test_an_unreadable_history_leaves_the_comparison_of_snapshots(history: Database) -> None:
    keys = [service.snapshots().save(fleet_at(time), "x", NOW).id for time in (ODD, MENDED)]
    assert history.file is not None
    history.file.write_bytes(b"nonsense" * 1000)
    page = html(changes(*keys))

    assert "block_size 32 -&gt; 16" in page
    assert "The history history.db cannot be used" in page


def test_a_gap_that_ends_meanwhile_is_shown_as_it_is_now(tmp_path: Path) -> None:
    """Results are shared by sessions: the times of the comparison stay the same, the history does not."""
    folder = tmp_path / "second"
    folder.mkdir()
    database = Database(f"sqlite:///{folder / 'history.db'}")
    writer = HistoryWriter(database)
    for time in list(DUE)[:3]:
        writer.record(fleet_at(time), time + DUE[time])
    service.put(fleet_at(MENDED), NOW, folder, history=HistoryReader(database))
    assert "no poll was recorded between 2026-03-02T10:42:05Z and now" in html(changes(NINE, ELEVEN))
    writer.record(fleet_at(LAST), LAST + DUE[LAST])
    writer.close()

    assert "no poll was recorded between 2026-03-02T10:42:05Z and 2026-03-02T11:42:05Z" in html(changes(NINE, ELEVEN))
