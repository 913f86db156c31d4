"""Notes of a review are saved with the snapshot, and no typed text is lost."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note
from dashboard.store.snapshots import Snapshots
from tests.builders import NOW, alike, document, fleet, hostile, replica, story
from tests.page_runner import WEEK, a_finding, earlier, field, frozen, html, rerun, review, switch
from tests.store.folders import column, damage

LAST_WEEK = NOW - WEEK


class Reviewed(NamedTuple):
    """The story, frozen: its fleet, the id of its snapshot and of one finding."""

    store: Snapshots
    fleet: Fleet
    key: str
    finding: str

    def open(self) -> AppTest:
        return review(self.fleet, self.store, snapshot=self.key)

    def type(self, app: AppTest, text: str, *, owner: str = "", about: str = "") -> AppTest:
        if owner:
            app.text_input(key=field(self.key, about or self.finding, "owner")).input(owner)
        app.text_area(key=field(self.key, about or self.finding)).input(text)
        return rerun(app)

    def text(self, app: AppTest) -> str | None:
        return app.text_area(key=field(self.key, self.finding)).value

    @property
    def notes(self) -> dict[str, Note]:
        return dict(self.store.get(self.key).metadata.notes)


@pytest.fixture
def reviewed(store: Snapshots) -> Reviewed:
    live = story()
    return Reviewed(store, live, frozen(store, live, "Weekly"), a_finding(live))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every change fails until `undo`."""

    def fail(*_: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dashboard.store.history.database.Database.maintained", fail)
    return monkeypatch


def test_a_live_fleet_has_no_fields_until_it_is_frozen(store: Snapshots) -> None:
    app = review(story(), store)
    assert "Save a snapshot to take notes." in html(app)
    assert not app.text_area

    app.button(key="save_for_review").click()
    rerun(app)
    (stored,) = store.all()

    assert stored.metadata.name == "Review 2026-03-02"
    assert app.query_params["snapshot"] == stored.id
    assert app.text_area


def test_a_folder_that_cannot_be_written_is_an_error(store: Snapshots) -> None:
    store.folder.write_text("a file in place of the folder")
    app = review(story(), store)

    app.button(key="save_for_review").click()

    assert "A snapshot cannot be written. The history history.db cannot be used: " in html(rerun(app))
    assert "snapshot" not in app.query_params


def test_a_note_is_saved_with_owner_and_time_and_an_empty_one_is_deleted(reviewed: Reviewed) -> None:
    app = reviewed.type(reviewed.open(), "Restart it on Thursday.", owner="ana")
    assert reviewed.notes == {reviewed.finding: Note("Restart it on Thursday.", "ana", NOW)}
    assert ">saved 11:42</span>" in html(app)

    app.text_input(key=field(reviewed.key, reviewed.finding, "owner")).input("")
    reviewed.type(app, "  ")

    assert reviewed.notes == {}


def test_a_note_on_a_section_is_saved_under_its_anchor(reviewed: Reviewed) -> None:
    reviewed.type(reviewed.open(), "Ask for two more.", about="capacity")

    assert reviewed.notes["capacity"].text == "Ask for two more."


def test_a_saved_note_is_in_its_fields_with_its_day(reviewed: Reviewed) -> None:
    reviewed.store.note(reviewed.key, reviewed.finding, Note("Wait for the release.", "bo", LAST_WEEK))
    app = reviewed.open()

    assert reviewed.text(app) == "Wait for the release."
    assert app.text_input(key=field(reviewed.key, reviewed.finding, "owner")).value == "bo"
    assert ">saved 2026-02-23 11:42</span>" in html(app)


def test_fields_have_unique_labels_for_screen_readers(store: Snapshots, demo_fleet: Fleet) -> None:
    """Rule and pools, and a number where several are equal."""
    app = review(demo_fleet, store, snapshot=frozen(store, demo_fleet))
    labels = [each.label for each in app.text_area if "this section" not in each.label]

    assert {"Note on RT-01 in chat-70b", "Note on ID-05 in qwen3-8b, 2"} <= set(labels)
    assert len(set(labels)) == len(labels)


def test_a_hostile_pool_is_no_markdown_in_a_label(store: Snapshots) -> None:
    live = hostile()
    app = review(live, store, snapshot=frozen(store, live))
    labels = [each.label for each in (*app.text_area, *app.text_input)]

    assert any(" in script alert" in each for each in labels)
    assert not [each for each in labels if set(each) & set("<>![]()*`:$\\")]


def test_notes_of_two_people_on_two_findings_are_both_saved_and_shown(reviewed: Reviewed) -> None:
    other = a_finding(reviewed.fleet, "RT-05")
    app = reviewed.open()
    reviewed.store.note(reviewed.key, other, Note("Theirs.", "bo"))
    reviewed.type(app, "Mine.")

    assert {each.text for each in reviewed.notes.values()} == {"Mine.", "Theirs."}
    assert app.text_area(key=field(reviewed.key, other)).value == "Theirs."


def test_notes_of_two_people_on_one_finding_are_merged(reviewed: Reviewed) -> None:
    app = reviewed.open()
    reviewed.store.note(reviewed.key, reviewed.finding, Note("Theirs.", "bo"))
    reviewed.type(app, "Mine.")

    assert replace(reviewed.notes[reviewed.finding], at=None) == Note("Theirs.\nMine.", "bo")
    assert reviewed.text(app) == "Theirs.\nMine."
    assert "both texts are kept" in html(app)


def test_a_note_that_cannot_be_saved_stays_in_its_field_until_it_can(
    reviewed: Reviewed, full_disk: pytest.MonkeyPatch
) -> None:
    app = reviewed.type(reviewed.open(), "Precious.")
    assert reviewed.text(app) == "Precious."
    assert "Not saved." in html(app)
    assert "No space left on device" in html(app)
    assert reviewed.notes == {}

    for page in ("overview", "review"):
        switch(app, page)
        rerun(app)
    assert reviewed.text(app) == "Precious.", "after a visit of another page"

    full_disk.undo()
    app.button(key=f"save_{reviewed.finding}").click()
    assert "Not saved." not in html(rerun(app))
    assert reviewed.notes[reviewed.finding].text == "Precious."


def test_unreadable_notes_are_a_warning_and_are_not_overwritten(reviewed: Reviewed) -> None:
    damage(reviewed.store, reviewed.key, metadata=b"{")
    problem = f"The name and notes of snapshot {reviewed.key} are damaged in the database"
    app = reviewed.open()
    assert html(app).count(problem) == 1
    assert "Notes save automatically" not in html(app)

    reviewed.type(app, "Restart it on Thursday.")

    assert f"Not saved. {problem}" in html(app)
    assert reviewed.text(app) == "Restart it on Thursday."
    assert column(reviewed.store, reviewed.key, "metadata") == b"{"


def test_a_note_of_the_last_review_is_quoted_with_owner_and_day(reviewed: Reviewed) -> None:
    last = frozen(reviewed.store, earlier(reviewed.fleet))
    reviewed.store.note(last, reviewed.finding, Note("Ana restarts it.", "ana", LAST_WEEK))

    for app in (review(reviewed.fleet, reviewed.store), reviewed.open()):
        quoted = html(app).partition('<blockquote class="noted">')[2].partition("</blockquote>")[0]
        assert [
            text for text in ("At the last review, ana: ", "Ana restarts it.", "2026-02-23") if text not in quoted
        ] == []


def test_unreadable_notes_of_the_last_review_are_a_warning(reviewed: Reviewed) -> None:
    last = frozen(reviewed.store, earlier(reviewed.fleet))
    damage(reviewed.store, last, metadata=b"{")

    assert f"The name and notes of snapshot {last} are damaged" in html(review(reviewed.fleet, reviewed.store))


def test_an_entry_of_two_pools_shows_the_notes_of_both(store: Snapshots) -> None:
    """They were two entries when the notes were written: one can be edited, the other is quoted."""
    usual, odd = document(), document({"cache_config.block_size": 32})
    members = [
        each
        for name in ("east", "west")
        for each in (*alike(name, 3, usual), replica(f"{name}-odd", pool=name, document=odd))
    ]
    live = fleet(members, [usual, odd])
    one, other = [each.id for each in live.inspection.findings if each.rule == "RT-01"]
    key = frozen(store, live)
    store.note(key, one, Note("On the first."))
    store.note(key, other, Note("On the other.", "bo"))
    app = review(live, store, snapshot=key)

    assert app.text_area(key=field(key, one)).value == "On the first."
    assert "On the other." in html(app)


def test_the_exported_review_has_its_notes_and_those_of_the_last_one(reviewed: Reviewed) -> None:
    last = frozen(reviewed.store, earlier(reviewed.fleet))
    reviewed.store.note(last, reviewed.finding, Note("Then.", "ana", LAST_WEEK))
    reviewed.store.note(reviewed.key, reviewed.finding, Note("Now.", "bo", NOW))
    view = reviewed.open().session_state["offered_view"]()

    assert view.context.name == "Weekly"
    assert [text for text in ("'Now.'", "'Then.'") if text not in repr(view)] == []
