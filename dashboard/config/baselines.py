"""Baselines: YAML files, each read completely or refused with a sentence per mistake."""

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from yaml.nodes import MappingNode, ScalarNode

from dashboard.compare.baseline import read_scalar
from dashboard.config.document import (
    LOADER,
    LocatedMistake,
    Mistake,
    YamlDocument,
    YamlValue,
    describe_error,
    dotted,
    read_document,
    read_file,
)
from dashboard.config.rules import Part, some
from dashboard.errors import OptionsError
from dashboard.fleet import Baseline, Tolerance
from dashboard.vllm.canonical import spelled
from vllm_fleet_provider.shared.paths import MAX_PATH
from vllm_fleet_provider.shared.redaction import redact
from vllm_fleet_provider.shared.spelling import canonical_text

LONGEST_COMMENT = 1000  # characters; what a label may have
_SAVED_FLEET = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema_version"')  # as `poll --format json --full` begins it
_COMMENT = re.compile(r"[:,]?\s+#+\s*(.*?)\s*")


def _number(text: Any) -> int | float:
    number = read_scalar(text) if isinstance(text, str) else None
    if number is None or isinstance(number, bool):
        raise ValueError("expected a number such as 0.9")
    return number


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("empty; write the name of a pool, or a glob")
    return text


SettingPath = Annotated[str, Field(min_length=1, max_length=MAX_PATH)]
Number = Annotated[Any, BeforeValidator(_number)]


class ToleranceOptions(Part):
    """Several allowed values of a setting: a list, or a range with its ends."""

    any_of: Annotated[tuple[Any, ...], AfterValidator(some)] | None = None
    at_least: Number = None
    at_most: Number = None

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if len(self.model_fields_set) > 1 and self.any_of:
            raise ValueError("any_of and a range; keep one of them")
        if not self.model_fields_set:
            raise ValueError("expected {any_of: [...]} or {at_least: ..., at_most: ...}")
        if None not in {self.at_least, self.at_most} and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:.15g} is more than at_most {self.at_most:.15g}")
        return self


class BaselineOptions(Part):
    """The content of a baseline file. Scalars in values are text, as written."""

    version: Literal["1"]
    pool: Annotated[str, Field(max_length=200), AfterValidator(_not_blank)]
    expected: dict[SettingPath, Any] = Field(default_factory=dict)
    tolerated: dict[SettingPath, ToleranceOptions] = Field(default_factory=dict)
    ignored: tuple[SettingPath, ...] = ()  # globs

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if not self.expected and not self.tolerated:  # every pool would pass
            raise ValueError("nothing is expected or tolerated; write settings under `expected`")
        return self


def read_baseline(raw: bytes, file: str) -> tuple[Baseline | None, tuple[Mistake, ...]]:
    """Read one baseline, named after `file` without its ending. Return a baseline or mistakes.

    Values of expected and tolerated settings become canonical JSON text.
    """
    if _SAVED_FLEET.match(raw):
        return None, (Mistake(1, "a saved fleet, not a baseline; use --snapshot"),)
    document = read_document(raw)
    if document.mistakes:
        return None, document.mistakes
    if not isinstance(document.value, dict):
        return None, (Mistake(1, "not a baseline; write lines of `key: value`, the first `version: 1`"),)
    try:
        options = BaselineOptions.model_validate(document.value)
    except ValidationError as error:
        errors = error.errors()
        return None, tuple(sorted(Mistake(document.line(e["loc"]), describe_error(e, BaselineOptions)) for e in errors))
    if mistakes := list(_wrong_settings(options, document)):
        return None, tuple(sorted(mistakes))
    return _to_baseline(options, _comments(raw), file), ()


def _to_baseline(options: BaselineOptions, comments: dict[str, str], file: str) -> Baseline:
    return Baseline(
        name=Path(file).stem,
        pool=options.pool,
        expected={path: _canonical(path, value) for path, value in options.expected.items()},
        tolerated={
            path: Tolerance(tuple(_canonical(path, v) for v in each.any_of or ()), each.at_least, each.at_most)
            for path, each in options.tolerated.items()
        },
        ignored=options.ignored,
        comments=comments,
        file=file,
    )


def _wrong_settings(options: BaselineOptions, document: YamlDocument) -> Iterator[Mistake]:
    """Yield a mistake for each secret, and for each setting that is both expected and tolerated."""
    values = [("expected", path, [value]) for path, value in options.expected.items()]
    values += [("tolerated", path, list(each.any_of or ())) for path, each in options.tolerated.items()]
    for key, path, written in values:
        line, where = document.line((key, path)), dotted((key, path))
        if any(redact(native(value), path) != native(value) for value in written):
            yield Mistake(line, f"{where}: no secrets in a baseline: they are not compared; remove it")
        if key == "tolerated" and path in options.expected:
            yield Mistake(line, f"{where}: also expected on line {document.line(('expected', path))}; keep one")


def _canonical(path: str, value: YamlValue) -> str:
    return spelled(path, native(value))


def native(value: YamlValue) -> Any:
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
    root = cast("MappingNode", yaml.compose(text, Loader=LOADER))
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


def load_baselines(named: Iterable[tuple[str, str]], folder: Path) -> tuple[Baseline, ...]:
    """Read the files of these paths and globs, each with its origin, such as `fleet.yaml:7: baselines[0]`.

    The order is that of the patterns, then of the names; a file is named by its path from `folder`. Raise OptionsError
    with every mistake: a missing file, a mistake in one, two baselines of one pool.
    """
    baselines: list[Baseline] = []
    mistakes: list[str] = []
    for path in _files(named, mistakes):
        try:
            raw = read_file(path, "name a baseline file")
        except OptionsError as error:
            mistakes += error.mistakes
            continue
        baseline, wrong = read_baseline(raw, relative_name(path, folder))
        mistakes += [LocatedMistake(path, *each) for each in wrong]
        if baseline is None:
            continue
        if earlier := _of_pool(baseline.pool, baselines):
            line = read_document(raw).line(("pool",))
            mistakes.append(LocatedMistake(path, line, f"pool: {_second(baseline, earlier)}"))
        baselines.append(baseline)
    if mistakes:
        raise OptionsError(*mistakes)
    return tuple(baselines)


def merge_baselines(own: Iterable[Baseline], given: Iterable[Baseline]) -> tuple[Baseline, ...]:
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


def _second(baseline: Baseline, earlier: Baseline) -> str:
    return f"{baseline.pool} already has a baseline in {earlier.file}; keep one"


def relative_name(path: Path, folder: Path) -> str:
    """Return a file's path from a folder, else its name; never an absolute path."""
    whole, above = path.absolute(), folder.absolute()
    return whole.relative_to(above).as_posix() if whole.is_relative_to(above) else path.name


def _files(named: Iterable[tuple[str, str]], mistakes: list[str]) -> Iterator[Path]:
    """Yield each file once; a glob without a match is a mistake."""
    seen: set[Path] = set()
    for origin, pattern in named:
        found = sorted(map(Path, glob.glob(pattern)))  # noqa: PTH207  Path.glob takes no absolute pattern
        if not found:
            sentence = f"no file matches {pattern}; name baseline files, or remove it"
            if isinstance(origin, LocatedMistake):
                mistakes.append(LocatedMistake(origin.file, origin.line, f"{origin.sentence}: {sentence}"))
            else:
                mistakes.append(f"{origin}: {sentence}")
        for path in found:
            if path.resolve() not in seen:
                seen.add(path.resolve())
                yield path
