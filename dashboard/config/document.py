"""YAML as plain values, each with its line. No aliases, no tags: foreign text cannot grow or build objects."""

from collections.abc import Mapping
from typing import NamedTuple, NoReturn, cast

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from dashboard.config.mistakes import Mistake, OptionPath, dotted

MAX_DOCUMENT_BYTES = 8 * 2**20  # 5,000 targets with 20 labels each take a quarter of it
MAX_VALUES = 250_000  # the same targets have 120,000
MAX_DEPTH = 20  # fleet.yaml itself is five deep
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
LIBYAML_DEPTH = (
    "exceeded maximum nesting depth"  # since 0.2.6: it scans ahead, so it may object before _ValueBuilder does
)
GZIP = b"\x1f\x8b"  # RFC 1952, 2.3.1: how a compressed file begins
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})  # YAML 1.2 core schema, 10.3.2
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster; missing where PyYAML was built without it

YamlValue = str | list["YamlValue"] | dict[str, "YamlValue"] | None


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
        return _unread(min(line, last), f"not YAML: {problem}")
    return YamlDocument(value, reader.lines, tuple(reader.mistakes))


def _unread(line: int, sentence: str) -> YamlDocument:
    return YamlDocument(None, {}, (Mistake(line, sentence),))


class _ValueBuilder:
    """Builds the value from the parser's events: PyYAML's own composer can be made to overflow the stack."""

    def __init__(self, text: str) -> None:
        self.lines: dict[OptionPath, int] = {}
        self.mistakes: list[Mistake] = []
        self._events = yaml.parse(text, Loader=_LOADER)

    def read(self) -> YamlValue:
        next(self._events)  # the stream begins
        if isinstance(next(self._events), StreamEndEvent):
            return None
        value = self._value(next(self._events), ())
        next(self._events)  # the document ends
        after = next(self._events)
        if not isinstance(after, StreamEndEvent):
            _refuse(after, "a second document; keep one")
        return value

    def _value(self, event: Event, place: OptionPath) -> YamlValue:
        if isinstance(event, AliasEvent):
            _refuse(event, "aliases (*name) are not supported; write the value")
        if cast("ScalarEvent | CollectionStartEvent", event).tag is not None:
            _refuse(event, "tags (!name) are not supported; write the value")
        if len(place) > MAX_DEPTH:
            _refuse(event, TOO_DEEP)
        if len(self.lines) > MAX_VALUES:
            _refuse(event, f"more than {MAX_VALUES:,} values")
        self.lines.setdefault(place, _line(event))
        if isinstance(event, ScalarEvent):
            return None if event.implicit[0] and event.value in _NULLS else event.value
        return self._mapping(place) if isinstance(event, MappingStartEvent) else self._sequence(place)

    def _sequence(self, place: OptionPath) -> list[YamlValue]:
        values: list[YamlValue] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            values.append(self._value(event, (*place, len(values))))
        return values

    def _mapping(self, place: OptionPath) -> dict[str, YamlValue]:
        values: dict[str, YamlValue] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            if not isinstance(event, ScalarEvent):
                _refuse(event, "a key that is not a string")
            inner = (*place, event.value)
            first = self.lines.setdefault(inner, _line(event))
            if event.value in values:
                self.mistakes.append(Mistake(_line(event), f"{dotted(inner)}: duplicate of line {first}; keep one"))
            values[event.value] = self._value(next(self._events), inner)
        return values


def _line(event: Event) -> int:
    return 1 + event.start_mark.line if event.start_mark else 1


def _refuse(event: Event, problem: str) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]
