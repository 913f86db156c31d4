"""The guide of a first visit."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.web.empty import guide_html
from tests import builders
from tests.builders import NOW
from tests.page_runner import show_with_snapshots, visit


def has_guide(app: AppTest) -> bool:
    return any("New here?" in str(each.proto) for each in app.get("bidi_component"))


def test_the_guide_is_three_sentences_that_link_to_findings_and_compare() -> None:
    assert guide_html().count("<li>") == 3
    assert 'href="findings"' in guide_html()
    assert 'href="compare"' in guide_html()


def test_a_live_overview_has_the_guide_and_a_snapshot_has_none(tmp_path: Path) -> None:
    fleet = builders.story()
    show_with_snapshots(fleet, tmp_path)
    key = service.snapshots().freeze(fleet, "x", NOW).id

    assert has_guide(visit())
    assert not has_guide(visit(snapshot=key))
