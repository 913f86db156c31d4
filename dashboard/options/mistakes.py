"""One sentence per mistake: what is wrong with an option, and what to do."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from dashboard.options.document import Place

_SECRET_KEYS = frozenset({"token", "bearer_token", "bearer", "auth_token", "api_key", "password", "secret"})
_SENTENCES: Mapping[str, str] = {
    "missing": "missing; write it",
    "float_parsing": "not a number; write one such as 15",
    "float_type": "not a number; write one such as 15",
    "finite_number": "not a finite number; write one such as 15",
    "int_parsing": "not a whole number; write one such as 100",
    "int_parsing_size": "not a whole number of this size; write one such as 100",
    "int_from_float": "not a whole number; write one such as 100",
    "int_type": "not a whole number; write one such as 100",
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
    "value_error": "{error}",
}


def sentence(error: ErrorDetails, options: type[BaseModel]) -> str:
    """Say in one sentence what pydantic found, without the value: it might be a secret."""
    if error["type"] == "extra_forbidden":
        return no_such_key(str(error["loc"][-1]), _keys(options, error["loc"][:-1]))
    return _SENTENCES.get(error["type"], error["msg"]).format(**error.get("ctx", {}))


def no_such_key(key: str, known: list[str]) -> str:
    """Say that a key is unknown, with the one that was probably meant."""
    if key.lower() in _SECRET_KEYS:
        return "no secret may stand in clear text; write token_env or token_file, which say where it is"
    close = get_close_matches(key, known, n=1)
    return f"no such key; did you mean {close[0]}?" if close else f"no such key; the keys here are {', '.join(known)}"


def _keys(model: type[BaseModel], place: Place) -> list[str]:
    """Return the keys that the mapping at this place may have."""
    for part in place:
        if isinstance(part, str):
            model = _model_in(model.model_fields[part].annotation)
    return list(model.model_fields)


def _model_in(annotation: object) -> type[BaseModel]:
    """Return the model in `X`, `X | None` or `tuple[X, ...]`."""
    candidates = (annotation, *get_args(annotation))
    return next(one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel))
