"""The files in fixtures/, whose origin its README.md names, and the law of every reader."""

from collections.abc import Callable
from pathlib import Path

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName
from dashboard.sources.routers.answers import FactValues
from vllm_fleet_provider.shared.spelling import canonical_text

FIXTURES = Path(__file__).with_name("fixtures")
LONGEST = 400  # characters of a sentence


def fixture(name: str) -> bytes:
    """Return the bytes of a file."""
    return (FIXTURES / name).read_bytes()


def obeys_the_law(reader: Callable[[bytes], FactValues], body: bytes) -> bool:
    """Return whether a reader gives facts that are JSON, or one short sentence."""
    try:
        found = reader(body)
    except UnreadableError as error:
        return 0 < len(error.detail) <= LONGEST
    return found.keys() <= set(FactName) and all(map(canonical_text, found.values()))
