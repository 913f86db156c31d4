"""Read vLLM's objects without raising: an unavailable value is null, listed with a reason, and logged once."""

from __future__ import annotations

import enum
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from vllm_fleet_provider.shared.inference_config import MAX_UNAVAILABLE
from vllm_fleet_provider.shared.redaction import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Callable

# A child of vLLM's logger, with its format and handlers.
logger = logging.getLogger("vllm.plugins.fleet_config")

MAX_LETTERS = 10_000  # of one value; longer ones are cut
MISSING = object()  # no such attribute, or reading it raised; None is a value


class Gathering:
    """Collects values, and `fleet.unavailable`: a list of {"field", "reason"}.

    A reason never contains foreign text: the message of an exception may contain a secret.
    """

    def __init__(self) -> None:
        self.unavailable: list[dict[str, str]] = []

    def take(self, field: str, read: Callable[[], Any], shape: Any) -> Any:
        """Return the result of `read` without secrets if it has the shape, else None. `field` is its path."""
        try:
            return redact(_adapter(shape).validate_python(plain(read()), strict=True))
        except AttributeError as error:
            self.lack(field, "this vLLM does not have it")
            logger.debug("%s: %s", field, error)
        except ValidationError:
            self.lack(field, "its value has another type, or a size that cannot be")
        except Exception as error:  # no error of ours may stop the server
            self.lack(field, f"reading it raised {type(error).__name__}")
            logger.warning("%s could not be read", field, exc_info=True)
        return None

    def lack(self, field: str, reason: str) -> None:
        """Add an unavailable field."""
        if len(self.unavailable) < MAX_UNAVAILABLE:
            self.unavailable.append({"field": field, "reason": reason})


def at(value: Any, path: str) -> Any:
    """Return the attribute below a path such as `cache_config.block_size`; raises AttributeError."""
    for name in path.split("."):
        value = getattr(value, name)
    return value


def found(value: Any, path: str) -> Any:
    """Return the attribute below a path, or MISSING; never raises."""
    try:
        return at(value, path)
    except Exception:  # noqa: BLE001  `take` lists the reason where the value is needed
        return MISSING


def clean(text: str) -> str:
    """Return a text without secrets, cut to a maximum, and valid in UTF-8."""
    return redact_text(text)[:MAX_LETTERS].encode(errors="replace").decode()


def plain(value: Any) -> Any:
    """Return vLLM's enums and torch's dtypes as JSON values, and everything else unchanged."""
    if isinstance(value, enum.Enum):
        # The values of an enum of classes are import paths; its names are the values of vLLM's options.
        return (
            plain(value.value)
            if isinstance(value.value, int | str) and "." not in str(value.value)
            else value.name.lower()
        )
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value).removeprefix("torch.")
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


@lru_cache(maxsize=64)
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape, config=ConfigDict(allow_inf_nan=False))  # JSON has no word for them
