"""Which addresses to poll: the targets of fleet.yaml and of the files that it names."""

from collections.abc import Iterable
from dataclasses import replace

from dashboard.config import Options
from dashboard.config.address import replica_id
from dashboard.fleet import Target
from dashboard.sources.file_sd import FileSd
from dashboard.sources.static import credentials_from, static_targets

__all__ = ["Discovery", "replica_id"]


class Discovery:
    """All targets of the options, in the order in which they are written. Reads files, asks no network."""

    def __init__(self, options: Options) -> None:
        """Read nothing yet."""
        self._static = static_targets(options)
        self._files = [
            FileSd(each, credentials_from(each.credentials, options.credentials)) for each in options.file_sd
        ]
        self.failures: tuple[str, ...] = ()

    def discover(self) -> tuple[Target, ...]:
        """Return every target once, reading again the files that changed; `failures` says what could not be read."""
        targets = list(self._static)
        failures: list[str] = []
        for files in self._files:
            found, failed = files.read()
            targets += found
            failures += failed
        self.failures = tuple(failures)
        return _each_once(targets)


def _each_once(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Merge targets of one id: the first one's labels and credentials win, and one fresh mention makes it fresh."""
    merged: dict[str, Target] = {}
    for target in targets:
        first = merged.setdefault(target.id, target)
        if first is not target:
            merged[target.id] = replace(
                first,
                labels={**target.labels, **first.labels},
                credentials=first.credentials or target.credentials,
                stale=first.stale and target.stale,
            )
    return tuple(merged.values())
