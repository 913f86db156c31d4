"""Every state of states.py looks like its committed picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from operator import attrgetter

import pytest
from playwright.sync_api import Browser

from tests.e2e.album import Change, compare, expected, is_updating, tally, write_report
from tests.e2e.frozen_fleets import STORY
from tests.e2e.stage import Stage
from tests.e2e.states import STATES, State

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


@pytest.mark.parametrize("state", STATES, ids=attrgetter("name"))
def test_the_page_looks_as_committed(stage: Stage, changes: list[Change], state: State) -> None:
    changed = []
    for look in state.looks:
        name = state.picture(look)
        is_expected = expected(name)
        taken = stage.take(state, look, is_expected)
        if not (is_expected and is_expected(taken)) and (change := compare(name, taken)):
            changed.append(change)
    changes.extend(changed)
    sentences = [f"{each.name}: {each.sentence}" for each in changed]
    assert not sentences, "see test-results/screenshots.html, and `make screenshots` if this is wanted"
