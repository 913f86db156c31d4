"""YAML as plain values, each with its line; and mistakes in it: place, cause and action in one sentence.

No aliases, no tags: foreign text cannot grow or build objects. Secrets are not repeated.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, NoReturn, Self, cast, get_args

import yaml
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from yaml import events
from yaml.nodes import CollectionNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from dashboard.errors import OptionsError
from dashboard.fleet.formatting import joined
from dashboard.rules.catalogue import rule_id, unknown_rule

OptionPath = tuple[str | int, ...]  # keys and positions from the root to a value
_SECRET_KEYS = frozenset({"token", "bearer_token", "bearer", "auth_token", "api_key", "password", "secret"})
_SENTENCES: Mapping[str, str] = {
    "missing": "missing",
    **dict.fromkeys(("float_parsing", "float_type"), "expected a number such as {example}"),
    "finite_number": "expected a finite number such as {example}",
    **dict.fromkeys(("int_parsing", "int_from_float", "int_type"), "expected a whole number such as {example}"),
    "int_parsing_size": "expected a smaller whole number such as {example}",
    "greater_than_equal": "too small; the minimum is {ge:.10g}",
    "less_than_equal": "too large; the maximum is {le:.10g}",
    "string_type": "expected a string",
    "string_too_short": "empty; write a string or remove the key",
    "string_too_long": "longer than {max_length} characters; shorten it",
    "string_pattern_mismatch": "not the name of an environment variable; write the name, not the secret",
    "path_type": "expected the path of a file",
    "tuple_type": "not a list; begin each entry with `- `",
    **dict.fromkeys(("dict_type", "model_type"), "not a mapping; write lines of `key: value`"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "expected true or false"),
    **dict.fromkeys(("enum", "literal_error"), "unknown value; expected {expected}"),
    "value_error": "{error}",
}
MAX_DOCUMENT_BYTES = 8 * 2**20  # 5,000 targets with 20 labels each take a quarter of it
MAX_VALUES = 250_000  # the same targets have 120,000
MAX_DEPTH = 20  # fleet.yaml itself is five deep
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
# libyaml's own limit since 0.2.6: it scans ahead, so it may object before _ValueBuilder does.
LIBYAML_DEPTH = "exceeded maximum nesting depth"
# What the parser says of mistakes in indentation, and a sentence with the action.
_INDENTATION: Mapping[str | None, str] = {
    "found a tab character that violates indentation": "a tab at column {}; indent with spaces",
    "found character that cannot start any token": "a tab, @, % or ` at column {}; indent with spaces, quote values",
    "mapping values are not allowed in this context": "no key can be at column {}; align keys, quote a value with `: `",
    "did not find expected key": "wrong indentation at column {}; align the keys of one mapping",
    "did not find expected '-' indicator": "wrong indentation at column {}; align the entries of one list",
}
GZIP = b"\x1f\x8b"  # RFC 1952, 2.3.1: how a compressed file begins
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})  # YAML 1.2 core schema, 10.3.2
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster; missing where PyYAML was built without it

YamlValue = str | list["YamlValue"] | dict[str, "YamlValue"] | None


class Line(int):
    """The number of a line, from 1, with a column of it, from 1."""

    column: int

    def __new__(cls, line: int, column: int = 1) -> Self:
        self = super().__new__(cls, line)
        self.column = column
        return self


class LocatedMistake(str):  # noqa: SLOT000  one for a mistake
    """A mistake in a file as text: `fleet.yaml:7: name: empty`."""

    file: str
    line: Line
    sentence: str

    def __new__(cls, file: object, line: int, sentence: str) -> Self:
        self = super().__new__(cls, f"{file}:{line}: {sentence}")
        self.file, self.line, self.sentence = str(file), line if isinstance(line, Line) else Line(line), sentence
        return self


class Mistake(NamedTuple):
    """A mistake and its line, from 1."""

    line: int
    sentence: str


class YamlDocument(NamedTuple):
    """A parsed text. Every scalar is text or None; `lines` counts from 1.

    A text that is not YAML has no value and one mistake; a duplicate key is a mistake in addition to the value.
    """

    value: YamlValue
    lines: Mapping[OptionPath, int]
    mistakes: tuple[Mistake, ...]

    def line(self, place: OptionPath) -> int:
        """Return the line of a place, else of the part around it."""
        return next(self.lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in self.lines)


def read_file(file: Path, action: str) -> bytes:
    """Return the content of a file, up to one byte more than a document may have; raise OptionsError with an action.

    A named pipe would be waited for without end. The pipe of a shell's <(command) is below /dev.
    """
    try:
        if file.is_fifo() and file.parts[:2] != ("/", "dev"):
            raise OptionsError(f"{file}: not a regular file; {action}")
        with file.open("rb") as stream:
            return stream.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise OptionsError(f"{file}: {error.strerror}; {action}") from error


def read_document(raw: bytes) -> YamlDocument:
    """Read one YAML document of at most MAX_DOCUMENT_BYTES from any bytes."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        return _unread(1, f"larger than {MAX_DOCUMENT_BYTES // 2**20} MiB; check that it is the right file")
    if raw.startswith(GZIP):
        return _unread(1, "compressed; use a text file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _unread(1 + raw.count(b"\n", 0, error.start), "not UTF-8; save the file as UTF-8")
    reader = _ValueBuilder(text)
    try:
        value = reader.read()
    except ReaderError as error:
        return _unread(1 + text.count("\n", 0, error.position), "not YAML: control character")
    except yaml.MarkedYAMLError as error:
        last = max(1, len(text.splitlines()))  # the parser's own mark may be one line further
        line = 1 + error.problem_mark.line if error.problem_mark else 1
        problem = TOO_DEEP if error.problem == LIBYAML_DEPTH else error.problem
        column = 1 + error.problem_mark.column if error.problem_mark and line <= last else 1
        sentence = _INDENTATION[problem].format(column) if problem in _INDENTATION else problem
        return _unread(Line(min(line, last), column), f"not YAML: {sentence}")
    return YamlDocument(value, reader.lines, tuple(reader.mistakes))


def _unread(line: int, sentence: str) -> YamlDocument:
    return YamlDocument(None, {}, (Mistake(line, sentence),))


class _ValueBuilder:
    """Builds the value from the parser's events: PyYAML's own composer can be made to overflow the stack."""

    def __init__(self, text: str) -> None:
        self.lines: dict[OptionPath, int] = {}
        self.mistakes: list[Mistake] = []
        self._events = yaml.parse(text, Loader=LOADER)

    def read(self) -> YamlValue:
        next(self._events)  # the stream begins
        if isinstance(next(self._events), events.StreamEndEvent):
            return None
        value = self._value(next(self._events), ())
        next(self._events)  # the document ends
        after = next(self._events)
        if not isinstance(after, events.StreamEndEvent):
            _refuse(after, "a second document; keep one")
        return value

    def _value(self, event: events.Event, place: OptionPath) -> YamlValue:
        if isinstance(event, events.AliasEvent):
            _refuse(event, "aliases (*name) are not supported; write the value")
        if cast("events.ScalarEvent | events.CollectionStartEvent", event).tag is not None:
            _refuse(event, "tags (!name) are not supported; write the value")
        if len(place) > MAX_DEPTH:
            _refuse(event, TOO_DEEP)
        if len(self.lines) > MAX_VALUES:
            _refuse(event, f"more than {MAX_VALUES:,} values")
        self.lines.setdefault(place, _line(event))
        if isinstance(event, events.ScalarEvent):
            return None if event.implicit[0] and event.value in _NULLS else event.value
        return self._mapping(place) if isinstance(event, events.MappingStartEvent) else self._sequence(place)

    def _sequence(self, place: OptionPath) -> list[YamlValue]:
        values: list[YamlValue] = []
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            values.append(self._value(event, (*place, len(values))))
        return values

    def _mapping(self, place: OptionPath) -> dict[str, YamlValue]:
        values: dict[str, YamlValue] = {}
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            if not isinstance(event, events.ScalarEvent):
                _refuse(event, "a key that is not a string")
            inner = (*place, event.value)
            first = self.lines.setdefault(inner, _line(event))
            if event.value in values:
                self.mistakes.append(Mistake(_line(event), f"{dotted(inner)}: duplicate of line {first}; keep one"))
            values[event.value] = self._value(next(self._events), inner)
        return values


def _line(event: events.Event) -> Line:
    return Line(1 + event.start_mark.line, 1 + event.start_mark.column) if event.start_mark else Line(1)


def _refuse(event: events.Event, problem: str) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]


def end_of(text: str, node: Node) -> int:
    """Return the end of a node's own text: the end mark of a block is after the comments that follow it."""
    end: int = node.end_mark.index
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return end_of(text, last if isinstance(node, SequenceNode) else last[1])
    return len(text[:end].rstrip()) if isinstance(node, ScalarNode) and node.style in {"|", ">"} else end


def describe_error(error: ErrorDetails, options: type[BaseModel]) -> str:
    """Return pydantic's error as place and sentence, without the value: it might be a secret."""
    place = error["loc"][:-1] if error["loc"][-1:] == ("[key]",) else error["loc"]
    if error["type"] == "extra_forbidden":
        text = _unknown(place, options)
    else:
        text = worded(error, lambda: _example(place, options))
    return f"{dotted(place)}: {text}" if place else text


def worded(error: ErrorDetails, example: Callable[[], object]) -> str:
    """Return what is wrong with one value; `example` returns a valid one."""
    text = _SENTENCES.get(error["type"], error["msg"])
    return text.format(**error.get("ctx", {}), example=example() if "{example}" in text else None)


def _unknown(place: OptionPath, options: type[BaseModel]) -> str:
    """Return the mistake for an unknown key: a rule, a parameter of a rule, or another."""
    match place:
        case ("rules", str(rule)):
            return f"duplicate {rule_id(rule)}; keep one" if rule_id(rule) != rule else unknown_rule(rule)
        case ("rules", rule, "parameters", _):
            known = list(_fields(_type_at(options, place[:-1])))
            return f"unknown parameter; {rule} has {joined(known) or 'none'}"
    return unknown_key(str(place[-1]), list(_fields(_type_at(options, place[:-1]))))


def _example(place: OptionPath, options: type[BaseModel]) -> object:
    """Return a valid number: the field's example, else its default."""
    model: type[BaseModel] = _type_at(options, place[:-1])
    field = model.model_fields[str(place[-1])]
    return field.examples[0] if field.examples else field.default


def _type_at(options: type[BaseModel], place: OptionPath) -> Any:
    found: Any = options
    for part in place:
        fields = _fields(found)
        # X of `tuple[X, ...]` or `dict[str, X]`
        inner = fields[part] if fields else next(each for each in reversed(get_args(found)) if each is not Ellipsis)
        found = get_args(inner)[0] if isinstance(inner, UnionType) else inner  # X of `X | None`
    return found


def _fields(found: Any) -> Mapping[Any, Any]:
    """Return the types of a model's or a typed dict's keys; none for a list or a mapping with keys of any name."""
    if hasattr(found, "model_fields"):
        return {name: field.annotation for name, field in found.model_fields.items()}
    return {} if get_args(found) else found.__annotations__


def dotted(place: OptionPath) -> str:
    """Return a place as text: `targets[3].url`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part:.60}" for part in place)
    return "".join(parts).removeprefix(".")


def is_option_name(key: str, known: list[str]) -> bool:
    return key in known or key.lower() in _SECRET_KEYS or bool(get_close_matches(key, known, n=1))


def unknown_key(key: str, known: list[str]) -> str:
    """Return the mistake for an unknown key, with the likely key."""
    if key.lower() in _SECRET_KEYS:
        return "no secrets in clear text; use token_env or token_file"
    close = get_close_matches(key, known, n=1)
    return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; the keys here are {', '.join(known)}"
