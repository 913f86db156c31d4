"""Sources of targets: what each kind implements, and what all of them use of the answers of other programs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from dashboard.config.address import replica_id, shown
from dashboard.config.document import read_document
from dashboard.documents.reported import ReportedFleet
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Failure, FailureKind, Target
from dashboard.fleet.traffic import EngineCounts

MAX_TARGETS = 50_000  # per place: ten times the largest fleet that this program is made for


class ScrapedCounts(NamedTuple):
    """The counters of a replica's engines by DP rank, as Prometheus scraped them at a time: seconds since 1970."""

    at: float
    engines: Mapping[int, EngineCounts]


class Listing(NamedTuple):
    """The targets of one place of a source, such as a file, and why it cannot be read now.

    A place that fails keeps its last targets, marked stale. `failure` is a sentence that begins with the name.
    `scraped_at` is when Prometheus scraped each target last, by its id, in seconds since 1970. `counts` are those of
    a scrape, by id; the same ones until Prometheus is asked again. `reported` is what a dashboard reports of its
    replicas, which are not asked: there are no targets then.
    """

    name: str
    targets: tuple[Target, ...]
    failure: str | None = None
    scraped_at: Mapping[str, float] = MappingProxyType({})
    counts: Mapping[str, ScrapedCounts] = MappingProxyType({})
    reported: ReportedFleet | None = None


def keep_targets(last: Listing, sentence: str) -> Listing:
    """Return the listing of a place that fails now: its last targets, marked stale."""
    kept = f"; keeping its last targets ({len(last.targets)}), marked stale" if last.targets else ""
    targets = tuple(each if each.stale else replace(each, stale=True) for each in last.targets)
    return last._replace(targets=targets, failure=f"{last.name}: {sentence.removesuffix('.')}{kept}")


class TargetSource(Protocol):
    """One entry of the options that lists targets."""

    kind: str  # its key in fleet.yaml
    name: str  # of its place, or of all

    async def read(self) -> Sequence[Listing]:
        """Return the targets of each place. Expected failures are data; called before each poll."""
        ...


def make_target(address: str, labels: Mapping[str, str], credentials: Credentials | None) -> Target:
    """Return the target of an address, a failed one where it is invalid."""
    try:
        return Target(replica_id(address), labels, credentials)
    except ValueError as error:
        return Target(shown(address), labels, failure=Failure(FailureKind.TARGET, str(error)))


class Deadline:
    """Ends that many seconds from now. Time of this process counts: what reads answers slowly must not go on."""

    def __init__(self, seconds: float) -> None:
        """Begin now, by the clock of the running event loop."""
        self._seconds = seconds
        self._ends_at = asyncio.get_running_loop().time() + seconds

    def left(self) -> float:
        """Return the seconds that are left. Raise UnreadableError with a sentence where there are none."""
        left = self._ends_at - asyncio.get_running_loop().time()
        if left <= 0:
            raise UnreadableError("timeout", f"takes longer than {self._seconds:.3g} s to read")
        return left


def read_yaml(raw: bytes) -> Any:
    """Return the content of a YAML document. Raise UnreadableError with the first mistake in it."""
    document = read_document(raw)
    if document.mistakes:
        line, sentence = document.mistakes[0]
        raise UnreadableError("decode", f"line {line}: {sentence}")
    return document.value


def mapping(part: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping; empty where it is missing or of another type."""
    found = part.get(name)
    return found if isinstance(found, dict) else {}


def mappings(part: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; others are left out."""
    found = part.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(part: Mapping[str, Any], name: str) -> str:
    """Return a text; empty where it is missing or of another type."""
    found = part.get(name)
    return found.encode(errors="replace").decode() if isinstance(found, str) else ""


def port(part: Mapping[str, Any], name: str) -> str | None:
    """Return the number of a port as text; None where it is missing, of another type or none of TCP."""
    found = part.get(name)
    is_port = isinstance(found, int) and not isinstance(found, bool) and 0 < found < 2**16
    return str(found) if is_port else None


def texts(part: Mapping[str, Any]) -> dict[str, str]:
    return {name: text(part, name) for name in part}
