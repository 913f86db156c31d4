"""Sources of targets: what each kind implements."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

from dashboard.fleet import Target


class Listing(NamedTuple):
    """The targets of one place of a source, such as a file, and why it cannot be read now.

    A place that fails keeps its last targets, marked stale. `failure` is a sentence that begins with the name.
    `scraped_at` is when Prometheus scraped each target last, by its id, in seconds since 1970.
    """

    name: str
    targets: tuple[Target, ...]
    failure: str | None = None
    scraped_at: Mapping[str, float] = MappingProxyType({})


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

    async def close(self) -> None:
        """End what runs between two polls, such as a watch."""
        ...
