"""Imports of files: their fleets, or the reason of a refused file."""

from datetime import UTC, datetime

from dashboard.analysis.assembly import Fleet
from dashboard.sources.importing import File, Import, ImportedFleet, imported
from tests.captured import capture

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
LLAMA = capture("llama")


def drop(*files: tuple[str, bytes]) -> Import[ImportedFleet]:
    return imported([File(name, content) for name, content in files], AT, "brought")


def fleet_of(*files: tuple[str, bytes]) -> Fleet:
    """Return the one fleet of these files; none may be refused."""
    found = drop(*files)
    assert found.refused == ()
    (brought,) = found.fleets
    return brought.fleet


def why(content: bytes, name: str = "chat-1.json") -> str:
    """Return the reason why a file is refused."""
    found = drop((name, content))
    assert found.fleets == ()
    (refused,) = found.refused
    return refused.why
