"""The guide of a first visit is short and leads on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard import service
from dashboard.web.guide import guide
from tests import builders
from tests.builders import NOW
from tests.snapshot_pages import shown_beside, visit

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

MOST_WORDS = 22  # of a sentence that is read standing


def test_three_short_sentences_say_what_is_seen_where_to_go_and_that_nothing_breaks() -> None:
    html = guide()
    sentences = [re.sub(r"<[^>]+>", "", each) for each in re.findall(r"<li>(.*?)</li>", html)]

    assert len(sentences) == 3
    assert max(len(each.split()) for each in sentences) <= MOST_WORDS
    assert 'href="findings"' in html
    assert 'href="compare"' in html
    assert "nothing here changes a replica" in html


def test_a_live_overview_has_the_guide_and_a_snapshot_that_a_link_opens_has_none(tmp_path: Path) -> None:
    fleet = builders.story()
    shown_beside(fleet, tmp_path)
    key = service.snapshots().freeze(fleet, "x", NOW).id

    assert has_guide(visit())
    assert not has_guide(visit(snapshot=key))


def has_guide(app: AppTest) -> bool:
    return any("New here?" in str(each.proto) for each in app.get("bidi_component"))
