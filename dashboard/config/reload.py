"""fleet.yaml while the program runs: changed files are loaded again, wrong ones keep the last good options."""

import glob
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from dashboard.config.load import load_options
from dashboard.config.model import Options
from dashboard.errors import OptionsError

log = logging.getLogger(__name__)

# The server reads these once, when it starts.
RESTART_REQUIRED = ("data_folder", "history", "read_only", "allowed_hosts", "frame_ancestors")
Stamp = tuple[int, int, int] | None  # time of change in ns, size in bytes, inode; None: missing


class ReloadStatus(NamedTuple):
    """The last reload: when the options in force were loaded (UTC), and the mistakes of a later try.

    `restart_required` names the options whose new values apply after a restart.
    """

    loaded_at: datetime
    mistakes: tuple[str, ...] = ()
    restart_required: tuple[str, ...] = ()


class OptionsFiles:
    """The options in force, and the files that they come from: fleet.yaml, baselines, suppressions."""

    def __init__(self, options: Options, clock: Callable[[], datetime]) -> None:
        """Begin with these options, which were just loaded. `clock` gives UTC times."""
        self.options = options
        self.status = ReloadStatus(clock())
        self._clock = clock
        self._had_file = options.path.exists()
        self._loaded = self._seen = self._stamps()

    def check(self) -> bool:
        """Reload files that changed; return whether the options did.

        A file is read once two checks see it alike: one that is still being written is left alone.
        """
        stamps = self._stamps()
        is_settled, self._seen = stamps == self._seen, stamps
        return is_settled and stamps != self._loaded and self.reload()

    def reload(self) -> bool:
        """Load the files now; return whether the options changed. Mistakes are logged and kept in `status`."""
        before = self.options
        self._loaded = self._stamps()
        try:
            found = self._load()
        except OptionsError as error:
            folder = f"{self.options.path.parent}/"
            mistakes = tuple(each.replace(folder, "") for each in error.mistakes)
            self.status = self.status._replace(mistakes=mistakes)
            log.warning("reload failed, the last good options stay: %s", "; ".join(error.mistakes))
            return False
        had_mistakes = bool(self.status.mistakes)
        late = tuple(name for name in RESTART_REQUIRED if getattr(found, name) != getattr(before, name))
        self.options = found.model_copy(update={name: getattr(before, name) for name in late})
        self.status = ReloadStatus(self._clock(), restart_required=late)
        self._had_file = self._had_file or found.path.exists()
        level = logging.WARNING if had_mistakes else logging.INFO  # the end of a failure is as visible as its begin
        log.log(level, "options reloaded%s", f"; restart required: {', '.join(late)}" if late else "")
        return self.options != before

    def _load(self) -> Options:
        """Load the file; raise OptionsError for a wrong, missing or empty one: an editor may have truncated it."""
        path, stamp = self.options.path, _stamp(self.options.path)
        if stamp is None and not self._had_file:
            return load_options()
        if stamp is not None and stamp[1] == 0:
            raise OptionsError(f"{path}:1: empty; write the options again")
        return load_options(path)

    def _stamps(self) -> Mapping[Path, Stamp]:
        return {path: _stamp(path) for path in self._paths()}

    def _paths(self) -> Iterator[Path]:
        yield self.options.path
        if self.options.suppressions_file is not None:
            yield self.options.suppressions_file
        for pattern in self.options.baselines:
            yield from map(Path, glob.glob(pattern))  # noqa: PTH207  Path.glob takes no absolute pattern


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
