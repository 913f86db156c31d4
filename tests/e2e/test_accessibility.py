"""axe-core on every page in both themes. Violations inside Streamlit's own widgets: axe_exceptions.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Page

from tests.browser import HEIGHT, Theme, settle, switch_theme, tab, visit
from tests.e2e.states import OTHER_HASH, PAGES, STATES, WITH_DIALOGS_OR_NOTES, at, with_ids

pytestmark = pytest.mark.browser

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
EXCEPTIONS: list[dict[str, str]] = yaml.safe_load(Path(__file__).with_name("axe_exceptions.yaml").read_text("utf-8"))
OURS = ".stHtml, .surface, [data-testid^=stBidiComponent]"  # HTML of our blocks and of our components
NARROW = 1024  # pixels: tables scroll in their frames
WITH_MORE = (
    at("replica", replica=OTHER_HASH, tab="Probes"),
    at("findings", finding="0000000000"),
    at("findings", rules="Skipped"),
    at("capacity", per="pool"),
    at("changes"),
)
# The serious and critical violations without the exceptions; never an exception for an element of ours.
VIOLATIONS = """async ([exceptions, ours]) => {
  const step = (root, each) => (root.shadowRoot ?? root).querySelector(each);
  const isExcepted = (rule, target) => exceptions.some((each) => {
    const element = [target].flat().reduce(step, document);
    return each.rule === rule && element.closest(each.selector) && !element.closest(ours);
  });
  const { violations, passes } = await axe.run(document);
  return { passed: passes.length, found: violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .flatMap(({ id, nodes }) => nodes.map((node) => ({ id, ...node })))
    .filter(({ id, target }) => !isExcepted(id, target[0]))
    .map(({ id, html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`) };
}"""
LEAST_PASSED = 20  # rules that any drawn page passes


def violations(page: Page, exceptions: list[dict[str, str]] = EXCEPTIONS) -> list[str]:
    """Return the serious and critical violations of a page. Fails on a page that is not drawn."""
    page.evaluate(AXE)
    found: dict[str, Any] = page.evaluate(VIOLATIONS, [exceptions, OURS])
    assert found["passed"] >= LEAST_PASSED
    return list(found["found"])


@pytest.mark.parametrize("path", [*PAGES, *WITH_DIALOGS_OR_NOTES, *WITH_MORE])
def test_a_page_has_no_serious_violation_in_light_and_in_dark(
    browser: Browser, frozen_url: str, ids: Mapping[str, str], path: str
) -> None:
    """Dark is tested on a narrow page, where tables scroll sideways."""
    with tab(browser) as page:
        visit(page, frozen_url + with_ids(path, ids))
        assert violations(page) == []

        page.set_viewport_size({"width": NARROW, "height": HEIGHT})
        switch_theme(page, "dark")
        assert violations(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_opened_popover_of_share_has_no_serious_violation(browser: Browser, frozen_url: str, theme: Theme) -> None:
    share = next(state for state in STATES if state.name == "overview-share")
    with tab(browser, theme=theme) as page:
        visit(page, frozen_url)
        assert share.do is not None
        share.do(page)
        settle(page)

        assert violations(page) == []


def test_no_exception_names_our_own_html_or_components() -> None:
    """A selector begins with the test id of a widget of Streamlit."""
    for each in EXCEPTIONS:
        assert each.keys() == {"rule", "selector", "reason"}
        widget = re.match(r"\[data-testid=(st[A-Z]\w+)\]", each["selector"])
        assert widget, f"{each['selector']} names no widget of Streamlit"
        assert not widget[1].startswith(("stHtml", "stBidiComponent")), f"{each['selector']} is ours"
        assert len(each["reason"]) > len(each["rule"])


def test_an_exception_is_for_streamlit_only(page: Page) -> None:
    """The same violation in our HTML is found, inside the same widget, too."""
    page.set_content(
        '<html lang="en"><head><title>t</title></head><body><main><h1>h</h1><div data-testid="stSelectbox"><input>'
        '<div class="stHtml"><input class="our"></div></div></main></body></html>'
    )
    everywhere = [{"rule": "label", "selector": "[data-testid=stSelectbox]", "reason": "-"}]
    page.evaluate(AXE)

    found = page.evaluate(VIOLATIONS, [everywhere, OURS])["found"]

    assert [each.partition(" Fix")[0] for each in found] == ['label: <input class="our">']
