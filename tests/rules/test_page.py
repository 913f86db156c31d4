"""A rule's docstring is read into its page."""

import pytest

from dashboard.rules.domain import ImpactContext
from dashboard.rules.registry import page_of

WHOLE = """Blocks differ.

More of the problem
on two lines.

Why it matters:
    - any pool: One thing
      on two lines.
    - kv-events: Another: with a colon.

How to fix:
    Do this
    and that.

    Then rest.

Exceptions:
    None.

Evidence:
    - vllm/config/cache.py
    - owner/repo#1

Example:
    A
      deeper
"""


def test_every_section_is_read() -> None:
    page = page_of(WHOLE)

    assert page.problem == "Blocks differ.\n\nMore of the problem on two lines."
    assert page.why == {
        ImpactContext.MODEL: "One thing on two lines.",
        ImpactContext.KV_EVENTS: "Another: with a colon.",
    }
    assert page.fix == "Do this and that.\n\nThen rest."
    assert page.exceptions == "None."
    assert page.evidence == ("vllm/config/cache.py", "owner/repo#1")
    assert page.example == "A\n  deeper"


def test_what_is_missing_is_empty() -> None:
    page = page_of("Blocks differ.")

    assert (page.problem, page.why, page.fix, page.evidence, page.example) == ("Blocks differ.", {}, "", (), "")


def test_a_facet_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no such context"):
        page_of("Blocks differ.\n\nWhy it matters:\n    - no such context: A sentence.\n")
