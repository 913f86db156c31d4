"""Baselines: YAML files, each read completely or refused with a sentence per mistake."""

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml
from yaml.nodes import MappingNode, ScalarNode

from dashboard.compare.baseline import read_scalar
from dashboard.config.document import (
    MAX_DOCUMENT_BYTES,
    Document,
    Mistake,
    Place,
    Value,
    dotted,
    no_such_key,
    read_document,
)
from dashboard.errors import OptionsError
from dashboard.fleet import Baseline, Tolerance
from dashboard.vllm.canonical import canonical_text, tidy
from dashboard.vllm.redaction import redact
from dashboard.vllm.schemas.paths import MAX_PATH

FORMAT = "1"
KEYS = ("version", "pool", "expected", "tolerated", "ignored")
TOLERANCES = ("any_of", "at_least", "at_most")
LONGEST_POOL = 200  # characters
LONGEST_COMMENT = 1000  # characters; what a label may have
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SAVED_FLEET = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema_version"')  # as `poll --format json --full` begins it
_COMMENT = re.compile(r"[:,]?\s+#+\s*(.*?)\s*")


class _Read(NamedTuple):
    """A file's baseline and the line of its pool, or its mistakes."""

    baseline: Baseline | None
    pool_line: int
    mistakes: tuple[Mistake, ...]


def read_baseline(raw: bytes, file: str) -> tuple[Baseline | None, tuple[Mistake, ...]]:
    """Read one baseline, named after `file` without its ending. Return a baseline or mistakes.

    Values of expected and tolerated settings become canonical JSON text.
    """
    read = _read(raw, file)
    return read.baseline, read.mistakes


def load_baselines(named: Iterable[tuple[str, str]], folder: Path) -> tuple[Baseline, ...]:
    """Read the files of these paths and globs, each with its origin, such as `fleet.yaml:7: baselines[0]`.

    The order is that of the patterns, then of the names; a file is named by its path from `folder`. Raise OptionsError
    with every mistake: a missing file, a mistake in one, two baselines of one pool.
    """
    baselines: list[Baseline] = []
    mistakes: list[str] = []
    for path in _files(named, mistakes):
        try:
            with path.open("rb") as stream:
                read = _read(stream.read(MAX_DOCUMENT_BYTES + 1), called(path, folder))
        except OSError as error:
            mistakes.append(f"{path}: {error.strerror}; name a baseline file")
            continue
        mistakes += [f"{path}:{line}: {text}" for line, text in read.mistakes]
        if read.baseline is None:
            continue
        if earlier := _of_pool(read.baseline.pool, baselines):
            mistakes.append(f"{path}:{read.pool_line}: pool: {_second(read.baseline, earlier)}")
        baselines.append(read.baseline)
    if mistakes:
        raise OptionsError(*mistakes)
    return tuple(baselines)


def with_given(own: Iterable[Baseline], given: Iterable[Baseline]) -> tuple[Baseline, ...]:
    """Return the options' own baselines and the given ones, equal ones once. Raise OptionsError for two of one pool."""
    added = tuple(given)
    kept = []
    for each in own:
        other = _of_pool(each.pool, added)
        if other is None:
            kept.append(each)
        elif replace(other, name=each.name, file=each.file) != each:
            raise OptionsError(f"{other.file}: pool: {_second(other, each)}")
    return (*kept, *added)


def _of_pool(pool: str, baselines: Iterable[Baseline]) -> Baseline | None:
    return next((each for each in baselines if each.pool == pool), None)


def called(path: Path, folder: Path) -> str:
    """Return a file's path from a folder, else its name; never an absolute path."""
    whole, above = path.absolute(), folder.absolute()
    return whole.relative_to(above).as_posix() if whole.is_relative_to(above) else path.name


def _second(baseline: Baseline, earlier: Baseline) -> str:
    return f"{baseline.pool} already has a baseline in {earlier.file}; keep one"


def _files(named: Iterable[tuple[str, str]], mistakes: list[str]) -> Iterator[Path]:
    """Yield each file once; a glob without a match is a mistake."""
    seen: set[Path] = set()
    for origin, pattern in named:
        found = sorted(map(Path, glob.glob(pattern)))  # noqa: PTH207  Path.glob takes no absolute pattern
        if not found:
            mistakes.append(f"{origin}: no file matches {pattern}; name baseline files, or remove it")
        for path in found:
            if path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def _read(raw: bytes, file: str) -> _Read:
    if _SAVED_FLEET.match(raw):
        return _Read(None, 1, (Mistake(1, "a saved fleet, not a baseline; use --snapshot"),))
    document = read_document(raw)
    if document.mistakes:
        return _Read(None, 1, document.mistakes)
    if not isinstance(document.value, dict):
        return _Read(None, 1, (Mistake(1, "not a baseline; write lines of `key: value`, the first `version: 1`"),))
    reading = _Reading(document, document.value)
    baseline = Baseline(
        name=Path(file).stem,
        pool=reading.pool(),
        expected=reading.expected(),
        tolerated=reading.tolerated(),
        ignored=reading.ignored(),
        comments=_comments(raw),
        file=file,
    )
    reading.check_whole(baseline)
    mistakes = tuple(sorted(reading.mistakes))
    return _Read(None if mistakes else baseline, reading.line(("pool",)), mistakes)


class _Reading:
    """Reads the parts of a document, and collects mistakes."""

    def __init__(self, document: Document, value: dict[str, Value]) -> None:
        self.mistakes: list[Mistake] = []
        self._lines = document.lines
        self._value = value
        self._unknown((), value, KEYS)
        if "version" not in value:
            self._wrong((), "version: missing; write `version: 1`")
        elif value["version"] != FORMAT:
            self._wrong(("version",), f"unsupported version; write {FORMAT}")

    def line(self, place: Place) -> int:
        """Return the line of a place, else of the part around it."""
        return next(self._lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in self._lines)

    def pool(self) -> str:
        """Return the pool's name or glob."""
        pool = self._value.get("pool")
        if "pool" not in self._value:
            self._wrong((), "pool: missing; write the name of a pool, or a glob")
        elif not isinstance(pool, str) or not pool.strip():
            self._wrong(("pool",), "expected the name of a pool, or a glob")
        elif len(pool) > LONGEST_POOL:
            self._wrong(("pool",), f"longer than {LONGEST_POOL} characters; shorten it")
        return str(pool)

    def expected(self) -> dict[str, str]:
        """Return path -> canonical JSON text."""
        return {path: self._text(("expected", path), value) for path, value in self._settings("expected")}

    def tolerated(self) -> dict[str, Tolerance]:
        """Return path -> tolerance."""
        expected = self._value.get("expected")
        tolerated = {}
        for path, value in self._settings("tolerated"):
            place = ("tolerated", path)
            if isinstance(expected, dict) and path in expected:
                self._wrong(place, f"also expected on line {self.line(('expected', path))}; keep one")
            tolerated[path] = self._tolerance(place, value)
        return tolerated

    def ignored(self) -> tuple[str, ...]:
        """Return the globs over ignored paths."""
        globs = self._value.get("ignored")
        if globs is None:
            return ()
        if not isinstance(globs, list):
            self._wrong(("ignored",), "not a list; begin each entry with `- `")
            return ()
        for number, each in enumerate(globs):
            if not isinstance(each, str) or not each or len(each) > MAX_PATH:
                self._wrong(("ignored", number), "expected a glob over paths such as `observability_config.*`")
        return tuple(map(str, globs))

    def check_whole(self, baseline: Baseline) -> None:
        """Refuse a file without expectations: every pool would pass."""
        if not self.mistakes and not baseline.expected and not baseline.tolerated:
            self._wrong((), "nothing is expected or tolerated; write settings under `expected`")

    def _settings(self, key: str) -> Iterator[tuple[str, Value]]:
        section = self._value.get(key)
        if section is not None and not isinstance(section, dict):
            self._wrong((key,), "not a mapping; write lines of `path: value`")
            return
        for path, value in (section or {}).items():
            if not path or len(path) > MAX_PATH:
                self._wrong((key, path), f"expected a path of 1 to {MAX_PATH} characters")
            yield path, value

    def _text(self, place: Place, value: Value) -> str:
        plain = native(value)
        if redact(plain, str(place[1])) != plain:
            self._wrong(place, "no secrets in a baseline: they are not compared; remove it")
        return canonical_text(tidy(str(place[1]), plain))

    def _tolerance(self, place: Place, value: Value) -> Tolerance:
        if not isinstance(value, dict) or not value.keys() & set(TOLERANCES):
            self._wrong(place, "expected {any_of: [...]} or {at_least: ..., at_most: ...}")
            return Tolerance()
        self._unknown(place, value, TOLERANCES)
        if "any_of" in value:
            return Tolerance(self._any_of(place, value))
        low, high = (self._end((*place, name), value) for name in TOLERANCES[1:])
        if low is not None and high is not None and low > high:
            self._wrong(place, f"at_least {low:.15g} is more than at_most {high:.15g}")
        return Tolerance((), low, high)

    def _any_of(self, place: Place, value: dict[str, Value]) -> tuple[str, ...]:
        if len(value.keys() & set(TOLERANCES)) > 1:
            self._wrong(place, "any_of and a range; keep one of them")
        entries = value["any_of"]
        if not isinstance(entries, list) or not entries:
            self._wrong((*place, "any_of"), "expected a list of values such as [128, 256]")
            return ()
        return tuple(self._text(place, each) for each in entries)

    def _end(self, place: Place, value: dict[str, Value]) -> float | None:
        end = value.get(str(place[-1]))
        if str(place[-1]) not in value:
            return None
        number = read_scalar(end) if isinstance(end, str) else None
        if number is None or isinstance(number, bool):
            self._wrong(place, "expected a number such as 0.9")
            return None
        return number

    def _unknown(self, place: Place, value: dict[str, Value], known: Sequence[str]) -> None:
        for key in value:
            if key not in known:
                self._wrong((*place, key), no_such_key(key, list(known)))

    def _wrong(self, place: Place, sentence: str) -> None:
        self.mistakes.append(Mistake(self.line(place), f"{dotted(place)}: {sentence}" if place else sentence))


def native(value: Value) -> Any:
    """Return a value of YAML, whose scalars are text, as JSON: a number only where its text is canonical.

    `0.90` stays text; a comparison also accepts it as 0.9.
    """
    if isinstance(value, list):
        return [native(each) for each in value]
    if isinstance(value, dict):
        return {key: native(each) for key, each in value.items()}
    if value is None:
        return None
    scalar = read_scalar(value)
    return scalar if scalar is not None and canonical_text(scalar) == value else value


def _comments(raw: bytes) -> dict[str, str]:
    """Return the comments on the lines of expected and tolerated settings, by path.

    The text was checked before: YAML without aliases, of a bounded depth.
    """
    text = raw.decode("utf-8-sig")
    lines = text.splitlines()
    root = cast("MappingNode", yaml.compose(text, Loader=_LOADER))
    found = {}
    for key, section in root.value:
        if key.value in {"expected", "tolerated"} and isinstance(section, MappingNode):
            for path, value in section.value:
                is_on_line = isinstance(value, ScalarNode) or value.flow_style
                mark = (value if is_on_line else path).end_mark
                rest = lines[mark.line][mark.column :] if mark.line < len(lines) else ""
                if (match := _COMMENT.fullmatch(rest)) and match[1]:
                    found[path.value] = match[1][:LONGEST_COMMENT]
    return found
