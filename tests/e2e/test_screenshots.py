"""Every state of states.py looks like its committed picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.e2e.album import Change, compare, expected, is_updating, tally, write_report
from tests.e2e.frozen_fleets import STORY
from tests.e2e.stage import Stage
from tests.e2e.states import PICTURES

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stage(browser: Browser, frozen_url: str) -> Iterator[Stage]:
    with ExitStack() as stack:
        stage = Stage(browser, frozen_url, stack)
        yield stage
        stage.show(STORY)  # for the other tests of this server


@pytest.fixture(scope="module")
def changes() -> Iterator[list[Change]]:
    """Collect the changes and write the report, also without changes."""
    found: list[Change] = []
    yield found
    if not is_updating():
        report = write_report(found)
        print(f"\n{tally(found)}: {report}")


@pytest.mark.few(5)
@pytest.mark.parametrize("name", PICTURES)
def test_the_page_looks_as_committed(stage: Stage, changes: list[Change], name: str) -> None:
    is_expected, change = expected(name), None
    taken = stage.take(*PICTURES[name], is_expected)
    if not (is_expected and is_expected(taken)) and (change := compare(name, taken)):
        changes.append(change)
    assert change is None, f"{change.sentence}; see test-results/screenshots.html, and `make screenshots` if wanted"
