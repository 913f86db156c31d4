"""The state of the history, for pages and /metrics; without the database."""

from datetime import datetime
from typing import NamedTuple


class HistoryStatus(NamedTuple):
    """Whether polls are recorded.

    `problem` is why the last one was not, None where it was. `failures` counts the polls that were not. `recorded_at`
    is the time of the last one that was. With `follows` another instance polls and records, and this one shows that;
    with `is_second` another process records, and this one polls by itself. `size_bytes` is that of the database.
    `limited` are the names of replicas that change too often to be recorded today.
    """

    problem: str | None = None
    failures: int = 0
    recorded_at: datetime | None = None
    follows: bool = False
    is_second: bool = False
    size_bytes: int | None = None
    limited: tuple[str, ...] = ()
