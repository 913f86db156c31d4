"""Discovery: the targets of fleet.yaml and of the files that it names."""

from dataclasses import replace
from datetime import datetime

from dashboard.config import CredentialsOptions, Options
from dashboard.config.address import replica_id
from dashboard.fleet import Credentials, SourceStatus, Target
from dashboard.sources.file_sd import FileSd

__all__ = ["Discovery", "replica_id"]


class Discovery:
    """All targets of the options, in the order of the file. Reads files, sends no request."""

    def __init__(self, options: Options, before: "Discovery | None" = None) -> None:
        """Read no file yet. Files that `before` lists in the same way keep what was read of them."""
        common = options.credentials
        self._static = [
            Target(each.url, each.labels, _credentials(each.credentials, common)) for each in options.targets
        ]
        known: dict[str, FileSd] = before._files if before else {}  # noqa: SLF001  of this class
        entries = [(each, _credentials(each.credentials, common)) for each in options.file_sd]
        self._files: dict[str, FileSd] = {str(entry): known.get(str(entry)) or FileSd(*entry) for entry in entries}
        self._file = options.file
        self.sources: tuple[SourceStatus, ...] = before.sources if before else ()

    @property
    def failures(self) -> tuple[str, ...]:
        """Return a sentence per unreadable file."""
        return tuple(each.failure for each in self.sources if each.failure)

    def discover(self, at: datetime | None = None) -> tuple[Target, ...]:
        """Return every target once, rereading changed files; `sources` has the status of each. `at` is the time (UTC).

        Of targets with one id, the first one's labels and credentials win, and one fresh mention makes it fresh.
        """
        targets = list(self._static)
        statuses = [SourceStatus(self._file, "static", tuple(each.id for each in targets))] if targets else []
        for files in self._files.values():
            for path, found, failure in files.read():
                targets += found
                statuses.append(SourceStatus(path, "file_sd", tuple(each.id for each in found), failure=failure))
        known = {each.name: each.succeeded_at for each in self.sources}
        self.sources = tuple(
            each._replace(succeeded_at=known.get(each.name) if each.failure else at) for each in statuses
        )
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


def _credentials(own: CredentialsOptions | None, common: CredentialsOptions | None) -> Credentials | None:
    """Return a target's own credentials, else the common ones. Never a mixture: a token goes to its own target only."""
    chosen = own or common
    return Credentials(chosen.token_env, chosen.token_file, chosen.ca_file) if chosen else None
