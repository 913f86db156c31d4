"""What every mapping in fleet.yaml has in common, and the texts that stand in several of them."""

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAX_LABEL_CHARACTERS = 1000

T = TypeVar("T")


def some(entries: tuple[T, ...]) -> tuple[T, ...]:
    """Refuse a list that is written and empty."""
    if not entries:
        raise ValueError("an empty list; write at least one entry")
    return entries


def _written(text: str) -> str:
    if not text.strip():
        raise ValueError("empty; write a text")
    return text.strip()


Name = Annotated[str, Field(min_length=1, max_length=100)]
Labels = dict[str, Annotated[str, Field(max_length=MAX_LABEL_CHARACTERS)]]
# A text that may not be left out: "leave the key out" would be no advice.
Said = Annotated[str, Field(max_length=MAX_LABEL_CHARACTERS), AfterValidator(_written)]


class Part(BaseModel):
    """A mapping in fleet.yaml: frozen, unknown keys refused, a known key without a value counts as not written."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True, hide_input_in_errors=True
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}
