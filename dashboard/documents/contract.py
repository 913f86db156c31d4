"""Which keys the JSON objects of a document have: the types of the product, and where JSON differs from them.

A document is declared once: its JSON Schema, its writer and its reader are derived from the declaration.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import attrgetter
from types import GenericAlias, UnionType
from typing import Annotated, Any, NamedTuple, NotRequired, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    TypeAdapter,
    WrapSerializer,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import TypedDict

from dashboard.fleet import JsonText
from dashboard.fleet.formatting import safe_json
from vllm_fleet_provider.shared.spelling import canonical_text
from vllm_fleet_provider.shared.types import Moment


def native(text: str) -> Any:
    """Return canonical JSON text as native JSON; a missing value has no text and is null."""
    return json.loads(text) if text else None


Native = Annotated[
    Any, BeforeValidator(canonical_text), PlainSerializer(native, return_type=Any), Field(description="native JSON")
]
Time = Annotated[Moment, AfterValidator(lambda time: time.astimezone(UTC))]
ADDED: Any = object()


class FirstMistake(FailFast):
    """Ends reading at the first mistake of a list: a file can have millions."""

    __hash__ = object.__hash__  # so that the list can be optional


class WithExtraKeys(NamedTuple):
    """A value, and the keys that a document adds to those of its type."""

    item: Any
    added: Mapping[str, Any]


class JsonKey(NamedTuple):
    """One key of a JSON object, or several names with spaces between. `type` None: that of the attribute.

    `of` is another attribute than `name`, a function of the value, or ADDED. `full`: written with --full only.
    """

    name: str
    type: Any = None
    of: str | Callable[[Any], Any] = ""
    doc: str = ""
    full: bool = False


@dataclass(frozen=True, eq=False)
class JsonObject:
    """The JSON object that a type is written as: a declaration from which schema, writer and reader are derived.

    `read` makes a value of the object; None: it is only written. `write` returns all keys in place of `written`.
    """

    contract: "Contract"
    core: type
    keys: tuple[JsonKey, ...]
    name: str
    read: Callable[[dict[str, Any]], Any] | None = None
    write: Callable[[Any], dict[str, Any]] | None = None

    def dump(self, value: Any, *, indent: int | None = None) -> bytes:
        """Return a value as JSON text, safe in a log."""
        return safe_json(self.adapter.dump_json(value, indent=indent))

    def load(self, raw: bytes) -> Any:
        """Read JSON text; raise ValidationError at the first mistake."""
        return self.adapter.validate_json(raw, strict=True)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema."""
        return self.adapter.json_schema(mode="serialization")

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """What pydantic makes of the declaration."""
        return TypeAdapter(Annotated[Any, self])

    @cached_property
    def _getters(self) -> list[tuple[str, Callable[[Any], Any] | None]]:
        return [
            (key.name, None if key.of is ADDED else key.of if callable(key.of) else attrgetter(key.of or key.name))
            for key in self.keys
        ]

    @cached_property
    def _needed(self) -> list[str]:
        return [key.name for key in self.keys if key.full]

    def written(self, value: Any) -> dict[str, Any]:
        """Return the keys of a value, with what its row adds."""
        item, added = value if type(value) is WithExtraKeys else (value, {})
        return {name: added[name] if get is None else get(item) for name, get in self._getters}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Write values as objects of these keys. Read them back where a reader is given, else leave them unread."""
        fields = handler.generate_schema(self.typed_dict)
        writer = self.write or self.written
        written = core_schema.plain_serializer_function_ser_schema(writer, return_schema=fields)
        if self.read is None:
            return core_schema.any_schema(serialization=written)
        return core_schema.no_info_after_validator_function(
            partial(self._made, read=self.read), fields, serialization=written
        )

    @cached_property
    def typed_dict(self) -> Any:
        """What pydantic makes the schema of."""
        fields = {key.name: self._field(key) for key in self.keys}
        make: Any = TypedDict  # of the declaration, not of a class
        found = make(self.name, fields)
        found.__doc__ = (self.core.__doc__ or "").partition("\n\n")[0]
        found.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
        return found

    def _field(self, key: JsonKey) -> Any:
        hint = self.contract.resolve(_hint(self.core, key.of or key.name) if key.type is None else key.type)
        hint = Annotated[hint, Field(description=key.doc)] if key.doc else hint
        return NotRequired[hint] if key.full else hint

    def _made(self, values: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
        for name in self._needed:
            if name not in values:
                raise PydanticCustomError("missing", "{name} is missing", {"name": name})
        return read(values)


class Contract:
    """The JSON objects of a document by the type that they are written from; `types` replaces types in hints.

    It begins with what other contracts declare. Without `full`, the keys of --full are left out.
    """

    def __init__(self, *bases: "Contract", types: Mapping[Any, Any] | None = None, full: bool = True) -> None:
        self._full = full
        self.types: dict[Any, Any] = {JsonText: Native, datetime: Time}
        for base in bases:
            self.types |= base.types
        self.types |= types or {}

    def object(
        self,
        core: type,
        *keys: str | JsonKey,
        name: str = "",
        read: Callable[[dict[str, Any]], Any] | None = None,
        write: Callable[[Any], dict[str, Any]] | None = None,
        is_read: bool = False,
    ) -> JsonObject:
        """Declare the JSON object of a type, used wherever a hint names the type.

        A string names keys, with spaces between, that have name and type of an attribute; without keys all fields have
        one. `is_read`: the type is made of the attributes that are read, or of what `read` makes of the object.
        """
        fields: Any = getattr(core, "_fields", None) or getattr(core, "__dataclass_fields__", ())
        declared = (JsonKey(each) if isinstance(each, str) else each for each in keys or fields)
        named = tuple(
            key._replace(name=each) for key in declared if self._full or not key.full for each in key.name.split()
        )
        reader = read or (_reader(core, named) if is_read else None)
        found = self.types[core] = JsonObject(self, core, named, name or core.__name__, reader, write)
        return found

    def resolve(self, hint: Any) -> Any:
        """Return the hint that pydantic gets: each type of the product is its JSON object."""
        found = next((stand_in for type_, stand_in in self.types.items() if type_ == hint), hint)
        if found is hint and isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
            found = self.object(hint, is_read=True)
        if isinstance(found, JsonObject):
            return Annotated[Any, found]
        return self._resolve_items(hint) if found is hint and get_args(hint) else found

    def _resolve_items(self, hint: Any) -> Any:
        origin, args = get_origin(hint), get_args(hint)
        if origin in {Union, UnionType}:
            return Union[tuple(map(self.resolve, args))]  # noqa: UP007  # made of a tuple
        if origin is tuple:
            whole = GenericAlias(tuple, tuple(each if each is ... else self.resolve(each) for each in args))
            return Annotated[whole, FirstMistake()] if ... in args else whole
        if origin in {dict, Mapping}:
            whole = GenericAlias(dict, tuple(map(self.resolve, args)))
            return whole if origin is dict else Annotated[whole, WrapSerializer(lambda each, write: write(dict(each)))]
        return hint


def _reader(core: type, keys: tuple[JsonKey, ...]) -> Callable[[dict[str, Any]], Any]:
    """Return what makes a value of the keys that are its attributes; with added keys a row."""
    attributes = {key.name: key.of or key.name for key in keys if isinstance(key.of, str)}
    added = [key.name for key in keys if key.of is ADDED]

    def read(values: dict[str, Any]) -> Any:
        made = core(**{attributes[name]: value for name, value in values.items() if name in attributes})
        return WithExtraKeys(made, {name: values[name] for name in added}) if added else made

    return read


def _hint(core: type, attribute: Any) -> Any:
    found: Any = core
    for name in attribute.split("."):
        there = getattr(found, name, None)
        found = (
            get_type_hints(there.fget, include_extras=True)["return"]
            if isinstance(there, property)
            else get_type_hints(found, include_extras=True)[name]
        )
    return found
