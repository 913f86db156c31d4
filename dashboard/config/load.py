"""fleet.yaml and the environment become Options, or one sentence per mistake.

While the program runs, changed files are loaded again; wrong ones keep the last good options.
"""

import glob
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from dashboard.config.access import load_tokens
from dashboard.config.baselines import load_baselines
from dashboard.config.document import (
    LocatedMistake,
    Mistake,
    OptionPath,
    YamlDocument,
    describe_error,
    dotted,
    is_option_name,
    read_document,
    read_file,
    unknown_key,
)
from dashboard.config.model import DEFAULT_FILE, Options
from dashboard.config.rules import load_suppressions
from dashboard.errors import OptionsError
from dashboard.rules.catalogue import rule_id

PREFIX = "FLEET_"
FILE_VARIABLE = "FLEET_CONFIG"
RULES = "rules"  # the key with ids of rules
_DELIMITER = "__"
_NEARLY = 0.8  # similarity of a misspelled name: FLEET_READONLY, not FLEET_PORT
# The server reads these once, when it starts.
RESTART_REQUIRED = ("data_folder", "history", "read_only", "allowed_hosts", "frame_ancestors", "mcp")
Stamp = tuple[int, int, int] | None  # time of change in ns, size in bytes, inode; None: missing

log = logging.getLogger(__name__)


class _Environment(Options, BaseSettings):
    """The same options as environment variables: FLEET_POLL__INTERVAL_SECONDS=30; lists and labels as JSON."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=_DELIMITER, env_ignore_empty=True, defer_build=True
    )


def load_options(path: Path | None = None) -> Options:
    """Return the options of this file, else of that in FLEET_CONFIG, else of an existing ./fleet.yaml.

    Environment variables override the file. Raise OptionsError with every mistake.
    """
    named = path or (Path(os.environ[FILE_VARIABLE]) if os.environ.get(FILE_VARIABLE) else None)
    file = named or Path(DEFAULT_FILE)
    document = YamlDocument(None, {}, ())
    if named or file.exists():
        document = _document(read_file(file, "name an options file that can be read"), file)
    return _loaded(document, file, _with_rule_ids(_environment()), _unknown_variables())


def read_options(raw: bytes, file: Path) -> tuple[Options, YamlDocument]:
    """Return the options in a file with this content, without those of the environment, and its places.

    The files that it names are read, too. Raise OptionsError with every mistake.
    """
    document = _document(raw, file)
    return _loaded(document, file, {}, []), document


def _loaded(document: YamlDocument, file: Path, environment: Any, unknown: list[str]) -> Options:
    """Return the options, those of the environment before those of the file; `unknown` are mistakes in its names."""

    def locate(place: OptionPath, sentence: str) -> Mistake:
        """Return a mistake with its origin as text, and its line in the file, 0 in the environment."""
        if _has_place(environment, place):
            return Mistake(0, f"environment variable {_variable(place)}: {sentence}")
        line = document.line(place)
        return Mistake(line, LocatedMistake(file, line, sentence))

    mistakes = [Mistake(line, LocatedMistake(file, line, text)) for line, text in document.mistakes]
    try:
        values = _merged(document.value or {}, environment)
        options = Options.model_validate(values, context={"folder": file.parent, "path": file})
    except ValidationError as error:
        for each in error.errors():
            place = each["loc"][:-1] if each["type"] == "missing" else each["loc"]
            mistakes.append(locate(place, describe_error(each, Options)))
    if unknown or mistakes:
        raise OptionsError(*unknown, *(text for _, text in sorted(mistakes)))
    return _with_files(options, lambda place: locate(place, dotted(place)).sentence, file.parent)


def _with_files(options: Options, origin: Callable[[OptionPath], str], folder: Path) -> Options:
    """Return the options with what is in the files that they name; raise OptionsError with the mistakes in all."""
    mistakes: list[str] = []
    patterns = [(origin(("baselines", number)), pattern) for number, pattern in enumerate(options.baselines)]
    reads: list[Callable[[Options], Options]] = [lambda found: found.with_agreed(load_baselines(patterns, folder))]
    if (suppressions := options.suppressions_file) is not None:
        reads.append(lambda found: found.with_accepted(load_suppressions(suppressions)))
    if (tokens := options.access.tokens_file) is not None:
        reads.append(lambda found: found.with_tokens(load_tokens(tokens)))
    for read in reads:
        try:
            options = read(options)
        except OptionsError as error:
            mistakes += error.mistakes
    if mistakes:
        raise OptionsError(*mistakes)
    return options


def _spelled(document: YamlDocument) -> YamlDocument:
    """Return the document with the ids of rules in upper case, and the same lines."""
    lines = {
        (*place[:1], rule_id(str(place[1])), *place[2:]): line
        for place, line in document.lines.items()
        if place[:1] == (RULES,) and place[1:]
    }
    return document._replace(value=_with_rule_ids(document.value), lines={**lines, **document.lines})


def _with_rule_ids(options: Any) -> Any:
    """Return the options with the ids of rules in upper case; a duplicate is kept, and refused later."""
    changes = options.get(RULES) if isinstance(options, dict) else None
    if not isinstance(changes, dict):
        return options
    spelled: dict[str, Any] = {}
    for key, change in changes.items():
        spelled[key if rule_id(key) in spelled or rule_id(key) in changes else rule_id(key)] = change
    return {**options, RULES: spelled}


def _document(raw: bytes, file: Path) -> YamlDocument:
    document = read_document(raw)
    if document.value is not None and not isinstance(document.value, dict):
        wrong = "not a mapping; write lines of `key: value`, such as `name: my fleet`"
        raise OptionsError(LocatedMistake(file, 1, wrong))
    if document.value and not any(is_option_name(key, list(Options.model_fields)) for key in document.value):
        raise OptionsError(f"{file}: no options in this file; name the options file")  # it may be a secret
    return _spelled(document)


def _environment() -> dict[str, Any]:
    try:
        return EnvSettingsSource(_Environment)()
    except SettingsError as error:
        field = str(error).split('"')[1]  # the only place where pydantic-settings says which one
        variable = f"{PREFIX}{field.upper()}"
        raise OptionsError(f"environment variable {variable}: not JSON; write lists and mappings as JSON") from error


def _unknown_variables() -> list[str]:
    """Return a mistake for each misspelled variable: with the delimiter, or similar to an option.

    Others are ignored: Kubernetes sets FLEET_PORT and more for a Service named fleet.
    """
    known = list(Options.model_fields)
    names = [name for name in sorted(os.environ) if name.upper().startswith(PREFIX) and name.upper() != FILE_VARIABLE]
    firsts = {name: name.upper().removeprefix(PREFIX).partition(_DELIMITER)[0].lower() for name in names}
    return [
        f"environment variable {name}: {unknown_key(first, known)}"
        for name, first in firsts.items()
        if first not in known and (_DELIMITER in name or get_close_matches(first, known, n=1, cutoff=_NEARLY))
    ]


def _merged(low: Any, high: Any) -> Any:
    """Return `low` overridden by `high`; lists are replaced as a whole."""
    if not (isinstance(low, dict) and isinstance(high, dict)):
        return high
    return low | {key: _merged(low.get(key), value) for key, value in high.items()}


def _has_place(value: Any, place: OptionPath) -> bool:
    for part in place:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return False
    return True


def _variable(place: OptionPath) -> str:
    """Return the name of the variable that set this place, or the mapping around it."""
    stems = [PREFIX + _DELIMITER.join(map(str, place[:length])).upper() for length in range(len(place), 0, -1)]
    names = {name.upper() + _DELIMITER: name for name in sorted(os.environ)}
    return next(names[name] for stem in stems for name in names if name.startswith(stem + _DELIMITER))


class ReloadStatus(NamedTuple):
    """The last reload: when the options in force were loaded (UTC), and the mistakes of a later try.

    `restart_required` names the options whose new values apply after a restart.
    """

    loaded_at: datetime
    mistakes: tuple[str, ...] = ()
    restart_required: tuple[str, ...] = ()


class OptionsFiles:
    """The options in force, and the files that they come from: fleet.yaml, baselines, suppressions, tokens."""

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
        if self.options.access.tokens_file is not None:
            yield self.options.access.tokens_file
        for pattern in self.options.baselines:
            yield from map(Path, glob.glob(pattern))  # noqa: PTH207  Path.glob takes no absolute pattern


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
