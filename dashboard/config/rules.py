"""The options about pools, rules and accepted findings, and the types that all options share.

`suppressions_file` is a file with entries as under `suppress` in fleet.yaml; pages add to it.
"""

import re
from collections.abc import Mapping, Sequence, Sized
from datetime import date
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, cast

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from typing_extensions import TypedDict
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from dashboard.config.document import (
    LocatedMistake,
    Mistake,
    describe_error,
    end_of,
    read_document,
    read_file,
)
from dashboard.errors import OptionsError
from dashboard.rules.catalogue import ALL_RULES, BY_ID, rule_id, unknown_rule
from dashboard.rules.domain import Router, SeedPolicy, Store
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.registry import Rule

MAX_LABEL_CHARACTERS = 1000
SUPPRESS = "suppress"
_INDENT = 2  # columns of the first entry
_PLACEHOLDER = re.compile(r"\{(?:host|port|model)\}")
NUMBERS = (int, float)  # a bool is neither
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


# What vLLM hashes blocks with (PrefixCachingHashAlgo in vllm/config/cache.py).
HashAlgorithm: TypeAlias = Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]

T = TypeVar("T", bound=Sized)


def some(entries: T) -> T:
    """Refuse an empty list or mapping."""
    if not entries:
        raise ValueError("empty; write at least one entry")
    return entries


def _written(text: str) -> str:
    if not text.strip():
        raise ValueError("empty; write a string")
    return text.strip()


Name = Annotated[str, Field(min_length=1, max_length=100)]
Labels = dict[str, Annotated[str, Field(max_length=MAX_LABEL_CHARACTERS)]]
RequiredText = Annotated[str, Field(max_length=MAX_LABEL_CHARACTERS), AfterValidator(_written)]


class Part(BaseModel):
    """A mapping in fleet.yaml: frozen, unknown keys refused, a known key without a value is ignored."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        hide_input_in_errors=True,
        defer_build=True,  # only Options is ever validated: the others are built with it
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


def _known_rule(text: str) -> str:
    if rule_id(text) not in BY_ID:
        raise ValueError(unknown_rule(text))
    return rule_id(text)


def _template(text: str) -> str:
    if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
        raise ValueError("unknown placeholder; only {host}, {port} and {model} are allowed")
    return text


def _day(text: Any) -> date:
    """Return a date; pydantic itself would accept seconds since 1970."""
    try:
        if isinstance(text, str) and _DAY.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise ValueError("expected a date such as 2026-12-31")


class ExpectsOptions(Part):
    """The configuration of a pool's router, compared with each replica."""

    block_size: Annotated[int | None, Field(ge=1, examples=[16])] = None
    hash_algorithm: HashAlgorithm | None = None
    seed_policy: SeedPolicy | None = None
    event_topic: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_template)] | None = None


class PoolOptions(Part):
    """What the replicas of a pool share; read, detected or assumed where not set."""

    router: Router | None = None
    expects: ExpectsOptions = Field(default_factory=ExpectsOptions)
    kv_store: Store | None = None
    disaggregated: bool | None = None


class RuleOptions(Part):
    """The changes to one rule. The model of `parameters` is built from the rule's, see `Rules`."""

    enabled: bool = True
    severity: Severity | None = None
    parameters: Part = Field(default_factory=Part)


class SuppressOptions(Part):
    """Suppressed findings, `until` inclusive (UTC). Pool, replicas and labels all have to match."""

    rule: Annotated[str, AfterValidator(_known_rule)]
    owner: RequiredText
    reason: RequiredText
    until: Annotated[date, BeforeValidator(_day, json_schema_input_type=date)]
    pool: Name | None = None
    replicas: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], AfterValidator(some)] = ()
    labels: Annotated[Labels, AfterValidator(some)] = Field(default_factory=dict)
    author: Annotated[str, Field(max_length=MAX_LABEL_CHARACTERS)] = ""  # who saved it on a page, and when
    created: Annotated[str, Field(max_length=MAX_LABEL_CHARACTERS)] = ""


def options_of(rule: Rule) -> type[RuleOptions]:
    """Return the model of a rule's options: its parameters, each of its default's type; numbers are at least 0."""
    if not rule.parameters:
        return RuleOptions
    fields: dict[str, Any] = {
        name: (type(default), Field(default, ge=0) if type(default) in NUMBERS else default)
        for name, default in rule.parameters.items()
    }
    parameters = create_model("Parameters", __base__=Part, **fields)
    return create_model("RuleOptions", __base__=RuleOptions, parameters=(parameters, Field(default_factory=parameters)))


if TYPE_CHECKING:
    Rules = Mapping[str, RuleOptions]
else:
    Rules = TypedDict("Rules", {rule.id: options_of(rule) for rule in ALL_RULES}, total=False)
    Rules.__pydantic_config__ = ConfigDict(extra="forbid", hide_input_in_errors=True)


PartOfFile = TypeVar("PartOfFile", bound=Part)


class SuppressionsOptions(Part):
    """The content of `suppressions_file`."""

    suppress: tuple[SuppressOptions, ...] = ()


def read_suppressions(raw: bytes, file: Path) -> tuple[SuppressOptions, ...]:
    """Return the entries of a file; raise OptionsError with every mistake."""
    return read_entries(raw, file, SuppressionsOptions, SUPPRESS).suppress


def read_entries(raw: bytes, file: Path, kind: type[PartOfFile], key: str) -> PartOfFile:
    """Return the content of a file that has a list under one key; raise OptionsError with every mistake."""
    document = read_document(raw)
    mistakes = list(document.mistakes)
    if not mistakes and document.value is not None and not isinstance(document.value, dict):
        raise OptionsError(LocatedMistake(file, 1, f"not a mapping; write `{key}:` with a list of entries"))
    try:
        content = kind.model_validate(document.value or {})
    except ValidationError as error:
        mistakes += [Mistake(document.line(each["loc"]), describe_error(each, kind)) for each in error.errors()]
    if mistakes:
        raise OptionsError(*(LocatedMistake(file, *each) for each in sorted(mistakes)))
    return content


def load_suppressions(file: Path) -> tuple[SuppressOptions, ...]:
    """Return the entries of the file, none of a missing one. Raise OptionsError where it is unreadable or wrong."""
    try:
        return read_suppressions(read_file(file, "name a file under suppressions_file"), file)
    except OptionsError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ()
        raise


def suppression_yaml(entries: Sequence[Suppression], created: str = "") -> str:
    """Return entries as YAML, a list under `suppress`; `created` is when they were saved on a page."""
    written = [
        {
            "rule": entry.rule,
            "pool": entry.pool,
            "replicas": list(entry.replicas),
            "labels": dict(entry.labels),
            "owner": entry.owner,
            "reason": entry.reason,
            "until": entry.until,
            "author": entry.author,
            "created": created,
        }
        for entry in entries
    ]
    given = [{key: value for key, value in each.items() if value} for each in written]
    return str(yaml.safe_dump({SUPPRESS: given}, sort_keys=False, allow_unicode=True, width=120))


def ignore_yaml(glob: str) -> str:
    """Return an entry under `ignore` as YAML."""
    return str(yaml.safe_dump({"ignore": [glob]}, allow_unicode=True))


def remove_suppression(raw: bytes, file: Path, number: int) -> bytes:
    """Return the content of a file without its entry at a position, from 0; the rest stays, with its comments.

    Raise OptionsError where the file is wrong, or where its form does not allow it.
    """
    before = read_suppressions(raw, file)
    text = raw.decode("utf-8-sig")
    root = cast("MappingNode", yaml.compose(text, Loader=yaml.SafeLoader))
    entry = root.value[0][1].value[number]
    start = text.rfind("\n", 0, entry.start_mark.index) + 1
    left = (text[:start] + text[text.find("\n", end_of(text, entry)) + 1 or len(text) :]).encode()
    if read_suppressions(left, file) != (*before[:number], *before[number + 1 :]):
        raise OptionsError(f"{file}: entry {number + 1} cannot be removed; remove it in an editor")
    return left


def add_suppression(raw: bytes, file: Path, added: str) -> bytes:
    """Return the content of a file with one more entry, as of `suppression_yaml`; the rest stays, with its comments.

    Raise OptionsError where the file is wrong, or where its form cannot be extended.
    """
    before = read_suppressions(raw, file)
    (entry,) = read_suppressions(added.encode(), file)
    text = raw.decode("utf-8-sig")
    text += "" if not text or text.endswith("\n") else "\n"
    root = cast("MappingNode | None", yaml.compose(text, Loader=yaml.SafeLoader))
    known = root.value[0][1] if isinstance(root, MappingNode) and root.value else None
    head, _, item = added.partition("\n")
    column = _INDENT
    if known is None:
        text += f"{head}\n"
    elif isinstance(known, SequenceNode) and not known.flow_style:
        column = known.start_mark.column
    elif isinstance(known, ScalarNode) or not known.value:  # `suppress:` or `suppress: []`
        text = text[: known.start_mark.index] + text[known.end_mark.index :]
    else:
        raise OptionsError(f"{file}:{known.start_mark.line + 1}: entries in brackets; write one entry per list item")
    extended = (text + indent(item, " " * column)).encode()
    if read_suppressions(extended, file) != (*before, entry):
        raise OptionsError(f"{file}: cannot be extended; write `{SUPPRESS}:` with a list of entries")
    return extended
