"""fleet.yaml and the environment become Options, or one sentence per mistake."""

import os
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from dashboard.config.baselines import load_baselines
from dashboard.config.document import (
    MAX_DOCUMENT_BYTES,
    Document,
    Mistake,
    Place,
    dotted,
    is_option_name,
    no_such_key,
    read_document,
)
from dashboard.config.model import DEFAULT_FILE, Options
from dashboard.config.rules import no_such_rule, rule_id
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import joined

_SENTENCES: Mapping[str, str] = {
    "missing": "missing",
    "float_parsing": "expected a number such as {example}",
    "float_type": "expected a number such as {example}",
    "finite_number": "expected a finite number such as {example}",
    "int_parsing": "expected a whole number such as {example}",
    "int_parsing_size": "expected a smaller whole number such as {example}",
    "int_from_float": "expected a whole number such as {example}",
    "int_type": "expected a whole number such as {example}",
    "greater_than_equal": "too small; the minimum is {ge:.10g}",
    "less_than_equal": "too large; the maximum is {le:.10g}",
    "string_type": "expected a string",
    "string_too_short": "empty; write a string or remove the key",
    "string_too_long": "longer than {max_length} characters; shorten it",
    "string_pattern_mismatch": "not the name of an environment variable; write the name, not the secret",
    "path_type": "expected the path of a file",
    "tuple_type": "not a list; begin each entry with `- `",
    "dict_type": "not a mapping; write lines of `key: value`",
    "model_type": "not a mapping; write lines of `key: value`",
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "enum": "unknown value; expected {expected}",
    "value_error": "{error}",
}


def sentence(error: ErrorDetails, options: type[BaseModel]) -> str:
    """Return pydantic's error as one sentence, without the value: it might be a secret."""
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"], options)
    return worded(error, lambda: _example(error["loc"], options))


def worded(error: ErrorDetails, example: Callable[[], object]) -> str:
    """Return what is wrong with one value; `example` returns a valid one."""
    text = _SENTENCES.get(error["type"], error["msg"])
    return text.format(**error.get("ctx", {}), example=example() if "{example}" in text else None)


def _unknown(place: Place, options: type[BaseModel]) -> str:
    """Return that a key is unknown: a rule, a parameter of a rule, or another."""
    match place:
        case ("rules", str(rule)):
            return f"duplicate {rule_id(rule)}; keep one" if rule_id(rule) != rule else no_such_rule(rule)
        case ("rules", rule, "parameters", _):
            known = list(_fields(_type_at(options, place[:-1])))
            return f"unknown parameter; {rule} has {joined(known) or 'none'}"
    return no_such_key(str(place[-1]), list(_fields(_type_at(options, place[:-1]))))


def _example(place: Place, options: type[BaseModel]) -> object:
    """Return a valid number: the field's example, else its default."""
    model: type[BaseModel] = _type_at(options, place[:-1])
    field = model.model_fields[str(place[-1])]
    return field.examples[0] if field.examples else field.default


def _type_at(options: type[BaseModel], place: Place) -> Any:
    """Return the type of the mapping at this place."""
    found: Any = options
    for part in place:
        fields = _fields(found)
        found = _without_none(fields[part] if fields else _of_entries(found))
    return found


def _fields(found: Any) -> Mapping[Any, Any]:
    """Return the types of a model's or a typed dict's keys; none for a list or a mapping with keys of any name."""
    if hasattr(found, "model_fields"):
        return {name: field.annotation for name, field in found.model_fields.items()}
    return {} if get_args(found) else found.__annotations__


def _without_none(annotation: Any) -> Any:
    """Return X of `X | None`."""
    return get_args(annotation)[0] if isinstance(annotation, UnionType) else annotation


def _of_entries(annotation: Any) -> Any:
    """Return X of `tuple[X, ...]` or `dict[str, X]`."""
    return next(each for each in reversed(get_args(annotation)) if each is not Ellipsis)


PREFIX = "FLEET_"
FILE_VARIABLE = "FLEET_CONFIG"
RULES = "rules"  # the key with ids of rules
_DELIMITER = "__"
_NEARLY = 0.8  # similarity of a misspelled name: FLEET_READONLY, not FLEET_PORT


class _Environment(Options, BaseSettings):
    """The same options as environment variables: FLEET_POLL__INTERVAL_SECONDS=30; lists and labels as JSON."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter=_DELIMITER, env_ignore_empty=True)


class _Origins(NamedTuple):
    """The origins of values: the environment's override the file's."""

    file: Path
    document: Document
    environment: dict[str, Any]


def load_options(path: Path | None = None) -> Options:
    """Return the options of this file, else of that in FLEET_CONFIG, else of an existing ./fleet.yaml.

    Environment variables override the file. Raise OptionsError with every mistake.
    """
    named = path or _named_by_environment()
    file = named or Path(DEFAULT_FILE)
    document = _spelled(_read(file)) if named or file.exists() else Document(None, {}, ())
    origins = _Origins(file, document, _with_rule_ids(_environment()))
    mistakes = list(document.mistakes)
    wrong = _unknown_variables()
    values = _merged(document.value or {}, origins.environment)
    try:
        options = Options.model_validate(values, context={"folder": file.parent, "file": file.name})
    except ValidationError as error:
        in_environment, in_file = _sorted_by_origin(error.errors(), origins)
        wrong, mistakes = wrong + in_environment, mistakes + in_file
    wrong += [f"{file}:{line}: {text}" for line, text in sorted(mistakes)]
    if wrong:
        raise OptionsError(*wrong)
    return options.with_agreed(load_baselines(_patterns(options, origins), file.parent))


def _patterns(options: Options, origins: _Origins) -> list[tuple[str, str]]:
    """Return the paths and globs of baselines, each with its origin."""
    patterns = []
    for number, pattern in enumerate(options.baselines):
        place = ("baselines", number)
        if _holds(origins.environment, place):
            origin = f"environment variable {_variable(place)}"
        else:
            origin = f"{origins.file}:{_line(place, origins.document.lines)}"
        patterns.append((f"{origin}: {dotted(place)}", pattern))
    return patterns


def _spelled(document: Document) -> Document:
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


def _named_by_environment() -> Path | None:
    name = os.environ.get(FILE_VARIABLE)
    return Path(name) if name else None


def _read(file: Path) -> Document:
    try:
        with file.open("rb") as stream:
            document = read_document(stream.read(MAX_DOCUMENT_BYTES + 1))
    except OSError as error:
        raise OptionsError(f"{file}: {error.strerror}; name the options file") from error
    if document.value is not None and not isinstance(document.value, dict):
        raise OptionsError(f"{file}:1: not a mapping; write lines of `key: value`, such as `name: my fleet`")
    if document.value and not any(is_option_name(key, list(Options.model_fields)) for key in document.value):
        raise OptionsError(f"{file}: no options in this file; name the options file")  # it may be a secret
    return document


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
        f"environment variable {name}: {no_such_key(first, known)}"
        for name, first in firsts.items()
        if first not in known and (_DELIMITER in name or get_close_matches(first, known, n=1, cutoff=_NEARLY))
    ]


def _merged(low: Any, high: Any) -> Any:
    """Return `low` overridden by `high`; lists are replaced as a whole."""
    if not (isinstance(low, dict) and isinstance(high, dict)):
        return high
    return low | {key: _merged(low.get(key), value) for key, value in high.items()}


def _sorted_by_origin(errors: Iterable[ErrorDetails], origins: _Origins) -> tuple[list[str], list[Mistake]]:
    """Return the mistakes in the environment, and those in the file."""
    in_environment, in_file = [], []
    for error in errors:
        place = error["loc"]
        text = f"{dotted(place)}: {sentence(error, Options)}"
        if _holds(origins.environment, place[:-1] if error["type"] == "missing" else place):
            in_environment.append(f"environment variable {_variable(place)}: {text}")
        else:
            in_file.append(Mistake(_line(place, origins.document.lines), text))
    return in_environment, in_file


def _line(place: Place, lines: Mapping[Place, int]) -> int:
    prefixes = (place[:length] for length in range(len(place), -1, -1))
    return next(lines[prefix] for prefix in prefixes if prefix in lines)


def _holds(value: Any, place: Place) -> bool:
    for part in place:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return False
    return True


def _variable(place: Place) -> str:
    """Return the name of the variable that set this place, or the mapping around it."""
    stems = [PREFIX + _DELIMITER.join(map(str, place[:length])).upper() for length in range(len(place), 0, -1)]
    names = {name.upper() + _DELIMITER: name for name in sorted(os.environ)}
    return next(names[name] for stem in stems for name in names if name.startswith(stem + _DELIMITER))
