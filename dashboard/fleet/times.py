"""Times that a reader names: a moment of the past, or how long ago; and the gaps between polls."""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY = timedelta(days=1)
EXAMPLE = "2026-11-22T14:00Z"
PERIODS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
LONGEST_PERIOD = timedelta(days=3650)  # that of the option history.keep_spans_days
LONGEST_TRAFFIC = timedelta(days=1)  # between two polls: that of the option traffic.window_seconds
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,+Z-]*)?")
_PERIOD = re.compile(r"(\d{1,6})([smhdw])")
_WHOLE_SECOND = timedelta(microseconds=999_999)


class Gap(NamedTuple):
    """No poll was recorded between the ends: nothing is known of what changed. `until` None: it lasts."""

    since: datetime
    until: datetime | None


class PastTime(NamedTuple):
    """The time at which a fleet of the past was asked for, and the gap between polls that this time is in."""

    at: datetime
    gap: Gap | None = None


def is_time(text: str) -> bool:
    """Return whether a text is meant as a time; the id of a snapshot has no dash."""
    return _TIME.fullmatch(text.strip()) is not None


def is_period(text: str) -> bool:
    """Return whether a text is meant as a period: `7d`."""
    return _PERIOD.fullmatch(text.strip()) is not None


def parse_time(text: str) -> datetime:
    """Return a written time (ISO 8601), without a zone as UTC; raise ValueError with a sentence for another text."""
    try:
        time = datetime.fromisoformat(text.strip())
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"not a time; write {EXAMPLE}") from None


def parse_period(text: str, examples: str = "24h, 7d or 90m") -> timedelta:
    """Return a written period: `60s`, `90m`, `24h`, `7d`, `2w`; raise ValueError with a sentence for another text."""
    found = _PERIOD.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a period; write {examples}")
    period = timedelta(**{PERIODS[found[2]]: int(found[1])})
    if period > LONGEST_PERIOD:
        raise ValueError(f"longer than {LONGEST_PERIOD.days} days")
    if not period:
        raise ValueError("shorter than 1s")
    return period


def parse_since(text: str, now: datetime) -> datetime:
    """Return a written time, or the whole second a written period before `now`; raise ValueError for another text."""
    if is_time(text):
        return parse_time(text)
    try:
        return (now - parse_period(text)).replace(microsecond=0)
    except ValueError as error:
        raise ValueError(f"{error}, or a time such as {EXAMPLE}") from None


def write_time(time: datetime) -> str:
    """Write a time as short as it is exact: `2026-11-22T14:00Z`. `parse_time` reads it."""
    precision = "microseconds" if time.microsecond else "seconds" if time.second else "minutes"
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision)}Z"


def end_of_second(time: datetime) -> datetime:
    """Return the end of a whole second: pages write times without fractions, and a poll within it is meant."""
    return time if time.microsecond else time + _WHOLE_SECOND
