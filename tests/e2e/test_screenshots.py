"""Overview, Findings and Compare look as they did when somebody last looked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.browser import grow, picture, tab, visit
from tests.e2e.pictures import compare

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
FINDING = "/findings?finding=5bf5975562"  # its id says what is wrong, and stays while that does


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "path"), [("overview", "/"), ("findings", FINDING), ("compare", "/compare?pool=chat-70b")]
)
def test_the_page_looks_as_committed(
    browser: Browser, frozen_url: str, name: str, path: str, theme: Literal["light", "dark"]
) -> None:
    with tab(browser, width=1600, theme=theme) as page:
        visit(page, frozen_url + path)
        grow(page)
        taken = picture(page)

    compare(f"{name}-{theme}", taken)
