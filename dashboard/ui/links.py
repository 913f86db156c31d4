"""Addresses of pages: the one place that knows their names and the names of what stands in the URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

SCRIPTS = Path(__file__).parents[1] / "pages"
OVERVIEW, FINDINGS, COMPARE = "", "findings", "compare"
CAPACITY, REPLICAS, REPLICA_PAGE = "capacity", "replicas", "replica"

# Names in the URL. A widget whose choice stands there (see choices.py) has its name as its key.
POOL = "pool"
REPLICA = "replica"
PATH = "path"
COHORT = "cohort"
SHOW = "show"
SECTION = "section"
SEARCH = "search"
SETTING = "setting"  # a search of its own: what was searched among replicas is not searched among settings
TAB = "tab"
REFERENCE = "reference"
COLUMNS = "columns"
MEASURE = "measure"
LENGTH = "length"
PER = "per"
STATE = "state"
FINDING = "finding"
SEVERITY = "severity"
FAMILY = "family"
RULE = "rule"
RULES = "rules"  # which outcomes of rules are listed


def to(page: str, **choices: str | None) -> str:
    """Return the address of a page with choices in it, relative, so that it also holds behind a path prefix."""
    chosen = {name: value for name, value in choices.items() if value is not None}
    return f"{page or './'}?{urlencode(chosen)}" if chosen else page or "./"


def file_name(*parts: str) -> str:
    """Make a file's name of names that may hold anything: what is no letter or digit becomes a dash."""
    return "-".join("".join(char if char.isalnum() else "-" for char in part).strip("-") for part in parts).lower()
