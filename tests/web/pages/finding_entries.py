"""The entries of the list on Findings, as a reader of the page meets them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.page_runner import html

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

ENTRY = re.compile(r'<li class="(critical|warning|info)"([^>]*)><div class="how">.*?</li>')


def entries(app: AppTest) -> list[str]:
    """The entries of the list, in order."""
    return [found.group() for found in ENTRY.finditer(html(app))]
