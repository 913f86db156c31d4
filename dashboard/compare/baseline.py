"""Compares the settings of a replica with the baseline of its pool.

The spelling in YAML does not decide: 16 and "16" are both the number 16.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import BY_PATH, DTYPE_PATH, counted
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import Baseline, Setting, SettingValue, Source, State, Tolerance
from dashboard.fleet.formatting import setting_text
from vllm_fleet_provider.shared.identity import comparable_part
from vllm_fleet_provider.shared.spelling import LARGEST, SETS, canonical_text, tidy

MOST_TOLERATED = 6  # values of a set that are named before the rest is counted
LONGEST_NUMBER = 40  # characters; 2^64 has 20, and no fraction needs more
EMPTY_SECTIONS = frozenset({"null", "{}"})  # a section with such an expected value has no settings
# What YAML 1.2 reads as a boolean (core schema, 10.3.2), and JSON's own spelling.
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class Deviation(NamedTuple):
    """A setting with a value that the baseline does not allow.

    `agreed` is the nearest allowed value, `tolerance` all of them where there are several; `comment` is the comment
    on the path in the baseline file. `usual` is the value of most of the pool within a tolerated range.
    """

    path: str
    own: SettingValue
    agreed: SettingValue
    tolerance: Tolerance | None = None
    comment: str = ""
    usual: SettingValue | None = None

    @property
    def wanted(self) -> SettingValue:
        """Return the value to set: that of most of the pool within the range, else the nearest allowed one."""
        return self.usual or self.agreed

    @property
    def allowed_text(self) -> str:
        """Return the allowed values for a sentence: `16`, `128 or 256`, `0.9 to 0.95`, `not set`."""
        return tolerance_text(self.tolerance) if self.tolerance else value_text(self.agreed)


def read_scalar(text: str) -> int | float | bool | None:
    """Return the number or boolean that a text spells; None if it spells none."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if len(text) > LONGEST_NUMBER:
        return None
    try:
        number = json.loads(text)
    except ValueError:
        return None
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return tidy("", number) if is_number and abs(number) <= LARGEST else None  # neither NaN nor infinity


def is_agreed(path: str, expected: str, value: str) -> bool:
    """Return whether a value is the expected one; both are canonical JSON text. null is a value of its own."""
    if expected == value:
        return True
    wanted, own = comparable_part(path, json.loads(expected)), json.loads(value)
    if path in SETS and isinstance(wanted, list) and isinstance(own, list):
        wanted, own = sorted(wanted, key=_as_text), sorted(own, key=_as_text)
    return _is_equal(wanted, own)


def is_tolerated(path: str, tolerance: Tolerance, value: str) -> bool:
    """Return whether a value is one of a set, or a number in a range, its ends included."""
    if tolerance.any_of:
        return any(is_agreed(path, each, value) for each in tolerance.any_of)
    number = _number(value)
    if number is None:
        return False
    too_small = tolerance.at_least is not None and number < tolerance.at_least
    too_large = tolerance.at_most is not None and number > tolerance.at_most
    return not too_small and not too_large


def expected_value(expected: str, own: str = "") -> SettingValue:
    """Return an expected value in the spelling of the replica's own value: a number stays text only if that is text."""
    if expected == "null":
        return SettingValue(expected, State.NULL)
    wanted = json.loads(expected)
    scalar = read_scalar(wanted) if isinstance(wanted, str) else None
    if scalar is None or own.startswith('"'):
        return SettingValue(expected, State.REPORTED)
    return SettingValue(canonical_text(scalar), State.REPORTED)


def nearest_value(tolerance: Tolerance, own: str) -> SettingValue:
    """Return the tolerated value to set: the first of a set, the near end of a range."""
    if tolerance.any_of:
        return expected_value(tolerance.any_of[0], own)
    low, high = tolerance.at_least, tolerance.at_most
    number = _number(own)
    is_above = high is not None and (low is None or (number is not None and number > high))
    return SettingValue(_end_text(cast("float", high if is_above else low)), State.REPORTED)


def tolerance_text(tolerance: Tolerance) -> str:
    """Write `128 or 256`, `0.9 to 0.95`, `at least 0.9`."""
    if tolerance.any_of:
        words = [value_text(expected_value(each)) for each in tolerance.any_of]
        left = len(words) - MOST_TOLERATED
        words = [*words[:MOST_TOLERATED], f"{left:,} more"] if left > 0 else words
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    low, high = (_end_text(end) if end is not None else "" for end in (tolerance.at_least, tolerance.at_most))
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}"


def value_text(value: SettingValue) -> str:
    return "not set" if value.state is State.NULL else setting_text(value.value, value.state)


def agreed_paths(baseline: Baseline) -> tuple[str, ...]:
    """Return the paths that are compared, in the baseline's order: expected, tolerated, without the ignored ones."""
    return tuple(path for path in (*baseline.expected, *baseline.tolerated) if not is_ignored(baseline, path))


def is_ignored(baseline: Baseline, path: str) -> bool:
    return any(fnmatchcase(path, glob) for glob in baseline.ignored)


def agreed_settings(baseline: Baseline) -> Mapping[str, Setting]:
    """Return the expected values as settings, without ignored paths and paths with several allowed values."""
    expected = ((path, expected_value(text)) for path, text in baseline.expected.items())
    return {path: Setting(*value, Source.SERVER_INFO) for path, value in expected if not is_ignored(baseline, path)}


def choices_text(baseline: Baseline, path: str) -> str:
    """Write the allowed values of a path that has several; empty for any other path."""
    is_compared = path in baseline.tolerated and not is_ignored(baseline, path)
    return tolerance_text(baseline.tolerated[path]) if is_compared else ""


def is_expected(baseline: Baseline, path: str, value: SettingValue) -> bool | None:
    """Return whether the baseline allows a value of a path; None where it does not compare the path."""
    is_compared = (path in baseline.expected or path in baseline.tolerated) and not is_ignored(baseline, path)
    return _is_allowed(baseline, path, value, {}) if is_compared else None


def usual_values(baseline: Baseline, replicas: Iterable[Mapping[str, Setting]]) -> Mapping[str, SettingValue]:
    """Return, by the path of a tolerated range, the value of more than half of the replicas within it.

    `replicas` are the settings of each replica of the pool.
    """
    ranges = [path for path, tolerance in baseline.tolerated.items() if not tolerance.any_of]
    within: dict[str, Counter[SettingValue]] = {path: Counter() for path in ranges}
    for settings in replicas if ranges else ():
        for path in ranges:
            value = lookup_value(settings, path)
            if value is not None and _is_allowed(baseline, path, value, settings):
                within[path][value] += 1
    most = {path: found.most_common(1)[0] for path, found in within.items() if found}
    return {path: value for path, (value, number) in most.items() if 2 * number > within[path].total()}


def deviations(
    baseline: Baseline, settings: Mapping[str, Setting], usual: Mapping[str, SettingValue] | None = None
) -> tuple[Deviation, ...]:
    """Return the settings of one replica that the baseline does not allow. `usual` is of `usual_values`.

    The settings that decide the block hashes are first, then the baseline's order. Where a section is expected to be
    null, the settings below it are expected to be null too.
    """
    found: list[Deviation] = []
    for path in agreed_paths(baseline):
        found += _deviations_below(baseline, settings, path)
        value = lookup_value(settings, path)
        if value is not None and not _is_allowed(baseline, path, value, settings):
            found.append(_deviation(baseline, path, value)._replace(usual=(usual or {}).get(path)))
    return tuple(sorted(found, key=lambda each: each.path not in PREFIX_PATHS))


def _is_allowed(baseline: Baseline, path: str, value: SettingValue, settings: Mapping[str, Setting]) -> bool:
    """Return whether a value, or one that means the same on this replica, is allowed."""
    if path not in baseline.expected:
        return is_tolerated(path, baseline.tolerated[path], value.value)
    expected = baseline.expected[path]
    if is_agreed(path, expected, value.value):
        return True
    if path not in BY_PATH:
        return False
    # What is expected has no snapshot or folder, but the dtype of the replica's model.
    dtype = {key: each for key, each in settings.items() if key == DTYPE_PATH}
    wanted = SettingValue(expected, State.NULL if expected == "null" else State.REPORTED)
    own = counted(path, value, settings)
    return own is None or own == counted(path, wanted, dtype)


def _deviations_below(baseline: Baseline, settings: Mapping[str, Setting], path: str) -> Iterator[Deviation]:
    """Yield the settings below a section that is expected to be empty."""
    if baseline.expected.get(path) not in EMPTY_SECTIONS or path in settings:
        return
    comment = baseline.comments.get(path, "")
    for inner, setting in settings.items():
        is_own = inner.startswith(f"{path}.") and inner not in baseline.expected and inner not in baseline.tolerated
        if is_own and setting.state is State.REPORTED and not is_ignored(baseline, inner):
            own = SettingValue(setting.value, setting.state)
            yield Deviation(inner, own, SettingValue("null", State.NULL), None, comment)


def _deviation(baseline: Baseline, path: str, own: SettingValue) -> Deviation:
    comment = baseline.comments.get(path, "")
    if path in baseline.expected:
        return Deviation(path, own, expected_value(baseline.expected[path], own.value), None, comment)
    tolerance = baseline.tolerated[path]
    return Deviation(path, own, nearest_value(tolerance, own.value), tolerance, comment)


def _end_text(number: float) -> str:
    """Write an end of a range with all its digits: a value just outside must look different."""
    return canonical_text(tidy("", number))


def _is_equal(wanted: Any, own: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(own, dict):
        return wanted.keys() == own.keys() and all(_is_equal(each, own[key]) for key, each in wanted.items())
    if isinstance(wanted, list) and isinstance(own, list):
        return len(wanted) == len(own) and all(map(_is_equal, wanted, own))
    if isinstance(wanted, str) and isinstance(own, int | float):
        scalar = read_scalar(wanted)
        return canonical_text(own) in {wanted, canonical_text(scalar)}
    if isinstance(own, str) and isinstance(wanted, int | float):
        return own == canonical_text(wanted)
    return canonical_text(wanted) == canonical_text(own)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_text(value)


def _number(value: str) -> float | None:
    own = json.loads(value)
    scalar = read_scalar(own) if isinstance(own, str) else own
    return scalar if isinstance(scalar, int | float) and not isinstance(scalar, bool) else None
