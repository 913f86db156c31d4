"""The parameters of a request: `data_parallel_rank` and `full`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

YES = frozenset({"true", "1"})
NO = frozenset({"false", "0", ""})
LONGEST = 10  # digits of a rank


class WrongParameterError(ValueError):
    """An invalid parameter. The text is one sentence for the client and does not repeat its input."""


def asked_of(parameters: Mapping[str, str], ranks: Sequence[int]) -> tuple[int, bool]:
    """Return (rank, full) and ignore other parameters. Raises WrongParameterError."""
    return _rank(parameters.get("data_parallel_rank"), ranks), _full(parameters.get("full", ""))


def _rank(text: str | None, ranks: Sequence[int]) -> int:
    if text is None:
        return ranks[0]
    is_number = text.isascii() and text.isdigit() and len(text) <= LONGEST
    if is_number and int(text) in ranks:
        return int(text)
    raise WrongParameterError(f"data_parallel_rank must be one of this server's ranks: {_named(ranks)}")


def _full(text: str) -> bool:
    if text.lower() in YES:
        return True
    if text.lower() in NO:
        return False
    raise WrongParameterError("full must be true or false")


def _named(ranks: Sequence[int]) -> str:
    first, last = ranks[0], ranks[-1]
    is_run = last - first + 1 == len(ranks) > 2  # noqa: PLR2004  two are listed
    return f"{first} to {last}" if is_run else ", ".join(map(str, ranks))
