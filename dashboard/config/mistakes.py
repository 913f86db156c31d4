"""One sentence per mistake: what is wrong with an option, and what to do."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from dashboard.config.document import Place
from dashboard.config.rules import no_such_rule, rule_id
from dashboard.fleet.formatting import joined

_SECRET_KEYS = frozenset({"token", "bearer_token", "bearer", "auth_token", "api_key", "password", "secret"})
_SENTENCES: Mapping[str, str] = {
    "missing": "missing; write it",
    "float_parsing": "not a number; write one such as {example}",
    "float_type": "not a number; write one such as {example}",
    "finite_number": "not a finite number; write one such as {example}",
    "int_parsing": "not a whole number; write one such as {example}",
    "int_parsing_size": "not a whole number of this size; write one such as {example}",
    "int_from_float": "not a whole number; write one such as {example}",
    "int_type": "not a whole number; write one such as {example}",
    "greater_than_equal": "too small; write at least {ge:.10g}",
    "less_than_equal": "too large; write at most {le:.10g}",
    "string_type": "not a text; write one",
    "string_too_short": "empty; write a text or leave the key out",
    "string_too_long": "longer than {max_length} characters; shorten it",
    "string_pattern_mismatch": "no name of an environment variable; write the name, not the secret",
    "path_type": "no path; write the path of a file",
    "tuple_type": "not a list; begin each entry with `- `",
    "dict_type": "not a mapping; write lines of `key: value`",
    "model_type": "not a mapping; write lines of `key: value`",
    "bool_parsing": "neither true nor false; write one of them",
    "bool_type": "neither true nor false; write one of them",
    "enum": "no such value; write {expected}",
    "value_error": "{error}",
}


def sentence(error: ErrorDetails, options: type[BaseModel]) -> str:
    """Say in one sentence what pydantic found, without the value: it might be a secret."""
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"], options)
    return worded(error, lambda: _example(error["loc"], options))


def worded(error: ErrorDetails, example: Callable[[], object]) -> str:
    """Say what is wrong with one value; `example` makes one that could stand there."""
    told = _SENTENCES.get(error["type"], error["msg"])
    shown = example() if "{example}" in told else None
    return told.format(**error.get("ctx", {}), example=shown)


def _unknown(place: Place, options: type[BaseModel]) -> str:
    """Say that a key is unknown: a rule, a parameter of a rule, or another."""
    match place:
        case ("rules", str(rule)):
            return f"{rule_id(rule)} is there twice; keep one" if rule_id(rule) != rule else no_such_rule(rule)
        case ("rules", rule, "parameters", _):
            known = list(_fields(_type_at(options, place[:-1])))
            return f"no such parameter; {rule} has {joined(known) or 'none'}"
    return no_such_key(str(place[-1]), list(_fields(_type_at(options, place[:-1]))))


def is_option_name(key: str, known: list[str]) -> bool:
    """Tell whether a key is an option, or was probably meant as one."""
    return key in known or key.lower() in _SECRET_KEYS or bool(get_close_matches(key, known, n=1))


def no_such_key(key: str, known: list[str]) -> str:
    """Say that a key is unknown, with the one that was probably meant."""
    if key.lower() in _SECRET_KEYS:
        return "no secret may stand in clear text; write token_env or token_file, which say where it is"
    close = get_close_matches(key, known, n=1)
    return f"no such key; did you mean {close[0]}?" if close else f"no such key; the keys here are {', '.join(known)}"


def _example(place: Place, options: type[BaseModel]) -> object:
    """Return a number that could stand there: the field's example, else its default."""
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
