"""Imports of files: their fleets, or the reason of a refused file."""

from datetime import UTC, datetime
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.documents.load import read_snapshot
from dashboard.sources.importing import File, RefusedFile, imported
from tests.captured import capture

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
LLAMA = capture("llama")


def drop(*files: tuple[str, bytes], **options: Any) -> tuple[list[Fleet], list[RefusedFile]]:
    fleets, refused = imported([File(name, content) for name, content in files], AT, "brought", **options)
    return [read_snapshot(each.content) for each in fleets], refused


def fleet_of(*files: tuple[str, bytes], **options: Any) -> Fleet:
    """Return the one fleet of these files; none may be refused."""
    (fleet,), refused = drop(*files, **options)
    assert refused == []
    return fleet


def why(content: bytes, name: str = "chat-1.json") -> str:
    """Return the reason why a file is refused."""
    fleets, (refused,) = drop((name, content))
    assert fleets == []
    return refused.why
