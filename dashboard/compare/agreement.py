"""Whether a value is the agreed one. How people spell it in YAML does not decide: 16 and "16" are both 16."""

import json
from typing import Any, NoReturn, cast

from dashboard.fleet import SettingValue, State, Tolerance
from dashboard.fleet.formatting import told_text
from dashboard.vllm.canonical import LARGEST, SETS, canonical_text, tidy

MOST_TOLERATED = 6  # values of a set that are named before the rest is counted
LONGEST_NUMBER = 40  # characters; 2^64 has 20, and no fraction needs more
# What YAML 1.2 reads as a boolean (core schema, 10.3.2) beside JSON's own spelling.
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def read_scalar(text: str) -> int | float | bool | None:
    """Return the number or boolean that a text can be read as; None where it is only a text."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if len(text) > LONGEST_NUMBER:
        return None
    try:
        number = json.loads(text, parse_constant=_refuse)
    except ValueError:
        return None
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return tidy("", number) if is_number and abs(number) <= LARGEST else None


def is_agreed(path: str, expected: str, told: str) -> bool:
    """Tell whether a value is the expected one; both are canonical JSON text. null is a value of its own."""
    if expected == told:
        return True
    wanted, own = json.loads(expected), json.loads(told)
    if path in SETS and isinstance(wanted, list) and isinstance(own, list):
        wanted, own = sorted(wanted, key=_as_text), sorted(own, key=_as_text)
    return _alike(wanted, own)


def is_tolerated(path: str, tolerance: Tolerance, told: str) -> bool:
    """Tell whether a value is one of a set, or a number in a range, its ends included."""
    if tolerance.any_of:
        return any(is_agreed(path, each, told) for each in tolerance.any_of)
    number = _number(told)
    if number is None:
        return False
    too_small = tolerance.at_least is not None and number < tolerance.at_least
    too_large = tolerance.at_most is not None and number > tolerance.at_most
    return not too_small and not too_large


def agreed_told(expected: str, own: str = "") -> SettingValue:
    """Return an expected value as it is shown beside a told one: a number as text only where that is one too."""
    if expected == "null":
        return SettingValue(expected, State.NULL)
    wanted = json.loads(expected)
    scalar = read_scalar(wanted) if isinstance(wanted, str) else None
    if scalar is None or own.startswith('"'):
        return SettingValue(expected, State.REPORTED)
    return SettingValue(canonical_text(scalar), State.REPORTED)


def nearest(tolerance: Tolerance, told: str) -> SettingValue:
    """Return the tolerated value to set in place of one that is not: of a set the first, of a range the near end."""
    if tolerance.any_of:
        return agreed_told(tolerance.any_of[0], told)
    low, high = tolerance.at_least, tolerance.at_most
    number = _number(told)
    is_above = high is not None and (low is None or (number is not None and number > high))
    return SettingValue(_end(cast("float", high if is_above else low)), State.REPORTED)


def tolerance_words(tolerance: Tolerance) -> str:
    """Write `128 or 256`, `0.9 to 0.95`, `at least 0.9`."""
    if tolerance.any_of:
        words = [say_told(agreed_told(each)) for each in tolerance.any_of]
        left = len(words) - MOST_TOLERATED
        words = [*words[:MOST_TOLERATED], f"{left:,} more"] if left > 0 else words
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    low, high = (_end(end) if end is not None else "" for end in (tolerance.at_least, tolerance.at_most))
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}"


def say_told(told: SettingValue) -> str:
    """Write a value for a sentence."""
    return "not set" if told.state is State.NULL else told_text(told.value, told.state)


def _end(number: float) -> str:
    """Write an end of a range as a value is written, with all its digits: what is just outside is seen to be so."""
    return canonical_text(tidy("", number))


def _alike(wanted: Any, own: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(own, dict):
        return wanted.keys() == own.keys() and all(_alike(each, own[key]) for key, each in wanted.items())
    if isinstance(wanted, list) and isinstance(own, list):
        return len(wanted) == len(own) and all(map(_alike, wanted, own))
    if isinstance(wanted, str) and isinstance(own, int | float):
        scalar = read_scalar(wanted)
        return scalar is not None and canonical_text(scalar) == canonical_text(own)
    if isinstance(own, str) and isinstance(wanted, int | float):
        return own == canonical_text(wanted)
    return canonical_text(wanted) == canonical_text(own)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_text(value)


def _number(told: str) -> float | None:
    own = json.loads(told)
    scalar = read_scalar(own) if isinstance(own, str) else own
    return scalar if isinstance(scalar, int | float) and not isinstance(scalar, bool) else None


def _refuse(_constant: str) -> NoReturn:
    raise ValueError
