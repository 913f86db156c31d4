"""What people write down in a review."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class Note(NamedTuple):
    """A note and who answers for what it speaks of; `at` is when it was written last."""

    text: str
    owner: str = ""
    at: datetime | None = None


if TYPE_CHECKING:
    Notes = Mapping[str, Note]  # by a finding's id, or by the anchor of a part of the review
