"""What people write down in a review."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple


class Note(NamedTuple):
    """A note and who answers for what it speaks of; `at` is when it was written last."""

    text: str
    owner: str = ""
    at: datetime | None = None


Notes = Mapping[str, Note]  # by a finding's id, or by the anchor of a part of the review
