"""Notes of a review are kept beside the snapshot: nothing that somebody typed is lost."""

from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note
from dashboard.store import Snapshots
from tests.builders import NOW, alike, document, fleet, hostile, replica, story
from tests.page_runner import PAGES, WEEK, a_finding, earlier, field, frozen, html, rerun, review


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    """An empty folder of snapshots."""
    return Snapshots(tmp_path / "snapshots")


def test_a_live_fleet_has_no_fields_and_says_how_to_take_notes(store: Snapshots) -> None:
    app = review(story(), store)

    assert "Freeze to take notes." in html(app)
    assert not app.text_area


def test_freezing_shows_the_snapshot_under_the_name_of_the_review(store: Snapshots) -> None:
    """One click: the address names the snapshot, and every finding has its field."""
    app = review(story(), store)

    app.button(key="freeze_review").click()
    rerun(app)

    (stored,) = store.all()
    assert stored.metadata.name == "Review 2026-03-02"
    assert app.query_params["snapshot"] == stored.id
    assert app.text_area


def test_a_folder_that_cannot_be_written_says_why_nothing_was_frozen(store: Snapshots) -> None:
    store.folder.write_text("a file stands where the folder should be")
    app = review(story(), store)

    app.button(key="freeze_review").click()
    rerun(app)

    assert "see snapshots_folder in fleet.yaml" in html(app)
    assert "snapshot" not in app.query_params


def test_a_note_is_kept_beside_the_snapshot_with_its_owner_and_time(store: Snapshots) -> None:
    told = story()
    key, about = frozen(store, told), a_finding(told)
    app = review(told, store, snapshot=key)

    app.text_input(key=field(key, about, "owner")).input("ana")
    app.text_area(key=field(key, about)).input("Restart it on Thursday.")
    rerun(app)

    assert store.get(key).notes == {about: Note("Restart it on Thursday.", "ana", NOW)}
    assert ">saved 11:42</span>" in html(app)


def test_the_fields_of_a_finding_are_named_by_its_rule_and_pools(store: Snapshots) -> None:
    """Several findings of one rule are told apart by ear."""
    told = story()
    key, about = frozen(store, told), a_finding(told)
    (finding,) = [each for each in told.inspection.findings if each.id == about]
    app = review(told, store, snapshot=key)

    assert app.text_area(key=field(key, about)).label == f"Note on RT-01 in {finding.pools[0]}"
    assert app.text_input(key=field(key, about, "owner")).label == f"Owner of RT-01 in {finding.pools[0]}"


def test_no_two_findings_have_fields_of_one_name(store: Snapshots, demo_fleet: Fleet) -> None:
    app = review(demo_fleet, store, snapshot=frozen(store, demo_fleet))
    called = [each.label for each in app.text_area if "this section" not in each.label]

    assert "Note on ID-05 in qwen3-8b, 2" in called
    assert len(set(called)) == len(called)


def test_a_hostile_pool_is_no_markdown_in_a_label(store: Snapshots) -> None:
    told = hostile()
    app = review(told, store, snapshot=frozen(store, told))
    labels = [each.label for each in (*app.text_area, *app.text_input)]

    assert any(" in script alert" in each for each in labels)
    assert not [each for each in labels if set(each) & set("<>![]()*`:$\\")]


def test_a_note_on_a_section_is_kept_under_its_anchor(store: Snapshots) -> None:
    told = story()
    key = frozen(store, told)
    app = review(told, store, snapshot=key)

    app.text_area(key=field(key, "capacity")).input("Ask for two more.")
    rerun(app)

    assert store.get(key).notes["capacity"].text == "Ask for two more."


def test_a_note_stands_there_again_when_the_snapshot_is_opened_later(store: Snapshots) -> None:
    told = story()
    key, about = frozen(store, told), a_finding(told)
    store.note(key, about, Note("Wait for the release.", "bo", NOW - WEEK))

    app = review(told, store, snapshot=key)

    assert app.text_area(key=field(key, about)).value == "Wait for the release."
    assert app.text_input(key=field(key, about, "owner")).value == "bo"
    assert ">saved 2026-02-23 11:42</span>" in html(app)


def test_emptied_fields_take_the_note_away(store: Snapshots) -> None:
    told = story()
    key, about = frozen(store, told), a_finding(told)
    store.note(key, about, Note("Wrong."))
    app = review(told, store, snapshot=key)

    app.text_area(key=field(key, about)).input("  ")
    rerun(app)

    assert store.get(key).notes == {}


def test_what_somebody_else_wrote_meanwhile_stays_and_is_shown(store: Snapshots) -> None:
    """Two people on two findings: neither loses a word, and each sees the other's note at the next run."""
    told = story()
    key, about, beside = frozen(store, told), a_finding(told), a_finding(told, "RT-05")
    app = review(told, store, snapshot=key)
    store.note(key, beside, Note("Theirs.", "bo"))

    app.text_area(key=field(key, about)).input("Mine.")
    rerun(app)

    assert {each.text for each in store.get(key).notes.values()} == {"Mine.", "Theirs."}
    assert app.text_area(key=field(key, beside)).value == "Theirs."


def test_two_who_write_the_same_note_at_once_lose_nothing(store: Snapshots) -> None:
    told = story()
    key, about = frozen(store, told), a_finding(told)
    app = review(told, store, snapshot=key)
    store.note(key, about, Note("Theirs.", "bo"))

    app.text_area(key=field(key, about)).input("Mine.")
    rerun(app)

    assert store.get(key).notes[about][:2] == ("Theirs.\nMine.", "bo")
    assert app.text_area(key=field(key, about)).value == "Theirs.\nMine."
    assert "both texts are kept" in html(app)


def test_a_note_that_cannot_be_written_stays_in_its_field_and_is_saved_on_demand(
    store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: the sentence stands beside the field, the text stays, and one click tries again."""
    told = story()
    key, about = frozen(store, told), a_finding(told)
    app = review(told, store, snapshot=key)
    with monkeypatch.context() as full:
        full.setattr("os.fsync", _full_disk)
        app.text_area(key=field(key, about)).input("Precious.")
        rerun(app)

    assert app.text_area(key=field(key, about)).value == "Precious."
    assert "Not saved." in html(app)
    assert "No space left on device" in html(app)
    assert store.get(key).notes == {}

    app.button(key=f"save_{about}").click()
    rerun(app)

    assert store.get(key).notes[about].text == "Precious."
    assert "Not saved." not in html(app)


def _full_disk(*_: object) -> object:
    raise OSError(28, "No space left on device")


def test_a_note_that_could_not_be_written_is_there_again_after_another_page(
    store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = story()
    key, about = frozen(store, told), a_finding(told)
    app = review(told, store, snapshot=key)
    with monkeypatch.context() as full:
        full.setattr("os.fsync", _full_disk)
        app.text_area(key=field(key, about)).input("Precious.")
        rerun(app)
    app.switch_page(str(PAGES / "overview.py"))
    rerun(app)
    app.switch_page(str(PAGES / "review.py"))
    rerun(app)

    assert app.text_area(key=field(key, about)).value == "Precious."


def test_the_note_of_the_last_review_is_quoted_with_its_owner_and_day(store: Snapshots) -> None:
    told = story()
    about, last = a_finding(told), frozen(store, earlier(told))
    store.note(last, about, Note("Ana restarts it.", "ana", NOW - WEEK))
    key = frozen(store, told)

    for app in (review(told, store), review(told, store, snapshot=key)):
        quoted = html(app).partition('<blockquote class="noted">')[2].partition("</blockquote>")[0]
        assert "At the last review, ana: " in quoted
        assert "Ana restarts it." in quoted
        assert "2026-02-23" in quoted


def test_an_entry_of_several_pools_shows_the_notes_of_all_of_them(store: Snapshots) -> None:
    """They were written when the entry was in two: the first is written on, the other is quoted."""
    usual, odd = document(), document({"cache_config.block_size": 32})
    pools = ("east", "west")
    members = [
        each for name in pools for each in (*alike(name, 3, usual), replica(f"{name}-odd", pool=name, document=odd))
    ]
    told = fleet(members, [usual, odd])
    one, other = [each.id for each in told.inspection.findings if each.rule == "RT-01"]
    key = frozen(store, told)
    store.note(key, one, Note("On the first."))
    store.note(key, other, Note("On the other.", "bo"))

    app = review(told, store, snapshot=key)

    assert app.text_area(key=field(key, one)).value == "On the first."
    assert "On the other." in html(app)


def test_the_exported_review_holds_the_notes_and_those_of_the_last_one(store: Snapshots) -> None:
    """What the Share button takes away is the page with everything that was written on it."""
    told = story()
    about, last = a_finding(told), frozen(store, earlier(told))
    store.note(last, about, Note("Then.", "ana", NOW - WEEK))
    key = frozen(store, told, "Weekly")
    store.note(key, about, Note("Now.", "bo", NOW))
    app = review(told, store, snapshot=key)

    report = app.session_state["offered_view"].view()

    assert report.context.name == "Weekly"
    assert "'Now.'" in repr(report)
    assert "'Then.'" in repr(report)


def test_notes_that_cannot_be_read_are_said_and_a_new_one_is_not_written_over_them(store: Snapshots) -> None:
    told = story()
    key, about = frozen(store, told), a_finding(told)
    file = store.folder / f"{key}.notes.json"
    file.write_bytes(b"{")
    said = f"The name and notes of snapshot {key} cannot be read: {key}.notes.json"
    app = review(told, store, snapshot=key)
    assert html(app).count(said) == 1
    assert "Notes are kept beside this snapshot" not in html(app)

    app.text_area(key=field(key, about)).input("Restart it on Thursday.")
    page = html(rerun(app))

    assert f"Not saved. {said}" in page
    assert app.text_area(key=field(key, about)).value == "Restart it on Thursday.", "what was typed stays"
    assert file.read_bytes() == b"{"


def test_notes_of_the_last_review_that_cannot_be_read_are_said(store: Snapshots) -> None:
    told = story()
    key = frozen(store, earlier(told))
    (store.folder / f"{key}.notes.json").write_bytes(b"{")

    assert f"The name and notes of snapshot {key} cannot be read" in html(review(told, store))
