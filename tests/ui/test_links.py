"""Addresses carry choices, and survive whatever a name holds."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from dashboard.ui import links


def test_a_page_without_choices_is_its_name() -> None:
    """Relative, so that a path prefix in front of the program stays; the first page is the folder itself."""
    assert links.to(links.COMPARE) == "compare"
    assert links.to(links.OVERVIEW) == "./"
    assert links.to(links.COMPARE, pool=None) == "compare"


@given(st.text())
def test_a_name_comes_back_as_it_was(name: str) -> None:
    """Slashes, ampersands and spaces in a pool's name open that pool."""
    query = urlsplit(links.to(links.COMPARE, pool=name)).query

    assert parse_qs(query, keep_blank_values=True)["pool"] == [name.encode("utf-8", "replace").decode()]


def test_every_page_has_its_script() -> None:
    """The names in addresses are the names of files."""
    scripts = [links.FINDINGS, links.COMPARE, links.CAPACITY, links.REPLICAS, links.REPLICA_PAGE, "overview"]

    assert [name for name in scripts if not (links.SCRIPTS / f"{name}.py").is_file()] == []


def test_a_file_name_holds_nothing_that_a_disk_or_a_browser_minds() -> None:
    """Pools may be called anything."""
    assert links.file_name("prod-eu", "deepseek-v3/prefill") == "prod-eu-deepseek-v3-prefill"
    assert links.file_name("../<x>") == "x"
