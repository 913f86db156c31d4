"""Names, values, notes and files of strangers stay text on every page, in its dialogs, and in its charts."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard import service
from dashboard.fleet import Note
from tests.builders import HOSTILE, hostile
from tests.page_runner import EVERY_PAGE, earlier, freeze, html, rerun, show_with_snapshots, visit

FIRST, SECOND, LOST = (each.id for each in hostile().replicas)
KEY = "KEY"  # replaced by the id of the snapshot
FROZEN = {"snapshot": KEY}
TOKENIZER = {"path": "model_config.tokenizer"}
OPENED: tuple[tuple[str, dict[str, str]], ...] = (
    ("compare", {"show": "All settings", **TOKENIZER}),
    ("compare", {"cohort": "A"}),
    ("compare", {"pool": HOSTILE, "cause": "model_config.tokenizer"}),
    ("compare", {"replicas": f"{FIRST},{SECOND},{FIRST}@{KEY},http://gone@{KEY}", "show": "All settings"}),
    ("capacity", {"per": "GPU"}),
    ("capacity", {"per": "pool"}),
    ("settings", TOKENIZER),
    ("settings", {"path": HOSTILE}),
    *(("replica", {"replica": each}) for each in (FIRST, SECOND, LOST)),
    ("snapshots", {"manage": KEY}),
    ("changes", {"from": KEY, "to": "live"}),
)


@pytest.fixture
def key(tmp_path: Path) -> str:
    """The id of a snapshot with notes; the live fleet has the same attacks."""
    show_with_snapshots(hostile(), tmp_path)
    key = freeze(earlier(hostile(), timedelta(days=1)), HOSTILE)
    service.snapshots().note(key, "fine", Note(HOSTILE, HOSTILE[:80]))
    return key


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("page", "url"), [*((each, {}) for each in EVERY_PAGE), *((each, FROZEN) for each in EVERY_PAGE), *OPENED]
)
def test_foreign_text_is_never_markup(key: str, page: str, url: dict[str, str]) -> None:
    app = visit(page, **{name: value.replace(KEY, key) for name, value in url.items()})
    layouts = [json.loads(each.proto.spec)["layout"] for each in app.get("plotly_chart")]

    assert not re.search(r"<script|<img", html(app) + json.dumps(layouts), re.IGNORECASE)
    assert not app.markdown


@pytest.mark.parametrize("page", ["overview", "compare", "findings", "snapshots"])
def test_it_is_shown_as_text(key: str, page: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html(visit(page, snapshot=key))


def test_the_name_of_a_new_snapshot_stays_text(key: str) -> None:
    app = visit()
    app.text_input(key="snapshot_name").set_value(HOSTILE[:80])
    rerun(app).button(key="save_snapshot").click()

    assert key
    assert not re.search(r"<script|<img", html(rerun(app)))
