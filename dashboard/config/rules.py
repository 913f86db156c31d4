"""The options about pools and rules, and the types that all options share."""

import re
from collections.abc import Mapping, Sized
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from typing_extensions import TypedDict

from dashboard.config.mistakes import rule_id, unknown_rule
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import Router, SeedPolicy, Store
from dashboard.rules.findings import Severity
from dashboard.rules.registry import Rule

MAX_LABEL_CHARACTERS = 1000

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


_PLACEHOLDER = re.compile(r"\{(?:host|port|model)\}")
NUMBERS = (int, float)  # a bool is neither
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


# What vLLM hashes blocks with (PrefixCachingHashAlgo in vllm/config/cache.py).
HashAlgorithm: TypeAlias = Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]


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
    until: Annotated[date, BeforeValidator(_day)]
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
